"""What a table should hold after any history of operations: a dictionary and the merge rules."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import pyarrow as pa

from lakebed.format.names.bucket_hash import key_buckets
from lakebed.format.names.meta_columns import COMMIT_TIME

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

    @property
    def folds_logs_first(self) -> bool:
        """Tell whether logs are folded before they meet the base file, as Hudi does."""
        return self.layout == "default"

    def partition(self, row: Mapping[str, Any]) -> str:
        return row["dt"] if self.partition_by else ""

    def record_key(self, row: Mapping[str, Any]) -> str:
        if len(self.key) == 1:
            return str(row[self.key[0]])
        return ",".join(f"{name}:{row[name]}" for name in self.key)

    def ident(self, row: Mapping[str, Any]) -> Ident:
        return ("" if self.is_global else self.partition(row), self.record_key(row))

    def group(self, partition: str, key: str) -> tuple[str, int]:
        """Return the file group of a key under a bucket index."""
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
    in_base: bool = False


def fold_in_sequence(old: Version, new: Version) -> Version:
    """Return what stands of a key after one more version; without ordering columns the newer wins.

    A delete by key starts the key anew, and a version that loses gives nothing.
    """
    if not (old.by_key or new.by_key) and new.order < old.order:
        return old
    if not new.partial or new.deleted:
        return new
    if old.deleted:
        return replace(new, partial=False)
    return replace(new, values={**old.values, **new.values}, partial=old.partial)


def fold_as_hudi(old: Version, new: Version) -> Version:
    """Return what stands of two versions where logs are folded among themselves.

    Of two deletes the older one stays if it has no ordering value, as in Hudi.
    """
    if old.deleted and old.by_key and new.deleted:
        return old
    new_wins = new.by_key or old.by_key or new.order >= old.order
    winner, loser = (new, old) if new_wins else (old, new)
    if winner.deleted or loser.deleted or not winner.partial:
        return winner
    return replace(winner, values={**loser.values, **winner.values}, partial=loser.partial)


def meet_base(base: Version, logs: Version) -> Version:
    """Return what stands of a base file's row and of what its logs have come to."""
    if base.order > logs.order and not logs.by_key:
        return base
    return fold_as_hudi(replace(base, order=logs.order), logs)


Changes = Sequence[tuple[Ident, Version]]


@dataclass
class ModelTable:
    """The versions of each key, deletes that a merge-on-read table remembers included.

    On a merge-on-read table with a bucket index these are the versions of the base file and of
    every log; elsewhere they are folded into one at each write.
    """

    shape: Shape
    versions: dict[Ident, tuple[Version, ...]] = field(default_factory=dict)
    groups: set[tuple[str, int]] = field(default_factory=set)
    # The greatest ordering value that a key ever had, and keys that were updated in part.
    highest: dict[Ident, tuple[Any, ...]] = field(default_factory=dict)
    patched: set[Ident] = field(default_factory=set)
    # Keys of which a late row came.
    late: set[Ident] = field(default_factory=set)
    # Keys that some base file may still hold, deleted or not.
    seen: set[Ident] = field(default_factory=set)

    @property
    def keeps_logs(self) -> bool:
        return self.shape.on_read and self.shape.index == "bucket"

    def standing(self, ident: Ident) -> Version | None:
        """Fold the versions of a key as a reader does."""
        held = self.versions.get(ident)
        if not held:
            return None
        first, *logs = held
        if first.in_base and logs and self.shape.folds_logs_first:
            return meet_base(first, reduce(fold_as_hudi, logs))
        return reduce(self.fold, held)

    def fold(self, old: Version, new: Version) -> Version:
        """Return what stands of two versions that follow one another."""
        chosen = fold_as_hudi if self.shape.folds_logs_first else fold_in_sequence
        return chosen(old, new)

    def compacted(self, held: tuple[Version, ...]) -> tuple[Version, ...]:
        """Return what a full compaction leaves of the versions of a key.

        A delete with an ordering value is kept as a tombstone, unless Hudi's rules hold.
        """
        stands = replace(self, versions={("", ""): held}).standing(("", "")) if held else None
        if stands is None or (stands.deleted and (stands.by_key or self.shape.folds_logs_first)):
            return ()
        return (replace(stands, partial=False, in_base=not stands.deleted),)

    def rows(self) -> dict[Ident, Row]:
        """Return the rows that a snapshot shows, by partition and record key."""
        standing = ((ident[1], self.standing(ident)) for ident in self.versions)
        return {(v.partition, key): v.values for key, v in standing if v and not v.deleted}

    def base_rows(self) -> dict[Ident, Row]:
        """Return the rows of the base files alone."""
        if not self.shape.on_read:
            return self.rows()
        return {ident: held[0].values for ident, held in self.versions.items() if held[0].in_base}

    def version(self, row: Row, instant: str, *, partial: bool = False) -> tuple[Ident, Version]:
        """Return the version that an incoming row is."""
        order = tuple(row[name] for name in self.shape.ordering)
        deleted = bool(row.get(IS_DELETED))
        values = {name: value for name, value in row.items() if name != IS_DELETED}
        values[COMMIT_TIME] = instant
        made = Version(self.shape.partition(row), values, order, partial=partial, deleted=deleted)
        return self.shape.ident(row), made

    def delete_of(self, row: Row) -> tuple[Ident, Version]:
        """Return the delete of a key."""
        partition = self.shape.partition(row)
        return self.shape.ident(row), Version(partition, {}, deleted=True, by_key=True)

    def merge(self, flushes: Iterable[Changes]) -> None:
        """Merge what a write brings; each of its runs is folded by itself first."""
        incoming: dict[Ident, list[Version]] = defaultdict(list)
        for changes in flushes:
            folded: dict[Ident, Version] = {}
            for ident, version in changes:
                held = folded.get(ident)
                folded[ident] = version if held is None else self.fold(held, version)
                self.highest[ident] = max(version.order, self.highest.get(ident, ()))
                if version.partial:
                    self.patched.add(ident)
            for ident, version in folded.items():
                incoming[ident].append(version)
        self.seen |= incoming.keys()
        before = frozenset(self.groups)
        for ident, versions in incoming.items():
            if not self.keeps_logs:
                self._fold_in(ident, versions)
            elif self.shape.group(*ident) in before:
                self._append(ident, versions)
            else:
                self._create(ident, reduce(self.fold, versions))

    def _append(self, ident: Ident, versions: list[Version]) -> None:
        """Add versions as logs; a partial one only where there is a row that it changes."""
        if versions[0].partial:
            merged = reduce(self.fold, versions)
            stands = self.standing(ident)
            if stands is None or stands.deleted:
                merged = replace(merged, partial=False)
            elif not self.shape.ordering or self.shape.version < 10:
                # Written whole, from the row that stands.
                values = {**stands.values, **merged.values}
                merged = replace(merged, values=values, partial=False)
            versions = [merged]
        self.versions[ident] = (*self.versions.get(ident, ()), *versions)

    def _create(self, ident: Ident, version: Version) -> None:
        """Put a version into a new file group: its base file, or for a delete a log."""
        if version.by_key:
            return  # there is nothing to delete
        self.groups.add(self.shape.group(*ident))
        self.versions[ident] = (replace(version, partial=False, in_base=not version.deleted),)

    def _fold_in(self, ident: Ident, versions: list[Version]) -> None:
        held = self.versions.get(ident, ())
        stands = replace(reduce(self.fold, [*held, *versions]), partial=False)
        if stands in held:
            self.late.add(ident)
        # A simple index drops deletes of keys that no base file holds.
        if stands.deleted and not (self.shape.on_read and held):
            self.versions.pop(ident, None)
        else:
            self.versions[ident] = (stands,)

    def depends_on_files(self, ident: Ident, order: tuple[Any, ...]) -> bool:
        """Tell whether it follows from the files, not from the history, what becomes of a row.

        With a simple index a row goes to a log or into a rewritten base file, as its file group
        has logs or not, and a late row may meet a delete or a partial update there or not.
        """
        if self.shape.index == "bucket" or not (self.shape.on_read and self.shape.ordering):
            return False
        held = self.versions.get(ident)
        # Under a global index a partition that ends takes a key's row along, but not the delete
        # of its older row in another partition.
        deleted = held[0].deleted if held else self.shape.is_global and ident in self.seen
        touched = ident in self.patched or deleted
        return touched and order < self.highest.get(ident, ())

    def drop(self, partitions: Iterable[str] | None) -> None:
        """End partitions, all of them for None: deletes are forgotten too."""
        gone = None if partitions is None else set(partitions)

        def stays(partition: str) -> bool:
            return gone is not None and partition not in gone

        self.versions = {i: held for i, held in self.versions.items() if stays(held[0].partition)}
        self.groups = {group for group in self.groups if stays(group[0])}
        # Under a global index a key may have been in several partitions.
        kept = gone is not None and self.shape.is_global
        self.seen = {ident for ident in self.seen if kept or stays(ident[0])}
