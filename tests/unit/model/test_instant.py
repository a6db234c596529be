"""Instants as text: formatting, parsing, the next one, and what as_of accepts."""

import time
from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from lakebed.errors import CorruptError, InvalidError, OptionError
from lakebed.model.instant import format_instant, next_instant, parse_instant, resolve_as_of

NOON_MS = 1_704_196_800_000  # 2024-01-02 12:00:00 UTC


@pytest.fixture
def machine_zone(monkeypatch):
    """Set the machine's time zone, for LOCAL tables."""

    def set_zone(name):
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()


def epoch_ms(*args):
    return int(datetime(*args, tzinfo=UTC).timestamp() * 1000)


def test_an_instant_has_17_digits_down_to_the_millisecond():
    assert format_instant(NOON_MS + 7, "UTC") == "20240102120000007"
    assert format_instant(0, "UTC") == "19700101000000000"
    assert format_instant(-1, "UTC") == "19691231235959999"


def test_a_local_table_uses_the_wall_clock_of_the_machine(machine_zone):
    machine_zone("Asia/Tokyo")
    assert format_instant(NOON_MS, "LOCAL") == "20240102210000000"
    assert format_instant(NOON_MS, "UTC") == "20240102120000000"
    assert parse_instant("20240102210000000", "LOCAL") == NOON_MS
    assert parse_instant("20240102120000000", "UTC") == NOON_MS


def test_14_digits_mean_the_last_millisecond_of_the_second():
    assert parse_instant("20240102120000", "UTC") == NOON_MS + 999


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2024010212000",
        "202401021200000",
        "202401021200000071",
        "2024010212000000x",
        "20240102120000007\n",
        "٢٠٢٤٠١٠٢١٢٠٠٠٠٠٠٧",
        "20241302120000007",
        "20240230120000007",
        "20240102250000007",
        "20240102126000007",
        "00000000000000000",
    ],
)
def test_text_that_is_no_time_is_refused_by_name(text):
    with pytest.raises(InvalidError) as caught:
        parse_instant(text, "UTC")
    assert repr(text) in str(caught.value)


def test_a_zone_other_than_utc_or_local_is_refused():
    with pytest.raises(OptionError, match=r"timezone: expected UTC or LOCAL, found 'Asia/Tokyo'"):
        format_instant(0, "Asia/Tokyo")
    with pytest.raises(OptionError):
        parse_instant("20240102120000000", "utc")
    with pytest.raises(OptionError):
        resolve_as_of("2024-01-02T03:04:05Z", "CET")


@pytest.mark.parametrize("ms", [10**16, -(10**16), 10**30])
def test_a_time_outside_the_calendar_is_refused(ms):
    with pytest.raises(InvalidError, match="years 1 to 9999"):
        format_instant(ms, "UTC")


def test_the_next_instant_is_now_when_the_clock_moved_on():
    assert next_instant(NOON_MS, "UTC", None) == "20240102120000000"
    assert next_instant(NOON_MS, "UTC", "20240102115959999") == "20240102120000000"


@pytest.mark.parametrize(
    ("last", "want"),
    [
        ("20240102120000000", "20240102120000001"),  # the same millisecond
        ("20240102130000000", "20240102130000001"),  # the clock went back
        ("20240102235959999", "20240103000000000"),
        ("20240228235959999", "20240229000000000"),
        ("20241231235959999", "20250101000000000"),
        ("20240102120000", "20240102120001000"),  # 14 digits: the end of that second
        ("20240102120000000001", "20240102120000001"),  # digits that follow the millisecond
    ],
)
def test_the_next_instant_is_a_millisecond_after_the_last_when_the_clock_is_not_past_it(last, want):
    assert next_instant(NOON_MS, "UTC", last) == want
    assert want > last


def test_a_writer_in_utc_stays_ahead_of_one_that_wrote_from_tokyo(machine_zone):
    machine_zone("Asia/Tokyo")
    last = format_instant(NOON_MS, "LOCAL")
    machine_zone("UTC")
    assert next_instant(NOON_MS + 60_000, "LOCAL", last) == "20240102210000001"


def test_instants_grow_through_the_hour_that_daylight_saving_repeats(machine_zone):
    machine_zone("Europe/Berlin")
    start = epoch_ms(2024, 10, 26, 23, 30)  # 01:30 in Berlin; at 03:00 the clock goes back an hour
    last = None
    for minute in range(0, 240, 7):
        instant = next_instant(start + minute * 60_000, "LOCAL", last)
        assert last is None or instant > last
        last = instant
    assert last == format_instant(start + 238 * 60_000, "LOCAL")


def test_an_hour_that_daylight_saving_skips_still_parses(machine_zone):
    machine_zone("Europe/Berlin")
    before = parse_instant("20240331015959999", "LOCAL")
    assert next_instant(before, "LOCAL", "20240331015959999") == "20240331020000000"
    assert parse_instant("20240331020000000", "LOCAL") == before + 1


@pytest.mark.parametrize("last", ["99991231235959999", "99999999999999999", "30001399000000000"])
def test_a_last_instant_that_nothing_can_follow_is_corrupt_and_named(last):
    with pytest.raises(CorruptError, match=last):
        next_instant(NOON_MS, "UTC", last)


def test_an_old_instant_that_is_no_time_does_no_harm():
    assert next_instant(NOON_MS, "UTC", "00000000000000000") == "20240102120000000"


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ("20240102030405006", "20240102030405006"),
        ("20240102030405", "20240102030405"),
        ("1704164645", "20240102030405000"),
        ("1704164645006", "20240102030405006"),
        ("0000000000", "19700101000000000"),
        ("2024-01-02", "20240102000000000"),
        ("2024-01-02 03:04:05", "20240102030405999"),
        ("2024-01-02 03:04:05.000", "20240102030405000"),
        ("2024-01-02 03:04:05.1", "20240102030405100"),
        ("2024-01-02 03:04:05.123999", "20240102030405123"),
        ("2024-01-02T03:04:05.123", "20240102030405123"),
        ("2024-01-02T03:04:05.123Z", "20240102030405123"),
        ("2024-01-02T03:04:05Z", "20240102030405999"),
        ("2024-01-02T03:04:05.123+02:00", "20240102010405123"),
        ("2024-01-02 03:04:05.123-0530", "20240102083405123"),
        ("2024-01-01 23:00:00.000-02", "20240102010000000"),
        (date(2024, 1, 2), "20240102000000000"),
        (date(7, 1, 2), "00070102000000000"),
        (datetime(2024, 1, 2, 3, 4, 5, 6999), "20240102030405006"),
        (datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), "20240102030405000"),
        (datetime(2024, 1, 2, 3, tzinfo=timezone(timedelta(hours=9))), "20240101180000000"),
    ],
)
def test_as_of_accepts_instants_dates_timestamps_and_datetimes(value, want):
    assert resolve_as_of(value, "UTC") == want


def test_as_of_with_an_offset_is_moved_to_the_zone_of_a_local_table(machine_zone):
    machine_zone("Asia/Tokyo")
    assert resolve_as_of("2024-01-02T03:04:05.000Z", "LOCAL") == "20240102120405000"
    assert resolve_as_of(datetime(2024, 1, 2, tzinfo=UTC), "LOCAL") == "20240102090000000"
    assert resolve_as_of("2024-01-02 03:04:05.000", "LOCAL") == "20240102030405000"
    assert resolve_as_of("1704164645", "LOCAL") == "20240102120405000"
    assert resolve_as_of(datetime(2024, 1, 2), "LOCAL") == "20240102000000000"


@pytest.mark.parametrize(
    "value",
    [
        "",
        "yesterday",
        "2024-1-2",
        "2024-01-02 03:04",
        "2024-01-02 03:04:05.",
        "2024-01-02 03:04:05 UTC",
        "2024-01-02Z",
        "2024-02-30",
        "2024-01-02 24:00:00",
        "2024-01-02 03:04:05+25:00",
        "0001-01-01 00:00:00+02:00",
        "202401020304",
        "170416464",
        "１７０４１６４６４５",
        "20240230000000000",
        "00000000000000000",
        " 2024-01-02",
        20240102,
        None,
        datetime.min.replace(tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_as_of_refuses_anything_else_and_says_what_it_takes(value):
    with pytest.raises(InvalidError, match="2024-01-02 03:04:05") as caught:
        resolve_as_of(value, "UTC")
    assert repr(value) in str(caught.value)
