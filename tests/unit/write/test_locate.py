"""Rows find the file groups that hold their keys, by the keys of base files or by a join."""

from dataclasses import replace

import pyarrow as pa
import pytest

from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.index.holders import HOLDERS
from lakebed.merge.rule import MergeRule
from lakebed.merge.run import DELETED, FLAGS
from lakebed.model.executor import LocalExecutor, TaskId
from lakebed.write.locate import CAME, _private, locate_segments, mark, stage_located
from lakebed.write.spec.operation import DELETE
from lakebed.write.staging import LogPolicy, read_segment, stage_runs
from support.specs import make_spec
from support.tables import SCHEMA, batch, make

TASK = TaskId(0, 0, 0)


def one(*rows):
    return batch(*rows).combine_chunks().to_batches()[0]


@pytest.fixture(scope="module")
def table():
    """Return a table of two partitions whose keys are in one base file each."""
    made = make(index="simple", table_type="COPY_ON_WRITE")
    made.insert(batch(("a", 1, 1, "p"), ("c", 1, 1, "p"), ("a", 1, 1, "q")))
    return made


def spec_for(table, **changes):
    spec = make_spec(index="simple")
    view = replace(spec.view, storage=table._storage)
    return replace(spec, view=view, **changes)


def staged(spec, *rows, task=0):
    return list(stage_runs([one(*rows)], spec, TaskId(task, 0, 0), LogPolicy(direct=False)))


def placed(spec, segments):
    """Return the keys of each partition and file group."""
    found = {}
    for segment in segments:
        keys = [
            key
            for rows in read_segment(spec.storage, segment)
            for key in rows.column(RECORD_KEY).to_pylist()
        ]
        found.setdefault((segment.partition, segment.file_id), []).extend(keys)
    return found


def test_known_keys_get_the_file_group_of_their_partition_and_new_ones_none(table):
    slices = table._snapshot(None).slices
    groups = {slice_.group.partition: slice_.group.file_id for slice_ in slices}
    spec = spec_for(table)
    segments = staged(spec, ("a", 2, 2, "p"), ("b", 2, 2, "p"), ("a", 2, 2, "q"), ("c", 2, 2, "q"))
    located = locate_segments(segments, slices, spec, LocalExecutor(1))
    assert placed(spec, located) == {
        ("p", groups["p"]): ["a"],
        ("p", None): ["b"],
        ("q", groups["q"]): ["a"],
        ("q", None): ["c"],
    }


def test_rows_of_a_partition_without_files_are_left_as_they_are(table):
    spec = spec_for(table)
    segments = staged(spec, ("a", 2, 2, "new"))
    slices = table._snapshot(None).slices
    assert locate_segments(segments, slices, spec, LocalExecutor(1)) == segments


def test_rows_of_one_key_are_folded_before_they_are_placed(table):
    slices = table._snapshot(None).slices
    spec = spec_for(table)
    first, second = staged(spec, ("a", 5, 5, "p")), staged(spec, ("a", 6, 6, "p"), task=1)
    segments = [*second, *first]
    [found] = locate_segments(segments, slices, spec, LocalExecutor(1))
    [rows] = read_segment(spec.storage, found)
    assert rows.column("v").to_pylist() == [6]


def test_a_delete_of_a_key_that_no_file_holds_is_dropped(table):
    slices = table._snapshot(None).slices
    keys = pa.schema([SCHEMA.field(name) for name in ("id", "dt")])
    spec = spec_for(table, operation=DELETE, schema=keys)
    rows = one(("a", 0, 0, "p"), ("nowhere", 0, 0, "p")).select(keys.names)
    segments = list(stage_runs([rows], spec, TASK, LogPolicy(direct=False)))
    located = locate_segments(segments, slices, spec, LocalExecutor(1))
    assert list(placed(spec, located).values()) == [["a"]]


def test_joined_rows_of_an_index_over_all_partitions_are_staged_where_they_belong():
    spec = make_spec(index="global_simple")
    slices = make(index="simple")
    slices.insert(batch(("a", 1, 1, "p")))
    slices = slices._snapshot(None).slices
    rows = one(("a", 2, 2, "p"), ("b", 2, 2, "q"))
    joined = rows.append_column(HOLDERS, pa.array(["there", None]))
    found = stage_located(
        [joined],
        spec,
        TASK,
        slices,
        lambda texts: pa.array([None if text is None else "0" for text in texts.to_pylist()]),
    )
    assert placed(spec, found) == {("p", slices[0].group.file_id): ["a"], ("q", None): ["b"]}


def test_flags_are_put_away_and_rows_without_any_came_as_they_are():
    plain = pa.RecordBatch.from_pydict({RECORD_KEY: ["a", "b"]})
    assert mark(plain).column(CAME).to_pylist() == [0, 0]
    flagged = plain.append_column(FLAGS, pa.array([0, DELETED], pa.uint8()))
    assert mark(flagged).schema.names == [RECORD_KEY, CAME]
    assert mark(flagged).column(CAME).to_pylist() == [0, DELETED]


def test_a_merger_of_the_users_own_does_not_see_our_columns_nor_decide_over_deletes():
    def merge(older, newer):
        assert newer.schema.names == [*SCHEMA.names]
        return older

    def came(flags, value):
        rows = one(("a", value, 1, "p"), ("b", value, 1, "p"))
        return rows.append_column(CAME, pa.array(flags, pa.uint8())).append_column(
            HOLDERS, pa.array(["0", "1"])
        )

    rule = _private(MergeRule(merger=merge))
    found = rule.merger(came([0, 0], 1), came([0, DELETED], 2))
    assert found.column("v").to_pylist() == [1, 2]
    assert found.column(CAME).to_pylist() == [0, DELETED]
    assert _private(MergeRule(("ts",))) == MergeRule(("ts",))
