"""From a snapshot to a DataFrame.

Slices that need no merge go to Spark's own Parquet reader, which is several times as
fast as any way through Python. Where Spark cannot open the path (an object store
without its connector) the same files are read by Python workers.
"""

import re
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakebed.errors import InvalidError
from lakebed.format.meta_columns import META_FIELDS
from lakebed.spark.executor import over_numbers, spread
from lakebed.spark.schema import arrow_to_spark
from lakebed.spark.session import check_arrow, check_reachable
from lakebed.storage.storage import Storage
from lakebed.table.base_file import read_base_file
from lakebed.table.file_group import BaseFile
from lakebed.table.snapshot import Snapshot, base_files

# Spark takes every path for a pattern. Its option against that (`__globPaths__`) reads all
# files again for each path that looks like one, so such characters are escaped instead.
_GLOB = re.compile(r"[\\*?\[\]{}]")
_ESCAPED = r"\\\g<0>"

_NATIVE_OPTIONS = {
    # A session may say otherwise, but a file that is missing or broken must not go unnoticed.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    # Files hold days and microseconds of the calendar that Spark has now, however old they are.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}


def read_frame(
    spark: SparkSession, snapshot: Snapshot, columns: Sequence[str], where: str | None
) -> DataFrame:
    """Give the rows of `snapshot` with `columns` (meta columns may be among them)."""
    files = base_files(snapshot.slices)
    full = pa.schema([*META_FIELDS, *snapshot.schema])
    schema = arrow_to_spark(full)
    if not files:
        frame = spark.createDataFrame([], schema)
    elif _is_native(snapshot.storage, files):
        frame = _native(spark, snapshot.storage, files, schema)
    else:
        wanted = full if where else pa.schema([full.field(name) for name in columns])
        frame = _through_python(spark, snapshot, files, wanted)
    if where:
        frame = _filtered(frame, where)
    return frame.select(*[f"`{name.replace('`', '``')}`" for name in columns])


def _filtered(frame: DataFrame, where: str) -> DataFrame:
    try:
        kept = frame.where(where)
        _ = kept.schema  # Spark Connect looks at a predicate only when it is asked
    except AnalysisException as error:
        raise InvalidError(
            f"where={where!r}: {str(error).strip().partition(chr(10))[0]}"
        ) from error
    return kept


def _is_native(storage: Storage, files: Sequence[BaseFile]) -> bool:
    """Tell whether Spark itself can open the files.

    Hadoop's patterns do not get over a colon in a folder's name (HADOOP-14217), so a path
    that needs escaping must not have one.
    """
    if storage.local_path(files[0].path) is None:
        return False
    paths = [_local(storage, file) for file in files]
    return not any(":" in path and _GLOB.search(path) for path in paths)


def _local(storage: Storage, file: BaseFile) -> str:
    path = storage.local_path(file.path)
    assert path is not None, file.path
    return path


def _native(
    spark: SparkSession, storage: Storage, files: Sequence[BaseFile], schema: StructType
) -> DataFrame:
    # With the scheme, or a session whose default file system is another would look there.
    paths = [f"file://{_GLOB.sub(_ESCAPED, _local(storage, file))}" for file in files]
    return spark.read.schema(schema).options(**_NATIVE_OPTIONS).parquet(*paths)


def _through_python(
    spark: SparkSession, snapshot: Snapshot, files: Sequence[BaseFile], wanted: pa.Schema
) -> DataFrame:
    storage, schema, names = snapshot.storage, snapshot.schema, wanted.names
    check_arrow(spark)
    check_reachable(storage)

    paths = [file.path for file in files]

    def scan(numbers: Iterator[int]) -> Iterator[pa.RecordBatch]:
        for number in numbers:
            yield from read_base_file(storage, paths[number], schema, names)

    return spread(spark, len(paths)).mapInArrow(over_numbers(scan), arrow_to_spark(wanted))
