"""Hudi's metadata table goes with our first change, and not before; an index in it is asked about."""

import logging
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lakebed.api.opening import open_table
from lakebed.api.table import Table
from lakebed.commit.metadata_table import METADATA_FOLDER
from lakebed.errors import ConflictError, LockedError, OptionError, SchemaError, UnsupportedError
from lakebed.format.timeline.heartbeat import heartbeat_path
from lakebed.model.clock import ManualClock
from lakebed.storage.storage import Storage
from lakebed.table.config.metadata_partitions import BEING_BUILT, LIVE
from lakebed.table.config.properties_file import load_config, update_properties
from lakebed.timeline.active import load_timeline
from support.faulty import FaultyStorage
from support.fixtures import files
from support.tables import batch, contents, copy_of, make, one_thread, reopen, user_rows

NOW = 1_900_000_000_000
TIMELINE = ".hoodie/timeline"
INDEXED = "mor9_mdt_idx"


def hudis(name: str = "cow9_mdt") -> Storage:
    """Return a table that Hudi made with a metadata table."""
    storage = copy_of(files(name))
    assert "files" in load_config(storage).properties[LIVE].split(",")
    return storage


def opened(storage: Storage, *, gives_up_indexes: bool = False) -> Table:
    """Open it, much later."""
    return Table(
        storage,
        load_config(storage),
        one_thread(),
        ManualClock(ms=NOW, step_ms=1),
        gives_up_indexes=gives_up_indexes,
    )


def metadata_of(storage: Storage) -> dict[str, bytes]:
    """Return what the metadata table is to others: its files, and the properties that name it."""
    found = {e.path: storage.read(e.path) for e in storage.list(METADATA_FOLDER)}
    properties = load_config(storage).properties
    return found | {key: properties.get(key, "").encode() for key in (LIVE, BEING_BUILT)}


RETIRED = {LIVE: b"", BEING_BUILT: b""}


def own_rows(table: Table) -> pa.Table:
    """Return the table's rows, to upsert them as they are."""
    return table.read().read_all()


@pytest.mark.parametrize("name", ["cow9_mdt", "mor9_nonpart_mdt"])
def test_a_write_retires_the_metadata_table_and_says_so(
    name: str, caplog: pytest.LogCaptureFixture
):
    storage = hudis(name)
    table = opened(storage)
    rows = own_rows(table)
    with caplog.at_level(logging.INFO, "lakebed.commit.metadata_table"):
        table.upsert(rows)
        table.upsert(rows)
    assert metadata_of(storage) == RETIRED
    # As Hudi 1.2.0 leaves them when its writer is told to go without the metadata table.
    assert (
        storage.read(".hoodie/.index_defs/index.json")
        == files(name)[".hoodie/.index_defs/index.json"]
    )
    assert table.config.properties[LIVE] == ""
    assert own_rows(table).sort_by("id") == rows.sort_by("id")
    (line,) = [record.getMessage() for record in caplog.records]
    assert "retiring Hudi's metadata table" in line


def test_a_write_that_is_refused_leaves_the_metadata_table():
    storage = hudis()
    before = metadata_of(storage)
    with pytest.raises(SchemaError):
        opened(storage).upsert(pa.table({"other": ["x"]}))
    assert metadata_of(storage) == before != RETIRED


def roll_back_newest(table: Table) -> object:
    return table.rollback(load_timeline(table._storage).commits[-1].requested)


KEEP_ONE = {"hoodie.clean.commits.retained": "1", "lakebed.clean.min.age.seconds": "0"}
SERVICES: dict[str, Callable[[Table], object]] = {
    "clean": lambda table: table.clean(options=KEEP_ONE),
    "archive": lambda table: table.archive(),
    "rollback": roll_back_newest,
    "schedule_compaction": lambda table: table.schedule_compaction(),
    "compact": lambda table: table.compact(),
}


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_retires_the_metadata_table_before_it_changes_files(service: str):
    storage = hudis("mor9_nonpart_mdt")
    SERVICES[service](opened(storage))
    assert metadata_of(storage) == RETIRED


@pytest.mark.parametrize("act", [*SERVICES, "upsert"])
def test_an_index_that_somebody_asked_for_is_not_dropped_unasked(act: str):
    storage = hudis(INDEXED)
    before = contents(storage)
    table = opened(storage)
    rows = own_rows(table)
    works = SERVICES | {"upsert": lambda table: table.upsert(rows)}
    with pytest.raises(
        UnsupportedError,
        match=r"index \(record_index, secondary_index_idx_name\).*hoodie.metadata.enable': 'false'",
    ):
        works[act](table)
    assert contents(storage) == before


@pytest.mark.parametrize("act", ["clean", "upsert"])
def test_an_index_that_the_caller_gives_up_is_dropped_at_the_first_change(act: str):
    storage = hudis(INDEXED)
    table = opened(storage, gives_up_indexes=True)
    before = metadata_of(storage)
    rows = own_rows(table)
    assert metadata_of(storage) == before
    works = SERVICES | {"upsert": lambda table: table.upsert(rows)}
    works[act](table)
    assert metadata_of(storage) == RETIRED
    assert own_rows(table).sort_by("id") == rows.sort_by("id")


def test_an_index_of_a_kind_that_nobody_knows_yet_is_not_dropped_unasked():
    storage = hudis()
    update_properties(storage, {LIVE: "files,vector_index_v"})
    with pytest.raises(UnsupportedError, match=r"\(vector_index_v\)"):
        opened(storage).upsert(own_rows(opened(storage)))


def test_a_metadata_table_that_is_being_built_is_left_alone():
    storage = hudis()
    update_properties(storage, {BEING_BUILT: "bloom_filters"})
    before = contents(storage)
    with pytest.raises(UnsupportedError, match=r"being built \(bloom_filters\)"):
        opened(storage).upsert(own_rows(opened(storage)))
    assert contents(storage) == before


@pytest.mark.parametrize("gives_up", [False, True])
def test_while_hudi_builds_an_index_we_do_not_write(gives_up: bool):
    storage = hudis()
    storage.put(f"{TIMELINE}/20300101000000000.indexing.requested", b"")
    before = metadata_of(storage)
    with pytest.raises(ConflictError, match="indexing 20300101000000000 is pending"):
        opened(storage, gives_up_indexes=gives_up).upsert(own_rows(opened(storage)))
    assert metadata_of(storage) == before


OCC = "OPTIMISTIC_CONCURRENCY_CONTROL"


def begin_elsewhere(storage: Storage, beat: bytes) -> None:
    update_properties(storage, {"hoodie.write.concurrency.mode": OCC})
    instant = "20300101000000000"
    for name in (f"{instant}.commit.requested", f"{instant}.inflight"):
        storage.put(f"{TIMELINE}/{name}", b"")
    storage.put(heartbeat_path(instant), beat)


def test_under_a_live_writer_of_hudis_the_metadata_table_stays():
    storage = hudis()
    begin_elsewhere(storage, b"")
    clock = ManualClock(ms=storage.head(heartbeat_path("20300101000000000")).modified_ms)
    before = metadata_of(storage)
    commits = load_timeline(storage).commits
    with pytest.raises(
        LockedError, match="20300101000000000 is pending with a heartbeat of another"
    ):
        reopen(storage, clock).upsert(own_rows(opened(storage)))
    assert metadata_of(storage) == before
    assert load_timeline(storage).commits == commits


def test_writers_of_ours_do_not_count_on_the_metadata_table():
    storage = hudis()
    update_properties(storage, {"hoodie.write.concurrency.mode": OCC})
    table = opened(storage)
    rows = own_rows(table)

    def between(stream: Any) -> Any:
        for record_batch in rows.to_batches():
            # Another begins and ends while the first is under way.
            opened(storage).upsert(rows.slice(0, 0))
            yield record_batch

    stream = pa.RecordBatchReader.from_batches(rows.schema, between(rows))
    table.upsert(stream)
    assert metadata_of(storage) == RETIRED


def test_what_a_crash_left_of_the_folder_goes_with_the_next_change():
    storage = hudis()
    update_properties(storage, {LIVE: "", BEING_BUILT: ""})
    storage.delete(f"{METADATA_FOLDER}/files/.hoodie_partition_metadata")
    assert metadata_of(storage) != RETIRED
    opened(storage).upsert(own_rows(opened(storage)))
    assert metadata_of(storage) == RETIRED


def test_a_table_of_ours_is_never_searched_for_a_metadata_table():
    storage = FaultyStorage(make()._storage)
    reopen(storage).upsert(batch(("a", 1, 1, "p")))
    assert user_rows(reopen(storage))
    assert not [op for op in storage.ops if METADATA_FOLDER in op]


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"hoodie.metadata.enable": "no"}, "expected true or false"),
        ({"hoodie.metadata.enabled": "false"}, "did you mean hoodie.metadata.enable"),
        ({"hoodie.clean.automatic": "false"}, "open_table takes hoodie.metadata.enable only"),
        (["hoodie.metadata.enable"], "expected a mapping"),
    ],
)
def test_open_table_refuses_other_properties(properties: Any, message: str):
    with pytest.raises(OptionError, match=message):
        open_table(None, "memory://guest/none", properties=properties)


def test_open_table_takes_the_callers_word(tmp_path: Any):
    for path, data in files(INDEXED).items():
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    rows = own_rows(open_table(None, str(tmp_path)))
    with pytest.raises(UnsupportedError, match="record_index"):
        open_table(None, str(tmp_path), properties={"hoodie.metadata.enable": "true"}).upsert(rows)
    told = open_table(None, str(tmp_path), properties={"hoodie.metadata.enable": "FALSE"})
    told.upsert(rows)
    assert load_config(told._storage).properties[LIVE] == ""
