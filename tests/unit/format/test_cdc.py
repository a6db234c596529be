"""Change records: the texts of their schemas, and the modes."""

import json

import fastavro
import pyarrow as pa
import pytest

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.format.avro.avro_schema import arrow_to_avro
from lakebed.format.logs.cdc import LoggingMode, cdc_schema, logging_mode
from lakebed.format.logs.log_block import HeaderKey
from lakebed.format.timeline.commit_metadata import CommitMetadata
from support import fixtures
from support.cdc import cdc_blocks

ROW = '{"type":"record","name":"t_record","namespace":"hoodie.t","fields":[]}'


def test_the_schema_of_hudis_own_change_data_is_ours_to_the_byte():
    files = fixtures.files("cow9_cdc")
    (commit, *_) = [data for path, data in files.items() if path.endswith(".commit")]
    table = CommitMetadata.parse(commit, "commit").extra_metadata["schema"]
    logs = [data for path, data in files.items() if path.endswith(".cdc")]
    assert len(logs) == 3
    for log in logs:
        [(headers, records)] = cdc_blocks(log)
        assert cdc_schema(LoggingMode.DATA_BEFORE_AFTER, table) == headers[HeaderKey.SCHEMA]
        assert set(records[0]) == set(LoggingMode.DATA_BEFORE_AFTER.fields)


def test_a_row_is_defined_once_and_named_the_second_time():
    """Hudi 1.2.0 writes these texts for a table `t`; rows are as in the table's own schema."""
    before = (
        '{"type":"record","name":"CDC","namespace":"hoodie.t","doc":"","fields":['
        '{"name":"op","type":["null","string"],"doc":"","default":null},'
        '{"name":"record_key","type":["null","string"],"doc":"","default":null},'
        '{"name":"before","type":["null",{"type":"record","name":"t_record","fields":[]}],'
        '"doc":"","default":null}]}'
    )
    assert cdc_schema(LoggingMode.DATA_BEFORE, ROW) == before
    both = json.loads(cdc_schema(LoggingMode.DATA_BEFORE_AFTER, ROW))
    assert [field["name"] for field in both["fields"]] == ["op", "ts_ms", "before", "after"]
    assert both["fields"][3]["type"] == ["null", "t_record"]


def test_keys_alone_have_the_string_first_and_no_namespace():
    assert cdc_schema(LoggingMode.OP_KEY_ONLY, "not looked at") == (
        '{"type":"record","name":"Record","fields":[{"name":"op","type":["string","null"]},'
        '{"name":"record_key","type":["string","null"]}]}'
    )


@pytest.mark.parametrize("mode", LoggingMode)
def test_rows_with_nested_and_fixed_types_make_a_schema_that_avro_takes(mode: LoggingMode):
    inner = pa.struct([("d", pa.decimal128(9, 2)), ("l", pa.list_(pa.int32()))])
    schema = pa.schema([("id", pa.string()), ("s", inner), ("m", pa.map_(pa.string(), inner))])
    parsed = fastavro.parse_schema(json.loads(cdc_schema(mode, arrow_to_avro(schema, "t"))))
    assert [field["name"] for field in parsed["fields"]] == list(mode.fields)


def test_a_schema_without_a_namespace_stays_without():
    text = cdc_schema(LoggingMode.DATA_BEFORE_AFTER, '{"type":"record","name":"r","fields":[]}')
    assert '"namespace"' not in text
    dotted = cdc_schema(LoggingMode.DATA_BEFORE, '{"type":"record","name":"a.r","fields":[]}')
    assert json.loads(dotted)["namespace"] == "a"


@pytest.mark.parametrize(
    "text", ["", "[]", '"string"', '{"type":"record"}', '{"type":"enum","name":"e"}', "[" * 100_000]
)
def test_what_is_no_record_is_refused(text: str):
    with pytest.raises(CorruptError, match="Avro schema of the table"):
        cdc_schema(LoggingMode.DATA_BEFORE, text)


@pytest.mark.parametrize(
    ("properties", "mode"),
    [
        ({}, None),
        ({"hoodie.table.cdc.enabled": "false"}, None),
        ({"hoodie.table.cdc.enabled": "TRUE"}, LoggingMode.DATA_BEFORE_AFTER),
        (
            {
                "hoodie.table.cdc.enabled": "true",
                "hoodie.table.cdc.supplemental.logging.mode": "op_key_only",
            },
            LoggingMode.OP_KEY_ONLY,
        ),
        ({"hoodie.table.cdc.supplemental.logging.mode": "whatever"}, None),
    ],
)
def test_the_mode_is_read_from_the_properties(properties: dict, mode: LoggingMode | None):
    assert logging_mode(properties) is mode


def test_a_mode_that_nobody_knows_is_refused_by_name():
    with pytest.raises(
        UnsupportedError, match=r"logging\.mode='op_key': expected op_key_only, data_b"
    ):
        LoggingMode.parse("op_key")
