"""Small work on the driver, large work packed into tasks: the rows are the same either way."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakebed
from lakebed.model.executor import TaskId
from lakebed.model.options.writers import DRIVER_MAX_BYTES
from lakebed.spark.executor import SparkExecutor
from spark.frames import EVERY_TYPE, every_type, rows, session_conf

pytestmark = pytest.mark.timeout(300)

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("ts", pa.int64())])
GROUPS = 40


def jobs(spark: SparkSession) -> list[int]:
    return list(spark.sparkContext.statusTracker().getJobIdsForGroup(None))


def tasks_of(spark: SparkSession, job: int) -> list[int]:
    """Return the number of tasks of each stage of a job."""
    tracker = spark.sparkContext.statusTracker()
    found = tracker.getJobInfo(job)
    assert found is not None
    return [info.numTasks for stage in found.stageIds if (info := tracker.getStageInfo(stage))]


def plan_of(frame: DataFrame, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    frame.explain()
    return capsys.readouterr().out


@pytest.fixture
def near(spark: SparkSession) -> Iterator[SparkSession]:
    """Let the driver do small work, as it does unless told otherwise."""
    spark.conf.unset(DRIVER_MAX_BYTES.name)
    yield spark
    spark.conf.set(DRIVER_MAX_BYTES.name, "0")


@pytest.fixture(scope="module")
def daily(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Make a table of many small file groups, each with a log."""
    path = str(tmp_path_factory.mktemp("daily") / "t")
    table = lakebed.create_table(
        None, path, SCHEMA, key="id", ordering="ts", partition_by="day", buckets=2
    )
    for ts in (1, 2):
        ids = list(range(400))
        days = [f"d{n % (GROUPS // 2):02d}" for n in ids]
        table.upsert(pa.table({"id": ids, "day": days, "ts": [ts] * 400}, SCHEMA))
    assert table.files().num_rows == 2 * GROUPS
    return path


def test_many_small_file_groups_are_read_and_checked_in_a_few_tasks(spark, daily):
    table = lakebed.open_table(spark, daily)
    before = len(jobs(spark))
    assert table.read().count() == 400
    assert table.verify().is_sound
    ran = [count for job in sorted(jobs(spark))[before:] for count in tasks_of(spark, job)]
    assert ran
    assert max(ran) <= 4


def test_a_few_keys_are_found_without_a_python_task(near, daily, capsys):
    table = lakebed.open_table(near, daily)
    found = table.read(where="id = 5")
    assert "MapInArrow" not in plan_of(found, capsys)
    assert [row.asDict() for row in found.collect()] == [{"id": 5, "day": "d05", "ts": 2}]
    assert table.read(where="id = -1").collect() == []


def test_a_session_can_forbid_work_on_the_driver(spark, daily, capsys):
    found = lakebed.open_table(spark, daily).read(where="id = 5")
    assert "MapInArrow" in plan_of(found, capsys)
    assert found.count() == 1


def test_a_table_can_forbid_work_on_the_driver(near, path, capsys):
    properties = {DRIVER_MAX_BYTES.name: "0"}
    table = lakebed.create_table(near, path, SCHEMA, key="id", properties=properties)
    for ts in (1, 2):
        table.upsert(pa.table({"id": [1], "day": ["d"], "ts": [ts]}, SCHEMA))
    assert "MapInArrow" in plan_of(table.read(), capsys)
    table.set_properties({DRIVER_MAX_BYTES.name: "1MB"})
    assert "MapInArrow" not in plan_of(table.read(), capsys)
    with pytest.raises(lakebed.InvalidError, match=DRIVER_MAX_BYTES.name):
        table.set_properties({DRIVER_MAX_BYTES.name: "much"})


def test_rows_that_take_more_than_the_driver_may_hold_come_from_spark(near, path, capsys):
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    table = lakebed.create_table(near, path, schema, key="id", buckets=1)
    for _ in range(2):
        table.upsert(pa.table({"id": range(2000), "text": ["x" * 2000] * 2000}, schema))
    # The files are small; what is in them is not.
    assert sum(table.files().column("size_bytes").to_pylist()) < 200_000
    found = table.read()
    assert "MapInArrow" in plan_of(found, capsys)
    assert found.where("length(text) = 2000").count() == 2000


def test_a_row_is_deleted_by_a_predicate_without_a_job(near, path):
    table = lakebed.create_table(near, path, SCHEMA, key="id", ordering="ts", partition_by="day")
    table.upsert(pa.table({"id": [1, 2, 3], "day": ["a", "a", "b"], "ts": [1, 1, 1]}, SCHEMA))
    before = len(jobs(near))
    table.delete(where="id = 2")
    table.delete(where="ts = 1 and day = 'b'")
    assert len(jobs(near)) == before
    assert [row["id"] for row in table.read().collect()] == [1]


def test_a_wrong_predicate_of_a_delete_is_refused_before_the_write(near, daily):
    table = lakebed.open_table(near, daily)
    instants = table.history().num_rows
    with pytest.raises(lakebed.InvalidError, match="nothing"):
        table.delete(where="nothing = 1")
    assert table.history().num_rows == instants


@pytest.mark.parametrize("limit", ["0", "64MB"])
def test_a_dataframe_shows_the_table_as_it_was_when_it_was_read(near, path, limit):
    near.conf.set(DRIVER_MAX_BYTES.name, limit)
    table = lakebed.create_table(near, path, SCHEMA, key="id")
    table.upsert(pa.table({"id": [1], "day": ["d"], "ts": [1]}, SCHEMA))
    table.upsert(pa.table({"id": [1], "day": ["d"], "ts": [2]}, SCHEMA))
    frame = table.read()
    table.upsert(pa.table({"id": [1, 2], "day": ["d", "d"], "ts": [3, 3]}, SCHEMA))
    assert [row["ts"] for row in frame.collect()] == [2]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_both_ways_give_the_same_types_and_values(near, path, zone):
    table = lakebed.create_table(near, path, EVERY_TYPE, key="id", ordering="ts", buckets=1)
    for _ in range(2):
        table.upsert(every_type(near))
    with session_conf(near, **{"spark.sql.session.timeZone": zone}):
        here = [table.read(), table.read(where="big < 5")]
        near.conf.set(DRIVER_MAX_BYTES.name, "0")
        there = [table.read(), table.read(where="big < 5")]
        for one, other in zip(here, there, strict=True):
            assert one.schema == other.schema
            assert rows(one)
            assert rows(one) == rows(other)
        table.compact()
        assert table.read().schema == here[0].schema


def test_changes_are_the_same_from_the_driver_and_from_tasks(near, daily):
    table = lakebed.open_table(near, daily)
    here = table.read(since="earliest", mode="cdc")
    near.conf.set(DRIVER_MAX_BYTES.name, "0")
    there = table.read(since="earliest", mode="cdc")
    assert here.schema == there.schema
    assert rows(here) == rows(there)
    assert here.count() == 800


def test_items_that_share_a_task_have_ids_of_their_own(spark):
    def token(item: int, task: TaskId) -> tuple[int, str]:
        return item, task.write_token

    found = list(SparkExecutor(spark).run(token, list(range(50)), "tokens"))
    assert sorted(item for item, _ in found) == list(range(50))
    assert len({text for _, text in found}) == 50
    # The attempt is that of the task: there were a few.
    assert len({text.rpartition("-")[2] for _, text in found}) <= 4
