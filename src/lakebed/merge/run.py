"""A run, the one thing that a merge reads, and the flags that its rows may carry.

A base file, a log, a block of one and a temporary file are all runs.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

# An optional uint8 column of a run's batches; without it every row has no flag.
FLAGS = "_lakebed_flags"
# The key is gone in this version; of its other columns only key and ordering values count.
DELETED = 1
# As the newer version it wins whatever the ordering says.
BARRIER = 2
# As the older version it loses whatever the ordering says: it has no ordering value.
OPEN = 4
# Hudi's delete without an ordering value: it beats what is older and loses to what is newer.
COMMIT_TIME_DELETE = DELETED | BARRIER | OPEN


@dataclass(frozen=True, slots=True)
class Run:
    """Batches in ascending order of the bytes of their key column, see `MergeRule.key`.

    A key may come more than once, oldest version first, also across two batches. `name` is
    what errors call the run: a file, and the offset of a block in it. In a partial run a column
    that a batch lacks means "keep the older value", otherwise null.

    A run that `yields` comes last although it is the oldest: it wins only by a greater ordering
    value, never over a delete without one. That is how Hudi reads a base file: logs are folded
    first, and what is left of them meets the base file once.

    A run that `repeats` may hold a key several times, and each of these rows is one for itself: it
    meets the versions of the other runs alone. Hudi's `insert` makes such base files.
    """

    name: str
    batches: Iterable[pa.RecordBatch]
    partial: bool = False
    yields: bool = False
    repeats: bool = False
