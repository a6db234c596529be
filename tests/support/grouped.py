"""A model of a table with column groups: each group folds its own versions, a row is their union."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from support.model import Version, fold_in_sequence

Row = dict[str, Any]


@dataclass(frozen=True)
class Groups:
    """Which columns each group holds, and by which column it orders versions; "" is the default."""

    columns: Mapping[str, tuple[str, ...]]
    ordering: Mapping[str, str | None]
    shared: tuple[str, ...] = ("id",)

    def touched(self, names: Iterable[str]) -> list[str]:
        """Return the groups that own one of these columns, as a write sees them."""
        table = self.ordering[""]
        own = [
            group
            for group, columns in self.columns.items()
            if any(name in columns and not (group == "" and name == table) for name in names)
        ]
        if table in names and not any(self.ordering[group] == table for group in own):
            own = ["", *own]
        return own or [""]


@dataclass
class GroupedModel:
    """The versions of each key in each column group."""

    groups: Groups
    versions: dict[str, dict[str, list[Version]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for group in self.groups.columns:
            self.versions.setdefault(group, {})

    def copy(self) -> "GroupedModel":
        held = {
            group: {key: list(of) for key, of in keys.items()}
            for group, keys in self.versions.items()
        }
        return GroupedModel(self.groups, held)

    def write(self, rows: Sequence[Row], *, deleted: str | None = None) -> None:
        """Add rows, of which `deleted` names the column that marks deletes."""
        names = [name for name in rows[0] if name != deleted] if rows else []
        touched = self.groups.touched(names) if rows else []
        for group in self.groups.columns:
            for row in rows:
                gone = bool(deleted and row[deleted])
                if group in touched or gone:
                    self._add(group, str(row["id"]), self._version(group, row, gone=gone))

    def delete(self, keys: Iterable[object]) -> None:
        """Delete keys, whatever their ordering values."""
        for group in self.groups.columns:
            for key in keys:
                self._add(group, str(key), Version("", {}, (), deleted=True, by_key=True))

    def update(self, values: Row, keys: Iterable[str]) -> None:
        """Set columns of some rows, which win in each group over the versions that were read."""
        rows = self.rows()
        for group, columns in self.groups.columns.items():
            ordering = self.groups.ordering[group]
            changed = {name: value for name, value in values.items() if name in columns}
            for key in keys if changed else ():
                order = () if ordering is None else (rows[key][ordering],)
                stands = self.standing(group, key)
                if ordering not in columns and stands is not None and not stands.deleted:
                    order = max(order, stands.order)  # a copy of the table's ordering column
                whole = {name: rows[key][name] for name in columns} | changed
                self._add(group, key, Version("", whole, order))

    def _version(self, group: str, row: Row, *, gone: bool) -> Version:
        ordering = self.groups.ordering[group]
        order = () if ordering is None else (row[ordering],)
        if gone:
            return Version("", {}, order, deleted=True, by_key=ordering is None)
        values = {name: row[name] for name in self.groups.columns[group] if name in row}
        partial = len(values) < len(self.groups.columns[group])
        return Version("", values, order, partial=partial)

    def _add(self, group: str, key: str, version: Version) -> None:
        self.versions[group].setdefault(key, []).append(version)

    def standing(self, group: str, key: str) -> Version | None:
        held = self.versions[group].get(key)
        return reduce(fold_in_sequence, held) if held else None

    def compact(self, groups: Iterable[str] | None = None) -> None:
        """Fold the versions of some groups; a delete without an ordering value is forgotten."""
        for group in self.groups.columns if groups is None else groups:
            for key, held in list(self.versions[group].items()):
                last = reduce(fold_in_sequence, held)
                if last.deleted and last.by_key:
                    del self.versions[group][key]
                else:
                    self.versions[group][key] = [replace(last, partial=False)]

    def rows(self) -> dict[str, Row]:
        """Return each row by its key: a row exists if any group holds it."""
        found: dict[str, Row] = {}
        for group, keys in self.versions.items():
            for key in keys:
                stands = self.standing(group, key)
                if stands is not None and not stands.deleted:
                    found.setdefault(key, {}).update(stands.values)
        return {key: {"id": int(key), **self._nulls(), **row} for key, row in found.items()}

    def _nulls(self) -> Row:
        return {name: None for columns in self.groups.columns.values() for name in columns}

    def drop(self, group: str) -> None:
        """Drop a group; keys that only it holds stay in the default group."""
        for key in self.versions[group]:
            stands = self.standing(group, key)
            if stands is None or stands.deleted:
                continue
            elsewhere = [
                found
                for other in self.versions
                if other != group and (found := self.standing(other, key)) is not None
            ]
            if all(found.deleted for found in elsewhere):
                # Nothing orders such a row: any version that comes wins over it.
                self.versions[""][key] = [Version("", {}, (), partial=True, by_key=True)]
        del self.versions[group]
        columns = {name: of for name, of in self.groups.columns.items() if name != group}
        ordering = {name: of for name, of in self.groups.ordering.items() if name != group}
        self.groups = replace(self.groups, columns=columns, ordering=ordering)
