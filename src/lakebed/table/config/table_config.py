"""The configuration of a table, parsed and checked from `hoodie.properties`.

Everything that affects which rows a reader sees is either understood here or rejected by name; the
raw properties stay available for settings that are not interpreted.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from lakebed.errors import ChecksumError, CorruptError, InvalidError, LakebedError, UnsupportedError
from lakebed.format.files.properties import table_checksum
from lakebed.format.names.instant_name import LAYOUT_1, LAYOUT_2
from lakebed.format.names.partition_path import PartitionStyle, PartKind, parse_part_kinds
from lakebed.format.names.record_key import KeyGenerator
from lakebed.format.names.timestamp_keygen import TimestampKeygen
from lakebed.groups.definition import ColumnGroup, parse_groups
from lakebed.merge.rule import Fill
from lakebed.model.options import table as options
from lakebed.model.options.option import Member, Option
from lakebed.model.options.writers import CONCURRENCY_MODE, READ_BUFFER, SPARSE_INDEX_ROWS
from lakebed.table.config.merge_mode import MergeMode, parse_merge
from lakebed.table.config.property_values import (
    flag,
    required,
    whole_number,
)
from lakebed.table.config.timeline_paths import history_path, timeline_path
from lakebed.table.config.writer_index import WriterIndex, parse_index
from lakebed.timeline.layout import layout_of

TABLE_VERSIONS = (8, 9, 10)
"""The table versions that Lakebed writes."""
READ_ONLY_VERSION = 6
"""The table version that Lakebed reads but never writes: Hudi 0.14 and 0.15, timeline layout 1."""
GROUPS_VERSION = 10
"""The first table version that may have column groups: no released Hudi opens it."""
EXPECTED_ROWS = "lakebed.expected.rows"
DROPPED_COLUMNS = "lakebed.dropped.columns"
_PARTITION_FIELDS = "hoodie.table.partition.fields"


class TableType(StrEnum):
    """How a file group takes new rows. The values are stored on disk: do not change them."""

    COPY_ON_WRITE = "COPY_ON_WRITE"
    MERGE_ON_READ = "MERGE_ON_READ"


class Layout(StrEnum):
    """Whether file groups have sorted runs. The values are stored on disk: do not change them."""

    DEFAULT = "default"
    LSM_TREE = "lsm_tree"


class ConcurrencyMode(StrEnum):
    """How writers share a table. The values are Hudi's: do not change them."""

    # One writer at a time: it holds the lock from start to end, and other writers wait.
    SINGLE_WRITER = "SINGLE_WRITER"
    # Concurrent: of two writes that touch the same file group, the later to complete is rejected.
    OPTIMISTIC = "OPTIMISTIC_CONCURRENCY_CONTROL"
    # Concurrent, and appended rows never conflict.
    NON_BLOCKING = "NON_BLOCKING_CONCURRENCY_CONTROL"


@dataclass(frozen=True, slots=True)
class TableConfig:
    """The configuration of one table."""

    name: str
    database: str
    table_type: TableType
    version: int
    initial_version: int
    record_key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    ordering_fields: tuple[str, ...]
    key_generator: KeyGenerator | None
    partition_style: PartitionStyle
    timestamp_keygen: TimestampKeygen | None
    merge_mode: MergeMode
    fill: Fill | None
    natural_deletes: bool
    layout: Layout
    index: WriterIndex | None
    delete_marker: tuple[str, str] | None
    read_buffer_bytes: int
    sparse_index_rows: int
    concurrency: ConcurrencyMode
    zone: str
    timeline_path: str
    history_path: str
    create_schema: str | None
    # Every group that was ever defined; `Snapshot.column_groups` has those of one point in time.
    column_groups: tuple[ColumnGroup, ...]
    properties: Mapping[str, str] = field(repr=False)

    @property
    def dropped_columns(self) -> tuple[str, ...]:
        """Return the columns that `drop_column` removed; older files still hold their values."""
        text = self.properties.get(DROPPED_COLUMNS)
        if text is None:
            return ()
        try:
            held = json.loads(text)
        except ValueError:
            held = None
        if not isinstance(held, list) or not all(isinstance(name, str) for name in held):
            raise CorruptError(f"{DROPPED_COLUMNS}={text}: expected a JSON list of column names")
        return tuple(held)

    @property
    def expected_rows(self) -> int | None:
        """Return the number of rows that the table's creator expected; None if not given."""
        found = whole_number(self.properties, EXPECTED_ROWS, 0, self.name)
        return found or None

    @property
    def timeline_layout(self) -> int:
        """Return `hoodie.timeline.layout.version`."""
        return layout_of(self.timeline_path)

    @property
    def composite_key(self) -> bool:
        """Return whether a record key has the form `field:value,...`."""
        generator = self.key_generator
        return generator is not None and generator.is_composite(self.record_key_fields)

    @property
    def has_meta_columns(self) -> bool:
        """Return whether files store keys and commit times; if not, columns determine the keys."""
        return self.properties.get("hoodie.populate.meta.fields", "true").strip().lower() != "false"

    @property
    def is_lsm_tree(self) -> bool:
        """Return whether versions of a key are merged in sequence, starting with the base file."""
        return self.layout is Layout.LSM_TREE

    @property
    def keeps_tombstones(self) -> bool:
        """Return whether ordered deletes may remain as tombstones after a full compaction."""
        by_event_time = self.merge_mode is MergeMode.EVENT_TIME_ORDERING
        ordered = by_event_time or any(group.ordering for group in self.column_groups)
        return self.is_lsm_tree and ordered and not self.natural_deletes

    @property
    def timestamp_fields(self) -> tuple[str, ...]:
        """Return the partition fields that are formatted timestamps in the partition path."""
        if self.key_generator is KeyGenerator.CUSTOM:
            kinds = parse_part_kinds(self.properties.get(_PARTITION_FIELDS, "")) or {}
            return tuple(name for name, kind in kinds.items() if kind is PartKind.TIMESTAMP)
        return self.partition_fields if self.key_generator is KeyGenerator.TIMESTAMP else ()

    @classmethod
    def parse(cls, properties: Mapping[str, str], where: str) -> Self:
        """Parse `properties`, which were read at `where`; raise an error for unsupported ones."""
        name = required(properties, "hoodie.table.name", where)
        database = properties.get("hoodie.database.name", "")
        _check_sum(properties, database, name, where)
        version = _version(properties, where)
        _check_shape(properties, where)
        ordering = options.ORDERING.value(properties)
        merge = parse_merge(properties, version, ordering, where)
        keys = options.RECORD_KEY.value(properties)
        # With its custom key generator Hudi stores `field:kind`.
        partition_fields = tuple(
            name.partition(":")[0] for name in options.PARTITION.value(properties)
        )
        generator = _key_generator(properties, keys, partition_fields)
        style = PartitionStyle(
            hive_style=flag(properties, "hoodie.datasource.write.hive_style_partitioning"),
            url_encode=flag(properties, "hoodie.datasource.write.partitionpath.urlencode"),
        )
        return cls(
            name=name,
            database=database,
            table_type=_member(
                properties, options.TYPE, TableType.COPY_ON_WRITE, where, CorruptError
            ),
            version=version,
            initial_version=whole_number(
                properties, "hoodie.table.initial.version", version, where
            ),
            record_key_fields=keys,
            partition_fields=partition_fields,
            ordering_fields=ordering,
            key_generator=generator,
            partition_style=style,
            timestamp_keygen=_timestamp_keygen(properties, generator, partition_fields),
            merge_mode=merge.mode,
            fill=merge.fill,
            natural_deletes=merge.natural_deletes,
            layout=_member(properties, options.LAYOUT, Layout.DEFAULT, where),
            index=parse_index(properties, keys, where),
            delete_marker=merge.delete_marker,
            read_buffer_bytes=READ_BUFFER.value(properties),
            sparse_index_rows=SPARSE_INDEX_ROWS.value(properties),
            concurrency=_member(properties, CONCURRENCY_MODE, ConcurrencyMode.SINGLE_WRITER, where),
            zone=_zone(properties, where),
            timeline_path=timeline_path(properties, _layout_of(version), where),
            history_path=history_path(properties, _layout_of(version), where),
            create_schema=properties.get("hoodie.table.create.schema") or None,
            column_groups=_column_groups(properties, version, where),
            properties=dict(properties),
        )


def _check_sum(properties: Mapping[str, str], database: str, name: str, where: str) -> None:
    stored = properties.get("hoodie.table.checksum")
    expected = table_checksum(database, name)
    if stored is not None and stored.strip() != expected:
        raise ChecksumError(
            f"{where}: hoodie.table.checksum is {stored!r}, but {database!r}.{name!r} gives"
            f" {expected}; the file was truncated or edited"
        )


def _version(properties: Mapping[str, str], where: str) -> int:
    version = whole_number(properties, "hoodie.table.version", 0, where)
    if version not in (READ_ONLY_VERSION, *TABLE_VERSIONS):
        raise UnsupportedError(
            f"{where}: table version {version or 'missing'}; this release reads "
            f"{', '.join(map(str, (READ_ONLY_VERSION, *TABLE_VERSIONS)))}"
        )
    layout = whole_number(properties, "hoodie.timeline.layout.version", 0, where)
    wanted = _layout_of(version)
    if layout != wanted:
        raise UnsupportedError(
            f"{where}: timeline layout {layout or 'missing'}; expected {wanted} in table version {version}"
        )
    return version


def _column_groups(
    properties: Mapping[str, str], version: int, where: str
) -> tuple[ColumnGroup, ...]:
    groups = parse_groups(properties)
    if groups and version < GROUPS_VERSION:
        raise CorruptError(
            f"{where}: {groups[0].property_name} in table version {version}; column groups need "
            f"version {GROUPS_VERSION}"
        )
    return groups


def _layout_of(version: int) -> int:
    return LAYOUT_1 if version == READ_ONLY_VERSION else LAYOUT_2


def _check_shape(properties: Mapping[str, str], where: str) -> None:
    wanted = (
        ("hoodie.table.base.file.format", "PARQUET"),
        ("hoodie.table.format", "native"),
        ("hoodie.table.multiple.base.file.formats.enable", "false"),
        ("hoodie.datasource.write.drop.partition.columns", "false"),
    )
    for key, value in wanted:
        found = properties.get(key, value)
        if found.lower() != value.lower():
            raise UnsupportedError(f"{where}: {key}={found}; this release reads {value} only")
    if properties.get("hoodie.bootstrap.base.path"):
        raise UnsupportedError(f"{where}: bootstrapped tables are not supported")


def _member(
    properties: Mapping[str, str],
    option: Option[str],
    default: Member,
    where: str,
    error: type[LakebedError] = UnsupportedError,
) -> Member:
    """Return the value of a property as a member of the enumeration that `default` belongs to."""
    text = properties.get(option.name, "").strip()
    words = {word.lower(): word for word in type(default)}
    if text and text.lower() not in words:
        known = " or ".join(words.values())
        raise error(f"{where}: {option.name}={text!r}; expected {known}")
    return words.get(text.lower(), default)


def _key_generator(
    properties: Mapping[str, str], keys: tuple[str, ...], partitions: tuple[str, ...]
) -> KeyGenerator | None:
    """Return the key generator; None if it or one of its parts is not supported."""
    text = properties.get("hoodie.table.keygenerator.type") or properties.get(
        "hoodie.table.keygenerator.class"
    )
    if text:
        try:
            generator = KeyGenerator.parse(text)
        except UnsupportedError:
            return None
        return generator if _spells_parts(properties, generator) else None
    if not partitions:
        return KeyGenerator.NON_PARTITION
    return KeyGenerator.COMPLEX if len(keys) > 1 or len(partitions) > 1 else KeyGenerator.SIMPLE


def _spells_parts(properties: Mapping[str, str], generator: KeyGenerator) -> bool:
    """Return whether all parts of a custom key generator are supported; True for other generators."""
    if generator is not KeyGenerator.CUSTOM:
        return True
    kinds = parse_part_kinds(properties.get(_PARTITION_FIELDS, ""))
    if kinds is None or PartKind.TIMESTAMP not in kinds.values():
        return kinds is not None
    return _timestamp_settings(properties) is not None


def _timestamp_keygen(
    properties: Mapping[str, str], generator: KeyGenerator | None, partitions: tuple[str, ...]
) -> TimestampKeygen | None:
    """Return the settings of a timestamp key generator; None if there are none, or not supported."""
    single = generator is KeyGenerator.TIMESTAMP and len(partitions) == 1
    if not single and generator is not KeyGenerator.CUSTOM:
        return None
    return _timestamp_settings(properties)


def _timestamp_settings(properties: Mapping[str, str]) -> TimestampKeygen | None:
    try:
        return TimestampKeygen.parse(properties)
    except (UnsupportedError, InvalidError):
        return None


def _zone(properties: Mapping[str, str], where: str) -> str:
    zone = properties.get("hoodie.table.timeline.timezone", "LOCAL").strip().upper()
    if zone not in ("UTC", "LOCAL"):
        raise UnsupportedError(
            f"{where}: hoodie.table.timeline.timezone={zone}; expected UTC or LOCAL"
        )
    return zone
