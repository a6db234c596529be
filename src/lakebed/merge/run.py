"""Runs, which are the input of every merge, and the flags of their rows.

A base file, a log, a block of a log and a temporary file are all runs.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

# An optional uint8 column of a run's batches; without it, no row has a flag.
FLAGS = "_lakebed_flags"
# This version deletes its key; only the key and the ordering values are defined.
DELETED = 1
# As the newer version, a version with this flag wins, whatever the ordering values.
BARRIER = 2
# As the older version, a version with this flag loses, because it has no ordering values.
OPEN = 4
# Hudi's delete without an ordering value: it wins over older versions and loses to newer ones.
COMMIT_TIME_DELETE = DELETED | BARRIER | OPEN


@dataclass(frozen=True, slots=True)
class Run:
    """Batches in ascending order of the bytes of their key column (`MergeRule.key`).

    A key may be repeated, oldest version first, also across batches. `name` identifies the run in
    error messages: a file, and the offset of a block in it. In a partial run, a column that a batch
    lacks keeps its older value; in any other run, it is null.

    A run that `yields` comes last although it is the oldest: its rows win only by a greater
    ordering value, and never over a delete without one. Hudi reads base files this way: it merges
    the logs first, and then merges the result with the base file.

    In a run that `repeats`, rows with the same key are kept separately: each is merged only with
    versions in other runs. Hudi's `insert` creates such base files.
    """

    name: str
    batches: Iterable[pa.RecordBatch]
    partial: bool = False
    yields: bool = False
    repeats: bool = False
