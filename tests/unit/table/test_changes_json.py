"""Change rows as JSON text."""

import datetime as dt
import decimal
import json
from typing import Any

import pyarrow as pa
import pytest

from lakebed.table.changes.json_text import changes_to_json
from lakebed.table.changes.reader import change_schema


def spelled(kind: pa.DataType, *values: Any) -> list[str | None]:
    """Return rows of one column as JSON."""
    schema = change_schema(pa.schema([("x", kind)]), ["x"])
    rows = [{"op": "i", "ts_ms": "1", "before": None, "after": {"x": value}} for value in values]
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    found = changes_to_json(batch)
    assert found.column("before").null_count == len(values)
    texts = found.column("after").to_pylist()
    for text in texts:
        json.loads(text)
    return texts


MOMENT = dt.datetime(2024, 1, 2, 3, 4, 5, 678901, dt.UTC)


# What Hudi 1.2.0 writes for the same values, but for the decimal, which it writes {"zero":false}.
@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.bool_(), True, "true"),
        (pa.int32(), -3, "-3"),
        (pa.float32(), 1.5, "1.5"),
        (pa.decimal128(10, 2), decimal.Decimal("12.30"), "12.30"),
        (pa.date32(), dt.date(2024, 1, 2), "19724"),
        (pa.timestamp("us", "UTC"), MOMENT, "1704164645678901"),
        (pa.binary(), b"\x00\xffab", '"AP9hYg=="'),
        (pa.list_(pa.int64()), [1, 2], "[1,2]"),
        (pa.map_(pa.string(), pa.int64()), [("k", 1)], '{"k":1}'),
        (pa.string(), 'q"\\\n\té', '"q\\"\\\\\\n\\té"'),
        (
            pa.struct([("x", pa.int64()), ("y", pa.string())]),
            {"x": 1, "y": 'q"\\\n\té'},
            '{"x":1,"y":"q\\"\\\\\\n\\té"}',
        ),
    ],
)
def test_a_value_is_spelled_as_hudi_spells_it(kind: pa.DataType, value: Any, text: str):
    assert spelled(kind, value, None) == [f'{{"x":{text}}}', "{}"]
    if not pa.types.is_map(kind):
        nested = spelled(pa.list_(kind), [value, None])
        assert nested == [f'{{"x":[{text},null]}}']


@pytest.mark.parametrize("kind", [pa.time64("us"), pa.time32("ms")])
def test_a_time_of_day_is_a_number_as_timestamps_are(kind: pa.DataType):
    assert spelled(kind, dt.time(1, 2, 3, 4000), None) == ['{"x":3723004000}', "{}"]


def test_floats_that_json_does_not_have_are_text():
    odd = [float("nan"), float("inf"), float("-inf")]
    wanted = ['{"x":"NaN"}', '{"x":"Infinity"}', '{"x":"-Infinity"}']
    assert spelled(pa.float64(), *odd) == wanted
    assert spelled(pa.list_(pa.float64()), odd) == ['{"x":["NaN","Infinity","-Infinity"]}']


def test_a_number_keeps_its_value():
    values = [1e20, 0.1, -0.0, 5e-324, 1.7976931348623157e308, 3.0]
    texts = spelled(pa.float64(), *values)
    found = [json.loads(text or "", parse_int=float)["x"] for text in texts]
    assert [*map(repr, found)] == [*map(repr, values)]


def test_all_control_characters_are_escaped():
    text = "".join(map(chr, range(0x30))) + "\u2028\U0001f600"
    [found] = spelled(pa.string(), text)
    assert json.loads(found or "") == {"x": text}


def test_a_row_that_was_not_there_is_null():
    schema = change_schema(pa.schema([("a b", pa.int64()), ("y", pa.string())]), ["a b", "y"])
    row = {"a b": 1, "y": None}
    rows = [{"op": "u", "ts_ms": "1", "before": row, "after": {**row, "y": ""}}]
    rows.append({"op": "d", "ts_ms": "2", "before": row, "after": None})
    found = changes_to_json(pa.RecordBatch.from_pylist(rows, schema=schema)).to_pylist()
    assert found == [
        {"op": "u", "ts_ms": "1", "before": '{"a b":1}', "after": '{"a b":1,"y":""}'},
        {"op": "d", "ts_ms": "2", "before": '{"a b":1}', "after": None},
    ]
