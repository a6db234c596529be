"""Our bytes and names against those that Apache Hudi 1.2.0 wrote."""

import json
import struct
from collections import Counter

import pytest

from lakebed.format.files.partition_metadata import PartitionMetadata, is_partition_metadata_name
from lakebed.format.files.properties import encode_properties, parse_properties, table_checksum
from lakebed.format.logs.delete_block import OrderingKind
from lakebed.format.logs.log_block import (
    BlockType,
    CorruptSpan,
    HeaderKey,
    LogBlock,
    encode_block,
)
from lakebed.format.names.data_names import InlineLogName, NativeLogName, parse_data_name
from lakebed.format.names.instant_name import Action, InstantName, State
from lakebed.format.timeline import avro_models
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.format.timeline.ocf import decode_record, full_name
from lakebed.format.timeline.plans import PlanKind, encode_plan, parse_plan
from support.delete_records import (
    NO_ORDERING,
    DeleteRecord,
    OrderingValue,
    encode_delete_block,
    parse_delete_block,
)
from support.fixtures import expected_rows, files, names, unpack
from support.log_blocks import iter_blocks

TABLES = names()
BY_HUDI = [name for name in TABLES if not name.startswith(("mini_", "syn10_"))]
MODELS = {
    full_name(model): model
    for model in vars(avro_models).values()
    if isinstance(model, dict) and "namespace" in model
}
KINDS = {
    (Action.COMPACTION, State.REQUESTED): PlanKind.COMPACTION_PLAN,
    (Action.LOGCOMPACTION, State.REQUESTED): PlanKind.COMPACTION_PLAN,
    (Action.CLUSTERING, State.REQUESTED): PlanKind.REQUESTED_REPLACE,
    (Action.REPLACECOMMIT, State.REQUESTED): PlanKind.REQUESTED_REPLACE,
    (Action.CLEAN, State.REQUESTED): PlanKind.CLEANER_PLAN,
    (Action.CLEAN, State.COMPLETED): PlanKind.CLEAN,
    (Action.ROLLBACK, State.REQUESTED): PlanKind.ROLLBACK_PLAN,
    (Action.ROLLBACK, State.COMPLETED): PlanKind.ROLLBACK,
    (Action.SAVEPOINT, State.COMPLETED): PlanKind.SAVEPOINT,
    (Action.RESTORE, State.REQUESTED): PlanKind.RESTORE_PLAN,
    (Action.RESTORE, State.COMPLETED): PlanKind.RESTORE,
}


def instants(table):
    """Return every instant file of a table and of its metadata table."""
    for path, data in files(table).items():
        folder, _, name = path.rpartition("/")
        if folder.endswith(".hoodie/timeline"):
            yield name, data


def data_files(table):
    for path, data in files(table).items():
        name = path.rpartition("/")[2]
        if "/timeline/" not in path and (found := parse_data_name(name)) is not None:
            yield path, found, data


def inline_logs(table):
    return [(p, d) for p, name, d in data_files(table) if isinstance(name, InlineLogName)]


def plain(schema):
    """Drop what means nothing on the wire: docs, and defaults inside map and array types."""
    if isinstance(schema, list):
        return [plain(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    dropped = {"doc", "default"} if schema.get("type") in ("map", "array") else {"doc"}
    return {key: plain(value) for key, value in schema.items() if key not in dropped}


def file_schema(data):
    start = data.index(b"{")
    return json.JSONDecoder().raw_decode(data[start:].decode("utf-8", "replace"))[0]


@pytest.mark.parametrize("table", TABLES)
def test_every_file_name_is_known_and_comes_back(table):
    for path in files(table):
        folder, _, name = path.rpartition("/")
        if path.startswith(".hoodie/") and not path.startswith(".hoodie/metadata/"):
            continue
        if ".hoodie" in folder.removeprefix(".hoodie/metadata").split("/"):
            continue  # the metadata table's own .hoodie
        found = parse_data_name(name)
        assert found is not None or is_partition_metadata_name(name) or "/.hoodie" in path, path
        assert found is None or found.encode() == name


@pytest.mark.parametrize("table", TABLES)
def test_every_instant_name_is_known_and_comes_back(table):
    found = [(InstantName.parse(name), name) for name, _ in instants(table)]
    assert found
    for instant, name in found:
        assert instant is not None
        assert instant.encode() == name


def test_all_kinds_of_instants_are_covered():
    seen = Counter()
    for table in TABLES:
        for name, _ in instants(table):
            instant = InstantName.parse(name)
            seen[instant.action, instant.state] += 1
    assert set(KINDS) <= set(seen)
    assert seen[Action.COMMIT, State.COMPLETED] > 20


@pytest.mark.parametrize("table", TABLES)
def test_every_instant_decodes_and_comes_back_the_same(table):
    for name, data in instants(table):
        instant = InstantName.parse(name)
        if not data:
            assert instant.state is not State.COMPLETED
            continue
        kind = KINDS.get((instant.action, instant.state))
        if kind is None:
            commit = CommitMetadata.parse(data, name)
            assert CommitMetadata.parse(commit.encode(), name) == commit
        else:
            values = parse_plan(kind, data, name)
            assert parse_plan(kind, encode_plan(kind, values), name) == values


@pytest.mark.parametrize("table", BY_HUDI)
def test_every_schema_is_ours_field_for_field(table):
    for name, data in instants(table):
        if data:
            theirs = file_schema(data)
            ours = MODELS[full_name(theirs)]
            assert json.dumps(plain(ours)) == json.dumps(plain(theirs)), name


@pytest.mark.parametrize("table", BY_HUDI)
def test_every_record_is_written_by_us_with_hudis_bytes(table):
    for name, data in instants(table):
        if data and InstantName.parse(name).action in {Action.COMMIT, Action.DELTACOMMIT}:
            theirs, ours = decode_record(data, name), CommitMetadata.parse(data, name).encode()
            assert decode_record(ours, name)[0] == theirs[0]
            assert record_bytes(ours) == record_bytes(data), name


def record_bytes(data):
    """Return the one record of a container file: all between the two sync markers."""
    body = data[data.index(data[-16:]) + 16 : -16]
    assert body[0] == 2  # one record
    size = 1
    while body[size] & 0x80:
        size += 1
    return body[size + 1 :]


@pytest.mark.parametrize("table", TABLES)
def test_properties_come_back_and_carry_the_right_checksum(table):
    for path, data in files(table).items():
        if path.endswith("hoodie.properties"):
            found = parse_properties(data, path)
            assert parse_properties(encode_properties(found)) == found
            checksum = table_checksum(found.get("hoodie.database.name"), found["hoodie.table.name"])
            assert found.get("hoodie.table.checksum", checksum) == checksum
            schema = found.get("hoodie.table.create.schema")
            assert schema is None or json.loads(schema)["type"] == "record"


@pytest.mark.parametrize("table", BY_HUDI)
def test_properties_of_hudi_are_escaped_as_we_do(table):
    data = files(table)[".hoodie/hoodie.properties"]
    theirs = sorted(line for line in data.splitlines() if not line.startswith(b"#"))
    assert sorted(encode_properties(parse_properties(data)).splitlines()) == theirs


@pytest.mark.parametrize("table", BY_HUDI)
def test_partition_metadata_is_ours_but_for_the_date(table):
    for path, data in files(table).items():
        folder, _, name = path.rpartition("/")
        if is_partition_metadata_name(name) and not path.startswith(".hoodie"):
            found = PartitionMetadata.parse(data, path)
            assert found == PartitionMetadata.of(found.commit_time, folder)
            lines = data.splitlines()
            assert found.encode().splitlines() == [lines[0], *lines[2:]]


@pytest.mark.parametrize("table", TABLES)
def test_every_log_block_comes_back_with_the_same_size(table):
    for path, data in inline_logs(table):
        for block in iter_blocks(data, path):
            if isinstance(block, CorruptSpan):
                assert table in {"mini_trunc", "mini_corrupt_mid"}
                continue
            again = encode_block(block)
            # Hudi writes the headers in the order of a hash map, so only sizes must agree.
            end = block.offset + len(again)
            assert data[end - 8 : end] == again[-8:]
            assert end == len(data) or data[end:].startswith(b"#HUDI#")
            assert len(block.instant) == 17
            if block.type is BlockType.DELETE:
                records = parse_delete_block(block.content, path)
                assert encode_delete_block(records) == block.content


def test_check_1_delete_block_of_880_bytes():
    name = ".00000000-6616-4257-b618-13e7ea4055b7-0_20261115060920861.log.1_0-75-102"
    ((path, data),) = [it for it in inline_logs("mor9_bucket_avro") if it[0].endswith(name)]
    (block,) = iter_blocks(data, path)
    assert len(data) == 880
    assert data[:26].hex() == "234855444923" + f"{866:016x}" + "00000001" + "00000001" + "00000002"
    assert data[-12:].hex() == "00000000" + f"{872:016x}"
    assert block.content.hex() == "0000000300000014" + "0202046b300214323032342d30312d3031040000"
    assert set(block.headers) == {HeaderKey.INSTANT_TIME, HeaderKey.SCHEMA}
    assert block.instant == "20261115060920861"
    assert encode_block(block) == data
    assert parse_delete_block(block.content, path) == [
        DeleteRecord("k0", "2024-01-01", NO_ORDERING)
    ]


def test_check_2_avro_block_of_995_bytes():
    blocks = [b for p, d in inline_logs("mor9_bucket_avro") for b in iter_blocks(d, p)]
    (block,) = [
        b
        for b in blocks
        if b.type is BlockType.AVRO_DATA and b"\x04k1" in b.content and len(encode_block(b)) == 995
    ]
    assert len(block.content) == 143
    assert struct.unpack(">iii", block.content[:12]) == (3, 1, 131)
    assert encode_block(block)[6:14] == struct.pack(">q", 981)


def test_check_4_table_checksum():
    assert table_checksum("", "mor9_bucket_avro") == "1442631740"
    found = parse_properties(files("mor9_bucket_avro")[".hoodie/hoodie.properties"])
    assert found["hoodie.table.checksum"] == "1442631740"


def test_check_8_empty_file_group_of_the_metadata_table():
    logs = [
        (name, data)
        for path, name, data in data_files("mor9_nonpart_mdt")
        if path.startswith(".hoodie/metadata/") and isinstance(name, InlineLogName)
    ]
    empty = [(name, data) for name, data in logs if name.write_token == "0-0-0"]
    assert len(empty) >= 7
    for name, data in empty:
        assert len(data) == 80
        block = LogBlock(
            BlockType.DELETE, {HeaderKey.INSTANT_TIME: name.instant}, encode_delete_block([])
        )
        assert block.content.hex() == "000000030000000100"
        assert encode_block(block) == data


def test_check_10_keys_sort_by_their_utf8_bytes():
    keys = [row["id"] for row in expected_rows("syn10_lsm_mor")]
    fullwidth, emoji = "\uff21", "\U0001f600"
    assert {fullwidth, emoji} <= set(keys)
    assert fullwidth.encode() < emoji.encode()
    assert fullwidth.encode("utf-16-be") > emoji.encode("utf-16-be")


def test_ordering_of_deletes_keeps_its_type():
    def orderings(table):
        return {
            record.record_key: record.ordering
            for path, data in inline_logs(table)
            for block in iter_blocks(data, path)
            if isinstance(block, LogBlock) and block.type is BlockType.DELETE
            for record in parse_delete_block(block.content, path)
        }

    assert all(v.kind is OrderingKind.LONG for v in orderings("mor9_isdeleted").values())
    pair = (OrderingValue(OrderingKind.LONG, 100), OrderingValue(OrderingKind.DOUBLE, 0.5))
    assert pair in orderings("mor9_multiorder").values()
    assert None in orderings("mini_del_null").values()


@pytest.mark.parametrize(("table", "good"), [("mini_trunc", 1), ("mini_corrupt_mid", 2)])
def test_damaged_logs_keep_their_good_blocks(table, good):
    ((path, data),) = inline_logs(table)
    found = list(iter_blocks(data, path))
    assert sum(isinstance(block, LogBlock) for block in found) == good
    assert sum(isinstance(block, CorruptSpan) for block in found) == 1


def test_native_logs_of_version_10_are_told_apart_by_name():
    kinds = Counter(
        name.kind for _, name, _ in data_files("syn10_lsm_mor") if isinstance(name, NativeLogName)
    )
    assert kinds == {"log": 4, "deletes": 3}


def test_fixture_unpacks_to_its_files(tmp_path):
    folder = unpack("mini_cow_full", tmp_path)
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert found == set(files("mini_cow_full"))
