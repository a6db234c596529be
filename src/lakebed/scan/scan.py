"""The slices, columns and keys that one read touches, determined before the first row is read.

An incremental read is a scan of other slices, which returns only the rows of its commits.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.expr.predicate import Predicate
from lakebed.format.names.data_names import BaseFileName, parse_data_name
from lakebed.format.names.meta_columns import COMMIT_TIME, META_FIELDS, RECORD_KEY
from lakebed.index.secondary.open_index import open_indexes
from lakebed.merge.align import align
from lakebed.merge.rule import Merger
from lakebed.scan.candidates import CandidateKeys, keys_cost
from lakebed.scan.index_choice import (
    Choice,
    Found,
    Indexes,
    IndexNote,
    choose_indexes,
    find_candidates,
)
from lakebed.scan.prune import prune_slices, within_predicate
from lakebed.scan.prune_step import PruneStep
from lakebed.scan.slice_size import ReadSize, measure_slice
from lakebed.table.changes.column_types import check_column_types
from lakebed.table.changes.commit_files import gone
from lakebed.table.changes.commit_range import RangeCommit
from lakebed.table.changes.incremental import incremental_slices, written_groups
from lakebed.table.changes.log_compactions import superseded_files
from lakebed.table.changes.past_slices import GroupHistory, PastSlice
from lakebed.table.changes.touched_keys import logged_keys
from lakebed.table.files.damage import check_whole
from lakebed.table.files.file_group import FileGroupId, FileSlice, LogFile, LostFile
from lakebed.table.read.key_filter import KeyFilter
from lakebed.table.read.row_group_filter import RowGroupFilter
from lakebed.table.read.run_source import RunSource
from lakebed.table.read.slice_reader import (
    all_sources,
    narrow_slice,
    read_slice,
    read_written,
)
from lakebed.table.snapshot import Snapshot
from lakebed.table.view import TableView
from lakebed.timeline.timeline import COMMIT_ACTIONS

FindSources = Callable[[FileSlice], Sequence[RunSource]]


@dataclass(frozen=True, slots=True)
class Scan:
    """One read of a table as of one point in time; pickled to workers.

    `slices` may hold a matching row; `key_filter` has the keys that such a row can have. If
    secondary indexes were used, `candidates` narrows these keys further, by partition. With
    `commits`, only rows written by one of these instants are returned, and within a slice they are
    merged only with each other; `wholes` are the complete slices, for logs with partial rows.
    `steps` and `notes` record how the slices were selected, and which indexes were used.
    """

    view: TableView
    columns: tuple[str, ...]
    predicate: Predicate | None
    slices: tuple[FileSlice, ...]
    key_filter: KeyFilter | None
    commits: tuple[str, ...] | None = None
    wholes: Mapping[FileGroupId, PastSlice] = field(default_factory=dict)
    candidates: CandidateKeys | None = None
    steps: tuple[PruneStep, ...] = ()
    notes: tuple[IndexNote, ...] = ()

    @property
    def full_schema(self) -> pa.Schema:
        """Return the meta columns and the table's columns."""
        return pa.schema([*META_FIELDS, *self.view.schema])

    @property
    def cost_bytes(self) -> int:
        """Return the estimated number of bytes that the scan reads.

        In files that are read for a few keys, most row groups are skipped.
        """
        return sum(map(self.cost_of, self.slices))

    def cost_of(self, slice_: FileSlice) -> int:
        """Return the estimated number of bytes that a read of one slice takes."""
        keys = self.keys_of(slice_)
        if keys is None or not keys.is_exact or not (self.candidates or keys.is_few):
            return slice_.cost_bytes
        return keys_cost(slice_, 1 if keys.is_few else len(keys.keys or ()))

    def keys_of(self, slice_: FileSlice) -> KeyFilter | None:
        """Return the keys to read from one slice; None for all keys."""
        found = None if self.candidates is None else self.candidates.of(slice_.group)
        return self.key_filter if found is None else found

    def is_narrowed(self, slice_: FileSlice) -> bool:
        """Return whether only the candidates of an index are read from a slice."""
        return self.candidates is not None and self.candidates.of(slice_.group) is not None

    def empty(self) -> pa.Table:
        """Return an empty table with the columns of the scan."""
        return pa.schema([self.full_schema.field(name) for name in self.columns]).empty_table()

    @property
    def needed_columns(self) -> list[str]:
        """Return the columns to read: the requested columns, and the columns of the predicate."""
        tested = () if self.predicate is None else self.predicate.columns
        return list(dict.fromkeys((*self.columns, *tested)))

    def narrowed(self) -> "Scan":
        """Return the scan with each slice reduced to one column group, where that suffices."""
        if self.commits is not None or not self.view.column_groups:
            return self
        names = self.needed_columns
        return replace(
            self, slices=tuple(narrow_slice(self.view, slice_, names) for slice_ in self.slices)
        )

    @property
    def is_lookup(self) -> bool:
        """Return whether only some keys are read, so that footers are worth keeping."""
        keys = self.key_filter
        return self.candidates is not None or (keys is not None and keys.is_few)

    def check_readable(self, find: FindSources | None = None) -> None:
        """Inspect the logs of one slice, so that an unsupported kind is reported by this call.

        Slices that are known to be damaged raise an error. The other slices are inspected when they
        are read: opening every log here would cost more than most reads. `find` returns the runs of
        a slice, if the caller keeps them.
        """
        check_whole(self.slices)
        merged = next((slice_ for slice_ in self.slices if slice_.needs_merge), None)
        if merged is not None:
            (find or self.sources)(merged)

    def sources(self, slice_: FileSlice) -> Sequence[RunSource]:
        """Return the runs of a slice."""
        return all_sources(self.view, slice_)

    def read(
        self,
        slice_: FileSlice,
        columns: Sequence[str],
        sources: Sequence[RunSource] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one slice, merged and filtered; `columns` include `needed_columns`."""
        if self.commits is None:
            batches = self._read(slice_, columns, sources)
        else:
            batches = self._read_commits(slice_, columns, pa.array(self.commits))
        for batch in batches:
            kept = batch if self.predicate is None else self.predicate.filter(batch)
            if kept.num_rows:
                yield kept

    def _read_commits(
        self,
        slice_: FileSlice,
        columns: Sequence[str],
        commits: pa.StringArray,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a slice that the scan's commits wrote.

        Unless versions are resolved in sequence, a row that was superseded by a row of another
        commit is yielded too, as in Hudi.
        """
        wanted = list(dict.fromkeys([*columns, RECORD_KEY, COMMIT_TIME]))
        if self.view.config.is_lsm_tree:
            keys = self.key_filter or self._written_keys(slice_)
            if self.view.column_groups:
                rows = read_written(self.view, slice_, wanted, commits, keys)
                yield from (batch.select(columns) for batch in rows)
                return
            for batch in self._read(slice_, wanted, key_filter=keys):
                ours = pc.is_in(batch.column(COMMIT_TIME), value_set=commits)
                yield batch.filter(ours).select(columns)
            return
        whole = self._whole_of_parts(slice_)
        merged = self._read(whole or slice_, wanted)
        if whole is not None or slice_.base_file is None or not slice_.needs_merge:
            for batch in merged:
                ours = pc.is_in(batch.column(COMMIT_TIME), value_set=commits)
                yield batch.filter(ours).select(columns)
            return
        logged = self._read(replace(slice_, base_file=None), wanted)
        schema = pa.schema([self.full_schema.field(name) for name in wanted])
        for rows, logs in align(merged, logged, RECORD_KEY, schema):
            ours = pc.is_in(rows.column(COMMIT_TIME), value_set=commits)
            yield rows.filter(ours).select(columns)
            others = rows.column(RECORD_KEY).filter(pc.invert(ours))
            lost = logs.filter(pc.is_in(logs.column(RECORD_KEY), value_set=others))
            counts = pc.is_in(lost.column(COMMIT_TIME), value_set=commits)
            yield lost.filter(counts).select(columns)

    def _written_keys(self, slice_: FileSlice) -> KeyFilter | None:
        """Return the keys that the logs of the commits touch; None if any key may be needed.

        A base file may hold rows of any commit that completed before it was planned, and so may a
        log that a log compaction wrote. In other logs all rows belong to the commit of the log.
        """
        assert self.commits is not None
        ours, parts = set(self.commits), slice_.by_group
        bases = [part.base_file for part in parts.values()]
        if any(base is None or base.name.instant >= min(ours) for base in bases):
            return None
        if not any(part.log_files for part in parts.values()):
            return None

        def may_hold(log: LogFile) -> bool:
            commit = self.view.timeline.completed(log.name.instant)
            own = commit is not None and commit.plan_action in COMMIT_ACTIONS
            return log.name.instant in ours or not own

        logs = {name: tuple(filter(may_hold, of.log_files)) for name, of in parts.items()}
        return logged_keys(self.view, slice_, logs)

    def _whole_of_parts(self, slice_: FileSlice) -> FileSlice | None:
        """Return the complete slice if rows are partial: older files have the missing columns.

        Hudi 1.2.0 returns wrong values for such rows.
        """
        if not slice_.needs_merge or not any(source.partial for source in self.sources(slice_)):
            return None
        past = self.wholes[slice_.group]
        if past.lost is not None:
            raise gone("changed columns of rows", past.lost)
        return past.slice_

    def _read(
        self,
        slice_: FileSlice,
        columns: Sequence[str],
        sources: Sequence[RunSource] | None = None,
        key_filter: KeyFilter | None = None,
    ) -> Iterator[pa.RecordBatch]:
        return read_slice(
            self.view,
            slice_,
            columns,
            key_filter=key_filter or self.keys_of(slice_),
            row_groups=self._row_groups,
            sources=sources,
        )

    @property
    def _row_groups(self) -> RowGroupFilter | None:
        if self.predicate is None:
            return None
        return RowGroupFilter(self.predicate.bound, self.full_schema)

    def measure(self, slice_: FileSlice, sources: Sequence[RunSource]) -> ReadSize:
        """Return how much a snapshot read of one slice reads; `sources` are its runs."""
        return measure_slice(
            self.view,
            slice_,
            self.needed_columns,
            key_filter=self.keys_of(slice_),
            row_groups=self._row_groups,
            sources=sources,
        )


def plan_scan(
    snapshot: Snapshot,
    columns: Sequence[str],
    where: str | Predicate | None,
    merger: Merger | None = None,
    *,
    read_optimized: bool = False,
    exact: bool = True,
    indexes: Indexes | None = None,
) -> Scan:
    """Plan a read of the snapshot: the slices, keys and indexes that it uses.

    A read-optimized scan uses only base files, however old, and merges nothing. `exact` states that
    the reader evaluates the predicate as Lakebed does, in ANSI mode and in UTC. `indexes` are the
    table's secondary indexes at the snapshot, if the caller has opened them.
    """
    opened: Indexes = ()
    if not read_optimized:
        opened = open_indexes(snapshot) if indexes is None else indexes
    snapshot = within_predicate(snapshot, parse_where(where, snapshot.schema))
    if not read_optimized:
        return _plan_snapshot(snapshot, columns, where, merger, opened, exact=exact)
    alone = map(_base_alone, snapshot.slices)
    slices = tuple(s for s in alone if s.base_file is not None or s.others or s.damage)
    return _scan(snapshot, slices, columns, where, merger)


def _plan_snapshot(
    snapshot: Snapshot,
    columns: Sequence[str],
    where: str | Predicate | None,
    merger: Merger | None,
    indexes: Indexes,
    *,
    exact: bool,
) -> Scan:
    config, schema = snapshot.config, snapshot.schema
    if not indexes:
        return _scan(snapshot, snapshot.slices, columns, where, merger)
    predicate = parse_where(where, schema)
    found = find_candidates(config, schema, predicate, indexes, exact=exact)
    if config.partition_fields and found.partitions is not None:
        # If reading the candidates costs less than their partitions, it costs less than the table.
        part = snapshot.within(found.partitions)
        scan = _scan(part, part.slices, columns, where, merger, found)
        if scan.candidates is not None:
            return scan
    return _scan(snapshot, snapshot.slices, columns, where, merger, found)


def _base_alone(slice_: FileSlice) -> FileSlice:
    """Return the slice without its logs, for each column group that has a base file."""
    others = tuple(replace(o, log_files=()) for o in slice_.others if o.base_file is not None)
    damage = tuple(filter(_is_base, slice_.damage))
    return replace(slice_, log_files=(), others=others, damage=damage, bases_only=True)


def _is_base(file: LostFile) -> bool:
    return isinstance(parse_data_name(file.path.rpartition("/")[2]), BaseFileName)


def plan_incremental(
    snapshot: Snapshot,
    commits: Sequence[RangeCommit],
    columns: Sequence[str],
    where: str | Predicate | None,
    merger: Merger | None = None,
) -> Scan:
    """Plan an incremental read of `commits`."""
    ignored = superseded_files(snapshot, commits)
    if snapshot.config.is_lsm_tree:
        return _plan_standing(snapshot, commits, ignored, columns, where, merger)
    slices = incremental_slices(snapshot.storage, commits, ignored)
    _check_types(snapshot, commits, slices, columns)
    merged = frozenset(slice_.group for slice_ in slices if slice_.needs_merge)
    history = GroupHistory(snapshot, commits, merged, ignored)
    wholes = {
        group: history.slice_at(group, commits[-1].completion, inclusive=True) for group in merged
    }
    scan = _scan(snapshot, slices, columns, where, merger)
    return replace(scan, commits=tuple(commit.requested for commit in commits), wholes=wholes)


def _check_types(
    snapshot: Snapshot,
    commits: Sequence[RangeCommit],
    slices: Sequence[FileSlice],
    columns: Sequence[str],
) -> None:
    written_by = {file.name.instant for slice_ in slices for file in slice_.files}
    check_column_types(snapshot, commits, written_by, columns)


def _plan_standing(
    snapshot: Snapshot,
    commits: Sequence[RangeCommit],
    ignored: frozenset[str],
    columns: Sequence[str],
    where: str | Predicate | None,
    merger: Merger | None,
) -> Scan:
    """Plan a read of the rows of `commits` that are current once all of these have completed."""
    groups = written_groups(commits)
    history = GroupHistory(snapshot, commits, groups, ignored)
    slices: list[FileSlice] = []
    for group in sorted(groups):
        past = history.slice_at(group, commits[-1].completion, inclusive=True)
        if past.lost is not None:
            raise gone(f"rows written from {commits[0].completion} on", past.lost)
        if past.slice_ is not None:
            slices.append(past.slice_)
    _check_types(snapshot, commits, slices, columns)
    scan = _scan(snapshot, slices, columns, where, merger)
    return replace(scan, commits=tuple(commit.requested for commit in commits))


def _scan(
    snapshot: Snapshot,
    slices: Sequence[FileSlice],
    columns: Sequence[str],
    where: str | Predicate | None,
    merger: Merger | None,
    found: Found | None = None,
) -> Scan:
    view = snapshot.view(merger)
    config, schema = snapshot.config, snapshot.schema
    predicate = parse_where(where, schema)
    pruned = prune_slices(config, schema, predicate, slices)
    choice = Choice(pruned.slices)
    if found is not None:
        choice = choose_indexes(config, schema, pruned, found)
    if any(slice_.needs_merge for slice_ in choice.slices):
        _ = view.rule  # checked here rather than in a task
    return Scan(
        view,
        tuple(columns),
        predicate,
        choice.slices,
        pruned.key_filter,
        candidates=choice.candidates,
        steps=(*pruned.steps, *choice.steps),
        notes=choice.notes,
    )


def parse_where(where: str | Predicate | None, schema: pa.Schema) -> Predicate | None:
    """Parse a predicate on table and meta columns, unless it is parsed already.

    Raises an error if it is invalid.
    """
    if not isinstance(where, str):
        return where
    return Predicate.parse(where, pa.schema([*META_FIELDS, *schema]))
