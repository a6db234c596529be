"""Streams read by several threads: every item once, a bound on what is held, no thread left."""

import gc
import threading
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

import lakebed
from lakebed.engine.engine import read_stream
from lakebed.engine.parallel import read_parallel
from lakebed.errors import CorruptError
from lakebed.scan.scan import plan_scan


def readers() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("lakebed-read")]


def counting(number: int, count: int, taken: list[int]) -> Callable[[], Iterator[tuple[int, int]]]:
    def open_() -> Iterator[tuple[int, int]]:
        for item in range(count):
            taken.append(number)
            yield number, item

    return open_


@pytest.mark.parametrize("threads", [1, 2, 5, 100])
def test_every_item_comes_once_and_those_of_a_stream_in_order(threads: int):
    opens = [counting(number, number % 7, []) for number in range(50)]
    found = list(read_parallel(opens, threads))
    assert sorted(found) == [(n, i) for n in range(50) for i in range(n % 7)]
    for number in range(50):
        assert [item for n, item in found if n == number] == list(range(number % 7))
    assert readers() == []


def test_without_a_reader_no_more_than_a_few_items_are_held():
    taken: list[int] = []
    stream = read_parallel([counting(number, 1000, taken) for number in range(4)], 2)
    next(stream)
    stream.close()  # waits for the threads: what they took is known then
    # Two threads hold two items each, and one each waits to hand over.
    assert len(taken) <= 1 + 2 * 2 + 2
    assert readers() == []


def test_a_stream_that_is_dropped_half_way_leaves_no_thread():
    stream = read_parallel([counting(number, 1000, []) for number in range(4)], 3)
    next(stream)
    assert len(readers()) == 3
    del stream
    gc.collect()
    assert readers() == []


def test_a_failure_in_a_thread_is_raised_where_the_stream_is_read():
    def fail() -> Iterator[tuple[int, int]]:
        yield 0, 0
        raise CorruptError("a broken file")

    with pytest.raises(CorruptError, match="a broken file"):
        list(read_parallel([fail, counting(1, 1000, []), counting(2, 1000, [])], 2))
    assert readers() == []


@pytest.fixture
def table(tmp_path) -> lakebed.Table:
    """Make a table of several file groups with logs."""
    schema = pa.schema([("id", pa.int64()), ("day", pa.string()), ("v", pa.int64())])
    made = lakebed.create_table(
        None, str(tmp_path / "t"), schema, key="id", partition_by="day", buckets=2
    )
    for v in (1, 2):
        days = [f"d{n % 5}" for n in range(200)]
        made.upsert(pa.table({"id": range(200), "day": days, "v": [v] * 200}, schema))
    return made


def test_threads_read_the_rows_that_one_thread_reads(table):
    scan = plan_scan(table._snapshot(None), ["id", "day", "v"], "id < 150")
    alone = read_stream(scan).read_all()
    many = read_stream(scan, 4, parallel_bytes=0).read_all()
    assert many.schema == alone.schema
    assert many.sort_by("id") == alone.sort_by("id")
    assert alone.num_rows == 150


def test_a_reader_that_is_dropped_half_way_leaves_no_thread(table):
    scan = plan_scan(table._snapshot(None), ["id"], None)
    reader = read_stream(scan, 3, parallel_bytes=0)
    reader.read_next_batch()
    assert len(readers()) == 3
    del reader
    gc.collect()
    assert readers() == []
    assert read_stream(scan, 3, parallel_bytes=0) is not None  # one that is never read starts none
    assert readers() == []
