"""Turn the arguments of `create_table` into table properties."""

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa

from lakebed.api.create_checks import (
    GENERATOR,
    check_engine,
    check_names,
    check_ordering,
    check_settled,
    checked_buckets,
    partition_columns,
)
from lakebed.api.create_groups import (
    given_groups,
    settle_groups,
    settled_version,
    without_groups,
)
from lakebed.errors import InvalidError, OptionError, UnsupportedError
from lakebed.format.avro.avro_schema import arrow_to_avro
from lakebed.format.files.properties import table_checksum
from lakebed.groups.definition import encode_groups
from lakebed.groups.rules import nullable_schema
from lakebed.model.options import table
from lakebed.model.options.option import Scope
from lakebed.model.options.registry import Given, check_given, get_option
from lakebed.model.spelling import nearest
from lakebed.table.config.column_groups import check_grouped
from lakebed.table.config.merge_mode import (
    PARTIAL_UPDATE_MODE,
    PAYLOAD_CLASS,
    MergeMode,
    check_partial_updates,
    payload_properties,
)
from lakebed.table.config.table_config import (
    EXPECTED_ROWS,
    TABLE_VERSIONS,
    Layout,
    TableConfig,
    TableType,
)
from lakebed.table.config.writable import check_writable
from lakebed.table.config.writer_index import INDEXES, NUM_BUCKETS

_MERGE_MODE = table.MERGE_MODE.name


def table_properties(
    *,
    schema: pa.Schema,
    key: Sequence[str],
    ordering: Sequence[str],
    partition_by: Sequence[str],
    name: str,
    table_type: str,
    index: str,
    buckets: int | str | None,
    layout: str,
    table_version: int | None,
    column_groups: Mapping[str, object],
    properties: Mapping[str, str],
    custom_merger: bool = False,
    makes_keys: bool = False,
    spelled: Mapping[str, str] | None = None,
    expected_rows: int | None = None,
) -> dict[str, str]:
    """Check the arguments for consistency and return them as hoodie.properties.

    With `makes_keys`, the table has no key columns and generates its keys; only a simple index
    can locate such keys. `spelled` maps arguments to the option names that the caller used, for
    error messages.
    """
    if not key and not makes_keys:
        raise InvalidError("key: expected at least one column")
    words = {word: word for word in ("key", "ordering", "partition_by")} | dict(spelled or {})
    given = check_given(properties, Scope.CREATE)
    properties = given.stored
    partition_fields = partition_columns(partition_by, properties, words["partition_by"])
    check_names(
        schema,
        {
            words["key"]: key,
            words["ordering"]: ordering,
            words["partition_by"]: partition_fields,
        },
    )
    check_ordering(schema, ordering)
    named = given_groups(column_groups, properties)
    version = settled_version(table_version, named)
    groups = settle_groups(named, schema, key, partition_fields, ordering)
    if groups:
        # A write to another group leaves the column null.
        schema = nullable_schema(schema, key, partition_fields)
    word = str(index).lower()
    if word not in INDEXES:
        raise UnsupportedError(
            f"index={index!r}{nearest(word, INDEXES)}: this release writes with {', '.join(map(repr, INDEXES))}"
        )
    if version not in TABLE_VERSIONS:
        known = ", ".join(map(str, TABLE_VERSIONS))
        raise UnsupportedError(f"table_version={version!r}: expected one of {known}")
    settled = {
        "hoodie.table.name": name,
        "hoodie.table.type": _word(TableType, table_type, "table_type"),
        "hoodie.table.version": str(version),
        "hoodie.table.initial.version": str(version),
        "hoodie.timeline.layout.version": "2",
        "hoodie.timeline.path": "timeline",
        "hoodie.timeline.history.path": "history",
        "hoodie.archivelog.folder": "history",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.table.format": "native",
        "hoodie.table.recordkey.fields": ",".join(key),
        "hoodie.populate.meta.fields": "true",
        "hoodie.datasource.write.hive_style_partitioning": "false",
        "hoodie.datasource.write.partitionpath.urlencode": "false",
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.partition.metafile.use.base.format": "false",
        "hoodie.table.cdc.enabled": "false",
        "hoodie.table.multiple.base.file.formats.enable": "false",
        "hoodie.table.storage.layout": _word(Layout, layout, "layout"),
        "hoodie.table.create.schema": arrow_to_avro(schema, name),
        **INDEXES[word](checked_buckets(buckets, word, properties), tuple(key)).properties(key),
    }
    if expected_rows is not None:
        settled[EXPECTED_ROWS] = str(expected_rows)
    if partition_by:
        settled["hoodie.table.partition.fields"] = ",".join(partition_by)
    settled |= _merge_properties(ordering, version, properties, custom_merger)
    settled[GENERATOR] = _generator(key, partition_fields)
    if version >= 10:
        settled["hoodie.meta.fields.mode"] = "ALL"
    _overlay(settled, given)
    settled = without_groups(settled) | encode_groups(groups)
    if not key:
        del settled["hoodie.table.recordkey.fields"]
    check_settled(settled, key, partition_fields, words["partition_by"])
    settled["hoodie.table.checksum"] = table_checksum(
        settled.get("hoodie.database.name", ""), settled["hoodie.table.name"]
    )
    config = TableConfig.parse(settled, "create_table")
    check_engine(config, index)
    check_grouped(config, custom_merger=custom_merger)
    check_writable(config)
    return settled


def default_name(url: str) -> str:
    """Return the default name of a table: the last part of its URL."""
    last = url.rstrip("/").rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9_]", "_", last) or "lakebed_table"


def _word(kind: type[TableType | Layout], text: str, keyword: str) -> str:
    for known in kind:
        if known.value.lower() == str(text).lower():
            return known.value
    raise InvalidError(f"{keyword}={text!r}: expected {' or '.join(known.value for known in kind)}")


def _merge_properties(
    ordering: Sequence[str], version: int, properties: Mapping[str, str], custom: bool
) -> dict[str, str]:
    """Return the merge properties of a new table; version 8 also stores class names."""
    mode = MergeMode.EVENT_TIME_ORDERING if ordering else MergeMode.COMMIT_TIME_ORDERING
    asked = properties.get(_MERGE_MODE)
    if asked is not None:
        mode = MergeMode(asked)
    if custom:
        if asked is not None:
            raise OptionError(
                f"option {_MERGE_MODE}={mode} cannot be combined with a custom merger"
            )
        mode = MergeMode.CUSTOM
    check_partial_updates(properties, version)
    payload = properties.get(PAYLOAD_CLASS)
    if payload is not None:
        return _payload_properties(payload, ordering, version, properties, custom)
    if mode is MergeMode.EVENT_TIME_ORDERING and not ordering:
        raise OptionError(f"option {_MERGE_MODE}={mode} needs ordering=<column>")
    found = {_MERGE_MODE: mode.value}
    if ordering:
        found["hoodie.table.ordering.fields"] = ",".join(ordering)
    if custom:
        found["hoodie.record.merge.strategy.id"] = _CUSTOM_STRATEGY
    elif version == 8:
        payload, strategy = _V8_MERGERS[mode]
        found["hoodie.compaction.payload.class"] = payload
        found["hoodie.record.merge.strategy.id"] = strategy
    return found


def _payload_properties(
    payload: str,
    ordering: Sequence[str],
    version: int,
    properties: Mapping[str, str],
    custom: bool,
) -> dict[str, str]:
    """Return the properties that express one of Hudi's payload classes.

    Raises OptionError if another merge option contradicts the class.
    """
    if custom:
        raise OptionError(f"option {PAYLOAD_CLASS} cannot be combined with a custom merger")
    found = payload_properties(payload, tuple(ordering), version)
    for name in (_MERGE_MODE, PARTIAL_UPDATE_MODE):
        asked = properties.get(name)
        if asked is not None and asked != found.get(name):
            raise OptionError(
                f"option {name}={asked} contradicts {PAYLOAD_CLASS}={payload}, which implies "
                f"{found.get(name, 'none')}"
            )
    if ordering:
        found["hoodie.table.ordering.fields"] = ",".join(ordering)
    return found


_CUSTOM_STRATEGY = "1897ef5f-18bc-4557-939c-9d6a8afd1519"
_V8_MERGERS = {
    MergeMode.EVENT_TIME_ORDERING: (
        "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
        "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    ),
    MergeMode.COMMIT_TIME_ORDERING: (
        "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
        "ce9acb64-bde0-424c-9b91-f6ebba25356d",
    ),
}


def _generator(key: Sequence[str], partition_by: Sequence[str]) -> str:
    """Return the key generator that Hudi's writer would infer."""
    if not partition_by:
        return "NON_PARTITION"
    return "COMPLEX" if len(key) > 1 or len(partition_by) > 1 else "SIMPLE"


def _overlay(settled: dict[str, str], given: Given) -> None:
    for name, value in given.stored.items():
        option = get_option(name)
        if name == NUM_BUCKETS:
            settled.setdefault(name, value)  # a number, although the default is auto
        if option.keyword and settled.get(name) != value:
            raise OptionError(
                f"option {given.names[name]}={value} contradicts the keyword {option.keyword}, which "
                f"implies {settled.get(name)!r}"
            )
        # A payload class is expressed by other properties, which depend on the table's version.
        if not option.keyword and name != PAYLOAD_CLASS:
            settled[option.stored_name] = value
