"""The merge rule: which version of a key survives."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.format.names.meta_columns import RECORD_KEY

# A custom merger: returns the merge of older and newer rows, aligned by key and of one schema.
Merger = Callable[[pa.RecordBatch, pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Fill:
    """The values of the winning version that yield to those of the losing version.

    These are nulls or, with a `marker`, the strings equal to it. A value that yields to a null
    becomes null, and a deleted version neither contributes nor receives values.
    """

    marker: str | None = None

    def gives_way(self, column: pa.Array | pa.ChunkedArray) -> pa.BooleanArray | None:
        """Return for each value whether it yields; None if none in the column does."""
        if self.marker is None:
            return pc.is_null(column) if column.null_count else None
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            return None
        marker = pa.scalar(self.marker, column.type)
        return pc.fill_null(pc.equal(column, marker), False)


@dataclass(frozen=True, slots=True)
class MergeRule:
    """Which version of a key survives.

    Without ordering fields, it is the version that arrived last. With ordering fields, it is the
    version with the greatest ordering values, compared in order; on a tie, the one that arrived
    last. A null ordering value is lower than any other. A `merger` replaces both rules: it is
    called with the rows of two versions and returns the merged rows.

    With `natural_deletes`, ordering values of deletes are ignored: a delete wins over older
    versions and loses to newer ones.

    Versions are resolved in sequence, oldest first. A version that loses contributes nothing,
    except values that `fill` takes from it, and a delete without an ordering value restarts its
    key. With `logs_first`, versions are resolved as in Apache Hudi 1.2: the logs of a slice are
    merged with each other before they are merged with the base file, a row that loses supplies
    columns that a partial winner lacks, and a delete without an ordering value is kept when a
    delete with one follows.

    `key` is the column whose bytes (for strings, UTF-8) order the rows; rows with equal keys are
    versions of one row.
    """

    ordering_fields: tuple[str, ...] = ()
    merger: Merger | None = None
    fill: Fill | None = None
    natural_deletes: bool = False
    logs_first: bool = False
    key: str = RECORD_KEY

    @property
    def loser_gives(self) -> bool:
        """Return whether a version that loses supplies columns that the winner lacks."""
        return self.logs_first or self.fill is not None

    @property
    def is_associative(self) -> bool:
        """Return whether neighbouring versions may be merged before the others.

        This is false with `fill`, because filling depends on which rows are late, and with a
        merger. It applies to the rows of a write; for logs with `logs_first`, see the exception in
        `merge/passes.py`.
        """
        return self.merger is None and self.fill is None
