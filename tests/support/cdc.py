"""Change data as it lies: the records of `.cdc` logs, decoded by other code than ours."""

import io
import json
import struct
from typing import Any

import fastavro
import pyarrow.parquet as pq

from lakebed.api.table import Table
from lakebed.format.logs.log_block import BlockType, HeaderKey, LogBlock
from lakebed.format.names.data_names import InlineLogName, LogKind, NativeLogName, parse_data_name
from lakebed.storage.storage import Storage
from support.log_blocks import iter_blocks

Record = dict[str, Any]


def cdc_paths(storage: Storage) -> list[str]:
    """Return the paths of all change data of a table."""
    return [entry.path for entry in storage.list() if _is_cdc(entry.path)]


def cdc_blocks(data: bytes) -> list[tuple[dict[HeaderKey, str], list[Record]]]:
    """Return the headers and the records of each block of an inline `.cdc` log."""
    found = []
    for block in iter_blocks(data, "change data"):
        assert isinstance(block, LogBlock)
        assert block.type is BlockType.CDC_DATA
        headers = dict(block.headers)
        schema = fastavro.parse_schema(json.loads(headers[HeaderKey.SCHEMA]))
        content = io.BytesIO(block.content)
        version, count = struct.unpack(">ii", content.read(8))
        assert version == 3
        records = []
        for _ in range(count):
            (length,) = struct.unpack(">i", content.read(4))
            end = content.tell() + length
            records.append(fastavro.schemaless_reader(content, schema, None))
            assert content.tell() == end
        assert content.read() == b""
        found.append((headers, records))
    return found


def cdc_records(storage: Storage, path: str) -> list[Record]:
    """Return the records of a `.cdc` log, inline or native, in order."""
    data = storage.read(path)
    if path.endswith(".parquet"):
        records: list[Record] = pq.ParquetFile(io.BytesIO(data)).read().to_pylist()
        return records
    return [record for _, records in cdc_blocks(data) for record in records]


def changes_of(table: Table, instant: str) -> list[Record]:
    """Return all change data that an instant wrote, file by file."""
    paths = [path for path in cdc_paths(table._storage) if f"_{instant}" in path]
    return [record for path in paths for record in cdc_records(table._storage, path)]


def _is_cdc(path: str) -> bool:
    name = parse_data_name(path.rpartition("/")[2])
    if isinstance(name, InlineLogName):
        return name.cdc
    return isinstance(name, NativeLogName) and name.kind is LogKind.CDC
