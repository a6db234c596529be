"""Every operation through Spark against the model, in random histories."""

import pathlib
from collections.abc import Mapping
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import lakebed
from lakebed.api.table import Table
from support.machine import OPERATIONS, TableMachine, creation, run_machine, shapes_of
from support.model import COLUMNS, Row, Shape

KINDS = {"string": "string", "int32": "int", "int64": "bigint", "bool": "boolean"}


class SparkMachine(TableMachine):
    """A table on disk, written and read by Spark; the in-process engine reads it as well."""

    flushes = st.just(False)

    def __init__(self, spark: SparkSession, folder: pathlib.Path, shapes: Any) -> None:
        self.spark = spark
        self.path = str(folder)
        self.shapes = shapes
        super().__init__()

    def make(self, shape: Shape, properties: Mapping[str, str]) -> Table:
        return lakebed.create_table(
            self.spark, self.path, COLUMNS, **creation(shape), properties=properties
        )

    def again(self) -> Table:
        return lakebed.open_table(None, self.path)

    def opened(self) -> Table:
        return lakebed.open_table(self.spark, self.path)

    def given(self, batches: list[pa.RecordBatch], schema: pa.Schema) -> Any:
        rows = [row for batch in batches for row in batch.to_pylist()]
        ddl = ", ".join(f"`{field.name}` {KINDS[str(field.type)]}" for field in schema)
        values = [tuple(row[name] for name in schema.names) for row in rows]
        frame = self.spark.createDataFrame(values, ddl)
        # Several tasks, in the order of the rows.
        assert len(rows) < 2 or frame.rdd.getNumPartitions() == 2
        return frame

    def shown(self) -> list[Row]:
        return [row.asDict() for row in self.table.read(columns=self.all_columns).collect()]


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_a_table_that_spark_writes_holds_what_the_model_holds(
    spark: SparkSession, tmp_path: pathlib.Path, table_type: str
):
    folders = count()
    shapes = shapes_of(table_type)
    run_machine(
        lambda: SparkMachine(spark, tmp_path / f"t{next(folders)}", shapes), 2, len(OPERATIONS)
    )
