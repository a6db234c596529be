"""Unknown words in properties are rejected with the property and its value."""

import pytest

from lakebed.errors import CorruptError, LakebedError, UnsupportedError
from support.fixtures import files
from support.tables import copy_of, reopen

PROPERTIES = ".hoodie/hoodie.properties"
STRATEGY = "11111111-1111-1111-1111-111111111111"
BY_PAYLOAD = "00000000-0000-0000-0000-000000000000"


def table_of(name, changes):
    """Return a table of Hudi's with some properties changed; None takes one away."""
    objects = dict(files(name))
    lines = objects[PROPERTIES].decode().splitlines()
    kept = [line for line in lines if line.partition("=")[0] not in changes]
    kept += [f"{key}={value}" for key, value in changes.items() if value is not None]
    objects[PROPERTIES] = ("\n".join(kept) + "\n").encode()
    return copy_of(objects)


READS = {
    "merge mode": ("hoodie.record.merge.mode", "LAST_WORD", {}),
    "merger": ("hoodie.record.merge.strategy.id", STRATEGY, {"hoodie.record.merge.mode": "CUSTOM"}),
    "partial update mode": ("hoodie.table.partial.update.mode", "SOMETHING", {}),
    "base file format": ("hoodie.table.base.file.format", "ORC", {}),
    "table format": ("hoodie.table.format", "iceberg", {}),
    "storage layout": ("hoodie.table.storage.layout", "btree", {}),
    "table type": ("hoodie.table.type", "MERGE_ON_WRITE", {}),
    "time zone": ("hoodie.table.timeline.timezone", "MARS", {}),
    "version that is no number": ("hoodie.table.version", "nine", {}),
    "concurrency": ("hoodie.write.concurrency.mode", "ANARCHY", {}),
}


@pytest.mark.parametrize("case", READS)
def test_a_read_is_refused_with_the_property_and_its_value(case):
    key, value, more = READS[case]
    storage = table_of("mor9_bucket_avro", {key: value, **more})
    with pytest.raises((UnsupportedError, CorruptError)) as caught:
        reopen(storage).read().read_all()
    assert key in str(caught.value)
    assert value in str(caught.value)


@pytest.mark.parametrize("mode", ["CUSTOM", None])
def test_a_payload_class_of_somebody_is_refused_by_its_name(mode):
    changes = {
        "hoodie.record.merge.mode": mode,
        "hoodie.compaction.payload.class": "com.example.Mine",
        "hoodie.record.merge.strategy.id": BY_PAYLOAD,
    }
    storage = table_of("mor8_bucket_avro", changes)
    with pytest.raises(
        UnsupportedError, match=r"hoodie\.compaction\.payload\.class=com\.example\.Mine"
    ):
        reopen(storage).read().read_all()


@pytest.mark.parametrize("version", ["0", "5", "7", "11", "99999999999999999999"])
def test_a_table_version_of_the_past_or_the_future_is_refused_by_its_number(version):
    storage = table_of("mor9_bucket_avro", {"hoodie.table.version": version})
    with pytest.raises(LakebedError, match=rf"version.*({version}|missing)"):
        reopen(storage).read().read_all()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.table.keygenerator.type", "NOBODY"),
        ("hoodie.table.keygenerator.class", "com.example.Keys"),
    ],
)
def test_a_key_generator_of_somebody_is_read_and_refused_at_a_write_by_its_name(key, value):
    changes = {"hoodie.table.keygenerator.type": None, key: value}
    table = reopen(table_of("mor9_bucket_avro", changes))
    rows = table.read().read_all()
    assert rows.num_rows == 6
    with pytest.raises(UnsupportedError) as caught:
        table.upsert(rows)
    assert f"its key generator {value} is unknown ({key})" in str(caught.value)
