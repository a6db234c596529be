import json

import pytest

from lakebed.errors import CorruptError
from lakebed.format.logs.log_block import HeaderKey
from lakebed.format.logs.order_mark import is_marked_ordered, mark_ordered
from support.fixtures import files
from support.log_blocks import iter_blocks

SCHEMA = '{"type": "record", "doc": "é", "name": "r", "fields": [], "default": 1e2}'


def test_mark_is_added_and_all_else_stays_byte_for_byte():
    marked = mark_ordered(SCHEMA)
    assert marked == SCHEMA[:-1] + ',"hudi.is_ordered":true}'
    assert not is_marked_ordered(SCHEMA)
    assert is_marked_ordered(marked)
    assert mark_ordered(marked) == marked
    assert mark_ordered(SCHEMA[:-1] + " \n} \n") == marked


def test_schema_of_a_real_log_keeps_its_properties_and_fields_in_order():
    log = next(data for path, data in files("mor9_bucket_avro").items() if ".log." in path)
    schema = next(iter_blocks(log, "f")).headers[HeaderKey.SCHEMA]
    marked = json.loads(mark_ordered(schema))
    assert marked.pop("hudi.is_ordered") is True
    assert json.dumps(marked) == json.dumps(json.loads(schema))


@pytest.mark.parametrize("value", ["false", '"true"', "1", "null"])
def test_anything_but_true_is_no_mark_and_is_replaced(value):
    schema = f'{{"type":"record","hudi.is_ordered":{value},"fields":[]}}'
    assert not is_marked_ordered(schema)
    assert mark_ordered(schema).count("hudi.is_ordered") == 1
    assert json.loads(mark_ordered(schema)) == {
        "type": "record",
        "hudi.is_ordered": True,
        "fields": [],
    }


def test_mark_of_a_field_or_inner_record_does_not_count():
    inner = '{"type":"record","name":"i","fields":[],"hudi.is_ordered":true}'
    field = f'{{"name":"f","type":{inner},"hudi.is_ordered":true}}'
    assert not is_marked_ordered(f'{{"type":"record","name":"r","fields":[{field}]}}')


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '"string"', '{"type":"array"}', "null", "[" * 100_000]
)
def test_what_is_no_schema_of_a_record_is_corrupt(text):
    for call in (mark_ordered, is_marked_ordered):
        with pytest.raises(CorruptError, match=r"^x: expected "):
            call(text, "x")
