"""The record index: finds the file group that holds a key, without reading base files.

Inserts add an entry for each new key, in the commit that makes the rows visible. An entry may be
stale: its key was deleted, and a base file without the key was written since. Even then the key may
be written to that file group again, except under a global index that does not move rows between
partitions: there, as with a simple index, a key that no longer exists has to go to the partition
that its new row names. Only in that case are entries checked against the files.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa

from lakebed.index.holders import HOLDERS, explode_holders
from lakebed.index.record.entries import places_of, read_entries, to_holders
from lakebed.index.record.state import open_record_index
from lakebed.index.secondary.manifest import RunFile
from lakebed.index.simple import BaseFileStrategy, SimpleLocator
from lakebed.index.strategy import KeyIndex, KeySource, Locator, NewWrite
from lakebed.merge.run import Run
from lakebed.model.options.table import UPDATE_PARTITION
from lakebed.storage.storage import Storage
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.writer_index import RecordIndex
from lakebed.table.files.file_group import FileGroupId, FileSlice
from lakebed.table.read.parquet_source import ParquetFooter
from lakebed.table.snapshot import Snapshot
from lakebed.table.view import TableView

# Operations that do not look keys up.
_BLIND = ("BULK_INSERT", "INSERT")


@dataclass(frozen=True, slots=True)
class RecordStrategy(BaseFileStrategy):
    """Keys are looked up in the record index; a global index searches all partitions."""

    value: RecordIndex
    needs_keys: ClassVar[bool] = True

    def moves_rows(self, config: TableConfig) -> bool:
        """Return the table's setting; if it has none, as in Hudi's tables, rows do not move."""
        stored = UPDATE_PARTITION.name in config.properties
        return stored and UPDATE_PARTITION.value(config.properties)

    def indexed_slices(self, snapshot: Snapshot) -> list[FileSlice]:
        """Return the slices with a base file, to be searched in all their logs.

        A key that was deleted and written again may be in a log and in no base file.
        """
        slices = [s for s in snapshot.slices if s.base_file is not None and not s.damage]
        return [replace(slice_, key_logs=slice_.log_files) for slice_ in slices]

    def locator(self, write: NewWrite) -> Locator:
        """Return the locator of a write."""
        snapshot = write.snapshot
        if write.replaces or write.operation in _BLIND:
            return RecordLocator(None)
        state = open_record_index(snapshot)
        stays = self.value.is_global and not self.moves_rows(snapshot.config)
        return RecordLocator(state.whole, state.runs, stays)

    def key_index(self, snapshot: Snapshot) -> KeyIndex | None:
        """Return the index, if it covers any file group."""
        state = open_record_index(snapshot)
        if state.whole is None:
            return None
        return _RecordKeyIndex(snapshot.storage, state.runs, state.whole)


@dataclass(frozen=True, slots=True)
class _RecordKeyIndex:
    """The runs of the index, and the file groups whose keys they may lack."""

    storage: Storage
    runs: tuple[RunFile, ...]
    whole: frozenset[FileGroupId]
    footers: dict[str, ParquetFooter] = field(default_factory=dict, compare=False)

    @property
    def cost(self) -> int:
        """Return how many files a lookup reads."""
        return len(self.runs)

    def find(self, keys: pa.StringArray) -> frozenset[FileGroupId]:
        """Return the file groups that may hold one of the keys, which ascend."""
        found = set(self.whole)
        for run in self.runs:
            for batch in read_entries(self.storage, run.path, keys, self.footers):
                found |= places_of(batch)
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class RecordLocator(SimpleLocator):
    """Finds the file groups of a write's keys in the runs of the index.

    In the file groups `whole` (None: in all of them) keys are looked up in the files. With `checks`,
    this also applies to the file groups that the index returns.
    """

    whole: frozenset[FileGroupId] | None
    runs: tuple[RunFile, ...] = ()
    checks: bool = False

    def key_sources(
        self, view: TableView, slices: Sequence[FileSlice], keys: pa.StringArray | None
    ) -> Sequence[KeySource]:
        """Return the entries of the index, and the keys of the slices that it does not cover."""
        groups = [slice_.group for slice_ in slices]
        files = set(range(len(slices)))
        entries: list[KeySource] = []
        if self.whole is not None:
            files = {at for at in files if groups[at] in self.whole}
            if self.checks:
                files |= self._named(view.storage, groups, keys)
            else:
                entries = [
                    KeySource(partial(self._entries, run.path, groups, keys), run.size_bytes)
                    for run in self.runs
                ]
        return [*entries, *(self._source(slices[at], at, keys) for at in sorted(files))]

    def _named(
        self, storage: Storage, groups: Sequence[FileGroupId], keys: pa.StringArray | None
    ) -> set[int]:
        """Return the positions in `groups` of the file groups that the index returns for `keys`."""
        found: set[int] = set()
        for run in self.runs:
            for batch in read_entries(storage, run.path, keys):
                numbers = explode_holders(to_holders(batch, groups).column(HOLDERS))[1]
                found.update(np.unique(numbers).tolist())
        return found

    def _entries(
        self,
        path: str,
        groups: Sequence[FileGroupId],
        keys: pa.StringArray | None,
        view: TableView,
    ) -> Run:
        def batches() -> Iterator[pa.RecordBatch]:
            for batch in read_entries(view.storage, path, keys):
                yield to_holders(batch, groups)

        return Run(f"run {path!r} of the record index", batches())
