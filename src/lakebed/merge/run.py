"""Runs, the input of every merge, and the flags of their rows.

A base file, a log, a block of one and a temporary file are all runs.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

# An optional uint8 column of a run's batches; without it no row has a flag.
FLAGS = "_lakebed_flags"
# The key is deleted in this version; only its key and ordering values are defined.
DELETED = 1
# As the newer version it wins whatever the ordering values.
BARRIER = 2
# As the older version it loses whatever the ordering values: it has none.
OPEN = 4
# Hudi's delete without an ordering value: it wins over what is older and loses to what is newer.
COMMIT_TIME_DELETE = DELETED | BARRIER | OPEN


@dataclass(frozen=True, slots=True)
class Run:
    """Batches in ascending order of the bytes of their key column, see `MergeRule.key`.

    A key may occur more than once, oldest version first, also across two batches. `name` identifies
    the run in errors: a file, and the offset of a block in it. In a partial run, a column that a
    batch lacks means "keep the older value", otherwise null.

    A run that `yields` comes last although it is the oldest: it wins only by a greater ordering
    value, never over a delete without one. That is how Hudi reads a base file: logs are merged
    first, and their result meets the base file once.

    A run that `repeats` may hold a key several times, and each of these rows is kept separately: it
    meets the versions of the other runs alone. Hudi's `insert` creates such base files.
    """

    name: str
    batches: Iterable[pa.RecordBatch]
    partial: bool = False
    yields: bool = False
    repeats: bool = False
