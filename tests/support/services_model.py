"""A model that knows all of a table's past: what each commit did to the versions of each key."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from support.lsm_model import Ident, ModelTable, Version

Group = tuple[str, int]


@dataclass
class ServicedTable(ModelTable):
    """A model that also says what the last write did, so that it can be done again elsewhere."""

    non_blocking: bool = False
    dropped: set[str] | None = field(default_factory=set)
    appended: dict[Ident, tuple[Version, ...]] = field(default_factory=dict)

    def _append(self, ident: Ident, versions: list[Version]) -> None:
        held = len(self.versions.get(ident, ()))
        super()._append(ident, versions)
        self.appended[ident] = self.appended.get(ident, ()) + self.versions[ident][held:]

    def _create(self, ident: Ident, version: Version) -> None:
        if self.non_blocking:
            # Only services write base files.
            self.groups.add(self.shape.group(*ident))
            self._append(ident, [version])
            return
        super()._create(ident, version)
        if ident in self.versions:
            self.appended[ident] = self.versions[ident]

    def drop(self, partitions: Iterable[str] | None) -> None:
        """End partitions, and note it."""
        gone = None if partitions is None else set(partitions)
        self.dropped = None if gone is None or self.dropped is None else self.dropped | gone
        before = self.versions
        super().drop(gone)
        if gone is not None and self.shape.is_global and self.shape.on_read:
            # A base file of a partition that stays may hold the key, with a delete on top.
            for ident in before.keys() - self.versions.keys():
                self.versions[ident] = (replace(before[ident][0], deleted=True, by_key=True),)

    def is_risky(self, ident: Ident) -> bool:
        """Tell whether it matters for a key, now or later, in which order versions are folded."""
        held = self.versions.get(ident, ())
        odd = any(v.by_key or v.partial for v in held)
        return odd and self.has_late(ident)

    def has_late(self, ident: Ident) -> bool:
        """Tell whether a version of a key came late."""
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
        """Tell whether the commit ended a partition."""
        return self.dropped is None or partition in self.dropped

    def apply(self, table: ServicedTable) -> None:
        """Do it to a model that is as it was before."""
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
