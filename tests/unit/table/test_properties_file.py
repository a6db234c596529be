"""`hoodie.properties`: made once, changed through a backup, never half believed."""

import dataclasses

import pytest

from lakebed.errors import (
    ChecksumError,
    CorruptError,
    ExistsError,
    LakebedError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from lakebed.format.files.properties import encode_properties, parse_properties
from lakebed.storage.objects import memory_storage
from lakebed.table.config.properties_file import (
    BACKUP_PATH,
    PROPERTIES_PATH,
    create_properties,
    load_config,
    update_properties,
)
from support.fixtures import files, names
from support.tables import settle


def facts(config):
    """Return everything that the config settles, without the raw properties."""
    return dataclasses.replace(config, properties={})


def test_what_was_made_is_what_is_loaded():
    storage = memory_storage()
    made = create_properties(storage, settle(ordering=("ts",)))
    assert load_config(storage) == made
    assert [entry.path for entry in storage.list()] == [PROPERTIES_PATH]


def test_of_two_that_make_a_table_one_wins():
    storage = memory_storage()
    create_properties(storage, settle())
    with pytest.raises(ExistsError, match="a table already exists here"):
        create_properties(storage, settle(name="other"))
    assert load_config(storage).name == "t"


@pytest.mark.parametrize("changes", [{}, {"table_version": 10}, {"table_type": "MERGE_ON_READ"}])
def test_a_file_cut_anywhere_is_an_error_or_the_same_table(changes):
    storage = memory_storage()
    whole = create_properties(storage, settle(**changes))
    data = storage.read(PROPERTIES_PATH)
    passed = []
    for length in range(len(data)):
        storage.put(PROPERTIES_PATH, data[:length])
        try:
            found = load_config(storage)
        except LakebedError as error:
            message = str(error)
        else:
            assert facts(found) == facts(whole), f"cut at {length} gives another table"
            passed.append(data[length:])
            continue
        assert ".hoodie/hoodie.properties" in message
    # Only the last line, which repeats the default, can be missing without being missed.
    assert passed == [b"hoodie.timeline.path=timeline\n"]


@pytest.mark.parametrize("name", names())
def test_a_file_of_hudi_cut_within_a_line_is_refused(name):
    data = files(name)[PROPERTIES_PATH]
    storage = memory_storage()
    storage.put(PROPERTIES_PATH, data)
    load_config(storage)
    last_line = data.rstrip(b"\n").rfind(b"\n") + 1
    for length in range(last_line + 1, len(data)):
        storage.put(PROPERTIES_PATH, data[:length])
        with pytest.raises(CorruptError, match="line end"):
            load_config(storage)


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("hoodie.table.name", "other", ChecksumError),
        ("hoodie.database.name", "other", ChecksumError),
        ("hoodie.table.checksum", "17", ChecksumError),
        ("hoodie.table.version", "6", UnsupportedError),
        ("hoodie.table.version", "7", UnsupportedError),
        ("hoodie.table.version", "11", UnsupportedError),
        ("hoodie.table.version", "nine", CorruptError),
        ("hoodie.table.version", "", UnsupportedError),
        ("hoodie.timeline.layout.version", "1", UnsupportedError),
        ("hoodie.table.type", "SIDEWAYS", CorruptError),
        ("hoodie.table.base.file.format", "ORC", UnsupportedError),
        ("hoodie.bucket.index.num.buckets", "-4", CorruptError),
        ("hoodie.bucket.index.num.buckets", "9" * 30, CorruptError),
        ("hoodie.table.storage.layout", "heap", UnsupportedError),
        ("hoodie.record.merge.mode", "BY_MOOD", UnsupportedError),
        ("hoodie.table.timeline.timezone", "Mars/Base", UnsupportedError),
    ],
)
def test_a_file_with_a_wrong_value_is_refused_by_name(key, value, kind):
    storage = memory_storage()
    storage.put(PROPERTIES_PATH, encode_properties({**settle(), key: value}))
    with pytest.raises(kind) as caught:
        load_config(storage)
    assert type(caught.value) is kind
    word = {"hoodie.table.name": "checksum", "hoodie.database.name": "checksum"}.get(key, value)
    assert word.lower() in str(caught.value).lower()


def test_bytes_that_are_no_text_are_refused_without_a_raw_error():
    storage = memory_storage()
    for junk in (b"", b"\n", b"\xff\xfe\x00\n", b"\\u12\n", b"=\n", bytes(range(256)) + b"\n"):
        storage.put(PROPERTIES_PATH, junk)
        with pytest.raises(LakebedError):
            load_config(storage)


def test_no_file_is_no_table():
    with pytest.raises(NotFoundError, match="no table here"):
        load_config(memory_storage())


def test_a_lost_or_cut_file_is_read_from_its_backup():
    storage = memory_storage()
    made = create_properties(storage, settle())
    data = storage.read(PROPERTIES_PATH)
    storage.put(BACKUP_PATH, data)
    storage.put(PROPERTIES_PATH, data[:100])
    assert load_config(storage) == made
    storage.delete(PROPERTIES_PATH)
    assert load_config(storage) == made


def test_a_cut_file_with_a_cut_backup_is_refused():
    storage = memory_storage()
    create_properties(storage, settle())
    data = storage.read(PROPERTIES_PATH)
    storage.put(BACKUP_PATH, data[:50])
    storage.put(PROPERTIES_PATH, data[:100])
    with pytest.raises(CorruptError):
        load_config(storage)


def test_a_change_keeps_every_other_property_and_leaves_no_backup():
    storage = memory_storage()
    create_properties(storage, settle())
    changed = update_properties(storage, {"hoodie.bucket.index.num.buckets": "8"})
    assert changed.index is not None
    assert changed.index.buckets == 8
    assert load_config(storage) == changed
    stored = parse_properties(storage.read(PROPERTIES_PATH))
    assert stored == {**settle(), "hoodie.bucket.index.num.buckets": "8"}
    assert [entry.path for entry in storage.list()] == [PROPERTIES_PATH]


def test_a_change_that_makes_no_table_is_refused_before_the_file_is_touched():
    storage = memory_storage()
    create_properties(storage, settle())
    data = storage.read(PROPERTIES_PATH)
    with pytest.raises(UnsupportedError, match="table version 99"):
        update_properties(storage, {"hoodie.table.version": "99"})
    assert storage.read(PROPERTIES_PATH) == data


def test_an_outage_is_not_taken_for_a_missing_table():
    class Down:
        url = "memory://down"

        def read(self, path):
            raise UnavailableError(f"{path}: no answer")

    with pytest.raises(UnavailableError):
        load_config(Down())
