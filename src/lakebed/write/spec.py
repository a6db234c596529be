"""What every task of one write must know, settled on the driver and pickled to the workers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from lakebed.commit.fence import Fence
from lakebed.errors import ConflictError, InvalidError, SchemaError, UnsupportedError
from lakebed.format.avro_schema import arrow_to_avro
from lakebed.format.cdc import logging_mode
from lakebed.format.consistent_hashing import HashingMetadata
from lakebed.format.meta_columns import IS_DELETED, OUR_PREFIX, RECORD_KEY
from lakebed.index.bucket import BucketPlace, agreed_file_id, derived_file_id
from lakebed.index.rings import LoadedRings, first_ring
from lakebed.merge.rule import MergeRule
from lakebed.storage.storage import Storage
from lakebed.table.config import ConcurrencyMode, TableConfig, TableType
from lakebed.table.merge_mode import MergeMode
from lakebed.table.schema import evolve, find_field, normalise
from lakebed.table.writer_index import ConsistentHashingIndex, SimpleIndex, WriterIndex
from lakebed.timeline.timeline import Timeline
from lakebed.write.operation import UPSERT, Kind, Operation

Marker = tuple[str, str | None]
DEFAULT_MEMORY_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """One write: where to, as what, under which instant.

    `schema` are the columns that rows bring, `table_schema` those of the table: fewer come
    with a delete (the key) or a partial update. `markers` are the columns that say of a row that
    it is a delete, each with the text that says so (None: the truth value).
    """

    storage: Storage
    config: TableConfig
    index: WriterIndex
    rule: MergeRule
    operation: Operation
    schema: pa.Schema
    table_schema: pa.Schema
    table_schema_text: str
    instant: str
    fence: Fence
    file_ids: Mapping[BucketPlace, str]
    seed: str
    timeline: Timeline = field(default_factory=Timeline)
    markers: tuple[Marker, ...] = ()
    # Where writers do not wait for each other: the instants that ended file groups of buckets.
    ended: Mapping[BucketPlace, str] = field(default_factory=dict)
    memory_bytes: int = DEFAULT_MEMORY_BYTES
    # With consistent hashing: where on storage each partition's buckets are said.
    hashing: LoadedRings = field(default_factory=LoadedRings)

    def file_id(self, place: BucketPlace) -> str:
        """Give the file group of a bucket: the one that exists, or a new one.

        Tasks do not talk to each other, so a new id follows from the write's own seed; where
        writers do not wait for each other, from what all of them know. With consistent hashing
        it is said on the partition's ring.
        """
        if isinstance(self.index, ConsistentHashingIndex):
            return self._node_file_id(place)
        if place in self.file_ids:
            return self.file_ids[place]
        if not self.is_non_blocking:
            return derived_file_id(place, self.seed)
        return agreed_file_id(
            place, self.instant if self.operation.replaces else self.ended.get(place, "")
        )

    def ring(self, partition: str) -> HashingMetadata:
        """Give the buckets of a partition: those that it has, or those with which it begins."""
        assert isinstance(self.index, ConsistentHashingIndex), self.index
        reason = self.hashing.refused.get(partition)
        if reason is not None:
            raise UnsupportedError(
                f"{self.storage.url}: {reason}; read the rows and write them to a new table"
            )
        held = self.hashing.rings.get(partition)
        return first_ring(partition, self.index.buckets) if held is None else held

    def _node_file_id(self, place: BucketPlace) -> str:
        file_id = self.ring(place.partition).nodes[place.bucket].file_id
        resized = self.hashing.resizing.get(place)
        if resized is not None:
            raise ConflictError(
                f"{self.storage.url}: the bucket of file group {file_id} in partition "
                f"{place.partition!r} may be resized by the clustering {resized}, which is pending; "
                "let Apache Hudi finish it, or roll it back, and retry the write"
            )
        return file_id

    @property
    def is_non_blocking(self) -> bool:
        """Tell whether writers do not wait for each other: then only services write base files."""
        return self.config.concurrency is ConcurrencyMode.NON_BLOCKING

    @property
    def appends_logs(self) -> bool:
        """Tell whether a file group that exists gets a log instead of a new base file."""
        on_read = self.config.table_type is TableType.MERGE_ON_READ
        return on_read and not self.operation.replaces

    @property
    def is_partial(self) -> bool:
        """Tell whether a column that rows do not bring keeps its value."""
        return self.operation.kind is Kind.UPDATE_COLUMNS

    @property
    def may_delete(self) -> bool:
        """Tell whether rows carry flags."""
        return self.operation.kind is Kind.DELETE or bool(self.markers)

    @property
    def staged_rule(self) -> MergeRule:
        """Give the rule among the rows that come: keys to delete have no ordering values."""
        return MergeRule() if self.operation.kind is Kind.DELETE else self.rule

    @property
    def logs_changes(self) -> bool:
        """Tell whether others read the changes that the write makes."""
        return logging_mode(self.config.properties) is not None

    @property
    def looks_up(self) -> bool:
        """Tell whether the index has to find keys; inserts are new rows without a look."""
        known = self.operation.kind in (Kind.DELETE, Kind.UPDATE_COLUMNS)
        return isinstance(self.index, SimpleIndex) and (known or self.operation == UPSERT)

    @property
    def looks_everywhere(self) -> bool:
        """Tell whether a key is looked for in all partitions."""
        return self.looks_up and isinstance(self.index, SimpleIndex) and self.index.is_global


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of one write, settled against those of the table."""

    staged: pa.Schema
    table: pa.Schema
    table_text: str
    markers: tuple[Marker, ...]


def settle_columns(
    config: TableConfig, operation: Operation, known: pa.Schema, incoming: pa.Schema
) -> Columns:
    """Fit the columns that come to those that the table has; refuse by name what does not fit."""
    if not config.record_key_fields:
        # Such a table makes its keys; rows that were read from it bring theirs.
        incoming = pa.schema([field for field in incoming if field.name != RECORD_KEY])
    _check_given(incoming)
    markers = () if operation.kind is Kind.DELETE else _markers(config, incoming)
    if operation.kind is Kind.DELETE:
        fields = dict.fromkeys(delete_fields(config))
        _check_columns(config, incoming, tuple(fields), ())
        staged = pa.schema([known.field(name) for name in fields if name in known.names])
        return Columns(staged, known, arrow_to_avro(known, config.name), ())
    steering = {name for name, _ in markers}
    rows = pa.schema([f for f in incoming if f.name not in steering or _held(known, f)])
    _check_columns(config, rows, _needed(config), config.ordering_fields)
    if operation.kind is Kind.UPDATE_COLUMNS:
        _check_no_fill(config)
        table = _evolve_some(known, rows)
        names = [table.names[_found(table, name)] for name in rows.names]
        staged = pa.schema([field for field in table if field.name in names])
    else:
        if not operation.replaces_all:
            _check_all_there(known, rows)
        known = pa.schema([]) if operation.replaces_columns else known
        table = evolve(known, rows) if known.names else normalise(rows)
        staged = table
    _check_spelling(config, known, table)
    return Columns(staged, table, arrow_to_avro(table, config.name), markers)


def delete_fields(config: TableConfig) -> tuple[str, ...]:
    """Give the columns that name a row to delete; a global index needs no partition."""
    index = config.index
    if isinstance(index, SimpleIndex) and index.is_global:
        return config.record_key_fields
    return _needed(config)


def _held(known: pa.Schema, field: pa.Field) -> bool:
    return find_field(list(known), field.name) is not None


def _found(schema: pa.Schema, name: str) -> int:
    position = find_field(list(schema), name)
    assert position is not None, name
    return position


def _needed(config: TableConfig) -> tuple[str, ...]:
    return (*config.record_key_fields, *config.partition_fields)


def _markers(config: TableConfig, incoming: pa.Schema) -> tuple[Marker, ...]:
    """Give the columns by which a row says that it is a delete: either of them will do.

    `_hoodie_is_deleted` need not be a column of the table: then it only steers the write.
    """
    found: list[Marker] = []
    for name, text in ((IS_DELETED, None), config.delete_marker or ("", None)):
        position = find_field(list(incoming), name) if name else None
        if position is None:
            continue
        kind = incoming.field(position).type
        if text is None and kind != pa.bool_():
            raise SchemaError(f"column {IS_DELETED!r}: want boolean, found {kind}")
        if pa.types.is_nested(kind) or pa.types.is_binary(kind):
            raise SchemaError(f"column {name!r} marks deletes: want text or a number, found {kind}")
        found.append((incoming.field(position).name, text))
    return tuple(found)


def _check_no_fill(config: TableConfig) -> None:
    """Refuse what Hudi gives no meaning: some columns, where values give way to older ones."""
    if config.fill is not None:
        gives_way = "a null" if config.fill.marker is None else repr(config.fill.marker)
        raise UnsupportedError(
            f"table {config.name!r} merges column by column, so some columns cannot be updated "
            f"alone: call upsert, with {gives_way} where the older value is to stay"
        )


def _evolve_some(known: pa.Schema, rows: pa.Schema) -> pa.Schema:
    """Evolve by rows that bring some columns: one that must have a value has it already."""
    needed = {field.name for field in known if not field.nullable}
    evolved = evolve(pa.schema([field.with_nullable(True) for field in known]), rows)
    return pa.schema([f.with_nullable(False) if f.name in needed else f for f in evolved])


def _check_all_there(known: pa.Schema, incoming: pa.Schema) -> None:
    """Refuse rows that lack a column of the table: null would overwrite what it holds."""
    missing = [
        name
        for name in known.names
        if name != IS_DELETED and find_field(list(incoming), name) is None
    ]
    if missing:
        raise SchemaError(
            f"column {missing[0]!r} is missing; the table has {', '.join(known.names)}: give every "
            "column, null where there is no value, or call update_columns"
        )


def _check_spelling(config: TableConfig, before: pa.Schema, after: pa.Schema) -> None:
    """Refuse to widen a key or partition column where its values would be spelled otherwise.

    `1` as an int is the key `1`, as a double `1.0`: the same row would be there twice.
    """
    for name in _needed(config):
        if name not in before.names:
            continue
        old, new = before.field(name).type, after.field(name).type
        if old != new and not (pa.types.is_integer(old) and pa.types.is_integer(new)):
            raise SchemaError(
                f"column {name!r} is part of the key or the partition: want {old} as before, found "
                f"{new}, which would spell its values otherwise"
            )


def _check_columns(
    config: TableConfig, schema: pa.Schema, fields: tuple[str, ...], ordering: tuple[str, ...]
) -> None:
    """Refuse rows that lack a key, partition or ordering column, by name."""
    ordered = config.merge_mode is not MergeMode.COMMIT_TIME_ORDERING
    for name in (*fields, *(ordering if ordered else ())):
        if find_field(list(schema), name) is None:
            kind = (
                "record key"
                if name in config.record_key_fields
                else "partition"
                if name in config.partition_fields
                else "ordering"
            )
            raise SchemaError(
                f"{kind} column {name!r} is missing; the input has {', '.join(schema.names)}"
            )


def _check_given(schema: pa.Schema) -> None:
    """Refuse names that would steer the write, and names that come twice."""
    if not schema.names:
        raise InvalidError("the input has no columns")
    for name in schema.names:
        if name.lower().startswith(OUR_PREFIX):
            raise SchemaError(
                f"column {name!r}: names beginning with {OUR_PREFIX} are Lakebed's own"
            )
        if schema.names.count(name) > 1:
            raise SchemaError(f"column {name!r} comes twice")
