"""What an index does for writers, readers and services; each kind overrides what differs.

An `IndexStrategy` belongs to a table, a `Locator` to one write. The defaults here are those of an
index that looks keys up.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

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
"""The parts of record keys, by field."""


@dataclass(frozen=True, slots=True)
class StagedBucket:
    """The bucket, and out of how many, whose rows a run holds that was staged before that number was final."""

    number: int
    of: int


@dataclass(frozen=True, slots=True)
class NewWrite:
    """What an index needs to know of a write. New file ids are derived from its random `seed`."""

    snapshot: Snapshot
    instant: str
    seed: str
    operation: str
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A file group, or several, that contradict the index: where, what is wrong, what to do."""

    path: str
    message: str
    advice: str


@dataclass(frozen=True, slots=True)
class KeySource:
    """Keys that an index knows, each with the number of a file slice that holds it.

    `open` returns a run of HOLDERS_SCHEMA. `base_file` holds exactly these keys, if there is one.
    """

    open: Callable[[TableView], Run]
    cost_bytes: int
    base_file: BaseFile | None = None


class Locator:
    """Where the rows of one write go. It is pickled to the tasks, which do not communicate."""

    __slots__ = ()

    @property
    def existing(self) -> Collection[str]:
        """Return the ids of file groups that rows may be added to without a lookup."""
        return ()

    def slots(
        self, keys: pa.StringArray, texts: KeyTexts | None, partitions: pa.StringArray
    ) -> pa.Array:
        """Return the slot of each row in its partition; null if it must be looked up."""
        return pa.nulls(len(keys), pa.string())

    def staged_buckets(self, size_bytes: int, partitions: int, *, alone: bool) -> int | None:
        """Return into how many buckets a flush is split if their number is not determined yet."""
        return None

    def file_id(self, partition: str, slot: int) -> str | None:
        """Return the file group of a slot, the existing one or a new one.

        None if not determined yet.
        """
        return None

    def file_ids(
        self, partition: str, staged: StagedBucket
    ) -> Sequence[tuple[str, StagedBucket | None]]:
        """Return the file groups whose rows a staged run holds, each with its own part."""
        raise NotImplementedError(f"{type(self).__name__}: {staged} of partition {partition!r}")

    def adopted(self, partition: str, file_id: str) -> str:
        """Return the file group for rows that were staged for `file_id` before the write started."""
        return file_id

    def begin_partition(self, storage: Storage, partition: str, check: Callable[[], None]) -> None:
        """Store what the index must know of a partition before others see rows in it.

        `check` raises an error if the write is over.
        """


@dataclass(frozen=True, slots=True)
class IndexStrategy:
    """The index of a table, identified by a value of the table's properties."""

    value: WriterIndex
    # Whether the key alone determines its file group, so that no two can hold it.
    one_group_per_key: ClassVar[bool] = False

    def check_table(self, config: TableConfig) -> None:
        """Raise an error if a table of this kind cannot have the index."""

    def settle(self, snapshot: Snapshot) -> WriterIndex:
        """Return the index that a caller named for a table that stores none, if it matches the files."""
        return self.value

    def locator(self, write: NewWrite) -> Locator:
        """Return where the rows of a write go."""
        return Locator()

    def check_groups(self, snapshot: Snapshot, groups: Collection[FileGroupId]) -> None:
        """Raise CorruptError if it is ambiguous which of the file groups holds a key."""

    def indexed_slices(self, snapshot: Snapshot) -> Sequence[FileSlice]:
        """Return the slices in which keys are looked up, in the order that numbers them."""
        return ()

    def key_sources(self, slices: Sequence[FileSlice]) -> Sequence[KeySource]:
        """Return the keys in `slices`, which `indexed_slices` returned."""
        return ()

    def moves_rows(self, config: TableConfig) -> bool:
        """Return whether a row moves when its partition changes.

        Otherwise it stays where it was.
        """
        return False

    def prune(
        self, config: TableConfig, keys: Sequence[str], slices: Sequence[FileSlice]
    ) -> Sequence[FileSlice]:
        """Leave out slices that hold none of the keys, as far as that is known without a read."""
        return slices

    def check_clusterable(self, config: TableConfig) -> None:
        """Raise an error if keys must not change their file groups."""

    def misplaced_groups(self, groups: Iterable[FileGroupId]) -> Iterator[Misplaced]:
        """Yield the file groups that contradict the index."""
        yield from ()

    def misplaced_keys(
        self, config: TableConfig, file_id: str, keys: pa.StringArray
    ) -> tuple[Numbers, Numbers]:
        """Return the positions of keys that belong to another slot than the file group's, and that slot."""
        return NO_NUMBERS, NO_NUMBERS
