"""Parse the column groups of a new table, from the argument `column_groups` or from options."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lakebed.errors import InvalidError, OptionError, UnsupportedError
from lakebed.groups.definition import ColumnGroup, parse_given
from lakebed.groups.rules import check_apart, check_default, settle_group
from lakebed.model.options import table
from lakebed.table.config.table_config import GROUPS_VERSION

_FAMILIES = (table.COLUMN_GROUP, table.COLGROUP)


def without_groups(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties without those that define column groups."""
    prefixes = tuple(option.family for option in _FAMILIES)
    return {name: value for name, value in properties.items() if not name.startswith(prefixes)}


def given_groups(column_groups: object, properties: Mapping[str, str]) -> list[ColumnGroup]:
    """Return the groups that the caller defines by argument or by options, sorted by name."""
    if not isinstance(column_groups, Mapping):
        raise InvalidError(
            "column_groups: expected a mapping from the name of a group to 'a,b;ordering' or a list "
            f"of columns, found {column_groups!r}"
        )
    found: dict[str, ColumnGroup] = {}
    for name, given in column_groups.items():
        if isinstance(given, Mapping):
            if set(given) - {"columns", "ordering"} or "columns" not in given:
                raise InvalidError(
                    f"column group {name!r}: expected the entries columns and ordering, found "
                    f"{', '.join(map(str, given))}"
                )
            found[name] = parse_given(name, given["columns"], given.get("ordering"))
        else:
            found[name] = parse_given(str(name), given)
    for option in _FAMILIES:
        for key, text in properties.items():
            name = key.removeprefix(option.family)
            if name == key:
                continue
            group = ColumnGroup.parse(name, text)
            if found.setdefault(name, group) != group:
                raise OptionError(
                    f"option {key}={text} contradicts another definition of the column group {name!r}"
                )
    return [found[name] for name in sorted(found)]


def settle_groups(
    groups: Sequence[ColumnGroup],
    schema: pa.Schema,
    key: Sequence[str],
    partition: Sequence[str],
    ordering: Sequence[str],
) -> list[ColumnGroup]:
    """Check the groups against the table's columns and each other, and return them settled."""
    settled = [settle_group(group, schema, key, partition, ordering) for group in groups]
    check_apart(settled)
    if settled:
        check_default(settled, schema, key, partition, ordering)
    return settled


def settled_version(version: int | None, groups: Sequence[ColumnGroup]) -> int:
    """Return the table version; column groups need one that no Hudi release opens."""
    if version is None:
        return GROUPS_VERSION if groups else int(table.VERSION.kind.default)
    if groups and version < GROUPS_VERSION:
        raise UnsupportedError(
            f"table_version={version}: column groups need table version {GROUPS_VERSION}, because "
            "engines that do not know them would misread the files; omit table_version, or "
            "call upgrade() on an existing table first"
        )
    return version
