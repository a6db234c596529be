import json

import pytest

from lakebed.errors import CorruptError, InvalidError, UnsupportedError
from lakebed.format.logs.log_block import HeaderKey
from lakebed.format.logs.native_footer import (
    FOOTER_KINDS,
    FooterKind,
    LogFooter,
    encode_log_footer,
    parse_log_footer,
)
from lakebed.format.names.data_names import LogKind

JSON = "hudi.log.format.metadata"
COMMAND = {HeaderKey.COMMAND_BLOCK_TYPE: "0", HeaderKey.TARGET_INSTANT_TIME: "2"}


def test_data_footer_is_written_as_json_and_under_the_keys_of_the_rfc():
    footer = LogFooter(
        FooterKind.PARQUET_DATA,
        "20240101000000001",
        '{"type":"record"}',
        {HeaderKey.IS_PARTIAL: "true", HeaderKey.COMPACTED_BLOCK_TIMES: "1,2"},
        is_ordered=True,
    )
    assert encode_log_footer(footer) == {
        JSON: '{"VERSION":"2","INSTANT_TIME":"20240101000000001",'
        '"SCHEMA":"{\\"type\\":\\"record\\"}","COMPACTED_BLOCK_TIMES":"1,2","IS_PARTIAL":"true"}',
        "hudi.log.format_version": "2",
        "hudi.log.block_type": "parquet_data",
        "hudi.log.instant_time": "20240101000000001",
        "hudi.log.compacted_block_times": "1,2",
        "hudi.log.is_partial": "true",
        "hudi.log.is_ordered": "true",
    }
    assert footer.is_partial
    assert not LogFooter(FooterKind.PARQUET_DATA).is_partial


@pytest.mark.parametrize(
    "metadata",
    [
        {JSON: '{"VERSION":"2","INSTANT_TIME":"7","SCHEMA":"s","BLOCK_IDENTIFIER":"b"}'},
        {JSON: '{"INSTANT_TIME":"7","SCHEMA":"s","BLOCK_IDENTIFIER":"b","IS_PARTIAL":null}'},
        {JSON: '{"VERSION":2,"INSTANT_TIME":7,"SCHEMA":"s","BLOCK_IDENTIFIER":"b","NEW":[1]}'},
        {
            "hudi.log.format.INSTANT_TIME": "7",
            "hudi.log.format.SCHEMA": "s",
            "hudi.log.format.BLOCK_IDENTIFIER": "b",
            "hudi.log.format.SOMETHING": "x",
        },
    ],
)
def test_forms_of_hudi_are_read_and_leave_the_kind_to_the_name(metadata):
    want = LogFooter(None, "7", "s", {HeaderKey.BLOCK_IDENTIFIER: "b"})
    assert parse_log_footer(metadata, "f") == want


def test_keys_of_the_rfc_alone_are_read_without_a_schema():
    metadata = {
        "hudi.log.format_version": "2",
        "hudi.log.block_type": "command",
        "hudi.log.instant_time": "7",
        "hudi.log.target_instant_time": "2",
        "hudi.log.command_block_type": "0",
    }
    assert parse_log_footer(metadata, "f") == LogFooter(FooterKind.COMMAND, "7", None, COMMAND)


def test_json_goes_before_single_entries_and_those_before_the_keys_of_the_rfc():
    forms = [
        (JSON, '{"INSTANT_TIME":"1"}'),
        ("hudi.log.format.INSTANT_TIME", "2"),
        ("hudi.log.instant_time", "3"),
    ]
    for first in range(3):
        found = parse_log_footer(dict(forms[first:]), "f")
        assert found.instant == str(first + 1)


def test_file_without_any_log_key_has_no_log_footer():
    assert parse_log_footer({}, "f") is None
    assert (
        parse_log_footer({"parquet.avro.schema": "{}", "hudi.log.is_ordered": "true"}, "f") is None
    )


@pytest.mark.parametrize("metadata", [{JSON: "{}"}, {"hudi.log.block_type": "delete"}])
def test_log_footer_that_says_next_to_nothing_is_still_one(metadata):
    footer = parse_log_footer(metadata, "f")
    assert (footer.instant, footer.version, footer.headers) == (None, 2, {})


@pytest.mark.parametrize(
    "metadata",
    [
        {JSON: '{"VERSION":"3"}'},
        {"hudi.log.format.VERSION": "3"},
        {"hudi.log.format_version": "3"},
        {JSON: '{"VERSION":"2"}', "hudi.log.format_version": "3"},
        {"hudi.log.block_type": "avro_data"},
    ],
)
def test_future_version_or_unknown_kind_is_refused_by_name(metadata):
    with pytest.raises(UnsupportedError, match=r"^x\.log\.parquet: .*(version 3|avro_data)"):
        parse_log_footer(metadata, "x.log.parquet")


@pytest.mark.parametrize(
    "metadata",
    [
        {JSON: "{"},
        {JSON: "[]"},
        {JSON: "[" * 100_000},
        {JSON: '{"VERSION":NaN}'},
        {JSON: '{"VERSION":"two"}'},
        {JSON: '{"VERSION":"-1"}'},
        {JSON: '{"SCHEMA":{"type":"record"}}'},
        {JSON: '{"SCHEMA":"\\ud800"}'},
        {"hudi.log.block_type": "command", "hudi.log.command_block_type": "0"},
        {JSON: '{"COMMAND_BLOCK_TYPE":"0"}'},
    ],
)
def test_broken_footer_is_corrupt(metadata):
    with pytest.raises(CorruptError, match=r"^f: "):
        parse_log_footer(metadata, "f")


def test_command_of_a_json_footer_is_not_taken_for_data():
    text = json.dumps({key.name: value for key, value in COMMAND.items()})
    assert parse_log_footer({JSON: text}, "f").kind is FooterKind.COMMAND


@pytest.mark.parametrize(
    "footer",
    [
        LogFooter(None, "7"),
        LogFooter(FooterKind.COMMAND, "7", headers={HeaderKey.TARGET_INSTANT_TIME: "2"}),
        LogFooter(FooterKind.DELETE, headers={HeaderKey.INSTANT_TIME: "7"}),
    ],
)
def test_footer_that_no_reader_could_use_is_not_written(footer):
    with pytest.raises(InvalidError, match="native log footer"):
        encode_log_footer(footer)


@pytest.mark.parametrize(
    ("text", "ordered"), [("true", True), ("TRUE", True), ("false", False), ("yes", False)]
)
def test_order_mark_is_true_or_it_is_none(text, ordered):
    footer = parse_log_footer({JSON: "{}", "hudi.log.is_ordered": text}, "f")
    assert footer.is_ordered is ordered


def test_every_kind_of_name_has_its_word():
    assert {kind: FOOTER_KINDS[kind].value for kind in LogKind} == {
        LogKind.LOG: "parquet_data",
        LogKind.DELETES: "delete",
        LogKind.CDC: "cdc",
    }
