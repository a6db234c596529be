"""The column groups of a new table, from the argument `column_groups` or from options."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lakebed.errors import InvalidError, OptionError, UnsupportedError
from lakebed.groups.definition import ColumnGroup, parse_given
from lakebed.groups.rules import check_apart, check_default, settle_group
from lakebed.model.options import table
from lakebed.table.config.merge_mode import MergeMode
from lakebed.table.config.table_config import (
    GROUPS_VERSION,
    Layout,
    TableConfig,
    TableType,
)

_FAMILIES = (table.COLUMN_GROUP, table.COLGROUP)


def without_groups(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that do not define a column group."""
    prefixes = tuple(option.family for option in _FAMILIES)
    return {name: value for name, value in properties.items() if not name.startswith(prefixes)}


def given_groups(column_groups: object, properties: Mapping[str, str]) -> list[ColumnGroup]:
    """Return the groups that a caller describes, as the argument or as properties."""
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
    """Return the groups checked against the columns of the table and each other."""
    settled = [settle_group(group, schema, key, partition, ordering) for group in groups]
    check_apart(settled)
    if settled:
        check_default(settled, schema, key, partition, ordering)
    return settled


def settled_version(version: int | None, groups: Sequence[ColumnGroup]) -> int:
    """Return the table version; with column groups it is the first that Hudi's releases refuse."""
    if version is None:
        return GROUPS_VERSION if groups else int(table.VERSION.kind.default)
    if groups and version < GROUPS_VERSION:
        raise UnsupportedError(
            f"table_version={version}: column groups need table version {GROUPS_VERSION}, because "
            "engines that do not know them would read the files wrongly; leave table_version out, or "
            "call upgrade() on an existing table first"
        )
    return version


def check_grouped(config: TableConfig, *, custom_merger: bool = False) -> None:
    """Raise an error for a kind of table that cannot have column groups."""
    if not config.column_groups:
        return
    index = config.index
    refused = {
        "table_type='COPY_ON_WRITE'": config.table_type is not TableType.MERGE_ON_READ,
        "layout='default'": config.layout is not Layout.LSM_TREE,
        "an index other than index='bucket'": index is None or not index.allows_column_groups,
        "a custom merger": custom_merger or config.merge_mode is MergeMode.CUSTOM,
        "a partial update mode or a payload class that merges columns": config.fill is not None,
        "a payload class that ignores the ordering of deletes": config.natural_deletes,
        "change data (hoodie.table.cdc.enabled=true)": table.CDC.value(config.properties),
        "a table without key columns": not config.record_key_fields,
    }
    for what, found in refused.items():
        if found:
            raise UnsupportedError(
                f"table {config.name!r}: column groups cannot be combined with {what}; they need a "
                "MERGE_ON_READ table of layout 'lsm_tree' with index='bucket', merged by ordering or "
                "by commit"
            )
