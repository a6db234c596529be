"""Open the secondary indexes of a table for queries, and find rows that may have given values."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa

from lakebed.errors import DAMAGE_ERRORS, CorruptError, DamageWarning, NotFoundError
from lakebed.format.names.meta_columns import PARTITION_PATH, RECORD_KEY
from lakebed.index.secondary.definition import IndexDefinition, index_names, property_name
from lakebed.index.secondary.entries import ENTRY_SCHEMA, EntryCache, count_entries, find_entries
from lakebed.index.secondary.manifest import Manifest, RunFile, read_manifest
from lakebed.model.options.table import INDEX_PATH
from lakebed.storage.storage import Storage
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.file_group import FileGroupId
from lakebed.table.read.key_filter import Range
from lakebed.table.snapshot import Snapshot

_Result = TypeVar("_Result")
_EVERYTHING: Range = (b"", None)
_KEYS = pa.schema([ENTRY_SCHEMA.field(PARTITION_PATH), ENTRY_SCHEMA.field(RECORD_KEY)])


@dataclass(frozen=True, slots=True)
class Candidates:
    """Rows that may satisfy a predicate.

    `keys` has distinct pairs of PARTITION_PATH and RECORD_KEY. The file groups `whole` are not in
    the index: they must be read without a key filter.
    """

    keys: pa.Table
    whole: frozenset[FileGroupId]


@dataclass(frozen=True, slots=True)
class UnusableIndex:
    """An index that no query can use; `reason` is a message for users.

    `can_be_built` states whether rebuilding the index helps.
    """

    definition: IndexDefinition
    reason: str
    can_be_built: bool = True


@dataclass(eq=False)
class OpenIndex:
    """An index that can answer queries at a snapshot; `kinds` are the types of its columns."""

    definition: IndexDefinition
    kinds: list[pa.DataType]
    manifest: Manifest = field(repr=False)
    snapshot: Snapshot = field(repr=False)
    cache: EntryCache = field(default_factory=EntryCache, repr=False, compare=False)
    problems: list[str] = field(default_factory=list, repr=False, compare=False)
    """The damage found so far; a damaged index is no longer searched."""

    @property
    def storage(self) -> Storage:
        """Return the storage of the table."""
        return self.snapshot.storage

    @property
    def runs(self) -> list[RunFile]:
        """Return the runs of entries with values."""
        return [
            *self.manifest.base,
            *self.manifest.delta.entries,
            *(run for of in self.manifest.unsettled for run in of.entries),
        ]

    @property
    def open_runs(self) -> list[RunFile]:
        """Return the runs of open entries, which are candidates of every query."""
        return [
            *self.manifest.delta.open,
            *(run for of in self.manifest.unsettled for run in of.open),
        ]

    @property
    def num_entries(self) -> int:
        """Return the number of entries in all runs."""
        return sum(run.entries for run in (*self.runs, *self.open_runs))

    @property
    def num_open(self) -> int:
        """Return the number of open entries."""
        return sum(run.entries for run in self.open_runs)

    def estimate(self, ranges: Sequence[Range]) -> int:
        """Return an upper bound for the number of candidates in `ranges`, from footers of runs."""
        try:
            found = self._retried(lambda: self._count(ranges))
        except DAMAGE_ERRORS as error:
            self._warn(error)
            return self.num_entries
        return self.num_entries if found is None else found + self.num_open

    def _count(self, ranges: Sequence[Range]) -> int:
        return sum(count_entries(self.storage, run.path, ranges, self.cache) for run in self.runs)

    def find(self, ranges: Sequence[Range], limit: int) -> Candidates | None:
        """Return the rows whose values may be in `ranges`.

        Returns None if there are more than `limit`, or if a run is damaged; the caller must then
        find the rows without the index.
        """
        try:
            return self._retried(lambda: self._find(ranges, limit))
        except DAMAGE_ERRORS as error:
            self._warn(error)
            return None

    def _find(self, ranges: Sequence[Range], limit: int) -> Candidates | None:
        held: list[pa.Table] = []
        rows = 0
        for batch in self._matches(ranges):
            held.append(pa.Table.from_batches([batch]).select(_KEYS.names))
            rows += batch.num_rows
            if rows > limit:
                # The same key may be in several runs.
                held = [_unique(held)]
                rows = held[0].num_rows
                if rows > limit:
                    return None
        return Candidates(_unique(held), self.manifest.whole)

    def _retried(self, search: Callable[[], _Result]) -> _Result | None:
        """Return the result of `search`, repeated if another process has compacted the index.

        A compaction leaves the runs that it replaces to open readers, and the next one deletes
        them. Returns None if the index is no longer usable.
        """
        try:
            return search()
        except NotFoundError:
            now = current_manifest(self.snapshot, self.definition)
            if isinstance(now, str):
                self.problems.append(now)
                return None
            if now.files == self.manifest.files:
                raise
            self.manifest = now
            return search()

    def _matches(self, ranges: Sequence[Range]) -> Iterator[pa.RecordBatch]:
        for run in self.open_runs:
            yield from find_entries(self.storage, run.path, [_EVERYTHING], self.cache)
        for run in self.runs:
            yield from find_entries(self.storage, run.path, ranges, self.cache)

    def _warn(self, error: Exception) -> None:
        self.problems.append(f"it is damaged: {error}; run repair()")
        warnings.warn(
            f"index {self.definition.name!r} is damaged and was not used: {error}; run repair()",
            DamageWarning,
            stacklevel=3,
        )


def open_indexes(snapshot: Snapshot) -> list[OpenIndex | UnusableIndex]:
    """Return the secondary indexes of a table, sorted by name; does no I/O if there are none.

    They share one cache, so that its limit applies to all of them.
    """
    properties = snapshot.config.properties
    cache = EntryCache()
    found: list[OpenIndex | UnusableIndex] = []
    for name in index_names(properties):
        try:
            definition = IndexDefinition.parse(name, properties[property_name(name)])
            found.append(open_index(snapshot, definition, cache))
        except CorruptError as error:
            warnings.warn(str(error), DamageWarning, stacklevel=3)
            unknown = IndexDefinition(name, (), (), "")
            found.append(UnusableIndex(unknown, str(error), can_be_built=False))
    return found


def open_index(
    snapshot: Snapshot, definition: IndexDefinition, cache: EntryCache | None = None
) -> OpenIndex | UnusableIndex:
    """Return one index of a table at a snapshot."""
    if snapshot.timeline.until is not None:
        return UnusableIndex(definition, "it covers only the latest state of the table")
    if (gone := definition.missing_column(snapshot.schema)) is not None:
        reason = f"the table no longer has column {gone!r}; call drop_index({definition.name!r})"
        return UnusableIndex(definition, reason, can_be_built=False)
    kinds = definition.resolve(snapshot.schema)
    if kinds is None:
        return UnusableIndex(
            definition, "the type of a column changed since it was created; run repair()"
        )
    found = current_manifest(snapshot, definition)
    if isinstance(found, str):
        return UnusableIndex(definition, found)
    return OpenIndex(definition, kinds, found, snapshot, cache or EntryCache())


def current_manifest(snapshot: Snapshot, definition: IndexDefinition) -> Manifest | str:
    """Return the manifest with all commits of the snapshot, or why the index is not usable."""
    try:
        manifest = read_manifest(snapshot.storage, index_folder(snapshot.config, definition))
        if manifest is None:
            return "its manifest is missing; run repair()"
        if not manifest.is_complete:
            return "it is being built; if its build was interrupted, run repair()"
        reason = manifest.broken(snapshot)
        return reason or manifest.account_for(snapshot, definition.folder)
    except CorruptError as error:
        warnings.warn(f"index {definition.name!r}: {error}", DamageWarning, stacklevel=4)
        return f"{error}; run repair()"


def index_root(config: TableConfig) -> str:
    """Return the folder of all indexes, relative to the table."""
    return f".hoodie/lakebed/{INDEX_PATH.value(config.properties)}"


def index_folder(config: TableConfig, definition: IndexDefinition) -> str:
    """Return the folder of an index, relative to the table."""
    return f"{index_root(config)}/{definition.folder}"


def _unique(keys: Sequence[pa.Table]) -> pa.Table:
    table = pa.concat_tables([_KEYS.empty_table(), *keys])
    return table.group_by(_KEYS.names, use_threads=False).aggregate([])
