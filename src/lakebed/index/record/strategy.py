"""The record index, which finds the file group of a key without reading base files.

Inserts add an entry for each new key, in the commit that makes the rows visible. An entry may be
stale: its key may have been deleted, and a base file written without it. The key may still be
written to that file group again, except with a global index that does not move rows between
partitions: there, as with a simple index, a key that no longer exists belongs to the partition of
its new row. Only in that case are entries checked against the files.
"""

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa

from lakebed.errors import DAMAGE_ERRORS, DamageWarning, NotFoundError
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
from lakebed.table.read.pages.paged_file import ParquetFooter
from lakebed.table.snapshot import Snapshot
from lakebed.table.view import TableView

# Operations that do not look up keys.
_BLIND = ("BULK_INSERT", "INSERT")

_Batches = Callable[[], Iterable[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class RecordStrategy(BaseFileStrategy):
    """The strategy that uses the record index; a global index searches all partitions."""

    value: RecordIndex
    needs_keys: ClassVar[bool] = True

    def moves_rows(self, config: TableConfig) -> bool:
        """Return the table's setting; without one, as in Hudi's tables, rows do not move."""
        stored = UPDATE_PARTITION.name in config.properties
        return stored and UPDATE_PARTITION.value(config.properties)

    def indexed_slices(self, snapshot: Snapshot) -> list[FileSlice]:
        """Return the slices with a base file, whose logs are all searched too.

        A key that was deleted and written again may be in a log and not in the base file.
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
        """Return the index if it covers any file group, otherwise None."""
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
        """Return the number of files that a lookup reads."""
        return len(self.runs)

    def find(self, keys: pa.StringArray) -> frozenset[FileGroupId]:
        """Return the file groups that may hold one of the keys, which must ascend."""
        found = set(self.whole)
        for run in self.runs:
            for batch in read_entries(self.storage, run.path, keys, self.footers):
                found |= places_of(batch)
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class RecordLocator(SimpleLocator):
    """Finds the file groups of a write's keys in the runs of the index.

    In the file groups `whole` (None: in all), keys are looked up in the files. With `checks`, so
    are they in the file groups that the index returns.
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
        entries = self._entries(view.storage, groups, keys)
        sources: list[KeySource] = []
        if entries is not None:
            files = {at for at in files if groups[at] in (self.whole or ())}
            if self.checks:
                files |= {at for batches in entries for at in _numbers(batches())}
            else:
                sources = [
                    KeySource(partial(_run, run.path, batches), run.size_bytes)
                    for run, batches in zip(self.runs, entries, strict=True)
                ]
        return [*sources, *(self._source(slices[at], at, keys) for at in sorted(files))]

    def _entries(
        self, storage: Storage, groups: Sequence[FileGroupId], keys: pa.StringArray | None
    ) -> list[_Batches] | None:
        """Return the entries of `keys` in each run, as holders; None if files must be searched.

        All runs are read before any entry is used, so that files can still be searched if a run is
        damaged. Without `keys` there may be too many entries to hold, so they are read again later.
        """
        if self.whole is None:
            return None
        found: list[_Batches] = []
        for run in self.runs:
            batches = partial(_read_holders, storage, run.path, groups, keys)
            try:
                held = list(batches()) if keys is not None else None
                if held is None:
                    deque(batches(), maxlen=0)
            except NotFoundError:
                return None
            except DAMAGE_ERRORS as error:
                warnings.warn(
                    f"{error}; keys are looked up in the files instead, and the index is rebuilt",
                    DamageWarning,
                    stacklevel=2,
                )
                # If the run is missing, the services after the write rebuild the index.
                storage.delete(run.path)
                return None
            found.append(batches if held is None else held.copy)
        return found


def _read_holders(
    storage: Storage, path: str, groups: Sequence[FileGroupId], keys: pa.StringArray | None
) -> Iterator[pa.RecordBatch]:
    for batch in read_entries(storage, path, keys):
        yield to_holders(batch, groups)


def _numbers(holders: Iterable[pa.RecordBatch]) -> set[int]:
    """Return the positions of all file groups in a set of holders."""
    return {
        number
        for batch in holders
        for number in np.unique(explode_holders(batch.column(HOLDERS))[1]).tolist()
    }


def _run(path: str, batches: _Batches, view: TableView) -> Run:
    del view
    return Run(f"run {path!r} of the record index", iter(batches()))
