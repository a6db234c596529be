"""What a table must show after any history: versions of keys, and the rules that merge them.

`ModelTable` is a table at one moment: a dictionary from keys to versions. `History` is a list of
events, one for each commit, with what it did to the versions of each key; the replay of all events
up to a moment is what a read as of it shows. A compaction that was planned early and carried out
late counts from its plan on, and what is rolled back is left out. `replay` and `check_incremental`
compare reads of changes with the moments before and after them.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import pyarrow as pa

from lakebed.format.names.bucket_hash import key_buckets
from lakebed.format.names.meta_columns import COMMIT_TIME

Row = dict[str, Any]
Ident = tuple[str, str]
Group = tuple[str, int]

COLUMNS = pa.schema(
    [
        ("id", pa.string()),
        ("k2", pa.int32()),
        ("dt", pa.string()),
        ("ts", pa.int64()),
        ("seq", pa.string()),
        ("n", pa.int32()),
        ("select", pa.string()),
    ]
)
NOTE = pa.field("note", pa.string())
WIDE = pa.field("n", pa.int64())
ALL_TIME = "9" * 17
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
    hive: bool = False
    # Whether a global index takes a key along when its partition column changes.
    moves: bool = True

    @property
    def on_read(self) -> bool:
        return self.table_type == "MERGE_ON_READ"

    @property
    def is_global(self) -> bool:
        return self.index.startswith("global_")

    @property
    def folds_logs_first(self) -> bool:
        """Return whether logs are folded before they meet the base file, as Hudi does."""
        return self.layout == "default"

    def partition(self, row: Mapping[str, Any]) -> str:
        if not self.partition_by:
            return ""
        [name] = self.partition_by
        return f"{name}={row[name]}" if self.hive else str(row[name])

    def record_key(self, row: Mapping[str, Any]) -> str:
        if len(self.key) == 1:
            return str(row[self.key[0]])
        return ",".join(f"{name}:{row[name]}" for name in self.key)

    def ident(self, row: Mapping[str, Any]) -> Ident:
        return ("" if self.is_global else self.partition(row), self.record_key(row))

    def group(self, partition: str, key: str) -> Group:
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

    What the last write did is noted, so that it can be done again elsewhere. On a merge-on-read table with a bucket index these are the versions of the base file and of
    every log; elsewhere they are folded into one at each write.
    """

    shape: Shape
    versions: dict[Ident, tuple[Version, ...]] = field(default_factory=dict)
    groups: set[Group] = field(default_factory=set)
    # The greatest ordering value that a key ever had, and keys that were updated in part.
    highest: dict[Ident, tuple[Any, ...]] = field(default_factory=dict)
    patched: set[Ident] = field(default_factory=set)
    # Keys of which a late row came.
    late: set[Ident] = field(default_factory=set)
    # Keys that some base file may still hold, deleted or not.
    seen: set[Ident] = field(default_factory=set)
    # With writers that do not wait for each other only services write base files.
    non_blocking: bool = False
    # What the last write did: partitions that it ended (all for None), versions that it added.
    dropped: set[str] | None = field(default_factory=set)
    appended: dict[Ident, tuple[Version, ...]] = field(default_factory=dict)

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
        self.appended[ident] = (*self.appended.get(ident, ()), *versions)

    def _create(self, ident: Ident, version: Version) -> None:
        """Put a version into a new file group: its base file, or for a delete a log."""
        if self.non_blocking:
            self.groups.add(self.shape.group(*ident))
            self._append(ident, [version])
        elif not version.by_key:  # else there is nothing to delete
            self.groups.add(self.shape.group(*ident))
            made = replace(version, partial=False, in_base=not version.deleted)
            self.versions[ident] = self.appended[ident] = (made,)

    def _fold_in(self, ident: Ident, versions: list[Version]) -> None:
        held = self.versions.get(ident, ())
        stands = replace(reduce(self.fold, [*held, *versions]), partial=False)
        if stands in held:
            self.late.add(ident)
        if held and not self.shape.moves:
            stands = replace(stands, partition=held[0].partition)
        # A simple index drops deletes of keys that no base file holds.
        if stands.deleted and not (self.shape.on_read and held):
            self.versions.pop(ident, None)
        else:
            self.versions[ident] = (stands,)

    def depends_on_files(self, ident: Ident, order: tuple[Any, ...]) -> bool:
        """Return whether it follows from the files, not from the history, what becomes of a row.

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
        self.dropped = None if gone is None or self.dropped is None else self.dropped | gone
        before = self.versions

        def stays(partition: str) -> bool:
            return gone is not None and partition not in gone

        self.versions = {i: held for i, held in self.versions.items() if stays(held[0].partition)}
        self.groups = {group for group in self.groups if stays(group[0])}
        # Under a global index a key may have been in several partitions.
        kept = gone is not None and self.shape.is_global
        self.seen = {ident for ident in self.seen if kept or stays(ident[0])}
        if kept and self.shape.on_read:
            # A base file of a partition that stays may hold the key, with a delete on top.
            for ident in before.keys() - self.versions.keys():
                self.versions[ident] = (replace(before[ident][0], deleted=True, by_key=True),)

    def is_risky(self, ident: Ident) -> bool:
        """Return whether it matters for a key, now or later, in which order versions are folded."""
        odd = any(v.by_key or v.partial for v in self.versions.get(ident, ()))
        return odd and self.has_late(ident)

    def has_late(self, ident: Ident) -> bool:
        """Return whether a version of a key came late."""
        orders = [v.order for v in self.versions.get(ident, ()) if not v.by_key]
        return orders != sorted(orders)


@dataclass(frozen=True)
class Event:
    """What one commit did. `based` is what full compactions put into base files, by key.

    Where a model folds at each write, `whole` is all that it held after the commit.
    """

    at: str
    columns: tuple[pa.Field, ...]
    dropped: frozenset[str] | None = frozenset()
    appended: Mapping[Ident, tuple[Version, ...]] = field(default_factory=dict)
    based: Mapping[Ident, tuple[Version, ...]] = field(default_factory=dict)
    groups: frozenset[Group] = frozenset()
    whole: Mapping[Ident, tuple[Version, ...]] | None = None
    seen: frozenset[Ident] = frozenset()

    def drops(self, partition: str) -> bool:
        """Return whether the commit ended a partition."""
        return self.dropped is None or partition in self.dropped

    def apply(self, table: ModelTable) -> None:
        """Carry it out on a model that is as it was before."""
        if not table.keeps_logs:
            if self.whole is not None:
                table.versions = dict(self.whole)
                table.seen |= self.seen
            return
        if self.dropped != frozenset():
            table.drop(self.dropped)
        for ident, held in self.based.items():
            table.versions[ident] = held
            if not held:
                del table.versions[ident]
        for ident, new in self.appended.items():
            table.versions[ident] = table.versions.get(ident, ()) + new
        table.groups |= self.groups


@dataclass
class History:
    """All commits of a table, in the order of their instants."""

    now: ModelTable
    events: list[Event] = field(default_factory=list)

    def state_at(self, until: str = ALL_TIME) -> ModelTable:
        """Return the table as of an instant."""
        now = self.now
        table = ModelTable(now.shape, non_blocking=now.non_blocking)
        for event in self.events:
            if event.at <= until:
                event.apply(table)
        table.highest, table.patched, table.late = now.highest, now.patched, now.late
        table.dropped, table.appended = set(), {}
        return table

    def wrote(self, instant: str, columns: Iterable[pa.Field]) -> Event:
        """Add what the present table notes of its last write."""
        table = self.now
        assert instant > max((e.at for e in self.events), default=""), "instants go on"
        event = Event(
            instant,
            tuple(columns),
            None if table.dropped is None else frozenset(table.dropped),
            table.appended,
            groups=frozenset(table.groups),
            whole=None if table.keeps_logs else dict(table.versions),
            seen=frozenset(table.seen),
        )
        self.events.append(event)
        table.dropped, table.appended = set(), {}
        return event

    def rewrote(self, at: str, groups: set[Group] | None) -> Event:
        """Add a rewrite that was planned at an instant; `groups` are those that have new base files."""
        columns = next((e.columns for e in reversed(self.events) if e.at < at), tuple(COLUMNS))
        based: dict[Ident, tuple[Version, ...]] = {}
        if groups:
            later = [event for event in self.events if event.at > at]
            left = {group for group in groups if not any(e.drops(group[0]) for e in later)}
            before = self.state_at(at)
            idents = [i for i in before.versions if self.now.shape.group(*i) in left]
            based = {ident: before.compacted(before.versions[ident]) for ident in idents}
        event = Event(at, columns, based=based)
        self.events = sorted([*self.events, event], key=lambda event: event.at)
        return event

    def go_on(self) -> None:
        """Go on from what the events come to."""
        seen = self.now.seen
        self.now = self.state_at()
        self.now.seen |= seen

    def take_back(self, gone: Callable[[Event], bool]) -> None:
        """Leave commits out."""
        self.events = [event for event in self.events if not gone(event)]
        self.go_on()

    def shown_by_compactions(self, until: str) -> set[Ident]:
        """Return the keys of which a compaction may show another row than was there before it.

        Where logs are folded before they meet the base file, a late row hides behind a delete that
        a compaction forgets, or, after a delete by key or a partial row, behind the base file that
        a compaction rewrites. One that was planned before the row came ends after it, and no
        change tells what it shows.
        """
        odd: set[Ident] = set()
        late: set[Ident] = set()
        highest: dict[Ident, tuple[Any, ...]] = {}
        for event in self.events:
            for ident, versions in event.appended.items() if event.at <= until else ():
                for version in versions:
                    if version.deleted or version.partial:
                        odd.add(ident)
                    if not version.by_key:
                        if version.order < highest.get(ident, version.order):
                            late.add(ident)
                        highest[ident] = max(version.order, highest.get(ident, version.order))
        return odd & late


def replay(
    state: dict[Ident, Row],
    changes: Iterable[Mapping[str, Any]],
    ident_of: Callable[[Mapping[str, Any]], Ident],
) -> dict[Ident, Row]:
    """Carry change rows out on a state; each must fit what is there when its turn comes."""
    held = dict(state)
    # A commit that replaces a file group deletes its rows before it inserts others.
    for change in sorted(changes, key=lambda row: (row["ts_ms"], row["op"])):
        before, after, op = change["before"], change["after"], change["op"]
        ident = ident_of(before if after is None else after)
        assert (before is None, after is None) == (op == "i", op == "d"), change
        assert held.get(ident) == before, f"{ident}: held {held.get(ident)}, change {change}"
        if after is None:
            del held[ident]
        else:
            held[ident] = dict(after)
    return held


def check_incremental(
    found: Iterable[Mapping[str, Any]],
    state: Mapping[Ident, Row],
    written: Collection[str],
    ident_of: Callable[[Mapping[str, Any]], Ident],
) -> None:
    """Assert that what the commits `written` wrote and what still stands is found as it stands.

    More may be found: a row that lost against one that is older than the range.
    """
    seen: dict[Ident, Mapping[str, Any]] = {}
    for row in found:
        ident = ident_of(row)
        assert ident not in seen, f"{ident} occurs twice"
        assert row[COMMIT_TIME] in written, row
        seen[ident] = row
    for ident, row in state.items():
        if row[COMMIT_TIME] in written:
            assert seen.get(ident) == row, f"{ident}: expected {row}, found {seen.get(ident)}"
        elif ident in seen:
            assert seen[ident][COMMIT_TIME] > row[COMMIT_TIME], (seen[ident], row)
