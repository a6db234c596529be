"""Spark reads every golden table as we do in process, and there the rows are Hudi's."""

from collections import Counter
from collections.abc import Iterator
from functools import reduce
from itertools import islice
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lakebed
from lakebed.format.meta_columns import META_COLUMNS
from support import hudi_rs
from support.fixtures import names, unpack

# So many tables are one job: a job for each would take minutes.
AT_ONCE = 25
EXACT = {
    "timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS",
}


def test_spark_reads_every_golden_table_as_we_do_in_process(spark: SparkSession, tmp_path: Path):
    read = 0
    tables = golden_tables(tmp_path)
    while some := list(islice(tables, AT_ONCE)):
        sides: list[DataFrame] = []
        for name, path in some:
            columns = [*META_COLUMNS, *lakebed.open_table(path).schema.names]
            want = lakebed.open_table(path).read(columns=columns).read_all()
            got = lakebed.open_table(spark, path).read(columns=columns)
            assert got.columns == want.column_names, name
            sides.append(spelled(name, "got", got))
            sides.append(spelled(name, "want", in_spark(spark, want, got)))
            read += 1
        found: dict[str, dict[str, Counter[str]]] = {}
        for name, side, row in reduce(DataFrame.unionAll, sides).collect():
            sorts = found.setdefault(name, {"got": Counter(), "want": Counter()})
            sorts[side][row] += 1
        odd = {name: sorts for name, sorts in found.items() if sorts["got"] != sorts["want"]}
        assert odd == {}
    assert read == len(names()) + len(hudi_rs.NAMES)


def golden_tables(into: Path) -> Iterator[tuple[str, str]]:
    """Unpack all tables; give their names and folders."""
    for name in names():
        yield name, str(unpack(name, into))
    for name in hudi_rs.NAMES:
        yield name, str(hudi_rs.unpack(name, into / name)[0])


def in_spark(spark: SparkSession, rows: pa.Table, like: DataFrame) -> DataFrame:
    """Give rows that were read in process as a DataFrame of the same types."""
    return spark.createDataFrame(rows, like.schema)


def spelled(name: str, side: str, frame: DataFrame) -> DataFrame:
    """Spell each row as a text in which nothing is lost."""
    row = F.to_json(F.struct(*(frame[f"`{column}`"] for column in frame.columns)), EXACT)
    return frame.select(F.lit(name), F.lit(side), row)
