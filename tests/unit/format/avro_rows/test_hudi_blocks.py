"""Every Avro and CDC block that Apache Hudi wrote reads as fastavro reads it, and is written back."""

import io
import json
import struct

import fastavro
import pyarrow as pa
import pytest

from lakebed.format.avro.avro_rows.block import encode_head, read_avro_block
from lakebed.format.avro.avro_rows.encode import encode_records
from lakebed.format.avro.avro_schema import avro_to_arrow
from lakebed.format.logs.log_block import BlockType, CorruptSpan, HeaderKey
from support import fixtures
from support.log_blocks import iter_blocks

AVRO = (BlockType.AVRO_DATA, BlockType.CDC_DATA)


def avro_blocks(name):
    """Return the schema and the content of each Avro block below the table, but the metadata table's."""
    for path, data in sorted(fixtures.files(name).items()):
        if ".log." in path and not path.startswith(".hoodie/"):
            for found in iter_blocks(data, path):
                if not isinstance(found, CorruptSpan) and found.type in AVRO:
                    yield found.headers[HeaderKey.SCHEMA], found.content


TABLES = [name for name in fixtures.names() if any(True for _ in avro_blocks(name))]


def fastavro_rows(text, content):
    schema = fastavro.parse_schema(json.loads(text))
    version, count = struct.unpack_from(">ii", content)
    at = 8
    rows = []
    for _ in range(count):
        (length,) = struct.unpack_from(">i", content, at)
        at += 4 + length
        stream = io.BytesIO(content[at - length : at])
        rows.append(fastavro.schemaless_reader(stream, schema, None))
        assert stream.tell() == length
    assert (version, at) == (3, len(content))
    return rows


def test_the_tables_have_avro_blocks_of_all_kinds():
    assert {"mor9_types", "mor9_bucket_avro", "mor8_bucket_avro", "mor9_partial"} <= set(TABLES)
    assert {"cow9_cdc"} <= set(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_the_blocks_of_hudi_read_as_fastavro_reads_them(name):
    for text, content in avro_blocks(name):
        batches = list(
            read_avro_block(
                lambda at, length, content=content: content[at : at + length],
                len(content),
                text,
                None,
                what=name,
            )
        )
        schema = avro_to_arrow(text)
        rows = fastavro_rows(text, content)
        table = pa.Table.from_batches(batches, schema)
        table.validate(full=True)
        assert table == pa.Table.from_pylist(rows, schema=schema)
        records = [encode_records(batch, text).to_pybytes() for batch in batches]
        assert encode_head(len(rows)) + b"".join(records) == content
