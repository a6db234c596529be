"""Checks that writes can use the record index, and that it has every key of the files."""

from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import DAMAGE_ERRORS, LakebedError
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.index.kinds import strategy_of
from lakebed.index.record.entries import (
    ENTRIES_RULE,
    ENTRIES_SCHEMA,
    PLACES,
    list_places,
    read_entries,
)
from lakebed.index.record.state import RECORD_INDEX_FOLDER, RecordIndexState, open_record_index
from lakebed.merge.passes import merge_in_passes
from lakebed.merge.rule import MergeRule
from lakebed.merge.run import Run
from lakebed.merge.window import merge_runs
from lakebed.services.record_index import file_entries
from lakebed.services.verify.findings import Code, Finding, Mend, Severity
from lakebed.storage.storage import Storage
from lakebed.table.config.table_config import TableConfig
from lakebed.table.read.spill import Spills
from lakebed.table.snapshot import Snapshot, load_snapshot

# The places of a key in the files.
_FILES = "_lakebed_files"


def check_record_index(
    storage: Storage, config: TableConfig, *, quick: bool = False, pages: bool = False
) -> Iterator[Finding]:
    """Find an index that writes cannot use; unless `quick`, also keys that it does not find.

    With `pages` or unless `quick`, every page of the index is read.
    """
    if config.index is None or not config.index.records_keys:
        return
    try:
        snapshot = load_snapshot(storage, config)
        state = open_record_index(snapshot)
        if state.whole is None:
            if snapshot.timeline.commits:
                yield _unusable("the record index is missing or damaged")
            return
        problem = _damage(snapshot, state) if pages or not quick else None
        if problem is not None:
            yield _unusable(problem)
            return
        missing = _Missing() if quick else _find_missing(snapshot, state)
    except LakebedError as error:
        note = f"the record index was not compared with the files: {error}"
        yield Finding(Severity.NOTE, Code.FILE_UNSUPPORTED, note, path=RECORD_INDEX_FOLDER)
        return
    if missing.count:
        yield Finding(
            Severity.ERROR,
            Code.INDEX_INCOMPLETE,
            f"the record index does not find {missing.count:,} keys, one of them {missing.example!r}; an "
            "upsert would add them again",
            path=RECORD_INDEX_FOLDER,
            key=missing.example,
            mend=Mend.BUILD_INDEX,
        )


def _unusable(problem: str) -> Finding:
    return Finding(
        Severity.WARNING,
        Code.INDEX_UNUSABLE,
        f"{problem}; writes look keys up in the files instead",
        path=RECORD_INDEX_FOLDER,
        mend=Mend.BUILD_INDEX,
    )


def _damage(snapshot: Snapshot, state: RecordIndexState) -> str | None:
    """Return the problem of the first run that cannot be read; None if all can be read."""
    try:
        for run in state.runs:
            deque(_entries(snapshot, run.path), maxlen=0)
    except DAMAGE_ERRORS as error:
        return str(error)
    return None


@dataclass(slots=True)
class _Missing:
    """The number of keys whose file groups the index lacks, and one such key."""

    count: int = 0
    example: str | None = None


def _find_missing(snapshot: Snapshot, state: RecordIndexState) -> _Missing:
    missing = _Missing()
    with ExitStack() as stack:
        spills = stack.enter_context(Spills())
        indexed = _merged(
            [Run(run.path, _entries(snapshot, run.path)) for run in state.runs], spills
        )
        held = _merged(list(_file_runs(snapshot, state)), spills)
        renamed = (batch.rename_columns([RECORD_KEY, _FILES]) for batch in held)
        schema = ENTRIES_SCHEMA.append(pa.field(_FILES, pa.string()))
        schema = pa.schema([field.with_nullable(True) for field in schema])
        runs = [Run("the record index", indexed), Run("the files", renamed, partial=True)]
        for batch in merge_runs(runs, MergeRule(), schema):
            there = batch.filter(pc.is_valid(batch.column(_FILES)))
            lost = _lacking(there)
            if lost.size:
                missing.count += lost.size
                missing.example = there.column(RECORD_KEY)[int(lost[0])].as_py()
    return missing


def _merged(runs: list[Run], spills: Spills) -> Iterator[pa.RecordBatch]:
    for batch in merge_in_passes(runs, ENTRIES_RULE, ENTRIES_SCHEMA, spills.spill):
        yield pa.RecordBatch.from_arrays(
            [batch.column(name) for name in ENTRIES_SCHEMA.names], schema=ENTRIES_SCHEMA
        )


def _entries(snapshot: Snapshot, path: str) -> Iterator[pa.RecordBatch]:
    return read_entries(snapshot.storage, path, None)


def _file_runs(snapshot: Snapshot, state: RecordIndexState) -> Iterator[Run]:
    assert snapshot.config.index is not None
    view = snapshot.view()
    for slice_ in strategy_of(snapshot.config.index).indexed_slices(snapshot):
        if slice_.group not in (state.whole or ()):
            yield Run(f"file group {slice_.group.file_id}", file_entries(view, slice_))


def _lacking(rows: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the positions of keys that are in a file group which the index does not list."""
    held, files = list_places(rows.column(_FILES))
    known, places = list_places(rows.column(PLACES))
    both = pa.concat_arrays([files, places]).dictionary_encode()
    codes = both.indices.to_numpy().astype(np.int64)
    size = len(both.dictionary) + 1
    wanted = held * size + codes[: len(files)]
    found = np.isin(wanted, known * size + codes[len(files) :])
    return np.unique(held[~found])
