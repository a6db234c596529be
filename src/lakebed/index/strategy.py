"""The interface of indexes for writes, reads and services; each kind overrides what differs.

An `IndexStrategy` belongs to a table, a `Locator` to one write. The defaults are those of an index
that looks up keys.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebed.merge.run import Run
from lakebed.storage.storage import Storage
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.writer_index import WriterIndex
from lakebed.table.files.file_group import BaseFile, FileGroupId, FileSlice
from lakebed.table.snapshot import Snapshot
from lakebed.table.view import TableView

Numbers = npt.NDArray[np.int64]
NO_NUMBERS: Numbers = np.empty(0, np.int64)
KeyTexts = Mapping[str, pa.StringArray]
"""The formatted values of record keys, by key field."""


@dataclass(frozen=True, slots=True)
class StagedBucket:
    """Bucket `number` of `of` provisional buckets, while the final number is not determined."""

    number: int
    of: int


@dataclass(frozen=True, slots=True)
class NewWrite:
    """What an index needs to know about a write; new file ids are derived from `seed`."""

    snapshot: Snapshot
    instant: str
    seed: str
    operation: str
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class Misplaced:
    """File groups that do not match the index: their path, the problem, and what to do."""

    path: str
    message: str
    advice: str


@dataclass(frozen=True, slots=True)
class KeySource:
    """A source of keys, each with the number of a file slice that holds it.

    `open` returns the keys as a run of HOLDERS_SCHEMA. If `base_file` is set, that file holds
    exactly these keys, and Spark reads the file instead.
    """

    open: Callable[[TableView], Run]
    cost_bytes: int
    base_file: BaseFile | None = None


class Locator:
    """Locates the file groups of the rows of one write; pickled to its independent tasks."""

    __slots__ = ()

    @property
    def existing(self) -> Collection[str]:
        """Return the ids of the file groups to which tasks may append logs."""
        return ()

    def key_sources(
        self, view: TableView, slices: Sequence[FileSlice], keys: pa.StringArray | None
    ) -> Sequence[KeySource]:
        """Return the known keys of `slices`, which are some or all of `indexed_slices`.

        `keys` are the keys to look up, sorted and unique; None if they are too many to hold.
        Sources may leave out other keys.
        """
        return ()

    @property
    def assigns_later(self) -> int | None:
        """Return the number of buckets if `file_ids` assigns rows that were staged by bucket."""
        return None

    def learn(self, partitions: Iterable[str]) -> None:
        """Prepare for calls of `file_id` for these partitions."""

    def slots(
        self, keys: pa.StringArray, texts: KeyTexts | None, partitions: pa.StringArray
    ) -> pa.Array:
        """Return the slot of each row in its partition; null if its key must be looked up."""
        return pa.nulls(len(keys), pa.string())

    def staged_buckets(self, size_bytes: int, partitions: int, *, alone: bool) -> int | None:
        """Return the number of buckets by which to split a flush; None unless it is provisional."""
        return None

    def file_id(self, partition: str, slot: int) -> str | None:
        """Return the existing or new file group of a slot; None if it is not determined yet."""
        return None

    def file_ids(
        self, partition: str, staged: StagedBucket
    ) -> Sequence[tuple[str, StagedBucket | None]]:
        """Return the file groups of a staged run, each with its part of the run (None: all)."""
        raise NotImplementedError(f"{type(self).__name__}: {staged} of partition {partition!r}")

    def adopted(self, partition: str, file_id: str) -> str:
        """Return the file group for rows staged for `file_id` before the write started."""
        return file_id

    def begin_partition(self, storage: Storage, partition: str, check: Callable[[], None]) -> None:
        """Store the index's metadata for a new partition, before rows in it become visible.

        `check` raises an error if the write is no longer in progress.
        """


class KeyIndex(Protocol):
    """Finds the file groups of keys at a table's latest snapshot without reading data files."""

    @property
    def cost(self) -> int:
        """Return the number of files that a lookup reads."""

    def find(self, keys: pa.StringArray) -> frozenset[FileGroupId]:
        """Return the file groups that may hold one of the keys, which must ascend."""


@dataclass(frozen=True, slots=True)
class IndexStrategy:
    """The operations of a table's index, whose `value` is stored in the table's properties."""

    value: WriterIndex
    # Whether each key determines its file group, so that only one file group can hold it.
    one_group_per_key: ClassVar[bool] = False
    # Whether a lookup needs the incoming keys to decide what it reads, so that rows are staged
    # first. Otherwise, Spark joins the rows with all known keys while it stages them.
    needs_keys: ClassVar[bool] = False

    def check_table(self, config: TableConfig) -> None:
        """Raise an error if the table cannot have this index."""

    def settle(self, snapshot: Snapshot) -> WriterIndex:
        """Return the index to store; raise an error if it does not match the table's files."""
        return self.value

    def locator(self, write: NewWrite) -> Locator:
        """Return the locator of a write."""
        return Locator()

    def check_groups(self, snapshot: Snapshot, groups: Collection[FileGroupId]) -> None:
        """Raise CorruptError if the file group of a key is ambiguous among those given."""

    def indexed_slices(self, snapshot: Snapshot) -> Sequence[FileSlice]:
        """Return the slices in which keys are looked up; positions in it are slice numbers."""
        return ()

    def moves_rows(self, config: TableConfig) -> bool:
        """Return whether a row moves to its new partition instead of staying in the old one."""
        return False

    def prune(
        self, config: TableConfig, keys: Sequence[str], slices: Sequence[FileSlice]
    ) -> Sequence[FileSlice]:
        """Return the slices that may hold one of the keys, without reading anything."""
        return slices

    def key_index(self, snapshot: Snapshot) -> KeyIndex | None:
        """Return an index of keys at the latest snapshot; None if data files must be searched."""
        return None

    def check_clusterable(self, config: TableConfig) -> None:
        """Raise an error if clustering may not move keys to other file groups."""

    def misplaced_groups(self, groups: Iterable[FileGroupId]) -> Iterator[Misplaced]:
        """Yield the file groups of a table that do not match the index."""
        yield from ()

    def misplaced_keys(
        self, config: TableConfig, file_id: str, keys: pa.StringArray
    ) -> tuple[Numbers, Numbers]:
        """Return the positions of keys that belong to another slot, and their correct slots."""
        return NO_NUMBERS, NO_NUMBERS
