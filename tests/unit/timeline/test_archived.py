"""The archived timeline: what Hudi wrote, and what broken bytes give."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.errors import CorruptError, InvalidError, LakebedError, UnsupportedError
from lakebed.format.files.parquet_pages import MAX_PAGE_BYTES
from lakebed.storage.local import LocalStorage
from lakebed.timeline.active import load_timeline
from lakebed.timeline.archived import (
    HISTORY_FOLDER,
    ArchivedInstant,
    read_archived,
    read_completions,
)
from support.fixtures import unpack

SCHEMA = pa.schema(
    [
        ("instantTime", pa.string()),
        ("completionTime", pa.string()),
        ("action", pa.string()),
        ("metadata", pa.binary()),
        ("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ]
)


def at(number):
    """Return the n-th instant of a made-up day."""
    return f"202401010000{number:05d}"


def row(number, **changes):
    values = {
        "instantTime": at(number),
        "completionTime": at(number + 1),
        "action": "commit",
        "metadata": b"metadata %d" % number,
        "plan": None,
        "version": 1,
    }
    return values | changes


class Archive:
    """Writes an archive file by file."""

    def __init__(self, root):
        self.storage = LocalStorage(str(root))
        self.files = []

    def add(self, *rows, name=None, schema=SCHEMA, **how):
        times = [one["instantTime"] for one in rows if one["instantTime"]]
        name = name or f"{min(times)}_{max(times)}_0.parquet"
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(list(rows), schema), sink, **how)
        data = sink.getvalue().to_pybytes()
        self.put(name, data)
        self.files.append({"fileName": name, "fileLen": len(data)})
        self.publish()
        return data

    def put(self, name, data):
        self.storage.put(f"{HISTORY_FOLDER}/{name}", data)

    def publish(self, version=1):
        self.put(f"manifest_{version}", json.dumps({"files": self.files}).encode())
        self.put("_version_", b"%d" % version)

    def read(self, **options):
        return list(read_archived(self.storage, **options))

    def requested(self, **options):
        return [instant.requested for instant in self.read(**options)]


@pytest.fixture
def archive(tmp_path):
    return Archive(tmp_path)


@pytest.fixture
def hudi_table(tmp_path):
    return LocalStorage(str(unpack("cow9_archive", tmp_path)))


def test_the_archive_that_hudi_wrote_is_read_oldest_first(hudi_table):
    assert list(read_archived(hudi_table, columns=())) == [
        ArchivedInstant("20261115061342141", "20261115061343458", "commit"),
        ArchivedInstant("20261115061343571", "20261115061345554", "commit"),
        ArchivedInstant("20261115061345929", "20261115061347987", "commit"),
        ArchivedInstant("20261115061348278", "20261115061348569", "clean"),
        ArchivedInstant("20261115061348713", "20261115061350751", "commit"),
    ]


def test_metadata_and_plan_come_as_asked_for(hudi_table):
    instants = list(read_archived(hudi_table, columns=["metadata", "plan"]))
    assert [instant.metadata[:4] for instant in instants] == [b"Obj\x01"] * 5
    assert [instant.plan is None for instant in instants] == [True, True, True, False, True]
    for instant, full in zip(read_archived(hudi_table), instants, strict=True):
        assert (instant.metadata, instant.plan) == (full.metadata, None)


def test_every_commit_in_hudis_archive_counts_as_archived_on_its_active_timeline(hudi_table):
    timeline = load_timeline(hudi_table)
    for instant in read_archived(hudi_table):
        assert timeline.is_archived(instant.requested)
    assert timeline.first_active == "20261115061351346"


def test_completion_times_of_archived_commits_can_be_looked_up(hudi_table):
    completions = read_completions(hudi_table, since="20261115061345929")
    assert completions == {
        "20261115061345929": "20261115061347987",
        "20261115061348713": "20261115061350751",
    }


def test_a_page_that_pyarrow_passes_over_is_corrupt_in_every_column(archive):
    data = archive.add(row(1), row(2), row(3))
    [name] = [file["fileName"] for file in archive.files]
    metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
    for number in range(metadata.num_columns):
        at_byte = metadata.row_group(0).column(number).data_page_offset + 1
        archive.put(name, data[:at_byte] + bytes([data[at_byte] ^ 2]) + data[at_byte + 1 :])
        with pytest.raises(CorruptError, match=name):
            archive.read(columns=["metadata", "plan"])


def test_a_table_without_an_archive_has_no_archived_instants(tmp_path):
    storage = LocalStorage(str(tmp_path))
    assert list(read_archived(storage)) == []
    storage.put(f"{HISTORY_FOLDER}/.hidden", b"")
    assert list(read_archived(storage)) == []


def test_only_the_files_of_the_current_manifest_count(archive):
    archive.add(row(1), row(2))
    archive.add(row(3))
    archive.files.pop()
    archive.publish(2)
    assert archive.requested() == [at(1), at(2)]


def test_without_a_version_file_the_newest_manifest_counts(archive):
    archive.add(row(1))
    for version in (9, 10):
        archive.publish(version)
    archive.put("manifest_9", b"not read")
    archive.storage.delete(f"{HISTORY_FOLDER}/_version_")
    assert archive.requested() == [at(1)]
    archive.put("_version_", b"")
    assert archive.requested() == [at(1)]


def test_files_that_overlap_are_merged_into_one_order(archive):
    archive.add(row(1), row(4), row(9))
    archive.add(row(2), row(3), row(10))
    archive.add(row(11), row(12))
    archive.add(row(5))
    assert archive.requested() == [at(number) for number in (1, 2, 3, 4, 5, 9, 10, 11, 12)]


def test_a_file_that_is_not_sorted_is_read_in_order(archive):
    archive.add(row(3), row(1), row(2))
    instants = archive.read(columns=["metadata"])
    assert [instant.metadata for instant in instants] == [b"metadata %d" % n for n in (1, 2, 3)]


def test_more_instants_than_one_batch_are_all_read(archive):
    archive.add(*(row(number) for number in range(1, 1001)))
    assert archive.requested(columns=["metadata"]) == [at(number) for number in range(1, 1001)]


def test_since_includes_its_instant_and_opens_no_older_file(archive):
    old = archive.add(row(1), row(2))
    archive.add(row(3), row(4), row(5))
    archive.put(archive.files[0]["fileName"], b"x" * len(old))
    assert archive.requested(since=at(4)) == [at(4), at(5)]
    assert archive.requested(since=at(3)) == [at(3), at(4), at(5)]
    with pytest.raises(CorruptError):
        archive.requested(since=at(2))


def test_a_newer_file_is_opened_only_when_the_order_reaches_it(archive):
    archive.add(row(1), row(2))
    newer = archive.add(row(3))
    archive.put(archive.files[1]["fileName"], b"x" * len(newer))
    instants = read_archived(archive.storage)
    assert next(instants).requested == at(1)
    with pytest.raises(CorruptError, match=archive.files[1]["fileName"]):
        list(instants)


def test_an_instant_archived_twice_is_read_once(archive):
    archive.add(row(1), row(2))
    archive.add(row(2), row(3))
    assert archive.requested() == [at(1), at(2), at(3)]


def test_an_instant_archived_twice_beside_its_savepoint_is_read_once(archive):
    archive.add(row(1), row(2), row(2, action="savepoint", completionTime=at(7)))
    archive.add(row(2), row(3))
    read = [(instant.requested, instant.action) for instant in archive.read()]
    assert read == [(at(1), "commit"), (at(2), "commit"), (at(2), "savepoint"), (at(3), "commit")]


def test_an_instant_archived_twice_with_two_completion_times_is_corrupt(archive):
    archive.add(row(1), row(2))
    archive.add(row(2, completionTime=at(9)), row(3))
    with pytest.raises(CorruptError, match=rf"{at(3)} and {at(9)}"):
        archive.read()


def test_a_savepoint_and_its_commit_are_two_rows(archive):
    archive.add(row(1), row(1, action="savepoint", completionTime=at(7)))
    assert [instant.action for instant in archive.read()] == ["commit", "savepoint"]


def test_an_unknown_column_is_refused(archive):
    archive.add(row(1))
    with pytest.raises(InvalidError, match="instantTime"):
        archive.read(columns=["instantTime"])


def test_a_file_that_the_manifest_names_but_is_gone_is_corrupt(archive):
    archive.add(row(1))
    name = archive.files[0]["fileName"]
    archive.storage.delete(f"{HISTORY_FOLDER}/{name}")
    with pytest.raises(CorruptError, match=rf"{name}.*no such file"):
        archive.read()


def test_a_file_of_another_length_than_the_manifest_says_is_corrupt(archive):
    data = archive.add(row(1))
    archive.put(archive.files[0]["fileName"], data + b"x")
    with pytest.raises(
        CorruptError, match=f"expected {len(data)} bytes, found {len(data) + 1} bytes"
    ):
        archive.read()


def test_a_manifest_that_the_version_names_but_is_gone_is_corrupt(archive):
    archive.add(row(1))
    archive.put("_version_", b"7")
    with pytest.raises(CorruptError, match="manifest_7"):
        archive.read()


@pytest.mark.parametrize("text", [b"-1", b"one", b"1.0", b"\xff", b"9" * 30, b"\0"])
def test_a_version_that_is_no_number_is_corrupt(archive, text):
    archive.add(row(1))
    archive.put("_version_", text)
    with pytest.raises(CorruptError, match="_version_"):
        archive.read()


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b"{}",
        b"null",
        b"[" * 100_000,
        b'{"files": 3}',
        b'{"files": ["a"]}',
        b'{"files": [{"fileName": "a"}]}',
        b'{"files": [{"fileName": 1, "fileLen": 1}]}',
        b'{"files": [{"fileName": "a", "fileLen": "1"}]}',
    ],
)
def test_a_manifest_that_is_none_is_corrupt_and_named(archive, manifest):
    archive.add(row(1))
    archive.put("manifest_1", manifest)
    with pytest.raises(CorruptError, match="manifest_1"):
        archive.read()


@pytest.mark.parametrize(
    "name",
    ["../x.parquet", "/etc/passwd", f"a/{at(1)}_{at(2)}_0.parquet", f"{at(1)}_{at(2)}.parquet", ""],
)
def test_a_manifest_cannot_name_a_file_elsewhere(archive, name):
    archive.files = [{"fileName": name, "fileLen": 1}]
    archive.publish()
    with pytest.raises(CorruptError, match="manifest_1"):
        archive.read()


def test_every_truncation_of_a_file_is_corrupt(archive):
    data = archive.add(row(1), row(2))
    entry = archive.files[0]
    for size in range(0, len(data), 37):
        archive.put(entry["fileName"], data[:size])
        entry["fileLen"] = size
        archive.publish()
        with pytest.raises(CorruptError, match=entry["fileName"]):
            archive.read(columns=["metadata", "plan"])


def test_a_flipped_byte_gives_rows_or_one_of_our_errors(archive):
    data = archive.add(row(1), row(2), row(3))
    for position in range(0, len(data), 11):
        broken = bytearray(data)
        broken[position] ^= 0x55
        archive.put(archive.files[0]["fileName"], bytes(broken))
        try:
            instants = archive.read(columns=["metadata", "plan"])
        except LakebedError:
            continue
        assert all(isinstance(instant, ArchivedInstant) for instant in instants)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"version": 2}, UnsupportedError),
        ({"instantTime": None}, CorruptError),
        ({"instantTime": "2024x"}, CorruptError),
        ({"completionTime": None}, CorruptError),
        ({"action": None}, CorruptError),
        ({"action": ""}, CorruptError),
        ({"instantTime": at(9)}, CorruptError),
        ({"instantTime": at(0)}, CorruptError),
    ],
)
def test_a_row_that_no_archiver_writes_is_refused(archive, changes, error):
    name = f"{at(1)}_{at(2)}_0.parquet"
    archive.add(row(1), row(2, **changes), name=name)
    with pytest.raises(error, match=name):
        archive.read()


@pytest.mark.parametrize("column", ["instantTime", "completionTime", "action", "version"])
def test_a_file_without_a_column_is_corrupt(archive, column):
    schema = SCHEMA.remove(SCHEMA.get_field_index(column))
    archive.add(row(1), schema=schema, name=f"{at(1)}_{at(1)}_0.parquet")
    with pytest.raises(CorruptError, match=f"column {column}: .* no such column"):
        archive.read()


def test_text_that_is_not_utf8_is_corrupt(archive):
    name = f"{at(1)}_{at(1)}_0.parquet"
    array = pa.array([b"\xff\xfe"]).view(pa.string())
    values = [pa.array([at(1)]), array, pa.array(["commit"]), *(pa.nulls(1, pa.binary()),) * 2]
    table = pa.table([*values, pa.array([1], pa.int32())], schema=SCHEMA)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    data = sink.getvalue().to_pybytes()
    archive.put(name, data)
    archive.files = [{"fileName": name, "fileLen": len(data)}]
    archive.publish()
    with pytest.raises(CorruptError, match=name):
        archive.read()


def test_a_page_that_is_too_large_to_unpack_is_refused_by_name(tmp_path):
    archive = Archive(tmp_path)
    packed = {"compression": "zstd", "use_dictionary": False, "write_statistics": False}
    archive.add(row(1, metadata=bytes(MAX_PAGE_BYTES)), **packed)
    with pytest.raises(
        UnsupportedError, match=r"archived .*_0\.parquet, column 'metadata': a page"
    ):
        list(read_archived(archive.storage))
