"""A table of cities with a secondary index on the city, and what the index holds."""

import pyarrow as pa

import lakebed
from lakebed.expr.constraints import constraints_of
from lakebed.expr.predicate import Predicate
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.index.secondary.definition import parse_definitions
from lakebed.index.secondary.entries import ENTRY_KEY, find_entries
from lakebed.index.secondary.open_index import OpenIndex, index_folder, open_indexes
from lakebed.index.secondary.ranges import key_ranges
from lakebed.model.executor import LocalExecutor
from lakebed.services.indexing.parts import EVERYTHING
from support.faulty import FaultyStorage

SCHEMA = pa.schema([("uuid", pa.string()), ("ts", pa.int64()), ("city", pa.string())])


BY_HAND = {"lakebed.index.compact.inline": "false"}


SHORT = {
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.commits.retained": "1",
    "hoodie.compact.inline.max.delta.commits": "1",
    "lakebed.clean.min.age.seconds": "0",
}


def rows(given: dict[str, str | None], ts: int = 1) -> pa.Table:
    return pa.table(
        {"uuid": list(given), "ts": [ts] * len(given), "city": list(given.values())}, SCHEMA
    )


def make(path: str, properties: dict[str, str] | None = None, **how):
    settled = {"key": "uuid", "ordering": "ts", "buckets": 2} | how
    return lakebed.create_table(
        None,
        f"memory://indexing/{path}",
        "uuid STRING, ts BIGINT, city STRING",
        properties=properties or {},
        **settled,
    )


def opened(table) -> OpenIndex:
    (index,) = open_indexes(table._snapshot(None))
    assert isinstance(index, OpenIndex), index
    return index


def entries(table) -> list[tuple[str, str]]:
    """Return what all runs of the index hold, as value and key."""
    index = opened(table)
    found = [
        (row[ENTRY_KEY][1:].partition(b"\0\0")[0].decode(), row[RECORD_KEY])
        for run in index.runs
        for batch in find_entries(index.storage, run.path, [EVERYTHING])
        for row in batch.to_pylist()
    ]
    return sorted(found)


def candidates(table, city: str) -> set[str]:
    index = opened(table)
    predicate = Predicate.parse(f"city = '{city}'", SCHEMA)
    ranges = key_ranges(["city"], index.kinds, constraints_of(predicate, SCHEMA, exact=True))
    return set(index.find(ranges.ranges, 1000).keys.column(RECORD_KEY).to_pylist())


def found(table, where: str) -> set[str]:
    """Return the keys of the rows that a read through the index returns."""
    assert any(note.used for note in table.explain(where=where).indexes)
    return set(table.read(where=where).read_all().column("uuid").to_pylist())


def folder_of(table) -> str:
    (definition,) = parse_definitions(table._snapshot(None).config.properties)
    return index_folder(table.config, definition)


class Interrupted(LocalExecutor):
    """An executor that lets others work once, before the first tasks of a stage."""

    def __init__(self, stage: str, deed) -> None:
        super().__init__(1)
        self.stage, self.deed = stage, deed

    def run(self, task, items, label, report=None):
        if self.deed is not None and label.startswith(self.stage):
            deed, self.deed = self.deed, None
            deed()
        return super().run(task, items, label, report)


class Meanwhile(FaultyStorage):
    """Lets others work, once, before an operation: when the first data file of a write appears."""

    deed = None
    place = "close p/"

    def run(self, op, act):
        if self.place in op and self.deed is not None:
            deed, self.deed = self.deed, None
            deed()
        return super().run(op, act)
