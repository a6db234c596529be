"""Slices with logs of Apache Hudi 1.2.0, and a native one made by hand: the rows that it gives."""

from pathlib import Path

import pytest

from lakebed.format.names.meta_columns import META_COLUMNS
from lakebed.storage.local import LocalStorage
from lakebed.table.config.properties_file import load_config
from lakebed.table.read.key_filter import KeyFilter
from lakebed.table.read.log_reader import slice_sources
from lakebed.table.read.slice_reader import read_slice
from lakebed.table.snapshot import Snapshot, load_snapshot
from support.fixtures import expected_rows, names, unpack
from support.rows import Row, spell_rows

# Hard-coded on purpose: a change of what is read must not move a table silently.
PARQUET = {
    "mini_del_null",
    "mini_mor_parquet",
    "mini_mor_v8",
    "mini_zero_log",
    "mor9_bucket_parquet",
    "mor9_multiorder",
    "syn10_lsm_mor",
}
AVRO = {
    "mini_archived_base",
    "mini_blk_inst",  # of an instant that is not there
    "mini_corrupt_mid",
    "mini_mor_logonly",
    "mini_order_cto",
    "mini_rollback_cmd",
    "mini_slice",
    "mini_trunc",
    "mor8_bucket_avro",
    "mor9_bucket_avro",
    "mor9_cdc",
    "mor9_commit_time",
    "mor9_deletefield",
    "mor9_failed",
    "mor9_isdeleted",
    "mor9_logcompact",
    "mor9_mdt_idx",
    "mor9_nonpart_mdt",
    "mor9_partial",
    "mor9_pending_compact",
    "mor9_rollback",
    "mor9_types",
}


@pytest.fixture
def snapshot(request: pytest.FixtureRequest, tmp_path: Path) -> Snapshot:
    storage = LocalStorage(str(unpack(request.param, tmp_path)))
    return load_snapshot(storage, load_config(storage))


def read(snapshot: Snapshot, columns: list[str], key_filter: KeyFilter | None = None) -> list[Row]:
    rows = []
    for slice_ in snapshot.slices:
        for batch in read_slice(snapshot.view(), slice_, columns, key_filter=key_filter):
            batch.validate(full=True)
            rows += batch.to_pylist()
    return rows


@pytest.mark.parametrize(
    ("snapshot", "name"), [(name, name) for name in names()], indirect=["snapshot"]
)
def test_every_table_with_logs_is_named_here(snapshot: Snapshot, name: str):
    logs = any(slice_.log_files for slice_ in snapshot.slices)
    assert logs == (name in PARQUET | AVRO)


@pytest.mark.parametrize(
    ("snapshot", "name"), [(name, name) for name in sorted(PARQUET | AVRO)], indirect=["snapshot"]
)
def test_logs_give_the_rows_that_hudi_gives(snapshot: Snapshot, name: str):
    wanted = expected_rows(name)
    assert bool(wanted) == (name != "mini_del_null"), "there the one row is deleted"
    columns = list(wanted[0]) if wanted else snapshot.schema.names
    if name.startswith("mor9_"):
        assert columns[:5] == list(META_COLUMNS)
    assert spell_rows(read(snapshot, columns)) == spell_rows(wanted)


@pytest.mark.parametrize(
    "snapshot", ["mor9_bucket_parquet", "mor9_bucket_avro", "syn10_lsm_mor"], indirect=True
)
def test_one_key_at_a_time_gives_the_same_rows(snapshot: Snapshot):
    columns = ["_hoodie_record_key", *snapshot.schema.names]
    for row in read(snapshot, columns):
        key = row["_hoodie_record_key"]
        assert read(snapshot, columns, KeyFilter.of(keys=[key])) == [row]
        assert row in read(snapshot, columns, KeyFilter.of(prefixes=[key[:1]]))
    assert read(snapshot, columns, KeyFilter.of(keys=["nowhere"])) == []


@pytest.mark.parametrize("snapshot", ["mini_trunc", "mini_corrupt_mid"], indirect=True)
def test_bytes_that_are_no_block_are_passed_over_where_nothing_was_lost(
    snapshot: Snapshot, caplog: pytest.LogCaptureFixture
):
    (slice_,) = snapshot.slices
    (log,) = slice_.log_files
    with caplog.at_level("WARNING"):
        assert read(snapshot, ["id"])
    assert log.path in caplog.text
    assert "byte 964" in caplog.text


@pytest.mark.parametrize("snapshot", ["syn10_lsm_mor"], indirect=True)
def test_a_native_log_compaction_stands_for_the_logs_that_it_names(snapshot: Snapshot):
    (slice_,) = snapshot.slices
    found = slice_sources(snapshot.view(), slice_)
    assert [(source.instant[8:14], str(source.kind)) for source in found] == [
        ("000000", "data"),
        ("000400", "data"),
        ("000400", "deletes"),
    ]
    assert all(source.ordered for source in found)
