"""What a base file with the columns of all column groups says in its footer.

Such a file is a base file of each group that existed when it was planned. Its rows have the columns
of all groups, and the stamps of their newest part. Two things differ between the groups of a row:
the commit time, and the copies of the table's ordering columns. The file stores them in columns of
its own, so that later versions of a group are resolved against the values of this group.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

from lakebed.errors import CorruptError
from lakebed.format.names.meta_columns import COMMIT_TIME, META_COLUMNS, OUR_PREFIX
from lakebed.groups.definition import ColumnGroups


@dataclass(frozen=True, slots=True)
class WideColumns:
    """The columns of a file by column group; the default group is "".

    `shared` are the key and partition columns. `columns` are those that readers take from each
    group. `own` maps columns that several groups have, with different values, to the names under
    which the file stores those of one group.
    """

    shared: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]]
    own: Mapping[str, Mapping[str, str]]

    @classmethod
    def of(cls, groups: ColumnGroups, schema_names: Sequence[str]) -> Self:
        """Return the columns of a new file, of a table with these groups and columns."""
        columns, own = {}, {}
        for number, name in enumerate(groups.names):
            owned = [c for c in schema_names if c not in groups.shared and groups.owner(c) == name]
            copies = [c for c in groups.ordering_of(name) if groups.owner(c) != name]
            columns[name] = tuple(owned)
            own[name] = {c: f"{OUR_PREFIX}{number}_{c}" for c in (COMMIT_TIME, *copies)}
        return cls(groups.shared, columns, own)

    @classmethod
    def parse(cls, text: str | None, what: str) -> Self:
        """Parse the result of `encode`; raise CorruptError, naming `what`, if it is not valid."""
        try:
            values = cast("dict[str, Any]", json.loads(text or ""))
            return cls(
                tuple(map(str, values["shared"])),
                {name: tuple(map(str, of)) for name, of in values["columns"].items()},
                {
                    name: {str(column): str(stored) for column, stored in of.items()}
                    for name, of in values["own"].items()
                },
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptError(
                f"{what}: by its name it holds the columns of all column groups, but its footer "
                f"does not list them ({error!r})"
            ) from error

    def encode(self) -> str:
        """Return the entry of the footer as JSON."""
        values = {"shared": self.shared, "columns": self.columns, "own": self.own}
        return json.dumps(values, separators=(",", ":"))

    def stored(self, groups: Sequence[str]) -> dict[str, str]:
        """Return the columns that a read of `groups` sees, with the names under which they are stored.

        Of a single group that is its own commit time and its own copies of ordering columns. Of
        several groups, the commit time is that of the row.
        """
        seen = {name: name for name in (*META_COLUMNS, *self.shared)}
        for group in groups:
            seen |= {name: name for name in self.columns.get(group, ())}
        if len(groups) == 1:
            seen |= self.own.get(groups[0], {})
        return seen
