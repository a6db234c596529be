"""Proposes secondary indexes that past reads could have used instead of scanning.

If `lakebed.index.advisor` is set, each read that uses no index records the shape of its predicate in
a small file: which columns were compared with values and which with ranges, how many reads there
were, and how much they read. Values are not stored. A reader that may not write the file raises no
error. If two processes write at the same time, the records of one are lost.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from lakebed.errors import LakebedError, NotFoundError, SchemaError
from lakebed.expr.constraints import constraints_of
from lakebed.format.names.meta_columns import META_COLUMNS
from lakebed.index.secondary.definition import IndexDefinition
from lakebed.scan.scan import Scan
from lakebed.scan.value_lookup import leading_columns
from lakebed.services.indexing.estimate import IndexEstimate, estimate_index
from lakebed.storage.storage import Storage
from lakebed.table.snapshot import Snapshot
from lakebed.terminal.text import plural, size_text

PATH: Final = ".hoodie/lakebed/advisor.json"
_MAX_SHAPES: Final = 64
_MAX_ADVICE: Final = 5
# The first read of a process is recorded at once, later reads in batches.
_EVERY: Final = 16

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """The columns that a predicate compares with values, and with ranges."""

    values: tuple[str, ...]
    ranges: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Past:
    """The number of past reads with one shape, and roughly how many bytes they read."""

    reads: int
    size_bytes: int

    def __add__(self, other: "Past") -> "Past":
        return Past(self.reads + other.reads, self.size_bytes + other.size_bytes)


@dataclass(frozen=True, slots=True)
class IndexAdvice:
    """An index that past reads could have used, how many, what they scanned, and its estimate."""

    columns: tuple[str, ...]
    reads: int
    scanned_bytes: int
    estimate: IndexEstimate

    def __str__(self) -> str:
        done = f"{plural(self.reads, 'read')} scanned {size_text(self.scanned_bytes)}"
        return f"{done} without an {self.estimate}"


class ScanLog:
    """Collects the shapes of predicates whose reads used no index, and adds them to the file."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._waiting: dict[Shape, Past] = {}
        self._noted = 0

    def note(self, scan: Scan) -> None:
        """Record a read that used no index and no record keys."""
        shape = _shape(scan)
        if shape is None:
            return
        self._noted += 1
        _add(self._waiting, shape, Past(1, scan.cost_bytes))
        if self._noted % _EVERY == 1:
            self.write()

    def write(self) -> None:
        """Add the recorded reads to the file."""
        try:
            held = dict(read_shapes(self._storage))
            for shape, past in self._waiting.items():
                _add(held, shape, past)
            kept = sorted(held.items(), key=lambda item: (-item[1].reads, item[0]))[:_MAX_SHAPES]
            rows = [
                {"values": s.values, "ranges": s.ranges, "reads": p.reads, "bytes": p.size_bytes}
                for s, p in kept
            ]
            self._storage.put(PATH, json.dumps(rows, ensure_ascii=False).encode())
        except LakebedError as error:
            log.debug("predicates of reads were not written: %s", error)
        self._waiting = {}


def read_shapes(storage: Storage) -> Mapping[Shape, Past]:
    """Return the shapes of past reads; none if the file is missing or damaged."""
    try:
        rows = json.loads(storage.read(PATH))
        return {
            Shape(tuple(map(str, row["values"])), tuple(map(str, row["ranges"]))): Past(
                int(row["reads"]), int(row["bytes"])
            )
            for row in rows
        }
    except (NotFoundError, ValueError, KeyError, TypeError):
        return {}


def advise_indexes(
    snapshot: Snapshot, definitions: Iterable[IndexDefinition]
) -> tuple[IndexAdvice, ...]:
    """Propose the indexes that would have saved the most, if they are selective enough.

    The number of rows in a range is unknown, so only columns compared with values are judged.
    """
    known = list(definitions)
    found: list[IndexAdvice] = []
    shapes = read_shapes(snapshot.storage).items()
    for shape, past in sorted(shapes, key=lambda item: (-item[1].size_bytes, item[0])):
        columns = (*shape.values, *shape.ranges[:1])
        there = [*(definition.columns for definition in known), *(one.columns for one in found)]
        if not shape.values or any(set(columns) == set(of[: len(columns)]) for of in there):
            continue
        if any(leading_columns(of, shape.values) == len(of.columns) for of in known):
            continue
        try:
            selective = estimate_index(snapshot, shape.values).is_selective
            estimate = estimate_index(snapshot, columns)
        except SchemaError:
            continue  # a column was dropped, or has no order
        if selective:
            found.append(IndexAdvice(columns, past.reads, past.size_bytes, estimate))
    return tuple(found[:_MAX_ADVICE])


def _shape(scan: Scan) -> Shape | None:
    keys = scan.key_filter
    if scan.predicate is None or scan.candidates is not None or (keys and keys.is_exact):
        return None
    demands = constraints_of(scan.predicate, scan.full_schema, exact=True).columns
    # Folders are skipped by partition columns without an index.
    others = {*META_COLUMNS, *scan.view.config.partition_fields}
    stated = {name: allowed for name, allowed in demands.items() if name not in others}
    values = sorted(name for name, allowed in stated.items() if allowed.values is not None)
    ranges = sorted(
        name
        for name, allowed in stated.items()
        if allowed.values is None and (allowed.lower is not None or allowed.upper is not None)
    )
    return Shape(tuple(values), tuple(ranges)) if values or ranges else None


def _add(held: dict[Shape, Past], shape: Shape, past: Past) -> None:
    held[shape] = held.get(shape, Past(0, 0)) + past
