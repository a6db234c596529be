"""From a snapshot to a DataFrame.

Slices that need no merge go to Spark's own Parquet reader, which is several times as fast as any
way through Python. Slices with logs are merged by Python workers, and so are files that Spark
cannot open (an object store without its connector) or would read differently (a column that was
widened later); small ones may have been merged by this process already. The result is one
DataFrame.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakebed.errors import InvalidError
from lakebed.format.names.meta_columns import COMMIT_TIME, META_COLUMNS, RECORD_KEY
from lakebed.scan.scan import Scan
from lakebed.spark.executor import spread
from lakebed.spark.schema import arrow_to_spark, as_nullable
from lakebed.spark.session import check_arrow, check_reachable
from lakebed.storage.storage import Storage
from lakebed.table.changes.scan import ChangeScan
from lakebed.table.files.file_group import BaseFile, FileSlice
from lakebed.table.read.native_types import shows_alike

# Spark treats every path as a pattern. The option that prevents this (`__globPaths__`) reads all
# files again for each path that looks like a pattern, so such characters are escaped instead.
_GLOB = re.compile(r"[\\*?\[\]{}]")
_ESCAPED = r"\\\g<0>"

_HELD_TASK_BYTES = 512 << 10

_NATIVE_OPTIONS = {
    # A missing or broken file must not go unnoticed, whatever the session's settings.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    # Without this option Spark does not verify page checksums: a flipped bit would change a value.
    "parquet.page.verify-checksum.enabled": "true",
    # Files hold days and microseconds of the calendar that Spark uses now, however old they are.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}


@dataclass(frozen=True, slots=True)
class FramePlan:
    """The plan for reading the rows of `scan` as a DataFrame.

    Spark itself reads the base files of the slices `plain`. The other slices, `merged`, are read in
    Python, with the columns that Spark selects and filters by, and with the predicate if Python
    evaluates it as Spark does.
    """

    scan: Scan
    plain: tuple[FileSlice, ...]
    merged: Scan

    @property
    def schema(self) -> StructType:
        """Return the columns before Spark selects and filters.

        All columns are nullable, however they are read, because those of Spark's own reader always
        are.
        """
        full = self.merged.full_schema
        fields = [full.field(name) for name in self.merged.columns]
        return as_nullable(arrow_to_spark(pa.schema(fields)))

    def all_merged(self) -> "FramePlan":
        """Return the plan with all slices going through Python."""
        return replace(self, plain=(), merged=replace(self.merged, slices=self.scan.slices))


def plan_frame(spark: SparkSession, scan: Scan) -> FramePlan:
    """Decide which slices of `scan` Spark reads itself."""
    scan = scan.narrowed()
    # A batch without columns would lose its rows on the way to Spark.
    wanted = scan.needed_columns or [RECORD_KEY]
    # Some releases of Hudi put meta columns into files of tables that have none.
    hidden = not scan.view.config.has_meta_columns and not set(wanted).isdisjoint(META_COLUMNS)
    fields = [scan.full_schema.field(name) for name in wanted]
    plain = tuple(
        s
        for s in scan.slices
        if not s.needs_merge
        and not hidden
        and not scan.is_narrowed(s)
        and is_native(scan.view.storage, s.base_file)
        and s.base_file is not None
        and shows_alike(scan.view.storage, s.base_file, fields)
    )
    read_by_spark = set(plain)
    others = tuple(s for s in scan.slices if s not in read_by_spark)
    predicate = scan.predicate if evaluates_alike(spark) else None
    merged = replace(scan, slices=others, columns=tuple(wanted), predicate=predicate)
    return FramePlan(scan, plain, merged)


def read_frame(spark: SparkSession, plan: FramePlan, held: pa.Table | None = None) -> DataFrame:
    """Return the rows of a plan's scan, which may include meta columns.

    `held` are the rows of `plan.merged` if this process has already read them.
    """
    scan, schema = plan.scan, plan.schema
    frames = []
    if plan.plain:
        files = [s.base_file for s in plan.plain if s.base_file is not None]
        native = native_frame(spark, scan.view.storage, files, arrow_to_spark(scan.full_schema))
        if scan.commits is not None:
            native = native.where(native[COMMIT_TIME].isin(list(scan.commits)))
        frames.append(native.select(*_quoted(schema.names)))
    if held is not None:
        frames.append(held_frame(spark, held, schema))
    elif plan.merged.slices:
        frames.append(_through_python(spark, plan.merged, schema))
    if not frames:
        frames.append(spark.createDataFrame([], schema))
    frame = reduce(DataFrame.unionAll, frames)
    if scan.predicate is not None:
        frame = _filtered(frame, scan.predicate.text)
    return frame.select(*_quoted(scan.columns))


def held_frame(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """Return a DataFrame of rows that this process holds in memory."""
    if not rows.num_rows:
        return spark.createDataFrame([], schema)
    check_arrow(spark)
    # Spark creates a task for every batch, and warns of large tasks.
    batch_rows = max(1, rows.num_rows * _HELD_TASK_BYTES // max(1, rows.nbytes))
    batches = rows.combine_chunks().to_batches(max_chunksize=batch_rows)
    return spark.createDataFrame(pa.Table.from_batches(batches), schema)


def changes_frame(spark: SparkSession, scan: ChangeScan) -> DataFrame:
    """Return the change rows of `scan`; the changes of a file group come from one task."""
    schema = arrow_to_spark(scan.schema)
    if not scan.groups:
        return spark.createDataFrame([], schema)
    check_arrow(spark)
    check_reachable(scan.reader.view.storage)
    groups, travelling = scan.groups, replace(scan, groups=())

    def read(numbers: Iterator[int]) -> Iterator[pa.RecordBatch]:
        for number in numbers:
            yield from travelling.read(groups[number])

    return spread(spark, [group.cost_bytes for group in groups], read, schema)


def _quoted(names: Sequence[str]) -> list[str]:
    return [f"`{name.replace('`', '``')}`" for name in names]


def evaluates_alike(spark: SparkSession) -> bool:
    """Return whether this session evaluates predicates as Lakebed does: in ANSI mode and in UTC."""
    ansi = spark.conf.get("spark.sql.ansi.enabled", "true")
    zone = spark.conf.get("spark.sql.session.timeZone")
    return str(ansi).lower() == "true" and str(zone) in ("UTC", "Etc/UTC", "GMT", "Z", "+00:00")


def _filtered(frame: DataFrame, where: str) -> DataFrame:
    try:
        kept = frame.where(where)
        _ = kept.schema  # Spark Connect analyses a predicate only on request
    except AnalysisException as error:
        raise InvalidError(
            f"where={where!r}: {str(error).strip().partition(chr(10))[0]}"
        ) from error
    return kept


def is_native(storage: Storage, file: BaseFile | None) -> bool:
    """Return whether Spark itself can open a base file.

    Hadoop's patterns fail on a colon in a folder's name (HADOOP-14217), so a path that needs
    escaping must not contain one.
    """
    path = None if file is None else storage.local_path(file.path)
    return path is not None and not (":" in path and _GLOB.search(path))


def _local(storage: Storage, file: BaseFile) -> str:
    path = storage.local_path(file.path)
    assert path is not None, file.path
    return path


def native_frame(
    spark: SparkSession, storage: Storage, files: Sequence[BaseFile], schema: StructType
) -> DataFrame:
    """Return the rows of base files that Spark itself can open, with the columns of `schema`."""
    # The paths have a scheme, because a session may have another default file system.
    paths = [f"file://{_GLOB.sub(_ESCAPED, _local(storage, file))}" for file in files]
    return spark.read.schema(schema).options(**_NATIVE_OPTIONS).parquet(*paths)


def _through_python(spark: SparkSession, scan: Scan, schema: StructType) -> DataFrame:
    scan.check_readable()
    check_arrow(spark)
    check_reachable(scan.view.storage)
    slices, names = scan.slices, scan.columns
    travelling = replace(scan, slices=())

    def read(numbers: Iterator[int]) -> Iterator[pa.RecordBatch]:
        for number in numbers:
            yield from travelling.read(slices[number], names)

    return spread(spark, [scan.cost_of(slice_) for slice_ in slices], read, schema)
