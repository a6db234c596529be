"""Compacts a secondary index: replaces the runs of commits with entries of the current rows.

`trigger.py` decides when, and whether the runs of small commits are only merged instead. Every key
that was written since the last compaction is looked up at one snapshot, and the entries of the row
found replace all others of that key. So stale and open entries are removed without any record of
earlier values. The result is a small delta beside the base runs, with the keys whose entries in the
base runs are stale. When the delta exceeds a share of the base runs, both are merged.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.commit.hold import TableHold, hold_table
from lakebed.errors import CorruptError, NotFoundError
from lakebed.format.names.meta_columns import PARTITION_PATH, RECORD_KEY
from lakebed.index.secondary.definition import IndexDefinition, index_names, parse_definitions
from lakebed.index.secondary.entries import (
    find_entries,
    key_entries,
    sort_entries,
    write_entries,
)
from lakebed.index.secondary.manifest import (
    CommitRuns,
    Manifest,
    RunFile,
    as_late,
    lost_commits,
    put_manifest,
    read_manifest,
)
from lakebed.index.secondary.open_index import OpenIndex, UnusableIndex, index_folder, open_index
from lakebed.model.options.services import IndexOptions
from lakebed.services.indexing.build import (
    delete_unlisted,
    find_index,
    keeps_hidden,
    merge_open,
    missing_index,
    write_base,
)
from lakebed.services.indexing.merge_runs import merge_commits, put_merged
from lakebed.services.indexing.parts import (
    EVERYTHING,
    PartTask,
    Stale,
    merge_parts,
    write_parts,
)
from lakebed.services.indexing.trigger import FEW_KEYS, Due, choose_runs, what_is_due
from lakebed.storage.storage import Storage
from lakebed.table.files.file_group import FileSlice
from lakebed.table.snapshot import Snapshot
from lakebed.table.view import TableView
from lakebed.write.pipeline import WriteTarget

log = logging.getLogger(__name__)

# If the share of changed entries exceeds _MERGE_SHARE, the delta is merged into the base runs; if
# it exceeds _REBUILD_SHARE, all rows are read instead of looking up the changed keys: a key that is
# looked up takes as long as some 40 rows of a scan. Up to FEW_KEYS keys are always looked up, and
# more than _MANY_KEYS never.
_MERGE_SHARE = 0.1
_REBUILD_SHARE = 0.02
_MANY_KEYS = 2_000_000
_LOOKUP_TASKS = 16


@dataclass(frozen=True, slots=True)
class IndexCompaction:
    """The result of compacting an index: the keys looked up, and the resulting entries and runs."""

    name: str
    changed: int
    entries: int
    runs: int

    def __str__(self) -> str:
        """Return the result as one sentence."""
        return (
            f"index {self.name}: {self.changed:,} changed keys looked up; now {self.entries:,} entries "
            f"in {self.runs:,} runs"
        )


@dataclass(frozen=True, slots=True)
class _Settled:
    """The new runs of an index, and the number of changed keys."""

    base: tuple[RunFile, ...]
    delta: CommitRuns
    changed: int
    keeps_hidden: bool


def due_indexes(snapshot: Snapshot, options: IndexOptions) -> list[str]:
    """Return the names of the indexes that are due for compaction."""
    found = []
    for index in parse_definitions(snapshot.config.properties):
        opened = open_index(snapshot, index)
        if (
            isinstance(opened, OpenIndex)
            and what_is_due(opened.manifest, options) is not Due.NOTHING
        ):
            found.append(index.name)
    return found


def compact_index(
    target: WriteTarget, name: str, options: IndexOptions | None = None, *, force: bool = False
) -> IndexCompaction | None:
    """Compact an index if it is due or `force` is set.

    Returns None if the index is not due, is not usable, or was changed by another process. Writers
    may continue meanwhile. If another process compacts the index too, one of the two results is
    discarded.
    """
    with hold_table(target.storage, target.clock, target.commits, clear=False) as hold:
        definition = find_index(hold.config, name)
        if definition is None:
            if name in index_names(hold.config.properties):
                log.warning("index %s is not compacted: its definition is damaged", name)
                return None
            raise missing_index(hold.config, name)
        snapshot, token = hold.snapshot, hold.clock.new_uuid()
        opened = open_index(snapshot, definition)
    if isinstance(opened, UnusableIndex):
        log.warning("index %s is not compacted: %s", name, opened.reason)
        return None
    before = opened.manifest
    settled = options or IndexOptions.of(snapshot.config.properties)
    due = Due.SETTLE if force else what_is_due(before, settled)
    if due is Due.NOTHING:
        return None
    if due is Due.MERGE:
        return _merge(target, definition, before, settled.max_runs, token)
    try:
        made = _settle(target, snapshot, definition, before, token)
    except NotFoundError:
        if not _is_changed(target, snapshot, definition, before):
            raise
        log.warning(
            "index %s: its files or those of the table changed while it was compacted", name
        )
        return None
    with hold_table(target.storage, target.clock, target.commits, clear=False) as hold:
        if not _put(hold, definition, before, snapshot, made, token):
            return None
    entries = sum(run.entries for run in (*made.base, *made.delta.entries))
    return IndexCompaction(name, made.changed, entries, len(made.base) + len(made.delta.files))


def _merge(
    target: WriteTarget, definition: IndexDefinition, before: Manifest, max_runs: int, token: str
) -> IndexCompaction | None:
    """Merge the runs of small commits; return None if another process changed the index first."""
    folder = index_folder(target.config, definition)
    commits, earlier = choose_runs(before, max_runs)
    try:
        new = merge_commits(target.storage, before, commits, earlier, f"{folder}/base-{token}")
    except NotFoundError:
        log.warning("index %s changed while its runs were merged", definition.name)
        return None
    with hold_table(target.storage, target.clock, target.commits, clear=False) as hold:
        if find_index(hold.config, definition.name) != definition or not put_merged(
            hold, folder, before, earlier, new
        ):
            for run in new.runs.files:
                if run.path not in before.files:
                    hold.storage.delete(run.path)
            log.warning("index %s changed while its runs were merged", definition.name)
            return None
    runs = [*before.base, *before.delta.files, *new.runs.files]
    return IndexCompaction(definition.name, 0, sum(run.entries for run in runs), len(runs))


def _is_changed(
    target: WriteTarget, snapshot: Snapshot, definition: IndexDefinition, before: Manifest
) -> bool:
    """Return whether the table or the index has changed since a compaction read them."""
    try:
        now = read_manifest(snapshot.storage, index_folder(snapshot.config, definition))
    except CorruptError:
        return True
    token = None if now is None else now.token
    return token != before.token or target.commits.active.load() != snapshot.timeline


def _settle(
    target: WriteTarget,
    snapshot: Snapshot,
    definition: IndexDefinition,
    manifest: Manifest,
    token: str,
) -> _Settled:
    storage, folder = snapshot.storage, index_folder(snapshot.config, definition)
    kinds = definition.resolve(snapshot.schema)
    assert kinds is not None, definition
    listed = [run for of in manifest.unsettled for run in of.files]
    # The table may have been compacted since these keys were left open.
    listed += manifest.delta.open
    read = {group.partition for group in manifest.whole} | manifest.emptied
    whole = [
        slice_
        for slice_ in (snapshot.within(read).slices if read else ())
        if slice_.group in manifest.whole or slice_.group.partition in manifest.emptied
    ]
    held = sum(run.entries for run in manifest.base)
    written = sum(run.entries for run in listed)
    many = min(_MANY_KEYS, max(FEW_KEYS, int(_REBUILD_SHARE * held)))
    if written > many or (whole and 2 * _cost(whole) > _cost(snapshot.slices)):
        return _rebuilt(target, snapshot, definition, token, written)
    label, prefix = f"compact index {definition.name}", f"{folder}/base-{token}"
    view, executor = snapshot.view(target.merger), target.executor
    work = [PartTask(view, definition, folder, (slice_,)) for slice_ in whole]
    written_parts = list(executor.run(write_parts, work, label))
    keys, read = _keys_of(storage, listed), _keys_of(storage, _values(written_parts))
    changed = sort_entries([keys, read])
    # The entries of a key can be replaced if every file group that may hold the key was searched:
    # unless keys are hashed, all those of its partition.
    index = snapshot.config.index
    if read.num_rows and (index is None or not index.hashes_keys):
        if changed.num_rows > many:
            return _rebuilt(target, snapshot, definition, token, changed.num_rows)
        keys = changed
    lookups = _lookups(view, snapshot, definition, folder, whole, keys)
    written_parts += executor.run(write_parts, lookups, label)
    new = _write_keys(storage, f"{prefix}-keys", [changed])
    touched = (*manifest.delta.deleted, *new)
    fresh = merge_parts(
        storage,
        definition,
        kinds,
        _values(written_parts),
        f"{prefix}-delta",
        executor,
        Stale(manifest.delta.entries, new, manifest.emptied),
    )
    still_open = merge_open(storage, definition, written_parts, prefix, executor)
    hidden = manifest.keeps_hidden or any(part.keeps_hidden for part in (*work, *lookups))
    if not manifest.emptied and sum(run.entries for run in touched) <= _MERGE_SHARE * held:
        # Few files, because each of the next compactions reads all of them.
        every = [_keys_of(storage, touched)]
        once = _write_keys(storage, f"{prefix}-stale", every)
        return _Settled(
            manifest.base, CommitRuns(fresh, still_open, once), changed.num_rows, hidden
        )
    stale = Stale(manifest.base, touched, manifest.emptied)
    base = merge_parts(storage, definition, kinds, fresh, prefix, executor, stale)
    return _Settled(base, CommitRuns(open=still_open), changed.num_rows, hidden)


def _rebuilt(
    target: WriteTarget,
    snapshot: Snapshot,
    definition: IndexDefinition,
    token: str,
    changed: int,
) -> _Settled:
    runs = write_base(target, snapshot, definition, token)
    return _Settled(runs.entries, CommitRuns(open=runs.open), changed, keeps_hidden(snapshot))


def _values(written: Iterable[CommitRuns]) -> list[RunFile]:
    return [part for of in written for part in of.entries]


def _lookups(
    view: TableView,
    snapshot: Snapshot,
    definition: IndexDefinition,
    folder: str,
    whole: Iterable[FileSlice],
    keys: pa.RecordBatch,
) -> list[PartTask]:
    """Return the tasks that look up keys in all slices of their partitions but those of `whole`."""
    wanted: dict[str, tuple[str, ...]] = {}
    partitions = keys.column(PARTITION_PATH).dictionary_encode()
    for code, partition in enumerate(partitions.dictionary.to_pylist()):
        of = pc.equal(partitions.indices, code)
        wanted[partition] = tuple(keys.column(RECORD_KEY).filter(of).to_pylist())
    if not wanted:
        return []
    done = {slice_.group for slice_ in whole}
    slices = [slice_ for slice_ in snapshot.within(wanted).slices if slice_.group not in done]
    asked = [slice_ for slice_ in slices if slice_.group.partition in wanted]
    # A task writes a part, so the keys of many small file groups share one.
    size = max(1, -(-len(asked) // _LOOKUP_TASKS))
    return [
        PartTask(
            view,
            definition,
            folder,
            tuple(some),
            tuple(wanted[one.group.partition] for one in some),
        )
        for some in (asked[start : start + size] for start in range(0, len(asked), size))
    ]


def _keys_of(storage: Storage, runs: Iterable[RunFile]) -> pa.RecordBatch:
    """Return the partitions and record keys of all entries of runs, each pair once."""
    batches = chain.from_iterable(find_entries(storage, run.path, [EVERYTHING]) for run in runs)
    return sort_entries(map(key_entries, batches))


def _write_keys(
    storage: Storage, prefix: str, keys: Iterable[pa.RecordBatch]
) -> tuple[RunFile, ...]:
    run = write_entries(storage, f"{prefix}.parquet", keys)
    return (run,) if run.entries else ()


def _put(
    hold: TableHold,
    definition: IndexDefinition,
    before: Manifest,
    snapshot: Snapshot,
    made: _Settled,
    token: str,
) -> bool:
    """Replace the manifest; return False if the index or the table changed too much meanwhile."""
    folder = index_folder(hold.config, definition)
    try:
        now = read_manifest(hold.storage, folder)
    except CorruptError:
        now = None
    # Archiving may have hidden that a commit was rolled back since its rows were looked up.
    settled = frozenset(commit.requested for commit in snapshot.timeline.commits)
    if (
        now is None
        or now.token != before.token
        or not now.is_complete
        or find_index(hold.config, definition.name) != definition
        or replace(now, settled=now.settled | settled).broken(hold.snapshot) is not None
        or lost_commits(hold.snapshot, settled)
    ):
        log.warning(
            "index %s changed while it was compacted; the result is discarded", definition.name
        )
        return False
    # Archiving may have accounted for later commits.
    ahead = any(not snapshot.timeline.is_committed(at) for at in now.covered)
    last = max(settled, default="")
    known = frozenset(before.commits).union(*(one.commits for one in before.merged))
    manifest = replace(
        now,
        token=token,
        mark=max(now.mark, before.mark),
        first=max(now.first, before.first),
        covered=now.covered | before.covered,
        settled=settled,
        made=snapshot.timeline.last_instant or "",
        base=made.base,
        delta=made.delta,
        commits={
            at: as_late(runs) if at < last else runs
            for at, runs in now.commits.items()
            if at not in before.commits
        },
        merged=tuple(
            replace(one, runs=as_late(one.runs)) if min(one.commits - known) < last else one
            for one in now.merged
            if not one.commits <= known
        ),
        whole=now.whole if ahead else frozenset(),
        emptied=now.emptied if ahead else frozenset(),
        keeps_hidden=made.keeps_hidden,
    )
    retired = (before.files | now.files) - manifest.files
    hold.lock.check()
    put_manifest(hold.storage, folder, replace(manifest, retired=tuple(sorted(retired))))
    # Readers that opened the manifest before this one may still use its files.
    for path in now.retired:
        if path not in manifest.files:
            hold.storage.delete(path)
    delete_unlisted(hold.storage, folder, manifest.files | retired)
    return True


def _cost(slices: Iterable[FileSlice]) -> int:
    return sum(slice_.cost_bytes for slice_ in slices)
