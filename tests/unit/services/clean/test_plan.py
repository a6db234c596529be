"""What a clean may delete: nothing that a retained moment, a query or a writer still reads."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from lakebed.errors import OptionError
from lakebed.format.names.data_names import BaseFileName, InlineLogName
from lakebed.format.names.instant_name import LAYOUT_2, Action, State
from lakebed.model.instant import format_instant
from lakebed.model.options.services import CleanOptions, CleanPolicy
from lakebed.services.clean.clean_input import CleanInput
from lakebed.services.clean.plan import plan_clean, versions_of
from lakebed.table.files.file_group import (
    BaseFile,
    FileGroupId,
    LogFile,
    build_slices,
    group_files,
    latest_slice,
)
from lakebed.table.files.visibility import Visibility, VisibilityRules
from lakebed.timeline.timeline import Timeline, TimelineInstant

START = 1_700_000_000_000
COMMITS = CleanPolicy.KEEP_LATEST_COMMITS
HOURS = CleanPolicy.KEEP_LATEST_BY_HOURS
VERSIONS = CleanPolicy.KEEP_LATEST_FILE_VERSIONS
FOREVER = "9" * 17


def at(second: int) -> str:
    return format_instant(START + second * 1000, "UTC")


def now(second: int) -> int:
    return START + second * 1000


@dataclass(frozen=True)
class Write:
    """One instant: what it writes to which group, from second `begin` to `end` (None: pending)."""

    kind: str
    group: str
    begin: int
    end: int | None

    @property
    def instant(self) -> TimelineInstant:
        action = {"base": Action.COMMIT, "log": Action.DELTACOMMIT}.get(
            self.kind, Action.REPLACECOMMIT
        )
        if self.end is None:
            return TimelineInstant(at(self.begin), action, State.INFLIGHT, None, action)
        return TimelineInstant(at(self.begin), action, State.COMPLETED, at(self.end), action)

    @property
    def file(self) -> BaseFile | LogFile | None:
        if self.kind == "replace":
            return None
        if self.kind == "base":
            return BaseFile("p", BaseFileName(self.group, "0-0-0", at(self.begin)), 1)
        return LogFile("p", InlineLogName(self.group, at(self.begin), 1, "0-0-0"), 1)


def needed(writes, completion, seen) -> dict[str, tuple[str, ...]]:
    """Return what a reader that sees the writes `seen` reads of each group: the oracle."""
    gone = {w.group for w in writes if w.kind == "replace" and seen(w)}
    files = [w.file for w in writes if w.file is not None and seen(w) and w.group not in gone]
    found = {}
    for group, members in group_files(files).items():
        slice_ = latest_slice(build_slices(group, members, completion.__getitem__))
        found[group.file_id] = tuple(file.path for file in slice_.files)
    return found


def inventory(writes, **changes) -> CleanInput:
    done = [w for w in writes if w.end is not None]
    completion = {at(w.begin): at(w.end) for w in done}
    replaced = {}
    for write in done:
        if write.kind == "replace":
            replaced.setdefault(("p", write.group), at(write.begin))
    groups = {
        group: build_slices(group, members, completion.__getitem__)
        for group, members in group_files(w.file for w in done if w.file is not None).items()
    }
    timeline = Timeline(tuple(w.instant for w in writes))
    return CleanInput(timeline, groups, replaced, **changes)


def deleted(plan) -> set[str]:
    if plan is None:
        return set()
    return {f"{partition}/{name}" for partition, names in plan.files.items() for name in names}


@st.composite
def histories(draw):
    count = draw(st.integers(1, 14))
    writes = []
    ends: set[int] = set()
    gone: set[str] = set()
    for number in range(count):
        begin = number * 10
        kind = draw(st.sampled_from(["base", "base", "log", "log", "replace"]))
        group = draw(st.sampled_from("fgh"))
        if group in gone:
            continue  # what was replaced is never written again
        end = begin + draw(st.sampled_from([1, 3, 5, 12, 25, 47]))
        while end in ends:
            end += 1
        ends.add(end)
        pending = draw(st.integers(0, 9)) == 0
        if kind == "replace" and not pending:
            gone.add(group)
        writes.append(Write(kind, group, begin, None if pending else end))
    # A log that ends after its group was replaced would have been refused.
    closed = {w.group: w.begin for w in writes if w.kind == "replace" and w.end is not None}
    writes = [
        w
        for w in writes
        if w.kind == "replace" or w.end is None or w.end < closed.get(w.group, 10**6)
    ]
    savepoints = [w.begin for w in writes if w.end is not None and draw(st.integers(0, 9)) == 0]
    return writes, savepoints


OPTIONS = st.builds(
    CleanOptions,
    st.sampled_from(CleanPolicy),
    commits_retained=st.integers(1, 5),
    hours_retained=st.just(1),
    file_versions_retained=st.integers(1, 3),
    min_age_seconds=st.sampled_from([0, 7, 30, 100]),
)


@given(histories(), OPTIONS, st.integers(0, 60))
def test_whatever_is_deleted_no_retained_moment_query_or_writer_needs(history, options, wait):
    writes, savepoints = history
    assume(writes)
    done = [w for w in writes if w.end is not None]
    completion = {at(w.begin): at(w.end) for w in done}
    # Now is after all that completed; by hours the past begins an hour before.
    last = max([w.end for w in done], default=0) + wait
    if options.policy is HOURS:
        last += 3600 - wait * 2
    table = inventory(writes, savepoints=tuple(map(at, savepoints)))
    plan = plan_clean(table, options, now(last), "UTC")
    gone = deleted(plan)
    completion_seconds = [w.end for w in done]
    event(f"deletes: {bool(gone)}")
    moments = {
        "now": lambda w: w.end is not None,
        **{
            f"as of {w.begin}": lambda w, x=w.begin: w.end is not None and w.begin <= x
            for w in done
            if plan and at(w.begin) >= plan.earliest
        },
        **{f"savepoint {x}": lambda w, x=x: w.end is not None and w.begin <= x for x in savepoints},
        **{
            f"query of {t}": lambda w, t=t: w.end is not None and w.end <= t
            # What a query sees changes only when a write ends.
            for t in {last - options.min_age_seconds, last, *completion_seconds}
            if last - options.min_age_seconds <= t <= last
        },
        **{
            f"writer since {p.begin}": lambda w, p=p: w.end is not None and w.end < p.begin
            for p in writes
            if p.end is None
        },
    }
    for name, seen in moments.items():
        reads = {path for paths in needed(writes, completion, seen).values() for path in paths}
        assert not reads & gone, name
    if plan and options.policy is COMMITS and len(done) >= options.commits_retained:
        commits = sorted(at(w.begin) for w in done)
        assert plan.earliest <= commits[-options.commits_retained]
    if plan and options.policy is VERSIONS:
        for group, slices in table.groups.items():
            if (group.partition, group.file_id) not in table.replaced:
                kept = versions_of(slices)[-options.file_versions_retained :]
                assert not {path for version in kept for path in version.paths} & gone


@given(histories(), OPTIONS)
def test_cleaning_what_is_clean_deletes_nothing(history, options):
    writes, savepoints = history
    assume(writes)
    table = inventory(writes, savepoints=tuple(map(at, savepoints)))
    plan = plan_clean(table, options, now(10_000), "UTC")
    if plan is None:
        return
    gone = deleted(plan)
    files = [f for slices in table.groups.values() for s in slices for f in s.files]
    completion = {at(w.begin): at(w.end) for w in writes if w.end is not None}
    left = group_files(f for f in files if f.path not in gone)
    groups = {g: build_slices(g, of, completion.__getitem__) for g, of in left.items()}
    again = replace(table, groups=groups, retained=plan.earliest)
    assert plan_clean(again, options, now(10_000), "UTC") is None


def bases(count: int, group: str = "f") -> list[Write]:
    return [Write("base", group, n * 10, n * 10 + 1) for n in range(count)]


def instants(plan) -> list[str]:
    return sorted(BaseFileName.parse(path.rpartition("/")[2]).instant for path in deleted(plan))


def test_of_fifteen_commits_the_last_ten_and_the_version_before_them_stay():
    plan = plan_clean(inventory(bases(15)), CleanOptions(), now(10_000), "UTC")
    assert plan.earliest == at(50)
    assert plan.last_completed == at(140)
    assert plan.earliest_action == "commit"
    assert instants(plan) == [at(0), at(10), at(20), at(30)]


def test_by_hours_what_was_superseded_before_the_last_hours_goes():
    writes = [Write("base", "f", n * 3600, n * 3600 + 1) for n in range(6)]
    options = CleanOptions(HOURS, hours_retained=2)
    plan = plan_clean(inventory(writes), options, now(5 * 3600 + 60), "UTC")
    assert plan.earliest == at(4 * 3600)
    assert instants(plan) == [at(0), at(3600), at(2 * 3600)]


def test_by_hours_a_table_that_rests_keeps_its_last_commit():
    plan = plan_clean(inventory(bases(4)), CleanOptions(HOURS), now(10**6), "UTC")
    assert plan.earliest == at(30)
    assert instants(plan) == [at(0), at(10)]


def test_by_file_versions_each_group_keeps_its_newest():
    writes = sorted([*bases(5), Write("base", "g", 5, 6)], key=lambda w: w.begin)
    plan = plan_clean(inventory(writes), CleanOptions(VERSIONS), now(10_000), "UTC")
    assert instants(plan) == [at(0), at(10)]
    # At 10 the version of 0 was replaced by that of 10, and at 20 that by the one of 20.
    assert plan.earliest == at(20)


@pytest.mark.parametrize("policy", CleanPolicy)
def test_a_version_that_was_the_newest_a_moment_ago_stays(policy):
    options = CleanOptions(policy, 1, 1, 1, min_age_seconds=60)
    writes = [Write("base", "f", 0, 1), Write("base", "f", 10, 11), Write("base", "f", 20, 5000)]
    late = [*writes, Write("base", "f", 6000, 6001), Write("base", "f", 6010, 6011)]
    assert instants(plan_clean(inventory(late), options, now(6012), "UTC")) == [at(0), at(10)]
    # The third took long: until a moment ago the second was the newest.
    assert instants(plan_clean(inventory(writes), options, now(5010), "UTC")) == [at(0)]
    assert instants(plan_clean(inventory(writes), options, now(5061), "UTC")) == (
        [at(0), at(10)] if policy is VERSIONS else [at(0)]
    )


def test_a_pending_write_keeps_what_was_the_newest_when_it_began():
    writes = [*bases(3), Write("log", "f", 35, None), *bases(15)[4:]]
    plan = plan_clean(inventory(writes), CleanOptions(commits_retained=2), now(10_000), "UTC")
    assert plan.earliest == at(20)
    assert instants(plan) == [at(0)]


def test_a_replaced_group_goes_whole_once_its_end_is_not_retained():
    writes = [*bases(2), Write("log", "f", 25, 26), Write("replace", "f", 30, 31)]
    later = [Write("base", "g", 40 + n * 10, 41 + n * 10) for n in range(3)]
    options = CleanOptions(commits_retained=2)
    plan = plan_clean(inventory([*writes, *later[:1]]), options, now(10_000), "UTC")
    assert plan is None
    plan = plan_clean(inventory([*writes, *later]), options, now(10_000), "UTC")
    assert len(deleted(plan)) == 3
    kept = plan_clean(
        inventory([*writes, *later], savepoints=(at(10),)), options, now(10_000), "UTC"
    )
    assert len(deleted(kept)) == 1
    assert kept.savepoints == (at(10),)


def test_a_version_of_which_a_plan_needs_a_file_stays():
    table = inventory(bases(15))
    name = BaseFileName("f", "0-0-0", at(10)).encode()
    plan = plan_clean(
        replace(table, kept_names=frozenset({name})), CleanOptions(), now(10**4), "UTC"
    )
    assert instants(plan) == [at(0), at(20), at(30)]


def test_logs_before_the_first_base_file_are_one_version():
    writes = [Write("log", "f", 0, 1), Write("log", "f", 10, 11), *bases(4)[2:]]
    [slices] = inventory(writes).groups.values()
    assert [len(version.paths) for version in versions_of(slices)] == [2, 1, 1]


def test_logs_stay_with_the_base_file_below_them():
    writes = [*bases(1), Write("log", "f", 5, 6), *bases(3)[1:], Write("log", "f", 25, 26)]
    plan = plan_clean(inventory(writes), CleanOptions(VERSIONS, 1, 1, 1, 0), now(100), "UTC")
    assert len(deleted(plan)) == 3


def test_leftovers_alone_are_a_clean_that_retains_all():
    table = replace(inventory(bases(3)), leftovers=("p/x_0-0-0_1.parquet",))
    plan = plan_clean(table, CleanOptions(), now(10_000), "UTC")
    assert deleted(plan) == {"p/x_0-0-0_1.parquet"}
    assert plan.earliest == at(0)
    promised = replace(table, retained=at(10))
    assert plan_clean(promised, CleanOptions(), now(10_000), "UTC").earliest == at(10)


def test_nothing_to_clean_is_no_plan():
    assert plan_clean(inventory([]), CleanOptions(), now(0), "UTC") is None
    assert plan_clean(inventory(bases(10)), CleanOptions(), now(10_000), "UTC") is None


def leftover(writes, begin, named=(), kind="base") -> bool:
    timeline = Timeline(tuple(w.instant for w in writes))
    visibility = VisibilityRules(timeline, LAYOUT_2, lambda _: frozenset(named))
    return visibility.of(Write(kind, "f", begin, 0).file) is Visibility.LEFTOVER


def test_a_file_is_left_over_if_its_commit_does_not_name_it():
    path = Write("base", "f", 10, 11).file.path
    assert leftover(bases(3), 10)
    assert not leftover(bases(3), 10, [path])


def test_a_file_of_an_instant_that_was_rolled_back_is_left_over():
    assert leftover(bases(3), 15)


@pytest.mark.parametrize(
    ("writes", "begin"),
    [
        (bases(3), 99),
        ([*bases(3), Write("log", "f", 25, None)], 25),
        ([*bases(3), Write("log", "f", 25, None), *bases(6)[3:]], 27),
        (bases(9)[4:], 15),
        ([], 0),
    ],
    ids=["of a writer that begins", "pending", "after one that is pending", "archived", "no table"],
)
def test_a_file_that_may_be_data_is_not_left_over(writes, begin):
    assert not leftover(writes, begin)


def test_logs_of_a_resize_carry_the_instant_of_the_clustering():
    writes = [*bases(1), Write("replace", "g", 10, 11)]
    assert not leftover(writes, 10, kind="log")
    assert leftover(writes, 10)


def test_options_come_from_hudis_names_old_and_new():
    found = CleanOptions.of(
        {
            "hoodie.cleaner.policy": "keep_latest_by_hours",
            "hoodie.clean.hours.retained": "7",
            "hoodie.cleaner.commits.retained": "4",
            "hoodie.clean.fileversions.retained": "2",
            "lakebed.clean.min.age.seconds": "0",
        }
    )
    assert found == CleanOptions(HOURS, 4, 7, 2, 0)
    assert CleanOptions.of({}) == CleanOptions()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hoodie.clean.policy", "KEEP_ALL"),
        ("hoodie.clean.commits.retained", "0"),
        ("hoodie.clean.hours.retained", "-1"),
        ("hoodie.clean.fileversions.retained", "two"),
        ("lakebed.clean.min.age.seconds", "1e3"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_name(name, value):
    with pytest.raises(OptionError, match=name):
        CleanOptions.of({name: value})


def test_a_group_id_is_a_partition_and_a_file_id():
    assert set(inventory(bases(1)).groups) == {FileGroupId("p", "f")}
