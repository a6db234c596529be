"""The merge rule: which version of a key survives."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.format.names.meta_columns import RECORD_KEY

# A custom merger: takes older and newer rows, aligned by key and of one schema, and merges them.
Merger = Callable[[pa.RecordBatch, pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Fill:
    """Which values of the winning version yield to those of the losing version.

    Nulls yield or, if there is a `marker`, the strings that equal it. A value that yields to a null
    becomes null, and a deleted version neither contributes nor receives values.
    """

    marker: str | None = None

    def gives_way(self, column: pa.Array | pa.ChunkedArray) -> pa.BooleanArray | None:
        """Return for each value whether it yields; None if no value of the column yields."""
        if self.marker is None:
            return pc.is_null(column) if column.null_count else None
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            return None
        marker = pa.scalar(self.marker, column.type)
        return pc.fill_null(pc.equal(column, marker), False)


@dataclass(frozen=True, slots=True)
class MergeRule:
    """Which version of a key survives.

    Without ordering fields, the version that arrived last survives. With ordering fields, the
    version with the greatest ordering values survives, compared in order; on a tie, the one that
    arrived last. A null ordering value is lower than any other. A `merger` replaces both rules: it
    is called with the rows of two versions and returns the merged rows.

    With `natural_deletes` the ordering values of a delete are ignored: a delete wins over older
    versions and loses to newer versions.

    Versions are resolved in sequence, oldest first: a version that loses contributes no column,
    except for values that `fill` takes from it, and a delete without an ordering value restarts its
    key. With `logs_first` versions are resolved as in Apache Hudi 1.2: the logs of a slice are
    merged with each other before they are merged with the base file, a row that loses supplies the
    columns that a partial winner lacks, and a delete without an ordering value is kept when a
    delete with an ordering value follows.

    `key` is the column by whose bytes (for strings, their UTF-8) rows are ordered; rows with the
    same key are versions of one another.
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

        False if a late row fills nulls, because a row between the two may not be late. The result
        applies to the rows of a write; among logs, a delete without an ordering value is an
        exception under `logs_first`, see `merge/passes.py`.
        """
        return self.merger is None and self.fill is None
