"""Spark's own reader on files that Apache Hudi wrote gives the rows that we read in process."""

import pytest
from pyspark.errors import PythonException

import lakebed
from lakebed.errors import UnsupportedError
from lakebed.format.meta_columns import META_COLUMNS
from support.fixtures import names, unpack


@pytest.mark.parametrize("name", names())
def test_a_table_of_hudis_reads_the_same_by_spark_and_in_process(spark, tmp_path, name):
    path = str(unpack(name, tmp_path))
    columns = [*META_COLUMNS, *lakebed.open_table(None, path).schema.names]
    try:
        want = lakebed.open_table(None, path).read(columns=columns).read_all()
    except UnsupportedError:
        # In the call if the first slice with logs shows it, else in the job that meets it.
        with pytest.raises((UnsupportedError, PythonException), match="AVRO_DATA"):
            lakebed.open_table(spark, path).read(columns=columns).toArrow()
        return
    got = lakebed.open_table(spark, path).read(columns=columns).toArrow()
    assert got.column_names == want.column_names
    assert _rows(got) == _rows(want)


def _rows(table):
    return sorted(map(repr, table.to_pylist()))
