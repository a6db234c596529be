"""Any schema and any rows: written and read as fastavro does; kernel and twin agree on any bytes."""

import contextlib
import io
import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.format.avro.avro_rows.block import encode_head, read_avro_block
from lakebed.format.avro.avro_rows.encode import encode_records
from lakebed.format.avro.avro_schema import avro_to_arrow
from lakebed.format.compiled import kernels

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KERNELS = pytest.mark.parametrize("kernel", [False, True], ids=["twin", "kernel"])


def _moments(unit):
    ticks = st.integers(-(10**15) // unit, 10**15 // unit)
    return ticks.map(lambda tick: EPOCH + timedelta(microseconds=tick * unit))


def _day(unit):
    ticks = st.integers(0, 86_400_000_000 // unit - 1)
    return ticks.map(lambda tick: (datetime.min + timedelta(microseconds=tick * unit)).time())


def _local(moments):
    return moments.map(lambda moment: moment.replace(tzinfo=None))


def _logical(kind, name):
    return {"type": kind, "logicalType": name}


LEAVES = [
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ({"type": "int", "lakebed.type": "byte"}, st.integers(-128, 127)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("string", st.text(max_size=20)),
    ("bytes", st.binary(max_size=20)),
    (_logical("int", "date"), st.dates(date(1, 1, 1), date(9999, 12, 31))),
    (_logical("int", "time-millis"), _day(1000)),
    (_logical("long", "time-micros"), _day(1)),
    (_logical("long", "timestamp-millis"), _moments(1000)),
    (_logical("long", "timestamp-micros"), _moments(1)),
    (_logical("long", "local-timestamp-millis"), _local(_moments(1000))),
    (_logical("long", "local-timestamp-micros"), _local(_moments(1))),
]


@st.composite
def decimals(draw, name):
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    top = 10**precision - 1
    # Not by scaleb, which rounds to the 28 digits of the context.
    values = st.integers(-top, top).map(
        lambda value: Decimal((int(value < 0), tuple(map(int, str(abs(value)))), -scale))
    )
    kind = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    if draw(st.booleans()):
        least = (top.bit_length() + 8) // 8
        kind |= {"type": "fixed", "name": name, "size": least + draw(st.integers(0, 6))}
    return kind, values


@st.composite
def named(draw, name):
    match draw(st.integers(0, 2)):
        case 0:
            symbols = [f"S{at}" for at in range(draw(st.integers(1, 4)))]
            return {"type": "enum", "name": name, "symbols": symbols}, st.sampled_from(symbols)
        case 1:
            size = draw(st.integers(1, 9))
            kind = {"type": "fixed", "name": name, "size": size}
            return kind, st.binary(min_size=size, max_size=size)
        case _:
            return draw(decimals(name))


@st.composite
def types(draw, name, depth):
    """Return an Avro type, none of its names used elsewhere, and a strategy of its values."""
    choice = draw(st.integers(0, 5 if depth else 2))
    if choice <= 1:
        return draw(st.sampled_from(LEAVES))
    if choice == 2:
        return draw(named(name))
    if choice == 3:
        return draw(records(name, depth - 1))
    item, values = draw(nullable(f"{name}i", depth - 1))
    if choice == 4:
        return {"type": "array", "items": item}, st.lists(values, max_size=4)
    return {"type": "map", "values": item}, st.dictionaries(st.text(max_size=3), values, max_size=3)


@st.composite
def nullable(draw, name, depth):
    kind, values = draw(types(name, depth))
    match draw(st.integers(0, 3)):
        case 0:
            return ["null", kind], st.none() | values
        case 1:
            return [kind, "null"], st.none() | values
        case 2:
            return [kind], values
        case _:
            return kind, values


@st.composite
def records(draw, name, depth):
    fields = {
        f"f{at}": draw(nullable(f"{name}_{at}", depth)) for at in range(draw(st.integers(1, 4)))
    }
    kind = {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": kind} for field, (kind, _) in fields.items()],
    }
    return kind, st.fixed_dictionaries({field: values for field, (_, values) in fields.items()})


@st.composite
def tables(draw):
    kind, values = draw(records("row", 2))
    return json.dumps(kind), draw(st.lists(values, max_size=12))


def _write(text, rows):
    schema = fastavro.parse_schema(json.loads(text))
    parts = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, row)
        parts.append(out.tell().to_bytes(4, "big") + out.getvalue())
    return b"".join(parts)


def _read(content, text, **options):
    batches = read_avro_block(
        lambda at, length: content[at : at + length], len(content), text, None, what="b", **options
    )
    table = pa.Table.from_batches(batches, avro_to_arrow(text))
    table.validate(full=True)
    return table


def _bits(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _plain(value, kind):
    """Make dicts of the maps that Arrow gives as pairs."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {key: _plain(item, kind.item_type) for key, item in value}
    if pa.types.is_list(kind):
        return [_plain(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: _plain(value[field.name], field.type) for field in kind}
    return value


def _rows(table):
    kind = pa.struct(list(table.schema))
    return [_plain(row, kind) for row in table.to_pylist()]


@KERNELS
@settings(max_examples=settings().max_examples // 2)
@given(table=tables(), buffer_bytes=st.integers(1, 300), max_rows=st.integers(1, 20))
def test_rows_are_written_and_read_as_fastavro_does(kernel, table, buffer_bytes, max_rows):
    text, rows = table
    with kernels(kernel):
        content = encode_head(len(rows)) + _write(text, rows)
        found = _read(content, text, buffer_bytes=buffer_bytes, max_rows=max_rows)
        assert _rows(found) == rows
        (batch,) = found.combine_chunks().to_batches() or [
            pa.RecordBatch.from_pylist([], found.schema)
        ]
        records = encode_records(batch, text).to_pybytes()
    schema = fastavro.parse_schema(json.loads(text))
    at = 0
    for row in rows:
        end = at + 4 + int.from_bytes(records[at : at + 4], "big")
        stream = io.BytesIO(records[at + 4 : end])
        assert fastavro.schemaless_reader(stream, schema, None) == row
        assert stream.read() == b""
        at = end
    assert at == len(records)


@given(
    table=tables(),
    changes=st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), min_size=1, max_size=3),
    buffer_bytes=st.sampled_from([7, 10_000]),
)
def test_kernel_and_twin_agree_on_any_bytes(table, changes, buffer_bytes):
    text, rows = table
    content = bytearray(encode_head(len(rows)) + _write(text, rows))
    for at, byte in changes:
        content[at % len(content)] = byte
    found = []
    for kernel in (False, True):
        with kernels(kernel):
            try:
                found.append(_bits(_read(bytes(content), text, buffer_bytes=buffer_bytes)))
            except (CorruptError, UnsupportedError) as error:
                found.append((type(error), str(error)))
    assert found[0] == found[1]


@KERNELS
@settings(max_examples=settings().max_examples // 2)
@given(data=st.binary(max_size=60), table=tables())
def test_bytes_of_any_kind_give_rows_or_our_own_errors(kernel, data, table):
    text, _ = table
    content = encode_head(1) + len(data).to_bytes(4, "big") + data
    ours = contextlib.suppress(CorruptError, UnsupportedError)
    with kernels(kernel), ours:
        assert _read(content, text).num_rows == 1


def test_the_oracle_reads_times_as_we_do():
    """A guard for the comparison itself: a time of day is no number on either side."""
    text = json.dumps(
        {"type": "record", "name": "r", "fields": [{"name": "t", "type": _logical("int", "time-millis")}]}
    )  # fmt: skip
    content = encode_head(1) + _write(text, [{"t": time(1, 2, 3)}])
    assert _rows(_read(content, text)) == [{"t": time(1, 2, 3)}]
