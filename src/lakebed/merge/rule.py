"""The rule of a merge: which version of a key survives."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

# A user's own merge: (older, newer), aligned by key and of one schema, to the merged rows.
Merger = Callable[[pa.RecordBatch, pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class MergeRule:
    """Which version of a key survives.

    Without ordering fields the version that arrived last; with them the one with the
    greatest ordering values, compared in order, and on a tie the one that arrived last.
    A null ordering value is lower than any other. A `merger` decides instead of both: it is
    called with the rows of two versions and gives the rows that stand for them.
    """

    ordering_fields: tuple[str, ...] = ()
    merger: Merger | None = None
