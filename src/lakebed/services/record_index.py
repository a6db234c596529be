"""Compacts the record index: merges runs, and adds the keys of file groups that it does not cover.

The runs are merged outside the lock. The new manifest is written under the lock, unless another
process has written one meanwhile. Runs that it no longer lists are deleted by the next compaction: a
writer that has read the previous manifest may still be using them.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pyarrow as pa

from lakebed.commit.hold import TableHold, hold_table
from lakebed.errors import DAMAGE_ERRORS
from lakebed.index.kinds import strategy_of
from lakebed.index.record.entries import (
    ENTRIES_RULE,
    ENTRIES_SCHEMA,
    drop_places,
    from_holders,
    read_entries,
    unique_places,
    write_entries,
)
from lakebed.index.record.state import RECORD_INDEX_FOLDER, RecordIndexState, open_record_index
from lakebed.index.secondary.manifest import (
    MANIFEST_NAME,
    Manifest,
    RunFile,
    put_manifest,
    read_manifest,
)
from lakebed.index.simple import SimpleLocator
from lakebed.merge.passes import merge_in_passes
from lakebed.merge.run import Run
from lakebed.table.files.file_group import FileGroupId, FileSlice
from lakebed.table.read.spill import Spills
from lakebed.table.snapshot import Snapshot, load_snapshot
from lakebed.table.view import TableView
from lakebed.write.pipeline import WriteTarget

log = logging.getLogger(__name__)

MAX_RUNS: Final = 16
"""The index is compacted when it has more runs than this."""
_MERGED: Final = "merged-"


@dataclass(frozen=True, slots=True)
class RecordIndexCompaction:
    """The result of a compaction of the record index."""

    merged: int
    groups: int
    entries: int

    def __str__(self) -> str:
        return (
            f"record index: merged {self.merged} runs and the keys of {self.groups} file groups into "
            f"{self.entries:,} entries"
        )


@dataclass(frozen=True, slots=True)
class _Plan:
    """The runs to keep and to merge, and the file slices whose keys are added.

    With `rebuilds`, none of the existing runs is used. The keys of the file groups `whole` cannot be
    read now; their files may be restored from a backup.
    """

    kept: tuple[RunFile, ...]
    merged: tuple[RunFile, ...]
    slices: tuple[FileSlice, ...]
    whole: frozenset[FileGroupId]
    rebuilds: bool = False


def compact_record_index(
    target: WriteTarget, *, rebuild: bool = False
) -> RecordIndexCompaction | None:
    """Compact the index if it is due, or rebuild it from the files; None if nothing was done."""
    index = target.config.index
    if index is None or not index.records_keys:
        return None
    snapshot = load_snapshot(target.storage, target.config, commits=target.commits)
    before = _stored_token(snapshot)
    state = RecordIndexState(None) if rebuild else open_record_index(snapshot)
    plan = _plan(snapshot, state)
    if plan is None:
        return None
    token = f"{_generation(before) + 1:08}-{target.clock.new_uuid()}"
    path = f"{RECORD_INDEX_FOLDER}/{_MERGED}{token}.parquet"
    try:
        with Spills() as spills:
            runs = list(_runs(snapshot, plan))
            merged = merge_in_passes(runs, ENTRIES_RULE, ENTRIES_SCHEMA, spills.spill)
            run = write_entries(target.storage, path, _plain(merged))
    except DAMAGE_ERRORS as error:
        if plan.rebuilds:
            raise
        log.warning("%s; the record index is rebuilt", error)
        return compact_record_index(target, rebuild=True)
    with hold_table(
        target.storage, target.clock, target.commits, clear=False, retires=False
    ) as hold:
        # Another process may have compacted the index meanwhile.
        unchanged = _stored_token(hold.snapshot) == before
        manifest = replace(Manifest.at(snapshot.timeline), is_complete=True, token=token)
        if not unchanged or manifest.broken(hold.snapshot) is not None:
            target.storage.delete(path)
            return None
        _publish(hold, manifest, replace(plan, kept=(*plan.kept, run)))
    return RecordIndexCompaction(len(plan.merged), len(plan.slices), run.entries)


def account_for_record_index(hold: TableHold) -> None:
    """Account for the commits of the timeline, both before and after some of them are archived."""
    index = hold.config.index
    if index is None or not index.records_keys:
        return
    try:
        stored = read_manifest(hold.storage, RECORD_INDEX_FOLDER)
    except DAMAGE_ERRORS:
        return  # the next write rebuilds the index
    if stored is None:
        return
    current = open_record_index(hold.snapshot).manifest
    if current is not None:
        put_manifest(hold.storage, RECORD_INDEX_FOLDER, current)
    elif stored.broken(hold.snapshot) is not None:
        # After archiving, the rollback of a commit could no longer be detected.
        hold.storage.delete(f"{RECORD_INDEX_FOLDER}/{MANIFEST_NAME}")


def _plan(snapshot: Snapshot, state: RecordIndexState) -> _Plan | None:
    """Return the plan of a compaction; None if the index is complete and has few enough runs."""
    assert snapshot.config.index is not None
    part = snapshot
    if state.whole is not None:
        part = snapshot.within(group.partition for group in state.whole)
    groups = frozenset(part.groups) if state.whole is None else state.whole & part.groups.keys()
    slices = tuple(
        slice_
        for slice_ in strategy_of(snapshot.config.index).indexed_slices(part)
        if slice_.group in groups
    )
    left = groups - {slice_.group for slice_ in slices}
    if state.whole is None:
        return _Plan((), (), slices, left, rebuilds=True)
    if not slices and not state.is_stale and len(state.runs) <= MAX_RUNS:
        return None
    kept = sorted(state.runs, key=lambda run: (run.entries, run.path))
    merged: list[RunFile] = []
    # Small runs are merged. A large run is merged only with at least as many entries as it has
    # itself, so each entry is rewritten only a few times, however many commits there are.
    while kept and (len(kept) > MAX_RUNS // 2 or kept[0].entries <= _entries(merged)):
        merged.append(kept.pop(0))
    return _Plan(tuple(kept), tuple(merged), slices, left)


def _entries(runs: Sequence[RunFile]) -> int:
    return sum(run.entries for run in runs)


def _runs(snapshot: Snapshot, plan: _Plan) -> Iterator[Run]:
    replaced = [FileGroupId(path, id_) for path, ids in snapshot.replaced.items() for id_ in ids]
    for run in plan.merged:
        yield Run(run.path, _live_entries(snapshot, run, replaced))
    view = snapshot.view()
    for slice_ in plan.slices:
        yield Run(f"file group {slice_.group}", file_entries(view, slice_))


def _live_entries(
    snapshot: Snapshot, run: RunFile, replaced: Sequence[FileGroupId]
) -> Iterator[pa.RecordBatch]:
    for batch in read_entries(snapshot.storage, run.path, None):
        yield drop_places(batch, replaced)


def file_entries(view: TableView, slice_: FileSlice) -> Iterator[pa.RecordBatch]:
    """Yield an entry for each key of a file slice, in key order."""
    for source in SimpleLocator().key_sources(view, [slice_], None):
        yield from map(partial(from_holders, groups=[slice_.group]), source.open(view).batches)


def _plain(merged: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in merged:
        columns = [batch.column(name) for name in ENTRIES_SCHEMA.names]
        yield unique_places(pa.RecordBatch.from_arrays(columns, schema=ENTRIES_SCHEMA))


def _stored_token(snapshot: Snapshot) -> str:
    """Return the token of the manifest: a generation, and the id of the compaction."""
    try:
        manifest = read_manifest(snapshot.storage, RECORD_INDEX_FOLDER)
    except DAMAGE_ERRORS:
        return "damaged"
    return "" if manifest is None else manifest.token


def _generation(token: str) -> int:
    number = token.partition("-")[0]
    return int(number) if number.isdigit() else 0


def _publish(hold: TableHold, manifest: Manifest, plan: _Plan) -> None:
    """Write the manifest with the runs of a plan, and delete files that are no longer in use."""
    entries = hold.storage.list(RECORD_INDEX_FOLDER)
    there = [entry.path for entry in entries if not entry.path.endswith(MANIFEST_NAME)]
    listed = {run.path for run in plan.kept}
    retired = set(there) if plan.rebuilds else {run.path for run in plan.merged}
    put_manifest(
        hold.storage,
        RECORD_INDEX_FOLDER,
        replace(
            manifest,
            base=plan.kept,
            whole=plan.whole,
            retired=tuple(sorted(retired - listed)),
        ),
    )
    for path in there:
        if path not in listed and path not in retired and _is_over(path, manifest, hold):
            hold.storage.delete(path)


def _is_over(path: str, manifest: Manifest, hold: TableHold) -> bool:
    """Return whether a file that the manifest does not list can be deleted.

    It must belong to an older compaction, or to a commit that is covered or archived.
    """
    name = path.rpartition("/")[2]
    if name.startswith(_MERGED):
        # A compaction that is still running may write a file of this generation.
        return _generation(name.removeprefix(_MERGED)) < _generation(manifest.token)
    instant = name.partition("_")[0]
    archived = instant.isdigit() and hold.timeline.is_archived(instant)
    return instant in manifest.covered or archived
