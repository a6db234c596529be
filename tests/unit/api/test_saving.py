"""A write of `format("lakebed")` as its three processes see it: plan, stage, finish."""

import contextlib
import itertools
import pickle
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.api.saving import Saving, StagedRows, begin_saving
from lakebed.commit.drop import MARK_PATH, drop_table, replace_table
from lakebed.commit.lock import table_lock
from lakebed.errors import (
    ConflictError,
    KeyValueError,
    LakebedError,
    LockedError,
    NotFoundError,
    OptionError,
    SchemaError,
    UnsupportedError,
)
from lakebed.format.names.meta_columns import META_COLUMNS
from lakebed.model.clock import SystemClock
from lakebed.model.executor import TaskId
from lakebed.services.clean.sweep import find_stale
from lakebed.storage.local import LocalStorage
from lakebed.storage.open import open_storage
from lakebed.table.config.properties_file import load_config
from lakebed.table.snapshot import load_snapshot
from lakebed.write.deferred import ABANDONED_MS, find_abandoned
from support.faulty import FaultyStorage, SimulatedCrash

KEYED = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "city",
}
MOR = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"}
KEYLESS = {"hoodie.table.name": "trips", "hoodie.datasource.write.partitionpath.field": "city"}
Row = tuple[str, int, str, float]


@pytest.fixture
def path(tmp_path: Any) -> str:
    return str(tmp_path / "table")


def table_of(rows: Iterable[Row]) -> pa.Table:
    names = ["id", "ts", "city", "fare"]
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


FIRST = [("a", 1, "oslo", 1.0), ("b", 1, "oslo", 2.0), ("c", 1, "kyiv", 3.0)]
SECOND = [("b", 2, "oslo", 20.0), ("d", 2, "kyiv", 4.0)]


def stage(saving: Saving, *parts: pa.Table) -> list[StagedRows]:
    """Let one task each stage its part, in a process of its own."""
    return [
        pickle.loads(pickle.dumps(saving)).stage(part.to_batches(), TaskId(number, 7, 10 + number))
        for number, part in enumerate(parts)
    ]


def save(path: str, rows: pa.Table, overwrite: bool = False, **options: str) -> None:
    given = {"path": path, **{k.replace("__", "."): v for k, v in options.items()}}
    saving = begin_saving(given, rows.schema, overwrite)
    pickle.loads(pickle.dumps(saving)).finish(stage(saving, rows))


def put(path: str, rows: pa.Table, options: dict[str, str], overwrite: bool = False) -> None:
    save(path, rows, overwrite, **options)


def read(path: str, *columns: str) -> list[tuple[Any, ...]]:
    names = columns or ("id", "ts", "city", "fare")
    rows = lakebed.open_table(None, path).read(columns=list(names)).read_all()
    return sorted(tuple(row.values()) for row in rows.to_pylist())


def staged_files(path: str) -> list[str]:
    return [entry.path for entry in open_storage(path).list(".hoodie/.temp")]


@pytest.mark.parametrize("more", [{}, MOR, BUCKETS, {**MOR, **BUCKETS}])
def test_upserts_of_several_tasks_are_one_commit_each(path, more):
    put(path, table_of(FIRST), {**KEYED, **more})
    saving = begin_saving({"path": path, **KEYED}, table_of(SECOND).schema, overwrite=False)
    parts = stage(saving, table_of(SECOND[:1]), table_of(SECOND[1:]))
    assert read(path) == sorted(FIRST)
    saving.finish(parts)
    assert read(path) == sorted([FIRST[0], FIRST[2], *SECOND])
    assert lakebed.open_table(None, path).history().num_rows == 2
    assert staged_files(path) == []


def test_a_new_table_is_what_hudi_would_make(path):
    put(path, table_of(FIRST), KEYED)
    config = lakebed.open_table(None, path).config
    assert (config.name, config.table_type, config.layout) == ("trips", "COPY_ON_WRITE", "default")
    assert (config.record_key_fields, config.ordering_fields) == (("id",), ("ts",))
    assert config.partition_fields == ("city",)
    assert config.properties["hoodie.index.type"] == "SIMPLE"
    assert config.properties["hoodie.table.keygenerator.type"] == "SIMPLE"


def test_an_attempt_that_no_message_names_does_not_count(path):
    put(path, table_of(FIRST), KEYED)
    saving = begin_saving({"path": path, **KEYED}, table_of(SECOND).schema, overwrite=False)
    batches = table_of(SECOND).to_batches()
    saving.stage(batches, TaskId(0, 7, 1))
    counted = saving.stage(batches, TaskId(0, 7, 2))
    saving.finish([counted])
    assert read(path) == sorted([FIRST[0], FIRST[2], *SECOND])
    assert staged_files(path) == []


def test_a_write_that_is_given_up_leaves_the_table_as_it_was(path):
    put(path, table_of(FIRST), KEYED)
    saving = begin_saving({"path": path, **KEYED}, table_of(SECOND).schema, overwrite=False)
    stage(saving, table_of(SECOND))
    assert staged_files(path)
    saving.give_up()
    assert staged_files(path) == []
    assert read(path) == sorted(FIRST)


@pytest.mark.parametrize("more", [{}, BUCKETS])
def test_others_may_write_and_clean_between_staging_and_the_end(path, more):
    put(path, table_of(FIRST), {**KEYED, **more})
    saving = begin_saving({"path": path, **KEYED}, table_of(SECOND).schema, overwrite=False)
    parts = stage(saving, table_of(SECOND))
    table = lakebed.open_table(None, path)
    table.insert_overwrite(table_of([("e", 5, "oslo", 5.0)]))
    table.clean()
    saving.finish(parts)
    assert read(path) == sorted([("e", 5, "oslo", 5.0), FIRST[2], *SECOND])


def test_a_table_whose_columns_changed_meanwhile_refuses_the_staged_rows(path):
    narrow = table_of(FIRST).set_column(3, "fare", pa.array([1.0, 2.0, 3.0], pa.float32()))
    put(path, narrow, KEYED)
    saving = begin_saving({"path": path, **KEYED}, narrow.schema, overwrite=False)
    parts = stage(saving, narrow)
    lakebed.open_table(None, path).upsert(table_of(SECOND), evolve=True)
    with pytest.raises(ConflictError, match="changed while the rows were staged"):
        saving.finish(parts)


def test_staged_runs_of_a_write_that_never_began_go_after_a_week(path):
    put(path, table_of(FIRST), KEYED)
    saving = begin_saving({"path": path, **KEYED}, table_of(SECOND).schema, overwrite=False)
    stage(saving, table_of(SECOND))
    storage, now = open_storage(path), SystemClock().now_ms()
    assert find_abandoned(storage, now) == []
    assert find_abandoned(storage, now + ABANDONED_MS + 60_000) == staged_files(path)
    timeline = load_snapshot(storage, load_config(storage)).timeline
    assert find_stale(storage, timeline) == []


def test_overwrite_replaces_rows_and_columns_in_one_commit(path):
    put(path, table_of(FIRST), KEYED)
    other = pa.table({"id": [1], "ts": ["x"], "city": ["rome"]})
    put(path, other, KEYED, overwrite=True)
    assert read(path, "id", "ts", "city") == [(1, "x", "rome")]
    table = lakebed.open_table(None, path)
    assert table.schema.names == ["id", "ts", "city"]
    first = table.history().column("instant").to_pylist()[-1]
    assert table.read(as_of=first).read_all().num_rows == 3


def test_overwrite_with_another_key_or_type_makes_another_table(path):
    put(path, table_of(FIRST), KEYED)
    other = {"hoodie.table.name": "rides", "hoodie.datasource.write.recordkey.field": "fare", **MOR}
    saving = begin_saving({"path": path, **other}, table_of(SECOND).schema, overwrite=True)
    parts = stage(saving, table_of(SECOND))
    assert read(path) == sorted(FIRST)
    saving.finish(parts)
    assert read(path) == sorted(SECOND)
    table = lakebed.open_table(None, path)
    assert (table.name, table.config.table_type) == ("rides", "MERGE_ON_READ")
    assert (table.config.record_key_fields, table.config.ordering_fields) == (("fare",), ())
    assert table.history().num_rows == 1
    assert staged_files(path) == []


@pytest.mark.parametrize(
    "name",
    [
        "hoodie.parquet.small.file.limit",
        "hoodie.parquet.max.file.size",
        "hoodie.client.heartbeat.interval_in_ms",
        "hoodie.write.num.retries.on.conflict.failures",
        "hoodie.write.lock.filesystem.expire",
    ],
)
def test_a_setting_with_which_no_write_begins_is_refused_before_a_table_is_dropped_or_made(
    path, name
):
    other = {"hoodie.table.name": "rides", "hoodie.datasource.write.recordkey.field": "fare"}
    with pytest.raises(LakebedError, match=name):
        put(path, table_of(SECOND), {**KEYED, name: "soon"})
    with pytest.raises(NotFoundError):
        lakebed.open_table(None, path)
    put(path, table_of(FIRST), KEYED)
    for options in (other, KEYED):
        with pytest.raises(LakebedError, match=name):
            put(path, table_of(SECOND), {**options, name: "soon"}, overwrite=True)
    assert read(path) == sorted(FIRST)
    put(path, table_of(SECOND), KEYED)
    assert read(path) == sorted([FIRST[0], FIRST[2], *SECOND])


@pytest.mark.parametrize("there", [False, True])
def test_of_two_overwrites_at_once_the_table_holds_the_rows_of_one(path, there):
    other = {"hoodie.table.name": "rides", "hoodie.datasource.write.recordkey.field": "id"}
    if there:  # both make another table of it
        put(path, table_of(FIRST), KEYED)
    given = {"path": path, **other}
    late = begin_saving(given, table_of(FIRST).schema, overwrite=True)
    parts = stage(late, table_of(FIRST))
    put(path, table_of(SECOND), other, overwrite=True)
    if there:
        late.finish(parts)
        assert read(path) == sorted(FIRST)
    else:
        with pytest.raises(
            ConflictError, match="rows of a write that committed while these were staged"
        ):
            late.finish(parts)
        assert read(path) == sorted(SECOND)


def test_an_overwrite_onto_a_table_that_was_just_made_anew_adds_no_rows_to_it(path):
    put(path, table_of(FIRST), KEYED)
    other = {"hoodie.table.name": "rides", "hoodie.datasource.write.recordkey.field": "id"}

    class Overtaken(Saving):
        def open(self) -> Any:
            put(path, table_of(SECOND), other, overwrite=True)
            return Saving.open(self)

    begun = begin_saving({"path": path, **other}, table_of(FIRST).schema, overwrite=True)
    parts = stage(begun, table_of(FIRST))
    late = Overtaken(**{name: getattr(begun, name) for name in Saving.__dataclass_fields__})
    with pytest.raises(
        ConflictError, match="rows of a write that committed while these were staged"
    ):
        late.finish(parts)
    assert read(path) == sorted(SECOND)


@pytest.mark.parametrize("more", [{}, {**MOR, **BUCKETS}])
def test_a_table_is_not_dropped_under_a_writer_that_is_at_work(path, more):
    shared = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL", **more}
    other = {"hoodie.table.name": "rides", "hoodie.datasource.write.recordkey.field": "fare"}
    put(path, table_of(FIRST), {**KEYED, **shared})

    def rows() -> Iterable[pa.RecordBatch]:
        yield from table_of(SECOND).to_batches()
        with pytest.raises(LockedError, match="is in progress"):
            put(path, table_of(FIRST[:1]), {**other, **shared}, overwrite=True)

    table = lakebed.open_table(None, path)
    table.upsert(pa.RecordBatchReader.from_batches(table_of(SECOND).schema, rows()))
    assert read(path) == sorted([FIRST[0], FIRST[2], *SECOND])


def test_a_drop_that_died_half_way_leaves_no_table_and_is_finished_by_the_next(path):
    put(path, table_of(FIRST), KEYED)
    storage = open_storage(path)
    storage.put(MARK_PATH, b"")
    storage.delete(".hoodie/hoodie.properties")
    with pytest.raises(NotFoundError):
        read(path)
    put(path, table_of(SECOND), KEYLESS)
    assert read(path) == sorted(SECOND)
    assert lakebed.open_table(None, path).history().num_rows == 1


def test_who_dies_while_another_table_is_made_leaves_the_old_one_or_a_place_for_the_new(path):
    put(f"{path}-old", table_of(FIRST), KEYED)
    other = {"hoodie.table.name": "rides", "hoodie.datasource.write.recordkey.field": "fare"}
    given = {"path": f"{path}-old", **other}
    properties = begin_saving(given, table_of(SECOND).schema, overwrite=True).remake
    assert properties is not None
    outcomes = []
    while True:
        at = f"{path}-{len(outcomes)}"
        shutil.copytree(f"{path}-old", at)
        storage = FaultyStorage(open_storage(at), len(outcomes) + 1)
        with contextlib.suppress(SimulatedCrash):
            replace_table(storage, SystemClock(), properties)
        try:
            outcomes.append(len(read(at)))
        except NotFoundError:
            outcomes.append(None)
        put(at, table_of(SECOND), other, overwrite=True)
        assert read(at) == sorted(SECOND)
        if not storage.crashed:
            break
    # Whole, then none, then empty: at no step half of the old one.
    assert [kind for kind, _ in itertools.groupby(outcomes)] == [3, None, 0]


def test_dropping_a_table_interrupted_anywhere_leaves_the_table_or_none_and_can_be_repeated(path):
    put(f"{path}-old", table_of(FIRST), KEYED)
    outcomes = []
    while True:
        at = f"{path}-{len(outcomes)}"
        shutil.copytree(f"{path}-old", at)
        storage = FaultyStorage(open_storage(at), len(outcomes) + 1)
        with contextlib.suppress(SimulatedCrash):
            drop_table(storage, SystemClock())
        try:
            outcomes.append(len(read(at)))
        except NotFoundError:
            outcomes.append(None)
        if storage.crashed:
            with contextlib.suppress(NotFoundError):
                lakebed.drop_table(at)
        with pytest.raises(NotFoundError):
            lakebed.drop_table(at)
        lakebed.create_table(None, at, "other STRING", key="other")
        assert lakebed.open_table(at).to_arrow().num_rows == 0
        if not storage.crashed:
            break
    assert [kind for kind, _ in itertools.groupby(outcomes)] == [3, None]


def test_of_two_that_begin_a_table_at_once_both_write_to_it(path):
    begun = None

    class Overtaken(LocalStorage):
        def read(self, name: str) -> bytes:
            """Find no table, and let another make it right after."""
            nonlocal begun
            try:
                return super().read(name)
            except NotFoundError:
                if begun is None and name.endswith("hoodie.properties"):
                    given = {"path": path, **KEYED}
                    begun = begin_saving(given, table_of(FIRST).schema, overwrite=False)
                raise

    late = begin_saving(
        {"path": path, **KEYED}, table_of(SECOND).schema, overwrite=False, storage=Overtaken(path)
    )
    assert begun is not None
    late.finish(stage(late, table_of(SECOND)))
    begun.finish(stage(begun, table_of(FIRST)))
    assert read(path) == sorted([FIRST[0], FIRST[2], *SECOND])


def test_who_comes_while_a_table_is_being_dropped_waits_for_the_end(path):
    put(path, table_of(FIRST), KEYED)
    storage = open_storage(path)
    with ThreadPoolExecutor(1) as pool:
        with table_lock(storage).hold(SystemClock(), 1):
            storage.put(MARK_PATH, b"")
            storage.delete(".hoodie/hoodie.properties")
            comes = pool.submit(put, path, table_of(SECOND), KEYLESS)
            with pytest.raises(TimeoutError):
                comes.result(timeout=0.5)
            with pytest.raises(NotFoundError):
                load_config(storage)
        comes.result()
    assert read(path) == sorted(SECOND)


def test_insert_overwrite_replaces_the_partitions_of_the_rows(path):
    put(path, table_of(FIRST), KEYED)
    operation = {"hoodie.datasource.write.operation": "insert_overwrite"}
    put(path, table_of([("z", 9, "oslo", 9.0)]), {**KEYED, **operation})
    assert read(path) == [("c", 1, "kyiv", 3.0), ("z", 9, "oslo", 9.0)]


def test_delete_takes_rows_or_keys(path):
    put(path, table_of(FIRST), KEYED)
    operation = {"hoodie.datasource.write.operation": "delete"}
    put(path, table_of(FIRST[:1]), {**KEYED, **operation})
    put(path, pa.table({"id": ["c", "no"], "city": ["kyiv", "kyiv"]}), operation)
    assert read(path) == FIRST[1:2]


def test_partitions_go_by_name_or_by_the_rows_in_them(path):
    put(path, table_of([*FIRST, ("r", 1, "rome", 0.0)]), KEYED)
    operation = {"hoodie.datasource.write.operation": "delete_partition"}
    put(path, pa.table({"city": ["kyiv", "kyiv", "none"]}), operation)
    assert {row[2] for row in read(path)} == {"oslo", "rome"}
    named = {"hoodie.datasource.write.partitions.to.delete": "oslo"}
    put(path, pa.table({"any": [1]}), {**operation, **named})
    assert {row[2] for row in read(path)} == {"rome"}


def test_a_table_without_a_record_key_makes_its_keys_and_finds_them_again(path):
    rows = table_of([*FIRST, FIRST[0]])
    put(path, rows, KEYLESS)
    assert read(path) == sorted([*FIRST, FIRST[0]])
    meta = ["_hoodie_record_key", "_hoodie_commit_time", "id", "ts", "city", "fare"]
    table = lakebed.open_table(None, path)
    assert table.config.record_key_fields == ()
    found = table.read(columns=meta, where="id = 'b'").read_all()
    fare = pa.array([200.0])
    put(path, found.set_column(5, "fare", fare), KEYLESS)
    assert read(path) == sorted([*FIRST[:1], ("b", 1, "oslo", 200.0), FIRST[2], FIRST[0]])
    gone = table.read(columns=meta, where="id = 'a'").read_all().slice(0, 1)
    put(path, gone, {**KEYLESS, "hoodie.datasource.write.operation": "delete"})
    assert read(path) == sorted([FIRST[0], ("b", 1, "oslo", 200.0), FIRST[2]])
    put(path, table_of(FIRST[:1]), KEYLESS)
    assert len(read(path)) == 4


def test_a_delete_without_the_key_that_the_table_made_is_refused(path):
    put(path, table_of(FIRST), KEYLESS)
    with pytest.raises(KeyValueError, match="_hoodie_record_key"):
        put(path, table_of(FIRST[:1]), {"hoodie.datasource.write.operation": "delete"})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("hoodie.table.name", "other"),
        ("hoodie.datasource.write.recordkey.field", "fare"),
        ("hoodie.datasource.write.precombine.field", "fare"),
        ("hoodie.datasource.write.partitionpath.field", "id"),
        ("hoodie.datasource.write.table.type", "MERGE_ON_READ"),
        ("hoodie.datasource.write.hive_style_partitioning", "true"),
        ("hoodie.datasource.write.keygenerator.type", "COMPLEX"),
        ("hoodie.record.merge.mode", "COMMIT_TIME_ORDERING"),
        ("hoodie.index.type", "GLOBAL_SIMPLE"),
        ("hoodie.table.cdc.enabled", "true"),
    ],
)
def test_an_option_that_contradicts_the_table_is_refused_by_name(path, option, value):
    put(path, table_of(FIRST), KEYED)
    told = rf"option {option}={value} contradicts the table 'trips', which has \S*.*hoodie\."
    with pytest.raises(OptionError, match=told):
        put(path, table_of(SECOND), {option: value})
    assert read(path) == sorted(FIRST)


@pytest.mark.parametrize(
    ("option", "value", "stored"),
    [
        ("hoodie.datasource.write.precombine.field", "fare", "hoodie.table.ordering.fields=ts"),
        ("hoodie.datasource.write.table.type", "MERGE_ON_READ", "hoodie.table.type=COPY_ON_WRITE"),
        (
            "hoodie.datasource.write.keygenerator.class",
            "org.apache.hudi.keygen.ComplexKeyGenerator",
            "hoodie.table.keygenerator.type=SIMPLE",
        ),
        (
            "hoodie.datasource.write.payload.class",
            "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
            "hoodie.record.merge.mode=EVENT_TIME_ORDERING",
        ),
        ("hoodie.payload.delete.field", "city", "no hoodie.record.merge.property"),
    ],
)
def test_a_contradiction_shows_the_option_as_it_was_given_beside_the_property(
    path, option, value, stored
):
    put(path, table_of(FIRST), KEYED)
    told = f"option {option}={value} contradicts the table 'trips', which has {stored}"
    with pytest.raises(OptionError, match=told):
        put(path, table_of(SECOND), {option: value, **_marker(option)})


def _marker(option: str) -> dict[str, str]:
    return {"hoodie.payload.delete.marker": "D"} if "delete.field" in option else {}


@pytest.mark.parametrize("kind", ["recordkey", "precombine", "partitionpath"])
def test_a_column_that_is_not_there_is_named_with_the_option_that_names_it(path, kind):
    option = f"hoodie.datasource.write.{kind}.field"
    with pytest.raises(SchemaError, match=f"{option}: no column 'nope' in the schema"):
        put(path, table_of(FIRST), {**KEYED, option: "nope"})


CUSTOM = {"hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.CustomKeyGenerator"}
PARTITION = "hoodie.datasource.write.partitionpath.field"


@pytest.mark.parametrize("wrong", ["city", "city:FOO", "city:SIMPLE,ts"])
def test_a_custom_key_generator_says_how_partition_fields_are_given(path, wrong):
    # Hudi 1.2.0 refuses these too.
    right = ",".join(f"{name.partition(':')[0]}:SIMPLE" for name in wrong.split(","))
    with pytest.raises(
        OptionError, match=f"{PARTITION}={wrong}: .*SIMPLE or TIMESTAMP, as in {right}"
    ):
        put(path, table_of(FIRST), {**KEYED, **CUSTOM, PARTITION: wrong})


def test_a_custom_key_generator_makes_a_table_of_values_and_times(path):
    times = {
        "hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP",
        "hoodie.keygen.timebased.output.dateformat": "yyyy/MM",
    }
    options = {**KEYED, **CUSTOM, PARTITION: "city:simple,ts:TIMESTAMP"}
    with pytest.raises(LakebedError, match=r"hoodie\.keygen\.timebased"):
        put(path, table_of(FIRST), options)
    put(path, table_of(FIRST), {**options, **times})
    put(path, table_of([("a", 1, "oslo", 7.0)]), options)
    table = lakebed.open_table(None, path)
    assert table.config.properties["hoodie.table.partition.fields"] == "city:simple,ts:TIMESTAMP"
    folders = table.read(columns=["_hoodie_partition_path"]).read_all().column(0).to_pylist()
    assert sorted(folders) == ["kyiv/1970/01", "oslo/1970/01", "oslo/1970/01"]


def test_options_that_say_what_the_table_says_pass_in_any_spelling(path):
    put(path, table_of(FIRST), KEYED)
    same = {
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
        "hoodie.datasource.write.table.type": "copy_on_write",
        "hoodie.write.record.merge.mode": "event_time_ordering",
        "hoodie.datasource.write.hive_style_partitioning": "False",
        "hoodie.index.type": "BLOOM",
        "hoodie.table.cdc.enabled": "false",
        "hoodie.datasource.write.table.name": "trips",
    }
    put(path, table_of(SECOND), {**KEYED, **same})
    assert len(read(path)) == 4


@pytest.mark.parametrize(("moves", "place"), [(None, "oslo"), ("false", "oslo"), ("true", "kyiv")])
def test_with_hudis_record_index_rows_stay_in_their_partition_unless_it_says_otherwise(
    path, moves, place
):
    """A job that moves here from Hudi keeps its semantics: there rows stay by default."""
    options = {**KEYED, "hoodie.index.type": "RECORD_INDEX"}
    if moves is not None:
        options["hoodie.record.index.update.partition.path"] = moves
    put(path, table_of([("a", 1, "oslo", 1.0)]), options)
    put(path, table_of([("a", 2, "kyiv", 2.0)]), options)
    assert read(path, "id", "fare", "_hoodie_partition_path") == [("a", 2.0, place)]
    assert str(lakebed.open_table(None, path).config.index) == "global record index"


def test_a_setting_of_the_services_is_taken_over_by_the_table(path):
    put(path, table_of(FIRST), {**KEYED, "hoodie.clean.automatic": "false"})
    assert lakebed.open_table(None, path).config.properties["hoodie.clean.automatic"] == "false"
    put(path, table_of(SECOND), {"hoodie.clean.automatic": "true"})
    assert lakebed.open_table(None, path).config.properties["hoodie.clean.automatic"] == "true"


def test_deleting_from_nothing_makes_no_table(path):
    with pytest.raises(NotFoundError, match="no table here"):
        put(path, table_of(FIRST), {**KEYED, "hoodie.datasource.write.operation": "delete"})
    with pytest.raises(NotFoundError):
        lakebed.open_table(None, path)


def test_deletes_go_with_append_only(path):
    put(path, table_of(FIRST), KEYED)
    options = {"hoodie.datasource.write.operation": "delete"}
    with pytest.raises(OptionError, match=r'use mode\("append"\)'):
        put(path, table_of(FIRST), options, overwrite=True)


def test_rows_that_do_not_fit_are_refused_before_anything_is_staged(path):
    put(path, table_of(FIRST), KEYED)
    with pytest.raises(SchemaError, match="'fare' is missing"):
        put(path, table_of(SECOND).drop_columns(["fare"]), {})
    with pytest.raises(SchemaError, match=r"no column 'uuid'"):
        put(path + "2", table_of(FIRST), {"hoodie.datasource.write.recordkey.field": "uuid"})


def test_an_index_that_rows_cannot_be_staged_for_is_refused_by_name(path):
    engine = {"hoodie.index.bucket.engine": "CONSISTENT_HASHING"}
    with pytest.raises(UnsupportedError, match=r"open_table\(spark, path\)"):
        put(path, table_of(FIRST), {**KEYED, **MOR, **BUCKETS, **engine})


def test_changes_from_before_a_column_was_replaced_by_one_of_another_type_are_refused(path: str):
    rows = table_of(FIRST)
    texts = rows.set_column(3, "fare", rows.column("fare").cast(pa.string()))
    put(path, texts, KEYED, overwrite=True)
    put(path, rows, KEYED, overwrite=True)
    put(path, table_of(SECOND), KEYED)
    table = lakebed.open_table(None, path)
    first, second, _ = sorted(table.history().to_pylist(), key=lambda row: row["completion_time"])
    for arguments in (
        {"mode": "cdc"},
        {"mode": "cdc", "since": first["completion_time"]},
        {"since": "earliest", "until": first["completion_time"]},
    ):
        with pytest.raises(
            UnsupportedError, match=f"commit {second['instant']} has since replaced .*'fare'"
        ):
            table.read(**arguments)
    # Healthy files are read: by a range that begins later, without the column, as of then.
    later = table.read(mode="cdc", since=second["completion_time"]).read_all()
    assert sorted(later["op"].to_pylist()) == ["i", "u"]
    assert table.read(["id"], mode="cdc").read_all().num_rows == 3 + 3 + 3 + 2
    assert table.read(since="earliest").read_all().num_rows == 4
    assert table.read(["fare"], as_of=first["instant"]).read_all().num_rows == 3


def with_meta(rows: pa.Table, commit_time: str | None) -> pa.Table:
    """Put the meta columns first, as a view of a table has them."""
    values = pa.array([commit_time] * rows.num_rows, pa.string())
    for number, name in enumerate(META_COLUMNS):
        rows = rows.add_column(number, name, values)
    return rows


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_insert_through_a_view_that_would_not_show_it_is_refused(path: str, overwrite: bool):
    put(path, table_of(FIRST), KEYED)
    with pytest.raises(UnsupportedError, match="cannot insert into a view"):
        save(path, with_meta(table_of(SECOND), None), overwrite)
    assert lakebed.open_table(None, path).read().read_all().num_rows == 3
    # What was read and changed has its commit times still, and one new row beside it has none.
    save(path, with_meta(table_of(SECOND[:1]), "20240101000000000"), overwrite)
    rows = [
        with_meta(table_of(SECOND[:1]), "20240101000000000"),
        with_meta(table_of(SECOND[1:]), None),
    ]
    save(path, pa.concat_tables(rows), overwrite)
    assert lakebed.open_table(None, path).read().read_all().num_rows == (2 if overwrite else 4)
