"""What the properties of a table say of its merge, as Apache Hudi 1.2.0 writes them."""

import json

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CorruptError, OptionError, UnsupportedError
from lakebed.merge.rule import Fill, MergeRule
from lakebed.table.config.merge_mode import (
    MergeMode,
    MergeSettings,
    check_partial_updates,
    parse_merge,
    payload_properties,
)
from lakebed.table.config.merge_rule import merge_rule
from lakebed.table.config.table_config import TableConfig

COMMIT, EVENT, CUSTOM = (
    MergeMode.COMMIT_TIME_ORDERING,
    MergeMode.EVENT_TIME_ORDERING,
    MergeMode.CUSTOM,
)
MODEL = "org.apache.hudi.common.model."
MARKER = "__debezium_unavailable_value"
DEBEZIUM_DELETE = ("_change_operation_type", "d")
BY_PAYLOAD = "00000000-0000-0000-0000-000000000000"
NON_DEFAULTS = MODEL + "OverwriteNonDefaultsWithLatestAvroPayload"
PARTIAL_UPDATE = MODEL + "PartialUpdateAvroPayload"
AWS_DMS = MODEL + "AWSDmsAvroPayload"
POSTGRES = MODEL + "debezium.PostgresDebeziumAvroPayload"
MYSQL = MODEL + "debezium.MySqlDebeziumAvroPayload"

# From hoodie.properties of tables that Hudi 1.2.0 created with each payload class.
VERSION_9 = {
    NON_DEFAULTS: (
        ("ts",),
        {
            "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
            "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
        },
        MergeSettings(COMMIT, Fill()),
    ),
    PARTIAL_UPDATE: (
        ("ts",),
        {
            "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
            "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
        },
        MergeSettings(EVENT, Fill()),
    ),
    POSTGRES: (
        ("_event_lsn",),
        {
            "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
            "hoodie.table.partial.update.mode": "FILL_UNAVAILABLE",
            "hoodie.record.merge.property.hoodie.payload.delete.field": "_change_operation_type",
            "hoodie.record.merge.property.hoodie.payload.delete.marker": "d",
            "hoodie.record.merge.property.hoodie.write.partial.update.unavailable.value": MARKER,
        },
        MergeSettings(EVENT, Fill(MARKER), delete_marker=DEBEZIUM_DELETE),
    ),
    MYSQL: (
        ("_event_bin_file", "_event_pos"),
        {
            "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
            "hoodie.record.merge.property.hoodie.payload.delete.field": "_change_operation_type",
            "hoodie.record.merge.property.hoodie.payload.delete.marker": "d",
        },
        MergeSettings(EVENT, delete_marker=DEBEZIUM_DELETE),
    ),
    AWS_DMS: (
        ("ts",),
        {
            "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
            "hoodie.record.merge.property.hoodie.payload.delete.field": "Op",
            "hoodie.record.merge.property.hoodie.payload.delete.marker": "D",
        },
        MergeSettings(COMMIT, delete_marker=("Op", "D")),
    ),
}
OLD = {
    NON_DEFAULTS: MergeSettings(COMMIT, Fill()),
    PARTIAL_UPDATE: MergeSettings(EVENT, Fill(), natural_deletes=True),
    AWS_DMS: MergeSettings(COMMIT, delete_marker=("Op", "D")),
    POSTGRES: MergeSettings(CUSTOM),
    MYSQL: MergeSettings(CUSTOM),
}


@pytest.mark.parametrize("payload", VERSION_9)
def test_what_hudi_spells_for_a_payload_class_in_version_9_is_understood_and_spelled(payload):
    ordering, properties, settings = VERSION_9[payload]
    legacy = {"hoodie.table.legacy.payload.class": payload}
    assert parse_merge(properties | legacy, 9, ordering, "here") == settings
    assert payload_properties(payload, ordering, 9) == properties | legacy
    # The option of a writer, who need not say the rest.
    assert parse_merge({"hoodie.compaction.payload.class": payload}, 9, ordering, "") == settings


@pytest.mark.parametrize("payload", OLD)
@pytest.mark.parametrize("version", [6, 8])
def test_up_to_version_8_a_payload_class_is_what_hudi_was_seen_to_do(payload, version):
    properties = {
        "hoodie.compaction.payload.class": payload,
        "hoodie.record.merge.strategy.id": BY_PAYLOAD,
    } | ({"hoodie.record.merge.mode": "CUSTOM"} if version == 8 else {})
    assert parse_merge(properties, version, ("ts",), "here") == OLD[payload]
    if version == 8 and OLD[payload].mode is not CUSTOM:
        assert payload_properties(payload, ("ts",), 8) == properties


@pytest.mark.parametrize(
    ("properties", "version"),
    [
        # A user's own class, or a merger beside a class of Hudi's.
        ({"hoodie.compaction.payload.class": "com.example.Mine"}, 6),
        (
            {
                "hoodie.record.merge.mode": "CUSTOM",
                "hoodie.compaction.payload.class": NON_DEFAULTS,
                "hoodie.record.merge.strategy.id": "1897ef5f-18bc-4557-939c-9d6a8afd1519",
            },
            8,
        ),
        # In version 9 Hudi would run the class, which it never writes there.
        (
            {"hoodie.record.merge.mode": "CUSTOM", "hoodie.compaction.payload.class": NON_DEFAULTS},
            9,
        ),
        ({"hoodie.table.partial.update.mode": "KEEP_VALUES"}, 9),
        ({"hoodie.record.merge.mode": "CUSTOM"}, 9),
    ],
)
def test_what_is_not_known_is_custom(properties, version):
    assert parse_merge(properties, version, ("ts",), "here").mode is CUSTOM


def test_a_class_that_knows_one_ordering_field_is_custom_with_two():
    properties = {"hoodie.compaction.payload.class": PARTIAL_UPDATE}
    assert parse_merge(properties, 8, ("ts", "seq"), "here").mode is CUSTOM
    assert parse_merge(properties, 9, ("ts", "seq"), "here").mode is EVENT


def test_partial_updates_are_unknown_to_hudi_before_version_9():
    properties = {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}
    assert parse_merge(properties, 8, (), "here") == MergeSettings(COMMIT)


def test_without_a_marker_nothing_is_unavailable():
    properties = {"hoodie.table.partial.update.mode": "FILL_UNAVAILABLE"}
    assert parse_merge(properties, 9, (), "here") == MergeSettings(COMMIT)


def test_a_mode_of_the_future_is_refused_by_name():
    with pytest.raises(UnsupportedError, match=r"here: hoodie\.record\.merge\.mode=NEXT"):
        parse_merge({"hoodie.record.merge.mode": "next"}, 9, (), "here")


@pytest.mark.parametrize(
    ("payload", "ordering", "version", "words"),
    [
        ("com.example.Mine", ("ts",), 9, "expected one of .*AWSDms.* or none and a custom merger"),
        (POSTGRES, ("_event_lsn",), 8, "in table version 8 expected one of"),
        (POSTGRES, ("ts",), 9, r"expected ordering=\['_event_lsn'\].* found \['ts'\]"),
        (PARTIAL_UPDATE, (), 9, "needs ordering=<column>"),
    ],
)
def test_a_payload_class_that_a_new_table_cannot_have_is_refused(payload, ordering, version, words):
    with pytest.raises(OptionError, match=words):
        payload_properties(payload, ordering, version)


@pytest.mark.parametrize(
    ("mode", "version", "words"),
    [
        ("IGNORE_DEFAULTS", 8, "expected table version 9 or later, found 8"),
        (
            "fill_unavailable",
            9,
            r"expected hoodie\.write\.partial\.update\.unavailable\.value with it",
        ),
    ],
)
def test_partial_updates_that_a_new_table_cannot_have_are_refused(mode, version, words):
    with pytest.raises(OptionError, match=words):
        check_partial_updates({"hoodie.table.partial.update.mode": mode}, version)


def config(payload: str, version: int) -> TableConfig:
    ordering = ",".join(VERSION_9[payload][0])
    return TableConfig.parse(
        {
            "hoodie.table.name": "t",
            "hoodie.table.version": str(version),
            "hoodie.timeline.layout.version": "2",
            "hoodie.table.ordering.fields": ordering,
            "hoodie.compaction.payload.class": payload,
        },
        "here",
    )


def hudi_rule(*ordering: str, **settings) -> MergeRule:
    return MergeRule(ordering, logs_first=True, **settings)


def test_the_rule_follows_from_the_settings():
    assert merge_rule(config(NON_DEFAULTS, 9)) == hudi_rule(fill=Fill())
    assert merge_rule(config(PARTIAL_UPDATE, 9)) == hudi_rule("ts", fill=Fill())
    assert merge_rule(config(PARTIAL_UPDATE, 8)) == hudi_rule(
        "ts", fill=Fill(), natural_deletes=True
    )
    assert merge_rule(config(POSTGRES, 9)) == hudi_rule("_event_lsn", fill=Fill(MARKER))
    assert config(POSTGRES, 9).delete_marker == DEBEZIUM_DELETE


def test_a_class_without_a_rule_is_refused_by_name():
    with pytest.raises(UnsupportedError, match=r"payload\.class=.*MySqlDebezium.*custom merger"):
        merge_rule(config(MYSQL, 8))


def test_a_default_that_is_not_null_is_refused_where_defaults_give_way():
    def text(default: object) -> str:
        field = {"name": "n", "type": ["long", "null"], "default": default}
        return json.dumps({"type": "record", "name": "t", "fields": [field, {"name": "m"}]})

    assert merge_rule(config(NON_DEFAULTS, 9), schema_text=text(None)).fill == Fill()
    with pytest.raises(UnsupportedError, match="column 'n' has the default 0"):
        merge_rule(config(NON_DEFAULTS, 9), schema_text=text(0))
    assert merge_rule(config(AWS_DMS, 9), schema_text=text(0)) == hudi_rule()
    assert merge_rule(config(POSTGRES, 9), schema_text=text(0)).fill == Fill(MARKER)
    with pytest.raises(CorruptError, match="not JSON"):
        merge_rule(config(NON_DEFAULTS, 9), schema_text="{")


ROWS = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("a", pa.string()), ("b", pa.int64())])


def rows(*told: tuple[str, int, str | None, int | None]) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(ROWS.names, row, strict=True)) for row in told], schema=ROWS
    )


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", [8, 9, 10])
def test_a_table_of_ours_with_a_payload_class_is_merged_by_it(table_type, version):
    path = f"memory://payloads/{table_type}/{version}"
    given = {"hoodie.compaction.payload.class": PARTIAL_UPDATE}
    table = lakebed.create_table(
        None,
        path,
        ROWS,
        key="id",
        ordering="ts",
        table_type=table_type,
        table_version=version,
        buckets=1,
        properties=given,
    )
    table.upsert(rows(("k", 10, None, 1), ("m", 10, "old", 1)))
    table.upsert(rows(("k", 5, "late", 5), ("m", 11, None, None)))
    want = [("k", 10, "late", 1), ("m", 11, "old", 1)]
    assert [tuple(row.values()) for row in table.read().read_all().to_pylist()] == want
    if table_type == "MERGE_ON_READ":
        assert table.compact(mode="full") is not None
        assert [tuple(row.values()) for row in table.read().read_all().to_pylist()] == want
    with pytest.raises(UnsupportedError, match="call upsert, with a null where"):
        table.update_columns(rows(("k", 12, "x", 1)).select(["id", "ts", "a"]))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"hoodie.compaction.payload.class": "com.example.Mine"}, "custom merger"),
        (
            {
                "hoodie.compaction.payload.class": PARTIAL_UPDATE,
                "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
            },
            "contradicts .*which implies EVENT_TIME_ORDERING",
        ),
        (
            {
                "hoodie.compaction.payload.class": AWS_DMS,
                "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
            },
            "contradicts .*which implies none",
        ),
    ],
)
def test_a_new_table_with_merges_that_contradict_each_other_is_refused(given, words):
    with pytest.raises(OptionError, match=words):
        lakebed.create_table(
            None, "memory://payloads/refused", ROWS, key="id", ordering="ts", properties=given
        )


def test_partial_updates_are_an_option_of_a_new_table():
    given = {
        "hoodie.table.partial.update.mode": "fill_unavailable",
        "hoodie.write.partial.update.unavailable.value": "?",
    }
    table = lakebed.create_table(
        None, "memory://payloads/options", ROWS, key="id", properties=given, buckets=1
    )
    assert table.config.fill == Fill("?")
    table.upsert(rows(("k", 1, "old", 1)))
    table.upsert(rows(("k", 1, "?", None)))
    assert table.lookup(["k"]).to_pylist() == [{"id": "k", "ts": 1, "a": "old", "b": None}]
