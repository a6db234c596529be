"""The definition of column groups, and the groups of a table at one point in time.

A table property defines each group; columns in no group form the default group, whose name is
empty:

    hoodie.columngroup.<name>      <column>,<column>...[;<ordering column>]
    lakebed.columngroup.instants   {"<name>": [<first instant>, <last instant>]}

The second property lists groups that were added or dropped after the table was created. A group
exists from the commit of its first instant until the commit of its last. So an instant that is
rolled back has no effect, and time travel uses the groups of that time.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Self

from lakebed.errors import CorruptError, InvalidError

PROPERTY_PREFIX: Final = "hoodie.columngroup."
INSTANTS_PROPERTY: Final = "lakebed.columngroup.instants"
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}", re.ASCII)

Given = str | Sequence[str]
"""The columns of a group: `"a,b;ordering"`, or a list of names."""


@dataclass(frozen=True, slots=True)
class ColumnGroup:
    """A group of columns that is stored in separate files.

    `columns` includes the `ordering` column, if the group has one. `since` and `until` are the
    instants that added and dropped the group; None if it was created with the table, or not
    dropped.
    """

    name: str
    columns: tuple[str, ...]
    ordering: str | None = None
    since: str | None = field(default=None, compare=False)
    until: str | None = field(default=None, compare=False)

    @classmethod
    def parse(cls, name: str, text: str) -> Self:
        """Parse the value of a group's property; raise InvalidError if it is not valid."""
        listed, _, ordering = text.partition(";")
        return cls.create(name, listed.split(","), ordering.strip() or None)

    @classmethod
    def create(cls, name: str, columns: Iterable[str], ordering: str | None = None) -> Self:
        """Return a group; raise InvalidError for an invalid name or a repeated column."""
        if not _NAME.fullmatch(name):
            raise InvalidError(
                f"column group {name!r}: expected a name of at most 64 letters, digits and '-' that "
                "begins with a letter"
            )
        listed = [column.strip() for column in columns]
        if not all(listed) or not listed:
            raise InvalidError(
                f"column group {name!r}: expected its columns as 'a,b' or 'a,b;ordering', found "
                f"{','.join(listed)!r}"
            )
        if ordering is not None and ordering not in listed:
            listed.append(ordering)
        if len(set(listed)) < len(listed):
            raise InvalidError(
                f"column group {name!r}: a column is listed twice: {', '.join(listed)}"
            )
        return cls(name, tuple(listed), ordering)

    def encode(self) -> str:
        """Return the value of the group's property."""
        ordering = f";{self.ordering}" if self.ordering else ""
        listed = [column for column in self.columns if column != self.ordering]
        return ",".join(listed or self.columns) + ordering

    @property
    def property_name(self) -> str:
        """Return the name of the table property that defines the group."""
        return PROPERTY_PREFIX + self.name


def parse_given(name: str, given: Given, ordering: str | None = None) -> ColumnGroup:
    """Return the group that a caller defines, by its property's string or a list of columns."""
    if isinstance(given, str):
        group = ColumnGroup.parse(name, given)
        if ordering is not None and group.ordering not in (None, ordering):
            raise InvalidError(
                f"column group {name!r}: the ordering column is given twice, as {group.ordering!r} "
                f"and as {ordering!r}"
            )
        return ColumnGroup.create(name, group.columns, ordering or group.ordering)
    if not isinstance(given, Sequence) or not all(isinstance(one, str) for one in given):
        raise InvalidError(
            f"column group {name!r}: expected 'a,b;ordering' or a list of columns, found {given!r}"
        )
    return ColumnGroup.create(name, given, ordering)


def parse_groups(properties: Mapping[str, str]) -> tuple[ColumnGroup, ...]:
    """Return every group that the properties define, dropped groups included."""
    names = [key for key in properties if key.startswith(PROPERTY_PREFIX)]
    if not names:
        return ()
    instants = _parse_instants(properties.get(INSTANTS_PROPERTY))
    found = []
    for key in sorted(names):
        name = key.removeprefix(PROPERTY_PREFIX)
        since, until = instants.get(name, (None, None))
        found.append(replace(ColumnGroup.parse(name, properties[key]), since=since, until=until))
    return tuple(found)


def encode_groups(groups: Iterable[ColumnGroup]) -> dict[str, str]:
    """Return the table properties that define the groups; there must be at least one."""
    held = list(groups)
    found = {group.property_name: group.encode() for group in held}
    instants = {
        group.name: [group.since, group.until]
        for group in held
        if group.since is not None or group.until is not None
    }
    return {**found, INSTANTS_PROPERTY: json.dumps(instants)} if instants else found


def _parse_instants(text: str | None) -> dict[str, tuple[str | None, str | None]]:
    if text is None:
        return {}
    try:
        return {str(name): (since, until) for name, (since, until) in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptError(
            f"{INSTANTS_PROPERTY}={text}: expected the instants of column groups: {error}"
        ) from error


@dataclass(frozen=True)
class ColumnGroups:
    """The column groups of a table at one point in time; empty for an ordinary table.

    `shared` are the key and partition columns, which every group stores. `ordering` are the table's
    ordering columns: groups without their own ordering column store a copy, used only to order
    versions; readers see the values of the default group.
    """

    groups: tuple[ColumnGroup, ...] = ()
    shared: tuple[str, ...] = ()
    ordering: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.groups)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all groups, the default group ("") first."""
        return ("", *(group.name for group in self.groups))

    def find(self, name: str) -> ColumnGroup | None:
        """Return the group with this name; None for the default group or an unknown name."""
        return next((group for group in self.groups if group.name == name), None)

    def owner(self, column: str) -> str:
        """Return the name of the group from which readers take the values of a column."""
        return self._owners.get(column, "")

    @cached_property
    def _owners(self) -> Mapping[str, str]:
        return {column: group.name for group in self.groups for column in group.columns}

    def ordering_of(self, name: str) -> tuple[str, ...]:
        """Return the columns by which a group orders versions of a key."""
        group = self.find(name)
        if group is not None and group.ordering is not None:
            return (group.ordering,)
        return self.ordering

    def holds(self, name: str, column: str) -> bool:
        """Return whether a group's files store a column."""
        return bool(self.columns_of(name, [column]))

    def columns_of(self, name: str, columns: Iterable[str]) -> list[str]:
        """Return those of `columns` that a group's files store."""
        always, owners = {*self.shared, *self.ordering_of(name)}, self._owners
        return [column for column in columns if owners.get(column, "") == name or column in always]

    def touched(self, columns: Collection[str]) -> tuple[str, ...]:
        """Return the groups that a write of `columns` changes.

        The table's ordering columns belong to the default group, but writing them does not change
        it if another changed group stores a copy of them.
        """
        free = [column for column in columns if column not in self.shared]
        owners = {self.owner(column) for column in free if column not in self.ordering}
        ordering = {column for column in free if column in self.ordering}
        if ordering and not any(ordering & {*self.ordering_of(name)} for name in owners):
            owners.add("")
        return tuple(name for name in self.names if name in owners)


def served_groups(
    groups: Iterable[ColumnGroup], is_committed: Callable[[str], bool], instant: str
) -> tuple[str, ...]:
    """Return the groups whose columns a base file of all columns holds, by its instant.

    These are the groups that existed when its compaction was planned.
    """
    there = (
        group
        for group in groups
        if (group.since is None or group.since < instant)
        and not (group.until is not None and group.until < instant and is_committed(group.until))
    )
    return ("", *(group.name for group in there))


NO_GROUPS: Final = ColumnGroups()
"""The groups of a table without column groups."""


def groups_at(
    groups: Iterable[ColumnGroup],
    is_committed: Callable[[str], bool],
    shared: Sequence[str],
    ordering: Sequence[str],
) -> ColumnGroups:
    """Return the groups that exist on a timeline, given which instants it has committed."""
    there = tuple(
        group
        for group in groups
        if (group.since is None or is_committed(group.since))
        and not (group.until is not None and is_committed(group.until))
    )
    return ColumnGroups(there, tuple(shared), tuple(ordering)) if there else NO_GROUPS
