"""Parts of the data source that need no session: filters, tasks, what streams are told."""

import datetime as dt
import decimal
import os
import pickle
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

import lakebed
from lakebed.errors import InvalidError, LakebedError, UnsupportedError
from lakebed.expr.predicate import Predicate
from lakebed.format.names.data_names import BaseFileName
from lakebed.model.executor import TaskId
from lakebed.spark.data_source.filters import to_predicate
from lakebed.spark.data_source.reader import Reader, bundles, make_reader, table_schema
from lakebed.spark.data_source.writer import Staged, Writer
from lakebed.table.files.file_group import BaseFile, FileGroupId, FileSlice
from pyspark_lakebed import DefaultSource

UTC = dt.UTC
ROWS = pa.table(
    {
        "text": ["a%b", "a_b", r"a\b", "it's", None],
        "num": pa.array([1, 2, -3, 2**62, None], pa.int64()),
        "real": [0.1, -0.5, 1e300, 2.0, None],
        "price": pa.array(
            [decimal.Decimal(v) for v in ("1.25", "-9.99", "0.00", "99.10")] + [None]
        ),
        "yes": [True, False, True, False, None],
        "day": pa.array([dt.date(2024, 2, d) for d in (1, 2, 3, 4)] + [None]),
        "at": pa.array(
            [dt.datetime(2024, 2, d, 1, 2, 3, 4, UTC) for d in (1, 2, 3, 4)] + [None],
            pa.timestamp("us", "UTC"),
        ),
        "wall": pa.array(
            [dt.datetime(2024, 2, d) for d in (1, 2, 3, 4)] + [None], pa.timestamp("us")
        ),
        "blob": pa.array([b"1", b"2", b"3", b"4", None]),
    }
)


def kept(*filters: Filter) -> list[int]:
    text = to_predicate(filters, ROWS.schema)
    assert text is not None
    [batch] = ROWS.append_column("n", pa.array(range(5))).to_batches()
    return Predicate.parse(text, ROWS.schema).filter(batch).column("n").to_pylist()


@pytest.mark.parametrize(
    ("one", "rows"),
    [
        (EqualTo(("text",), "it's"), [3]),
        (EqualTo(("text",), r"a\b"), [2]),
        (EqualNullSafe(("text",), "a%b"), [0]),
        (StringStartsWith(("text",), "a%"), [0]),
        (StringStartsWith(("text",), "a\\"), [2]),
        (StringEndsWith(("text",), "_b"), [1]),
        (StringContains(("text",), "'"), [3]),
        (In(("text",), ("a_b", "it's")), [1, 3]),
        (Not(EqualTo(("text",), "a%b")), [1, 2, 3]),
        (IsNull(("text",)), [4]),
        (IsNotNull(("text",)), [0, 1, 2, 3]),
        (GreaterThan(("num",), 1), [1, 3]),
        (LessThanOrEqual(("num",), -3), [2]),
        (EqualTo(("real",), 0.1), [0]),
        (GreaterThan(("real",), 1e200), [2]),
        (EqualTo(("price",), decimal.Decimal("1.25")), [0]),
        (EqualTo(("yes",), False), [1, 3]),
        (GreaterThan(("day",), dt.date(2024, 2, 3)), [3]),
        (EqualTo(("at",), dt.datetime(2024, 2, 2, 1, 2, 3, 4, UTC)), [1]),
        (GreaterThan(("wall",), dt.datetime(2024, 2, 3)), [3]),
    ],
)
def test_a_filter_keeps_the_rows_that_spark_keeps(one, rows):
    assert kept(one) == rows


@pytest.mark.parametrize(
    "one",
    [
        EqualTo(("place", "x"), 1),
        EqualTo(("text",), None),
        EqualTo(("blob",), b"1"),
        EqualTo(("real",), float("nan")),
        In(("text",), ("a", None)),
        In(("text",), ()),
        Not(EqualTo(("blob",), b"1")),
        EqualTo(("text",), "${x}"),
        EqualTo(("gone",), 1),
    ],
)
def test_a_filter_without_a_sure_spelling_is_left_to_spark(one):
    assert to_predicate([one], ROWS.schema) is None
    assert kept(one, GreaterThan(("num",), 1)) == [1, 3]


def slice_of(number: int, size: int) -> FileSlice:
    name = BaseFileName(f"f{number:08d}-0", "0-1-1", "20240101000000000")
    file = BaseFile("p", name, size)
    return FileSlice(FileGroupId("p", name.file_id), name.instant, file)


def test_small_slices_share_a_task_and_none_is_lost():
    slices = [slice_of(n, 1 << 20) for n in range(100)] + [slice_of(100, 1 << 30)]
    found = bundles(slices)
    assert sorted(s.group.file_id for b in found for s in b) == sorted(
        s.group.file_id for s in slices
    )
    assert [s.group.file_id for s in found[0]] == [slices[100].group.file_id]
    assert 2 <= len(found) <= 16
    assert bundles([]) == []


def test_what_travels_to_the_tasks_has_no_list_of_files(tmp_path):
    path = str(tmp_path / "t")
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64())])
    table = lakebed.create_table(None, path, schema, key="id", buckets=4)
    table.insert(pa.table({"id": list(range(50)), "n": list(range(50))}))
    reader = make_reader({"path": path}, table_schema({"path": path}))
    assert isinstance(reader, Reader)
    parts = reader.partitions()
    there = pickle.loads(pickle.dumps(reader))
    assert there._scan.slices == ()
    found = [row["id"] for part in parts for b in there.read(part) for row in b.to_pylist()]
    assert sorted(found) == list(range(50))
    assert list(there.read(InputPartition(None))) == []


def test_the_path_of_a_partition_reads_its_rows_in_every_query_but_changes(tmp_path):
    path = str(tmp_path / "t")
    rows = pa.table({"id": [1, 2, 3], "city": ["oslo", "kyiv", "oslo"]})
    table = lakebed.create_table(None, path, rows.schema, key="id", partition_by="city")
    table.insert(rows)
    query = "hoodie.datasource.query."
    since = {f"{query}type": "incremental", "hoodie.datasource.read.begin.instanttime": "0"}
    for more in ({}, {f"{query}type": "read_optimized"}, since):
        options = {"path": f"{path}/oslo", **more}
        reader = make_reader(options, table_schema(options))
        batches = [b for part in reader.partitions() for b in reader.read(part)]
        assert sorted(row["id"] for b in batches for row in b.to_pylist()) == [1, 3]
    options |= {f"{query}incremental.format": "cdc"}
    with pytest.raises(UnsupportedError, match=f"one partition; use load.*{path}"):
        make_reader(options, table_schema(options))


def test_an_error_of_ours_is_shown_without_a_stack_in_a_worker_only(tmp_path, monkeypatch):
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
    source = DefaultSource({"path": str(tmp_path)})
    with pytest.raises(InvalidError, match="no table here"):
        source.schema()
    assert "SPARK_HIDE_TRACEBACK" not in os.environ
    monkeypatch.setenv("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER")
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    with pytest.raises(InvalidError, match="no table here"):
        source.schema()
    assert os.environ["SPARK_HIDE_TRACEBACK"] == "1"


class Saved:
    """A write that keeps what it is told."""

    def __init__(self, failure: LakebedError | None = None) -> None:
        self.failure = failure
        self.log: list[object] = []

    def stage(self, batches: object, task: TaskId) -> str:
        raise AssertionError(batches, task)

    def finish(self, staged: Any) -> None:
        self.log.append(("finish", list(staged)))

    def give_up(self) -> None:
        self.log.append("give up")


def test_only_whole_answers_of_all_tasks_are_committed():
    save = Saved()
    writer = Writer(save)
    with pytest.raises(LakebedError, match="expected the staged rows of 2 tasks, found 1"):
        writer.commit([Staged("a"), None])
    with pytest.raises(InvalidError, match="bad row"):
        writer.commit([Staged("a"), Staged(failure=pickle.dumps(InvalidError("bad row")))])
    assert save.log == []
    writer.commit([Staged("a"), Staged("b")])
    writer.abort([None])
    assert save.log == [("finish", ["a", "b"]), "give up"]
