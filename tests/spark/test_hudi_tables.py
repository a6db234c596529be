"""Spark reads every golden table as we do in process, and there the rows are Hudi's."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakebed
from lakebed.format.names.meta_columns import META_COLUMNS
from support import hudi_rs
from support.fixtures import SPELLING, names, unpack, unpack_from


@pytest.mark.timeout(900)  # some seventy small tables
def test_spark_reads_every_golden_table_as_we_do_in_process(spark: SparkSession, tmp_path: Path):
    tables = [
        *((name, unpack(name, tmp_path)) for name in names()),
        *((name, hudi_rs.unpack(name, tmp_path / name)[0]) for name in hudi_rs.NAMES),
        *((name, unpack_from(SPELLING, name, tmp_path)) for name in names(SPELLING)),
    ]
    with ThreadPoolExecutor(2) as threads:
        differing = list(threads.map(lambda table: reads_otherwise(spark, *table), tables))
    assert [name for name in differing if name] == []
    assert len(differing) >= 53


def reads_otherwise(spark: SparkSession, name: str, path: Path) -> str:
    """Name the table if Spark reads other rows or columns, or fails; else give an empty text."""
    table = lakebed.open_table(str(path))
    columns = [*META_COLUMNS, *table.schema.names]
    want = table.read(columns=columns).read_all()
    try:
        got = lakebed.open_table(spark, str(path)).read(columns=columns).toArrow()
    except Exception as error:  # noqa: BLE001  the test tells of all tables
        return f"{name}: {str(error)[:500]}"
    alike = got.column_names == want.column_names and _rows(got) == _rows(want)
    return "" if alike else name


def _rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))
