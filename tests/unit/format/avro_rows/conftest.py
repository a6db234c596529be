"""Everything here runs through the compiled kernel and through its plain twin."""

import io
import json

import fastavro
import pytest

from lakebed.format.avro.avro_rows.block import encode_head, read_avro_block
from lakebed.format.compiled import kernels


@pytest.fixture(autouse=True, params=[False, True], ids=["twin", "kernel"])
def _machine(request):
    with kernels(request.param):
        yield


def _schema(*types):
    fields = [{"name": f"c{i}", "type": kind} for i, kind in enumerate(types)]
    return json.dumps({"type": "record", "name": "row", "fields": fields})


def _record(text, row):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(text)), row)
    return out.getvalue()


def _content(records, count=None):
    parts = [len(record).to_bytes(4, "big") + record for record in records]
    return encode_head(len(records) if count is None else count) + b"".join(parts)


def _read(content, text, columns=None, **options):
    return list(
        read_avro_block(
            lambda at, length: content[at : at + length],
            len(content),
            text,
            columns,
            what="block of f.log",
            **options,
        )
    )


@pytest.fixture
def schema():
    """Return the text of a record schema with fields c0, c1, … of these types."""
    return _schema


@pytest.fixture
def record():
    """Return the bytes of a row, as fastavro writes it."""
    return _record


@pytest.fixture
def content():
    """Return the content of a block with these records."""
    return _content


@pytest.fixture
def read():
    """Return the batches of a block."""
    return _read
