"""Writers of different column groups at the same time: one begins, another completes in between."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.api.table import Table
from lakebed.errors import ConflictError
from lakebed.model.executor import LocalExecutor
from lakebed.table.config.properties_file import load_config
from support.tables import make, one_thread, reopen

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("score", pa.int64()),
        ("clicks", pa.int64()),
    ]
)
GROUPS = {"risk": ["score"], "web": ["clicks"]}
MODES = ["OPTIMISTIC_CONCURRENCY_CONTROL", "NON_BLOCKING_CONCURRENCY_CONTROL"]
FREE = MODES[1]


def table(mode: str, **more: Any) -> Table:
    return make(
        partition_by=(),
        table_type="MERGE_ON_READ",
        table_version=None,
        properties={"hoodie.write.concurrency.mode": mode},
        **{"schema": SCHEMA, "column_groups": GROUPS, "buckets": 1, **more},
    )


def rows(keys: list[int], **values: Any) -> pa.Table:
    given = {"id": keys, **{name: [value] * len(keys) for name, value in values.items()}}
    return pa.table(given, pa.schema([SCHEMA.field(name) for name in given]))


def meanwhile(held: pa.Table, act: Callable[[], object]) -> pa.RecordBatchReader:
    """Return rows that come after `act`, which is done once the write of the rows has begun."""

    def batches() -> Iterator[pa.RecordBatch]:
        act()
        yield from held.to_batches()

    return pa.RecordBatchReader.from_batches(held.schema, batches())


class Between(LocalExecutor):
    """Does something else once, before the first tasks run."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__(1)
        self._acts = [act]

    def run(self, task: Any, items: Any, what: str) -> Any:
        while self._acts:
            self._acts.pop()()
        return super().run(task, items, what)


def other(t: Table) -> Table:
    return reopen(t._storage, t._clock)


def shown(t: Table, **how: Any) -> dict[int, dict[str, Any]]:
    found = other(t).read(**how).read_all().to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row for row in found}


def counts(t: Table, **how: Any) -> set[int]:
    return {other(t).read(columns=[n], **how).read_all().num_rows for n in SCHEMA.names}


@pytest.mark.parametrize("mode", MODES)
def test_two_groups_of_a_table_with_rows_are_written_without_a_conflict(mode: str):
    t = table(mode)
    t.bulk_insert(rows([1, 2], name="n", score=0, clicks=0))
    t.upsert(meanwhile(rows([1], clicks=5), lambda: other(t).upsert(rows([1, 3], score=7))))
    assert shown(t)[1] == {"id": 1, "name": "n", "score": 7, "clicks": 5}
    assert counts(t) == {3}


@pytest.mark.parametrize("mode", MODES)
def test_a_new_bucket_never_gets_two_file_groups(mode: str):
    t = table(mode)
    first = meanwhile(rows([1, 2], clicks=5), lambda: other(t).upsert(rows([1, 3], score=7)))
    if mode == FREE:
        t.upsert(first)
        assert shown(t)[1] == {"id": 1, "name": None, "score": 7, "clicks": 5}
    else:
        with pytest.raises(ConflictError):
            t.upsert(first)
        assert shown(t).keys() == {1, 3}
    assert not other(t).verify().findings
    t.upsert(rows([1, 9], name="x", score=1, clicks=1))
    assert 9 in shown(t)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("change", ["add", "drop"])
def test_rows_divided_by_other_groups_are_a_conflict(mode: str, change: str):
    t = table(mode)
    t.bulk_insert(rows([1], name="n", score=0, clicks=0))

    def act() -> None:
        if change == "add":
            other(t).add_column_group("geo", "city STRING")
        else:
            other(t).drop_column_group("web")

    with pytest.raises(ConflictError):
        t.upsert(meanwhile(rows([1, 2], name="m", score=1, clicks=1), act))
    assert shown(t).keys() == {1}


def test_definitions_that_change_at_once_do_not_undo_each_other():
    t = table(FREE)
    t.bulk_insert(rows([1], name="n", score=0, clicks=0))
    before = t.history().column("instant")[0].as_py()
    engines = one_thread()
    engines.main.executor = Between(lambda: other(t).add_column_group("geo", "city STRING"))
    late = Table(t._storage, load_config(t._storage), engines, t._clock)
    with pytest.raises(ConflictError, match="is changing its column groups"):
        late.drop_column_group("web")
    names = {group.name: group for group in load_config(t._storage).column_groups}
    assert names["geo"].since is not None
    assert names["web"].until is None
    assert shown(t)[1] == {"id": 1, "name": "n", "score": 0, "clicks": 0, "city": None}
    assert set(shown(t, as_of=before)[1]) == set(SCHEMA.names)
    other(t).drop_column_group("web")
    assert "clicks" not in shown(t)[1]


def test_a_group_is_not_dropped_while_a_compaction_is_pending():
    t = table(MODES[0])
    t.bulk_insert(rows([1, 2], name="n", score=0, clicks=0))
    t.upsert(rows([7], clicks=1))
    t.upsert(rows([1], score=1))
    t.schedule_compaction()
    with pytest.raises(ConflictError, match="is pending"):
        t.drop_column_group("web")
    t.compact()
    t.drop_column_group("web")
    assert shown(t).keys() == {1, 2, 7}
    for name in ("name", "score"):
        assert other(t).read(columns=[name]).read_all().num_rows == 3


@pytest.mark.parametrize("mode", MODES)
def test_incremental_reads_see_a_part_that_completes_late(mode: str):
    t = table(mode)
    t.bulk_insert(rows([1], name="n", score=0, clicks=0))
    seen: list[str] = []

    def act() -> None:
        seen.append(other(t).upsert(rows([1], score=7)).completion_time)

    t.upsert(meanwhile(rows([1], clicks=5), act))
    assert shown(t, since=seen[0])[1]["clicks"] == 5


@pytest.mark.parametrize(("at", "score"), [(1, 9), (3, 5)], ids=["late", "newer"])
@pytest.mark.parametrize("compacts", [False, True])
def test_an_update_of_a_new_key_reads_as_nulls_until_a_slower_writer_completes_its_row(
    at: int, score: int, compacts: bool
):
    schema = pa.schema([*SCHEMA, ("band", pa.string()), ("scored_at", pa.int64())])
    groups = {"risk": "score,band;scored_at", "web": ["clicks"]}
    t = table(FREE, schema=schema, column_groups=groups)
    t.upsert(pa.table({"id": [7], "score": [1], "band": ["mid"], "scored_at": [1]}))
    seen: list[Any] = []

    def act() -> None:
        other(t).update_columns(pa.table({"id": [1], "score": [9], "scored_at": [2]}))
        paths = [file["path"] for file in other(t).files().to_pylist()]
        seen.append([pq.ParquetFile(t._storage.open_read(path)).schema_arrow for path in paths])
        seen.append(shown(t)[1])

    slow = pa.table({"id": [1], "score": [5], "band": ["low"], "scored_at": [at]})
    t.upsert(meanwhile(slow, act))
    empty = {"id": 1, "name": None, "clicks": None}
    assert sorted("band" in stored.names for stored in seen[0]) == [False, True]
    assert seen[1] == {**empty, "score": 9, "band": None, "scored_at": 2}
    if compacts:
        t.compact()
    assert shown(t)[1] == {**empty, "score": score, "band": "low", "scored_at": max(at, 2)}


@pytest.mark.parametrize("deletes", [False, True])
def test_a_write_that_began_before_a_compaction_of_some_groups_is_a_conflict(deletes: bool):
    t = table(FREE)
    t.bulk_insert(rows([1], name="n", score=0, clicks=0))

    def act() -> None:
        other(t).upsert(rows([1], name="n2", score=2, clicks=2))
        other(t).compact(groups=["web"])

    with pytest.raises(ConflictError, match="compaction of some column groups"):
        if deletes:
            t.delete(meanwhile(rows([1]), act))
        else:
            t.upsert(meanwhile(rows([1], name="n1", score=1, clicks=1), act))
    assert shown(t)[1] == {"id": 1, "name": "n2", "score": 2, "clicks": 2}


def test_read_optimized_shows_the_same_rows_in_every_column():
    t = table("SINGLE_WRITER")
    t.bulk_insert(rows(list(range(50)), name="n", score=0, clicks=0))
    t.delete([{"id": 1}])
    t.compact(groups=["risk"])
    assert len(counts(t, mode="read_optimized")) == 1
    assert counts(t) == {49}


@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize("how", ["upsert", "bulk_insert"])
@pytest.mark.parametrize("mode", MODES)
def test_a_group_is_written_for_the_first_time_while_the_others_are_widened(
    mode: str, how: str, planned: bool
):
    t = table(mode)

    def act() -> None:
        other(t).upsert(rows([1], score=10))
        widen = other(t).schedule_compaction if planned else other(t).compact
        widen(widen=True)

    if mode == FREE:
        getattr(t, how)(meanwhile(rows([1], clicks=5), act))
    else:
        with pytest.raises(ConflictError):
            getattr(t, how)(meanwhile(rows([1], clicks=5), act))
        t.upsert(rows([1], clicks=5))
    for _ in range(2):
        assert shown(t)[1] == {"id": 1, "name": None, "score": 10, "clicks": 5}
        t.compact()


@pytest.mark.parametrize("mode", MODES)
def test_groups_are_written_while_a_plan_to_widen_them_waits(mode: str):
    t = table(mode)
    t.upsert(rows([1, 2], name="n", score=1, clicks=1))
    planned = other(t).schedule_compaction(widen=True)
    t.upsert(rows([1], score=2))
    [done] = other(t).compact(instant=planned.instant.requested)
    assert done.wide == 1
    t.upsert(rows([2], clicks=3))
    found = shown(t)
    assert [(found[key]["score"], found[key]["clicks"]) for key in (1, 2)] == [(2, 1), (1, 3)]
