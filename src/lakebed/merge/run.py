"""Runs, the input of every merge, and the flags of their rows.

A base file, a log, a block of a log and a temporary file are all runs.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

# An optional uint8 column of a run's batches; without it no row has a flag.
FLAGS = "_lakebed_flags"
# This version deletes its key; only the key and the ordering values are defined.
DELETED = 1
# The newer version with this flag wins, whatever the ordering values.
BARRIER = 2
# The older version with this flag loses, whatever the ordering values: it has none.
OPEN = 4
# Hudi's delete without an ordering value: it wins over older versions and loses to newer ones.
COMMIT_TIME_DELETE = DELETED | BARRIER | OPEN


@dataclass(frozen=True, slots=True)
class Run:
    """Batches in ascending order of the bytes of their key column, see `MergeRule.key`.

    A key may occur more than once, oldest version first, also across two batches. `name` identifies
    the run in error messages: a file, and the offset of a block in the file. In a partial run, a
    column that a batch lacks means "keep the older value"; in any other run it means null.

    A run that `yields` comes last although it is the oldest: its rows win only by a greater
    ordering value, and never over a delete without one. Hudi reads a base file in this way: logs
    are merged first, and their result is merged with the base file once.

    A run that `repeats` may hold a key several times, and each of these rows is kept separately: it
    is merged only with the versions in other runs. Hudi's `insert` creates such base files.
    """

    name: str
    batches: Iterable[pa.RecordBatch]
    partial: bool = False
    yields: bool = False
    repeats: bool = False
