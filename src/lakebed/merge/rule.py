"""The rule of a merge: which version of a key survives."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.format.names.meta_columns import RECORD_KEY

# A user's own merge: (older, newer), aligned by key and of one schema, to the merged rows.
Merger = Callable[[pa.RecordBatch, pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Fill:
    """Which values of the version that wins give way to those of the version that loses.

    Nulls, or with a `marker` the texts that equal it. What gives way to a null is null, and
    nothing is taken from, or given to, a version that is deleted.
    """

    marker: str | None = None

    def gives_way(self, column: pa.Array | pa.ChunkedArray) -> pa.BooleanArray | None:
        """Return of each value whether it gives way; None if none of the column's does."""
        if self.marker is None:
            return pc.is_null(column) if column.null_count else None
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            return None
        marker = pa.scalar(self.marker, column.type)
        return pc.fill_null(pc.equal(column, marker), False)


@dataclass(frozen=True, slots=True)
class MergeRule:
    """Which version of a key survives.

    Without ordering fields the version that arrived last; with them the one with the
    greatest ordering values, compared in order, and on a tie the one that arrived last.
    A null ordering value is lower than any other. A `merger` decides instead of both: it is
    called with the rows of two versions and gives the rows that stand for them.

    With `natural_deletes` a delete has no ordering value, whatever it carries: it beats what is
    older and loses to what is newer.

    Versions are resolved in sequence, oldest first: a version that loses gives no column, but for
    what `fill` takes from it, and a delete without an ordering value starts its key anew. With
    `logs_first` they are resolved as Apache Hudi 1.2 does it: the logs of a slice are folded among
    themselves before they meet the base file, a row that loses gives what a partial winner lacks,
    and a delete without an ordering value outlasts one that has it.

    `key` names the column by whose bytes, of strings their UTF-8, rows are ordered; rows that have
    it in common are versions of one another.
    """

    ordering_fields: tuple[str, ...] = ()
    merger: Merger | None = None
    fill: Fill | None = None
    natural_deletes: bool = False
    logs_first: bool = False
    key: str = RECORD_KEY

    @property
    def loser_gives(self) -> bool:
        """Whether a version that loses gives columns that the winner lacks."""
        return self.logs_first or self.fill is not None

    @property
    def is_associative(self) -> bool:
        """Return whether neighbouring versions may be merged before they meet the others.

        Not where a late row fills what it finds null: a row between the two may be in time. It
        holds for the rows of a write; among logs a delete without an ordering value is an
        exception under `logs_first`, see `merge/passes.py`.
        """
        return self.merger is None and self.fill is None
