"""Services through a session: on its workers, and with the same rows after."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakebed
from lakebed.format.names.data_names import parse_data_name
from lakebed.model.options.services import CleanOptions
from lakebed.model.options.writers import DRIVER_MAX_BYTES
from lakebed.services.clean.execute import clean
from spark.frames import rows, strays

DDL = "id bigint, ts bigint, region string, v string"
JOIN = {"hoodie.log.compaction.blocks.threshold": "2"}
CLEAN = {"lakebed.clean.min.age.seconds": "0", "hoodie.clean.commits.retained": "1"}
NO_UPKEEP = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


def loaded(spark: SparkSession, path: str, **how: Any) -> lakebed.Table:
    """Make a table with three commits, updates and late rows among them."""
    settled = {"properties": NO_UPKEEP, **({} if "index" in how else {"buckets": 2}), **how}
    table = lakebed.create_table(
        spark, path, DDL, key="id", ordering="ts", partition_by="region", **settled
    )
    for start, ts in ((0, 5), (150, 6), (100, 4)):
        table.upsert(
            spark.range(start, start + 200, 1, 2).selectExpr(
                "id", f"{ts}L as ts", "if(id % 2 = 0, 'eu', 'us') as region", f"'{ts}' as v"
            )
        )
    table.delete([{"id": 7, "region": "us"}])
    return table


def jobs(spark: SparkSession) -> int:
    """Return how many jobs Spark has run."""
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(None))


def tokens(table: lakebed.Table, instant: str) -> set[str]:
    """Return the write tokens of the files of an instant."""
    names = [parse_data_name(row["path"].rpartition("/")[2]) for row in table.files().to_pylist()]
    return {name.write_token for name in names if name and name.instant == instant}


def is_ours(token: str) -> bool:
    """Tell the token of a task of this process from one of Spark's, of which only the first is 0."""
    return token.endswith("-0")


@pytest.mark.parametrize("version", [9, 10])
@pytest.mark.parametrize("mode", ["full", "log", "hybrid"])
def test_a_large_compaction_runs_on_the_workers_and_keeps_every_row(spark, path, mode, version):
    table = loaded(spark, path, table_version=version)
    before = rows(table.read())
    (done,) = table.compact(mode, options=JOIN)
    assert done.full + done.log == 4
    written = tokens(table, done.instant)
    assert written
    assert not any(map(is_ours, written))
    assert rows(table.read()) == before
    assert strays(table) == []
    table.upsert(spark.sql("select 7L id, 1L ts, 'us' region, 'again' v"))
    assert table.read(where="id = 7").count() == 1
    assert table.verify().is_sound


def test_small_services_do_not_trouble_spark(spark, path):
    table = loaded(spark, path)
    spark.conf.set(DRIVER_MAX_BYTES.name, str(64 << 20))
    try:
        before = jobs(spark)
        (done,) = table.compact("full")
        assert table.verify().is_sound
        assert jobs(spark) == before
    finally:
        spark.conf.set(DRIVER_MAX_BYTES.name, "0")
    assert all(map(is_ours, tokens(table, done.instant)))


def test_a_clustering_runs_on_the_workers_and_keeps_every_row(spark, path):
    small = {"hoodie.parquet.small.file.limit": "0"}
    how = {"table_type": "COPY_ON_WRITE", "index": "simple"}
    table = loaded(spark, path, **how, properties={**NO_UPKEEP, **small})
    before = rows(table.read())
    done = table.cluster()
    assert done is not None
    assert done.written < done.replaced
    written = tokens(table, done.instant)
    assert written
    assert not any(map(is_ours, written))
    assert rows(table.read()) == before
    assert table.cluster() is None
    assert table.verify().is_sound


def test_a_clean_of_many_files_and_a_check_run_on_the_workers(spark, path):
    table = loaded(spark, path, table_type="COPY_ON_WRITE")
    before = rows(table.read())
    count = jobs(spark)
    options = CleanOptions.of({**table.config.properties, **CLEAN})
    done = clean(table._target(), options, chunk_files=1)
    assert done is not None
    assert done.deleted_files >= 4
    assert jobs(spark) > count
    assert rows(table.read()) == before
    count = jobs(spark)
    report = table.verify()
    assert report.is_sound
    assert jobs(spark) > count
    alone = lakebed.open_table(None, path).verify()
    assert report.checked == alone.checked
