"""File slices put together by hand: Parquet with a footer, blocks of inline logs, native logs."""

import io
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.format.avro.avro_schema import arrow_to_avro, with_meta_fields
from lakebed.format.files.footer import FOOTER_IS_ORDERED
from lakebed.format.logs.log_block import BlockType, HeaderKey, LogBlock, encode_block
from lakebed.format.logs.native_footer import FOOTER_KINDS, FooterKind, LogFooter, encode_log_footer
from lakebed.format.logs.order_mark import mark_ordered
from lakebed.format.names.data_names import (
    BaseFileName,
    InlineLogName,
    LogKind,
    NativeLogName,
    parse_data_name,
)
from lakebed.format.names.instant_name import Action, State
from lakebed.format.names.meta_columns import META_COLUMNS, META_FIELDS, RECORD_KEY
from lakebed.merge.rule import MergeRule
from lakebed.storage.storage import Storage
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.file_group import BaseFile, FileGroupId, FileSlice, LogFile
from lakebed.table.read.run_source import RunSource
from lakebed.table.view import TableView
from lakebed.timeline.timeline import Timeline, TimelineInstant
from support.delete_records import NO_ORDERING, DeleteRecord, encode_delete_block

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64()), ("ts", pa.int64())])
RECORD = '{"type":"record","name":"t_record","namespace":"hoodie.t","fields":[]}'
FILE_ID = "00000000-0000-0000-0000-000000000000-0"
TOKEN = "0-0-0"
Row = dict[str, Any]


def instant(number: int) -> str:
    """Return the instant `number` of a test."""
    return f"202401010000{number:05d}"


def config(version: int = 9, **properties: str) -> TableConfig:
    """Return a table ordered by `ts`; a property is named with `_` for `.`."""
    told = {
        "hoodie.table.name": "t",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": str(version),
        "hoodie.timeline.layout.version": "2",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        **{f"hoodie.{name.replace('_', '.')}": value for name, value in properties.items()},
    }
    return TableConfig.parse(told, "test")


def with_meta(rows: Sequence[Row], schema: pa.Schema = SCHEMA) -> pa.Table:
    """Return rows with meta columns, as files hold them; the key is `id`."""
    full = pa.schema([*META_FIELDS, *schema])
    spelled = [{**dict.fromkeys(META_COLUMNS, "m"), RECORD_KEY: row["id"], **row} for row in rows]
    return pa.Table.from_pylist(spelled, schema=full)


def parquet(table: pa.Table, footer: Mapping[str, str] | None = None, **options: Any) -> bytes:
    """Write a Parquet file with footer entries."""
    sink = io.BytesIO()
    row_group_rows = options.pop("row_group_rows", None)
    with pq.ParquetWriter(sink, table.schema, write_page_checksum=True, **options) as writer:
        if table.num_rows:
            writer.write_table(table, row_group_size=row_group_rows)
        writer.add_key_value_metadata(dict(footer or {}))
    return sink.getvalue()


def marked(ordered: bool) -> dict[str, str]:
    """Return the footer entry of a sorted file, or none."""
    return {FOOTER_IS_ORDERED: "true"} if ordered else {}


def data_block(number: int, rows: Sequence[Row], *, ordered: bool = False, **headers: str) -> bytes:
    """Return a Parquet block that the instant `number` wrote."""
    content = parquet(with_meta(rows), marked(ordered))
    return block(BlockType.PARQUET_DATA, number, content, SCHEMA=RECORD, **headers)


def avro_block(
    number: int,
    rows: Sequence[Row],
    *,
    schema: pa.Schema = SCHEMA,
    ordered: bool = False,
    **headers: str,
) -> bytes:
    """Return an Avro block that the instant `number` wrote, encoded by fastavro."""
    text = with_meta_fields(arrow_to_avro(schema, "t"))
    record = fastavro.parse_schema(json.loads(text))
    content = struct.pack(">ii", 3, len(rows))
    for row in with_meta(rows, schema).to_pylist():
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, record, row)
        content += struct.pack(">i", sink.tell()) + sink.getvalue()
    told = mark_ordered(text) if ordered else text
    return block(BlockType.AVRO_DATA, number, content, SCHEMA=told, **headers)


def delete_block(
    number: int, records: Sequence[DeleteRecord | str], *, ordered: bool = False, **headers: str
) -> bytes:
    """Return a delete block; a key alone is a delete without an ordering value."""
    told = [
        DeleteRecord(record, "", NO_ORDERING) if isinstance(record, str) else record
        for record in records
    ]
    schema = mark_ordered(RECORD) if ordered else RECORD
    content = encode_delete_block(told)
    return block(BlockType.DELETE, number, content, SCHEMA=schema, **headers)


def block(type_: BlockType, number: int, content: bytes = b"", **headers: str) -> bytes:
    """Return any block of the instant `number`."""
    named = {HeaderKey[name]: text for name, text in headers.items()}
    return encode_block(
        LogBlock(type_, {HeaderKey.INSTANT_TIME: instant(number), **named}, content)
    )


def rollback_block(number: int, target: int) -> bytes:
    """Return the command that takes back what `target` wrote."""
    return block(
        BlockType.COMMAND, number, TARGET_INSTANT_TIME=instant(target), COMMAND_BLOCK_TYPE="0"
    )


def native(
    number: int,
    kind: FooterKind,
    table: pa.Table,
    *,
    ordered: bool | None = None,
    **headers: str,
) -> bytes:
    """Return a native log file."""
    named = {HeaderKey[name]: text for name, text in headers.items()}
    footer = LogFooter(kind, instant(number), RECORD, named, ordered)
    return parquet(table, encode_log_footer(footer))


_INSTANTS = 100


class Slice:
    """A file slice under construction on a storage."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.base_file: BaseFile | None = None
        self.logs: list[LogFile] = []

    def view(
        self,
        told: TableConfig,
        schema: pa.Schema = SCHEMA,
        rule: MergeRule | None = None,
        buffer_bytes: int | None = None,
        invisible: Sequence[int] = (),
    ) -> TableView:
        """Return the view of a table in which all instants but the `invisible` are committed."""
        states = [State.INFLIGHT if n in invisible else State.COMPLETED for n in range(_INSTANTS)]
        timeline = Timeline(
            tuple(
                TimelineInstant(
                    instant(number),
                    Action.DELTACOMMIT,
                    state,
                    instant(number) if state is State.COMPLETED else None,
                    Action.DELTACOMMIT,
                )
                for number, state in enumerate(states)
            )
        )
        view = TableView(self.storage, told, timeline, schema, own_buffer_bytes=buffer_bytes)
        if rule is not None:
            vars(view)["rule"] = rule  # where no table's properties ask for it
        return view

    def base(self, number: int, data: bytes) -> str:
        """Put the base file."""
        name = BaseFileName(FILE_ID, TOKEN, instant(number))
        self.storage.put(name.encode(), data)
        self.base_file = BaseFile("", name, len(data))
        return name.encode()

    def log(self, name: str, data: bytes) -> str:
        """Put a log file under a name of any kind."""
        parsed = parse_data_name(name)
        assert isinstance(parsed, (InlineLogName, NativeLogName))
        self.storage.put(name, data)
        self.logs.append(LogFile("", parsed, len(data)))
        return name

    def inline(self, number: int, *blocks: bytes, version: int = 1, cdc: bool = False) -> str:
        """Put an inline log of the instant `number`."""
        name = InlineLogName(FILE_ID, instant(number), version, TOKEN, cdc)
        return self.log(name.encode(), b"".join(blocks))

    def native(
        self, number: int, kind: LogKind, table: pa.Table, *, version: int = 1, **told: Any
    ) -> str:
        """Put a native log of the instant `number`."""
        name = NativeLogName(FILE_ID, TOKEN, instant(number), version, kind)
        return self.log(name.encode(), native(number, FOOTER_KINDS[kind], table, **told))

    @property
    def value(self) -> FileSlice:
        """Return the slice."""
        group = FileGroupId("", FILE_ID)
        return FileSlice(group, instant(0), self.base_file, tuple(self.logs))


def deletes_table(rows: Sequence[tuple[str, int | None]]) -> pa.Table:
    """Return the rows of a native delete file: keys, and ordering values where there are any."""
    return pa.table(
        {
            RECORD_KEY: pa.array([key for key, _ in rows], pa.string()),
            "ts": pa.array([ts for _, ts in rows], pa.int64()),
        }
    )


def brief(sources: Sequence[RunSource]) -> list[tuple[int, str]]:
    """Return number of the instant and kind of each run."""
    return [(int(source.instant[-5:]), str(source.kind)) for source in sources]
