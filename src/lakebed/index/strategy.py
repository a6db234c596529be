"""What an index can do for a writer, a reader and the services; each kind says what it does otherwise.

An `IndexStrategy` belongs to a table, a `Locator` to one write. What is said here holds for an
index that looks keys up and that no other part of the house has to know more of.
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
Group = tuple[str, str]
"""A partition and a file id."""


@dataclass(frozen=True, slots=True)
class StagedBucket:
    """The bucket, of so many, whose rows a run holds that was staged before the number was settled."""

    number: int
    of: int


@dataclass(frozen=True, slots=True)
class NewWrite:
    """A write that has begun, as far as an index asks. `seed` is random; `ends` says what is ended.

    `ends` is the name of an operation that replaces file groups, None of one that adds to them.
    """

    snapshot: Snapshot
    config: TableConfig
    instant: str
    seed: str
    ends: str | None


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A file group, or several, that the index does not have: where, what is wrong, what to do."""

    path: str
    message: str
    advice: str


class KeySource(Protocol):
    """Keys that an index knows, with the numbers of the file slices that hold them; it travels."""

    @property
    def cost_bytes(self) -> int:
        """Estimate the work."""
        ...

    @property
    def base_file(self) -> BaseFile | None:
        """Return the base file that has just these keys, if there is one."""
        ...

    def open(self, view: TableView) -> Run:
        """Return a run of HOLDERS_SCHEMA, with one number for each key."""
        ...


class Locator:
    """Where the rows of one write go. It travels to the tasks, which do not talk to each other."""

    __slots__ = ()

    @property
    def existing(self) -> Collection[str]:
        """Return the ids of file groups that rows may be added to without a look."""
        return ()

    def slots(
        self, keys: pa.StringArray, texts: Mapping[str, pa.StringArray], partitions: pa.StringArray
    ) -> pa.Array:
        """Return the slot of its partition that each row belongs to; null if it is to be looked up.

        `texts` are the parts of the keys, by field.
        """
        del texts, partitions
        return pa.nulls(len(keys), pa.string())

    def staged_buckets(self, size_bytes: int, partitions: int, *, alone: bool) -> int | None:
        """Return by how many buckets a flush is split if their number is not settled yet."""
        del size_bytes, partitions, alone
        return None

    def file_id(self, partition: str, slot: int) -> str | None:
        """Return the file group of a slot, the one that exists or a new one; None: not settled yet."""
        del partition, slot
        return None

    def file_ids(
        self, partition: str, staged: StagedBucket
    ) -> Sequence[tuple[str, StagedBucket | None]]:
        """Return the file groups whose rows a staged run holds, each with the part that is its own."""
        raise NotImplementedError(f"{type(self).__name__}: {staged} of partition {partition!r}")

    def adopted(self, partition: str, file_id: str) -> str:
        """Return the file group for rows that were staged for `file_id` before the write began."""
        del partition
        return file_id

    def begin_partition(self, storage: Storage, partition: str, check: Callable[[], None]) -> None:
        """Store what the index must know of a partition before others see rows in it.

        `check` raises an error if the write is over.
        """


@dataclass(frozen=True, slots=True)
class IndexStrategy:
    """The index of a table, named by a value of the table's properties."""

    value: WriterIndex
    # Whether a key names its file group, so that no two can hold it.
    one_group_per_key: ClassVar[bool] = False

    def check_table(self, config: TableConfig) -> None:
        """Raise an error if a table of this kind cannot have the index."""

    def settle(self, snapshot: Snapshot) -> WriterIndex:
        """Return the index that a caller named for a table that stores none, if it fits the files."""
        del snapshot
        return self.value

    def locator(self, write: NewWrite) -> Locator:
        """Return where the rows of a write go."""
        del write
        return Locator()

    def deferred_locator(self, config: TableConfig, seed: str) -> Locator:
        """Return where rows go that are staged before their write begins."""
        del config, seed
        return Locator()

    def check_groups(self, snapshot: Snapshot, groups: Collection[Group]) -> None:
        """Raise CorruptError if the index cannot tell which of the file groups holds a key."""

    def indexed_slices(self, snapshot: Snapshot) -> Sequence[FileSlice]:
        """Return the slices in which keys are looked up, in the order that numbers them."""
        del snapshot
        return ()

    def key_sources(self, slices: Sequence[FileSlice]) -> Sequence[KeySource]:
        """Return the keys that `slices`, which `indexed_slices` gave, hold."""
        del slices
        return ()

    def moves_rows(self, config: TableConfig) -> bool:
        """Return whether a row whose partition changed moves there; else it stays where it was."""
        del config
        return False

    def prune(
        self, config: TableConfig, keys: Sequence[str], slices: Sequence[FileSlice]
    ) -> Sequence[FileSlice]:
        """Leave out slices that hold none of the keys, as far as that is known without a read."""
        del config, keys
        return slices

    def check_clusterable(self, config: TableConfig) -> None:
        """Raise an error if keys must not change their file groups."""

    def misplaced_groups(self, groups: Iterable[FileGroupId]) -> Iterator[Misplaced]:
        """Yield the file groups that the index does not have."""
        del groups
        yield from ()

    def misplaced_keys(
        self, config: TableConfig, file_id: str, keys: pa.StringArray
    ) -> tuple[Numbers, Numbers]:
        """Return the positions of keys that belong to another slot than the file group's, and it."""
        del config, file_id, keys
        return NO_NUMBERS, NO_NUMBERS
