"""What a table should hold after any history of operations: a dictionary and Hudi's merge rule."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import pyarrow as pa

from lakebed.format.bucket import key_buckets
from lakebed.format.meta_columns import COMMIT_TIME

Row = dict[str, Any]
Ident = tuple[str, str]

COLUMNS = pa.schema(
    [
        ("id", pa.string()),
        ("k2", pa.int32()),
        ("dt", pa.string()),
        ("ts", pa.int64()),
        ("seq", pa.string()),
        ("n", pa.int64()),
        ("select", pa.string()),
    ]
)
NOTE = pa.field("note", pa.string())
IS_DELETED = "_hoodie_is_deleted"


@dataclass(frozen=True)
class Shape:
    """What kind of table it is, as far as its rows depend on it."""

    table_type: str = "MERGE_ON_READ"
    layout: str = "lsm_tree"
    version: int = 9
    index: str = "bucket"
    buckets: int = 2
    key: tuple[str, ...] = ("id",)
    ordering: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ("dt",)

    @property
    def on_read(self) -> bool:
        return self.table_type == "MERGE_ON_READ"

    @property
    def is_global(self) -> bool:
        return self.index == "global_simple"

    def partition(self, row: Mapping[str, Any]) -> str:
        return row["dt"] if self.partition_by else ""

    def record_key(self, row: Mapping[str, Any]) -> str:
        if len(self.key) == 1:
            return str(row[self.key[0]])
        return ",".join(f"{name}:{row[name]}" for name in self.key)

    def ident(self, row: Mapping[str, Any]) -> Ident:
        return ("" if self.is_global else self.partition(row), self.record_key(row))

    def group(self, partition: str, key: str) -> tuple[str, int]:
        """Give the file group of a key under a bucket index."""
        found = key_buckets(
            pa.array([key]), self.key, self.key, self.buckets, composite=len(self.key) > 1
        )
        return partition, int(found[0])


@dataclass(frozen=True)
class Version:
    """One version of a key. A `partial` one says nothing of the columns that it lacks.

    A delete `by_key` has no ordering value: it beats what is older and loses to what is newer.
    """

    partition: str
    values: Row
    order: tuple[Any, ...] = ()
    partial: bool = False
    deleted: bool = False
    by_key: bool = False


def fold(old: Version, new: Version) -> Version:
    """Give what stands of two versions; without ordering columns the newer wins."""
    new_wins = new.by_key or old.by_key or new.order >= old.order
    winner, loser = (new, old) if new_wins else (old, new)
    if winner.deleted or loser.deleted or not winner.partial:
        return winner
    return replace(winner, values={**loser.values, **winner.values}, partial=loser.partial)


Changes = Sequence[tuple[Ident, Version]]


@dataclass
class ModelTable:
    """The versions that stand, deletes that a merge-on-read table remembers included.

    `base` are the rows of the base files of a merge-on-read table with a bucket index. A simple
    index finds keys in base files only, so there it depends on the files whether a delete is
    still remembered: keys that it decides about are in `doubtful`, to be settled by a look.
    """

    shape: Shape
    versions: dict[Ident, Version] = field(default_factory=dict)
    groups: set[tuple[str, int]] = field(default_factory=set)
    base: dict[Ident, Row] = field(default_factory=dict)
    doubtful: dict[Ident, Version] = field(default_factory=dict)

    def copy(self) -> "ModelTable":
        return ModelTable(
            self.shape, dict(self.versions), set(self.groups), dict(self.base), dict(self.doubtful)
        )

    def rows(self) -> dict[Ident, Row]:
        """Give the rows that a snapshot shows, by partition and record key."""
        return {
            (version.partition, key): version.values
            for (_, key), version in self.versions.items()
            if not version.deleted
        }

    def version(self, row: Row, instant: str, **changes: Any) -> tuple[Ident, Version]:
        """Give the version that an incoming row is."""
        order = tuple(row[name] for name in self.shape.ordering)
        deleted = bool(row.get(IS_DELETED))
        values = {name: value for name, value in row.items() if name != IS_DELETED}
        values[COMMIT_TIME] = instant
        made = Version(self.shape.partition(row), values, order, deleted=deleted)
        return self.shape.ident(row), replace(made, **changes)

    def delete_of(self, row: Row) -> tuple[Ident, Version]:
        """Give the delete of a key."""
        partition = self.shape.partition(row)
        return self.shape.ident(row), Version(partition, {}, deleted=True, by_key=True)

    def merge(self, flushes: Iterable[Changes]) -> None:
        """Merge what a write brings; each of its runs is folded by itself first."""
        incoming: dict[Ident, list[Version]] = defaultdict(list)
        for changes in flushes:
            folded: dict[Ident, Version] = {}
            for ident, version in changes:
                held = folded.get(ident)
                folded[ident] = version if held is None else fold(held, version)
            for ident, version in folded.items():
                incoming[ident].append(version)
        new_groups = set()
        for ident, versions in incoming.items():
            if not self.shape.on_read:
                self._settle(ident, self._with_old(ident, versions))
            elif self.shape.index == "bucket":
                group = self.shape.group(*ident)
                if group in self.groups:
                    self.versions[ident] = self._with_old(ident, versions)
                elif self._create(ident, reduce(fold, versions)):
                    new_groups.add(group)
            else:
                self._look_up(ident, reduce(fold, versions))
        self.groups |= new_groups

    def _with_old(self, ident: Ident, versions: list[Version]) -> Version:
        held = self.versions.get(ident)
        return reduce(fold, versions if held is None else [held, *versions])

    def _settle(self, ident: Ident, version: Version) -> None:
        """Put a version into a base file: deletes are forgotten, missing columns are null."""
        if version.deleted:
            self.versions.pop(ident, None)
        else:
            self.versions[ident] = replace(version, partial=False)

    def _create(self, ident: Ident, version: Version) -> bool:
        """Put a version into a new file group: its base file, or for a delete a log."""
        if version.by_key:
            return False
        self.versions[ident] = replace(version, partial=False)
        if not version.deleted:
            self.base[ident] = version.values
        return True

    def _look_up(self, ident: Ident, version: Version) -> None:
        held = self.versions.get(ident)
        if held is None:
            self._settle(ident, version)
            return
        stands = fold(held, version)
        if held.deleted and not held.by_key and not version.deleted and stands.deleted:
            self.doubtful[ident] = replace(version, partial=False)
        self.versions[ident] = stands

    def settle_doubts(self, shown: Iterable[Ident]) -> None:
        """Take over what a table with a simple index shows where both would be right."""
        keys = set(shown)
        for ident, version in self.doubtful.items():
            if (version.partition, ident[1]) in keys:
                self.versions[ident] = version
        self.doubtful.clear()

    def drop(self, partitions: Iterable[str] | None) -> None:
        """End partitions, all of them for None: deletes are forgotten too."""
        gone = None if partitions is None else set(partitions)

        def stays(partition: str) -> bool:
            return gone is not None and partition not in gone

        self.versions = {i: v for i, v in self.versions.items() if stays(v.partition)}
        self.groups = {group for group in self.groups if stays(group[0])}
        self.base = {i: row for i, row in self.base.items() if stays(i[0])}
