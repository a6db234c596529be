"""Which file groups are clustered together: sizes, key ranges, limits, and the plan's bytes."""

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.errors import OptionError
from lakebed.format.names.data_names import BaseFileName, parse_data_name
from lakebed.format.timeline.plans import PlanKind, parse_plan
from lakebed.model.options.services import ClusteringOptions
from lakebed.services.clustering.merge import rows_of_next_file
from lakebed.services.clustering.plan import (
    FileFacts,
    InputGroup,
    encode_clustering,
    find_candidates,
    plan_groups,
)
from lakebed.table.files.file_group import BaseFile, FileGroupId, FileSlice, LogFile

OPTIONS = ClusteringOptions(target_bytes=1000, small_limit=300, max_groups=30, group_bytes=2000)
INSTANT = "20240101000000001"
FACTS: dict[str, FileFacts] = {}


def slice_of(
    name: str,
    size: int,
    keys: tuple[str, str] | None = ("a", "z"),
    partition: str = "p",
    ordered: bool = True,
    rows: int = 10,
) -> FileSlice:
    base = BaseFile(partition, BaseFileName(name, "0-0-0", INSTANT), size)
    low, high = keys or (None, None)
    FACTS[base.path] = FileFacts(rows, low, high, ordered)
    return FileSlice(FileGroupId(partition, name), INSTANT, base)


def names(groups: tuple[InputGroup, ...]) -> list[list[str]]:
    return [[slice_.group.file_id for slice_ in group.slices] for group in groups]


def plan(*slices: FileSlice, options: ClusteringOptions = OPTIONS) -> tuple[InputGroup, ...]:
    return plan_groups(slices, FACTS, options)


def test_candidates_are_small_wanted_and_not_busy():
    held = [
        slice_of("small", 299),
        slice_of("large", 300),
        slice_of("busy", 10),
        slice_of("elsewhere", 10, partition="q"),
        FileSlice(FileGroupId("p", "logs-only"), INSTANT, None),
    ]
    found = find_candidates(held, {FileGroupId("p", "busy")}, {"p"}, OPTIONS)
    assert [slice_.group.file_id for slice_ in found] == ["small", "logs-only"]
    assert len(find_candidates(held, (), None, OPTIONS)) == 4


def test_small_file_groups_of_a_partition_go_together_in_key_order():
    [group] = plan(slice_of("b", 100, ("m", "p")), slice_of("a", 200, ("q", "z"), rows=30))
    assert names((group,)) == [["b", "a"]]
    assert (group.outputs, group.rows, group.row_bytes, group.size_bytes) == (1, 40, 7.5, 300)


def test_partitions_are_never_mixed():
    held = [slice_of(f"{p}{n}", 10, partition=p) for p in "pq" for n in (1, 2)]
    assert names(plan(*held)) == [["p1", "p2"], ["q1", "q2"]]


@pytest.mark.parametrize(
    ("slices", "is_worth"),
    [
        ([slice_of("one", 10)], False),
        ([slice_of("unsorted", 10, ordered=False)], True),
        ([slice_of("c1", 900, ("a", "b")), slice_of("c2", 900, ("c", "d"))], False),
        ([slice_of("d1", 900, ("a", "c")), slice_of("d2", 900, ("c", "d"))], True),
        ([slice_of("e1", 900, None), slice_of("e2", 900, ("c", "d"))], False),
        ([slice_of("f1", 500, ("a", "b")), slice_of("f2", 500, ("c", "d"))], True),
    ],
)
def test_worth_it_is_what_becomes_fewer_or_sorted_or_disjoint(
    slices: list[FileSlice], is_worth: bool
):
    assert bool(plan(*slices)) == is_worth


def test_portions_are_bounded_and_hold_neighbours():
    held = [slice_of(f"g{n}", 900, (f"{9 - n}a", f"{9 - n}b"), ordered=False) for n in range(5)]
    assert names(plan(*held)) == [["g4", "g3"], ["g2", "g1"], ["g0"]]


def test_a_plan_takes_the_portions_that_save_most():
    options = ClusteringOptions(max_groups=1)
    held = [
        slice_of(f"{p}{n}", 10, partition=p)
        for p, many in (("p", 2), ("q", 3))
        for n in range(many)
    ]
    assert [group.partition for group in plan(*held, options=options)] == ["q"]


def test_nothing_is_planned_of_nothing():
    assert plan() == ()


def test_the_plan_reads_as_hudi_writes_it_and_is_marked_as_ours():
    name = parse_data_name(f".a_{INSTANT}.log.1_0-1-0")
    assert name is not None
    assert not isinstance(name, BaseFileName)
    with_log = FileSlice(
        FileGroupId("p", "a"), INSTANT, slice_of("a", 100).base_file, (LogFile("p", name, 5),)
    )
    logs_only = FileSlice(FileGroupId("p", "c"), INSTANT, None)
    [group] = plan(with_log, slice_of("b", 100), logs_only)
    data = encode_clustering([group], ["id", "k2"], lambda path: f"s3://lake/{path}")
    values = parse_plan(PlanKind.REQUESTED_REPLACE, data, "plan")
    assert values["operationType"] == "CLUSTER"
    clustering = cast("dict[str, object]", values["clusteringPlan"])
    assert clustering["extraMetadata"] == {"lakebed": "1"}
    assert clustering["preserveHoodieMetadata"] is True
    strategy = cast("dict[str, object]", clustering["strategy"])
    assert strategy["strategyParams"] == {"hoodie.clustering.plan.strategy.sort.columns": "id,k2"}
    [encoded] = cast("list[dict[str, object]]", clustering["inputGroups"])
    assert encoded["numOutputFileGroups"] == 1
    slices = cast("list[dict[str, object]]", encoded["slices"])
    told = {
        slice_["fileId"]: (slice_["dataFilePath"], slice_["deltaFilePaths"]) for slice_ in slices
    }
    assert told == {
        "a": (f"s3://lake/p/a_0-0-0_{INSTANT}.parquet", [f"s3://lake/p/.a_{INSTANT}.log.1_0-1-0"]),
        "b": (f"s3://lake/p/b_0-0-0_{INSTANT}.parquet", []),
        "c": ("", []),
    }


@given(st.integers(1, 10**6), st.integers(0, 10**5), st.floats(0.01, 10**4))
def test_files_come_out_even_and_none_is_above_the_target(
    target: int, guess: int, row_bytes: float
):
    left, written = guess, []
    for _ in range(50):
        written.append(rows_of_next_file(target, left, row_bytes))
        left -= written[-1]
        if left <= 0:
            break
    assert all(rows >= 1 for rows in written)
    assert all(rows * row_bytes <= target or rows == 1 for rows in written)
    if left <= 0 and len(written) > 2:
        assert max(written[:-1]) - min(written[:-1]) <= 1


def test_options_have_hudis_defaults_and_refuse_nonsense():
    name = "hoodie.clustering.plan.strategy.target.file.max.bytes"
    assert ClusteringOptions.of({}) == ClusteringOptions(1 << 30, 300 << 20, 30, 2 << 30)
    assert ClusteringOptions.of({name: "7"}).target_bytes == 7
    for text in ("0", "-1", "much", "1e9"):
        with pytest.raises(OptionError, match=f"{name}={text}: expected a whole number from 1 to"):
            ClusteringOptions.of({name: text})
