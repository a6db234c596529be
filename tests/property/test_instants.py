"""Instants and timelines hold their promises for any clock, zone and history."""

import os
import tempfile
import time
from contextlib import contextmanager
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.errors import LakebedError
from lakebed.format.names.instant_name import Action, InstantName, State
from lakebed.model.instant import format_instant, next_instant, parse_instant, resolve_as_of
from lakebed.storage.local import LocalStorage
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.timeline import Timeline, TimelineInstant

ZONES = [
    "UTC",
    "Asia/Tokyo",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
]
clock_ms = st.integers(0, 4_102_444_800_000)  # 1970 to 2100
machine_zones = st.sampled_from(ZONES)
table_zones = st.sampled_from(["UTC", "LOCAL"])
instants = clock_ms.map(lambda ms: format_instant(ms, "UTC"))


@contextmanager
def machine_in(zone):
    before = os.environ.get("TZ")
    os.environ["TZ"] = zone
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()


@given(st.lists(st.tuples(clock_ms, machine_zones, table_zones), min_size=2))
def test_next_instants_grow_whatever_clocks_and_zones_say(readings):
    last = None
    for now_ms, machine_zone, table_zone in readings:
        with machine_in(machine_zone):
            instant = next_instant(now_ms, table_zone, last)
            assert instant >= format_instant(now_ms, table_zone)
        assert last is None or instant > last
        assert len(instant) == 17
        last = instant


@given(clock_ms, st.lists(st.integers(-50, 50), min_size=1, max_size=50), table_zones)
def test_next_instants_are_a_millisecond_apart_at_least_when_the_clock_stutters(start, steps, zone):
    last, now_ms = None, start + 3600_000
    for step in steps:
        now_ms += step
        instant = next_instant(now_ms, zone, last)
        # Among instants of one zone outside a change of its clock, time and text grow alike.
        assert last is None or instant > last
        assert instant == format_instant(now_ms, zone) or parse_instant(
            last, "UTC"
        ) + 1 == parse_instant(instant, "UTC")
        last = instant


@given(clock_ms)
def test_format_and_parse_are_inverse_in_utc(ms):
    assert parse_instant(format_instant(ms, "UTC"), "UTC") == ms


@given(clock_ms, machine_zones)
def test_format_and_parse_are_inverse_in_a_local_zone_up_to_the_repeated_hour(ms, machine_zone):
    with machine_in(machine_zone):
        text = format_instant(ms, "LOCAL")
        parsed = parse_instant(text, "LOCAL")
        assert format_instant(parsed, "LOCAL") == text
        assert 0 <= ms - parsed <= 3600_000


@given(clock_ms, clock_ms)
def test_instants_in_utc_order_like_the_times_they_name(one, other):
    texts = format_instant(one, "UTC"), format_instant(other, "UTC")
    assert (texts[0] < texts[1]) is (one < other)


@given(clock_ms, machine_zones, table_zones)
def test_every_spelling_of_a_moment_resolves_to_the_same_instant(ms, machine_zone, table_zone):
    moment = datetime.fromtimestamp(ms // 1000, UTC).replace(microsecond=ms % 1000 * 1000)
    with machine_in(machine_zone):
        want = format_instant(ms, table_zone)
        assert resolve_as_of(want, table_zone) == want
        assert resolve_as_of(moment, table_zone) == want
        assert resolve_as_of(moment.isoformat(timespec="milliseconds"), table_zone) == want


@given(
    st.one_of(
        st.text(),
        st.text("0123456789-:T. Z+", max_size=30),
        st.none(),
        st.integers(),
        st.datetimes(),
        st.dates(),
    )
)
def test_as_of_gives_an_instant_or_one_of_our_errors(value):
    try:
        instant = resolve_as_of(value, "UTC")
    except LakebedError:
        return
    assert len(instant) == 17
    assert instant.isdecimal()


names = st.builds(
    lambda requested, action, suffix, completion: f"{requested}{completion}.{action}{suffix}",
    st.one_of(instants, st.text("0123456789_.x٣", max_size=20)),
    st.one_of(st.sampled_from([*Action]), st.text(max_size=5)),
    st.sampled_from(["", ".requested", ".inflight", ".tmp", ".crc", "."]),
    st.one_of(
        st.just(""), instants.map(lambda text: f"_{text}"), st.text("_0123456789x٣", max_size=20)
    ),
)


def outcome(parse):
    try:
        return parse()
    except LakebedError as error:
        return type(error), str(error)


@given(names)
@settings(max_examples=500)
def test_a_timeline_understands_each_name_as_instant_name_does(name):
    found = outcome(lambda: Timeline.parse([name]))
    parsed = outcome(lambda: InstantName.parse(name))
    if isinstance(parsed, InstantName):
        (instant,) = found.instants
        assert instant.name_of(parsed.state) == parsed
    else:
        assert found == (Timeline() if parsed is None else parsed)


@st.composite
def histories(draw):
    """Draw instants with distinct times, each with its action and how far it got."""
    times = draw(st.lists(clock_ms, unique=True, max_size=24).map(sorted))
    drawn = []
    for requested, completion in zip(times[::2], times[1::2], strict=False):
        action = draw(st.sampled_from([*Action]))
        states = [*State] if action is not Action.SAVEPOINT else [State.INFLIGHT, State.COMPLETED]
        state = draw(st.sampled_from(states))
        done = state is State.COMPLETED
        drawn.append(
            TimelineInstant(
                format_instant(requested, "UTC"),
                action.completed if done else action,
                state,
                format_instant(completion, "UTC") if done else None,
                action,
            )
        )
    return drawn


def write(active, instant, content):
    action, requested = instant.plan_action, instant.requested
    if action is not Action.SAVEPOINT:
        written = active.create_requested(action, requested, content)
    if instant.state is not State.REQUESTED:
        written = active.transition_to_inflight(action, requested, content)
    if instant.completion is not None:
        written = active.complete(action, requested, instant.completion, content)
    assert written == instant


@given(histories(), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_instants_that_were_written_are_loaded_again(history, random):
    with tempfile.TemporaryDirectory() as root:
        active = ActiveTimeline(LocalStorage(root))
        for instant in random.sample(history, len(history)):
            write(active, instant, instant.requested.encode())
        timeline = active.load()
        assert list(timeline.instants) == history
        assert all(active.read(i) == i.requested.encode() for i in timeline.instants)
        assert timeline.last_instant == max(
            (time for i in history for time in (i.requested, i.completion) if time), default=None
        )
        for instant in timeline.pending():
            active.delete_pending(instant.plan_action, instant.requested)
        assert active.load().instants == tuple(i for i in history if i.is_completed)
