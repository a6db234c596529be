"""The interface of an index for writes, reads and services; each kind overrides what differs.

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
    """Bucket `number` of `of` provisional ones; the number of buckets is not determined yet."""

    number: int
    of: int


@dataclass(frozen=True, slots=True)
class NewWrite:
    """The facts about a write that an index needs; new file ids are derived from `seed`."""

    snapshot: Snapshot
    instant: str
    seed: str
    operation: str
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class Misplaced:
    """File groups that do not match the index: where they are, what is wrong, and what to do."""

    path: str
    message: str
    advice: str


@dataclass(frozen=True, slots=True)
class KeySource:
    """A source of keys, each with the number of a file slice that holds the key.

    `open` returns the keys as a run of HOLDERS_SCHEMA. If a base file holds exactly these keys,
    Spark reads that file instead.
    """

    open: Callable[[TableView], Run]
    cost_bytes: int
    base_file: BaseFile | None = None


class Locator:
    """The file groups of the rows of one write; pickled to its tasks, which do not communicate."""

    __slots__ = ()

    @property
    def existing(self) -> Collection[str]:
        """Return the ids of the file groups to which tasks may append logs."""
        return ()

    def key_sources(
        self, view: TableView, slices: Sequence[FileSlice], keys: pa.StringArray | None
    ) -> Sequence[KeySource]:
        """Return the known keys of `slices`, all or some of those that `indexed_slices` returned.

        `keys` are the keys that are looked up, sorted and unique; None if there are too many to hold
        them. Sources may leave out all others.
        """
        return ()

    @property
    def assigns_later(self) -> int | None:
        """Return the number of buckets if `file_ids` can assign rows that were staged by bucket."""
        return None

    def learn(self, partitions: Iterable[str]) -> None:
        """Prepare for calls of `file_id` with these partitions."""

    def slots(
        self, keys: pa.StringArray, texts: KeyTexts | None, partitions: pa.StringArray
    ) -> pa.Array:
        """Return the slot of each row in its partition; null if its key must be looked up."""
        return pa.nulls(len(keys), pa.string())

    def staged_buckets(self, size_bytes: int, partitions: int, *, alone: bool) -> int | None:
        """Return the number of buckets to stage a flush in; None unless the final number is still open."""
        return None

    def file_id(self, partition: str, slot: int) -> str | None:
        """Return the file group of a slot, existing or new; None if it is not determined yet."""
        return None

    def file_ids(
        self, partition: str, staged: StagedBucket
    ) -> Sequence[tuple[str, StagedBucket | None]]:
        """Return the file groups of a staged run, each with its part of the run (None: all of it)."""
        raise NotImplementedError(f"{type(self).__name__}: {staged} of partition {partition!r}")

    def adopted(self, partition: str, file_id: str) -> str:
        """Return the file group for rows that were staged for `file_id` before the write started."""
        return file_id

    def begin_partition(self, storage: Storage, partition: str, check: Callable[[], None]) -> None:
        """Store the index's metadata of a new partition, before other processes see rows in it.

        `check` raises an error if the write is no longer in progress.
        """


class KeyIndex(Protocol):
    """Finds the file groups of keys in the latest state of a table, without reading data files."""

    @property
    def cost(self) -> int:
        """Return how many files a lookup reads."""

    def find(self, keys: pa.StringArray) -> frozenset[FileGroupId]:
        """Return the file groups that may hold one of the keys, which ascend."""


@dataclass(frozen=True, slots=True)
class IndexStrategy:
    """The index of a table, identified by a value of the table's properties."""

    value: WriterIndex
    # Whether the key determines its file group, so that no two file groups can hold one key.
    one_group_per_key: ClassVar[bool] = False
    # Whether the incoming keys decide what a lookup reads, so that rows are staged before it. Other
    # lookups are joins with all known keys, which Spark does while it stages the rows.
    needs_keys: ClassVar[bool] = False

    def check_table(self, config: TableConfig) -> None:
        """Raise an error if a table of this kind cannot have the index."""

    def settle(self, snapshot: Snapshot) -> WriterIndex:
        """Return the index to store; raise an error if it does not fit the table's files."""
        return self.value

    def locator(self, write: NewWrite) -> Locator:
        """Return the locator of a write."""
        return Locator()

    def check_groups(self, snapshot: Snapshot, groups: Collection[FileGroupId]) -> None:
        """Raise CorruptError if it is ambiguous which of the file groups holds a key."""

    def indexed_slices(self, snapshot: Snapshot) -> Sequence[FileSlice]:
        """Return the slices in which keys are looked up; a slice's number is its position here."""
        return ()

    def moves_rows(self, config: TableConfig) -> bool:
        """Return whether a row moves to its new partition instead of staying in the old one."""
        return False

    def prune(
        self, config: TableConfig, keys: Sequence[str], slices: Sequence[FileSlice]
    ) -> Sequence[FileSlice]:
        """Return the slices that may hold one of the keys; nothing is read."""
        return slices

    def key_index(self, snapshot: Snapshot) -> KeyIndex | None:
        """Return an index of keys at the latest snapshot; None if data files must be searched."""
        return None

    def check_clusterable(self, config: TableConfig) -> None:
        """Raise an error if clustering must not move keys to other file groups."""

    def misplaced_groups(self, groups: Iterable[FileGroupId]) -> Iterator[Misplaced]:
        """Yield the file groups of a table that do not match the index."""
        yield from ()

    def misplaced_keys(
        self, config: TableConfig, file_id: str, keys: pa.StringArray
    ) -> tuple[Numbers, Numbers]:
        """Return the positions of keys that belong to another slot, and the right slot of each."""
        return NO_NUMBERS, NO_NUMBERS
