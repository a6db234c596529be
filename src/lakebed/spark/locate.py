"""The simple index on Spark: a join of the incoming rows with the keys of the base files.

Rows pass through Python twice: to compute their keys and, after the join, to be staged. The rows of
a key end up in one task in order of arrival, as if there had been no join.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents have it
from pyspark.sql.types import LongType, StringType, StructField, StructType

from lakebed.errors import CorruptError, LakebedError
from lakebed.format.names.meta_columns import PARTITION_PATH, RECORD_KEY
from lakebed.index.holders import HOLDERS
from lakebed.index.kinds import strategy_of
from lakebed.index.strategy import KeySource
from lakebed.spark.errors import translated
from lakebed.spark.executor import (
    RESULT_DDL,
    collect_results,
    run_packed,
    spread,
    task_id,
)
from lakebed.spark.read import is_native, native_frame
from lakebed.spark.schema import arrow_to_spark, spark_to_arrow
from lakebed.spark.session import check_reachable
from lakebed.spark.write import stage_frame
from lakebed.table.files.file_group import FileSlice
from lakebed.table.snapshot import Snapshot
from lakebed.write.locate import stage_located
from lakebed.write.rows import LOCATED_FILE, route_rows
from lakebed.write.spec.write_spec import WriteSpec
from lakebed.write.staging import Staged

_KEY = "_lakebed_key"
_PARTITION = "_lakebed_partition"
_ARRIVAL = "_lakebed_arrival"
_BEFORE = "_lakebed_before"
_ADDED = (_KEY, _PARTITION, _ARRIVAL)
# No path on storage and no file id contains these separators.
_IN_PLACE, _BETWEEN_PLACES = "\x1f", "\x1e"
# A task has fewer rows than this; the higher bits hold the number of the task.
_TASK_ROWS = 1 << 40
_KEY_SCHEMA = pa.schema(
    [(name, pa.string()) for name in (RECORD_KEY, PARTITION_PATH, LOCATED_FILE)]
)


def stage_joined(
    spark: SparkSession, frame: DataFrame, spec: WriteSpec, snapshot: Snapshot
) -> list[Staged]:
    """Stage the rows of `frame` for the file groups that hold their keys."""
    strategy = strategy_of(spec.index)
    slices = () if strategy.needs_keys else strategy.indexed_slices(snapshot)
    if not spec.looks_up or strategy.needs_keys or not (slices or spec.looks_everywhere):
        return stage_frame(spark, frame, spec)
    check_reachable(spec.storage)
    with translated():
        keyed = _keyed(frame, spec)
        keys = _known_keys(spark, spec, slices)
        if spec.looks_everywhere:
            return _stage_everywhere(spark, _joined_everywhere(keyed, keys), spec, slices)
        joined = (
            keyed.repartition(_PARTITION, _KEY)
            .join(keys, [_PARTITION, _KEY], "left")
            .sortWithinPartitions(_KEY, _ARRIVAL)
        )
        return stage_frame(spark, joined.drop(*_ADDED), spec)


def _keyed(frame: DataFrame, spec: WriteSpec) -> DataFrame:
    """Add record key, partition and order of arrival to each row."""
    plain = spark_to_arrow(frame.schema)
    added = [
        StructField(_KEY, StringType()),
        StructField(_PARTITION, StringType()),
        StructField(_ARRIVAL, LongType()),
    ]
    schema = StructType([*arrow_to_spark(plain).fields, *added])

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        arrival = task_id().partition * _TASK_ROWS
        for batch in batches:
            count = batch.num_rows
            try:
                placed = route_rows(batch, spec)
                keys, partitions = placed.rows.column(RECORD_KEY), placed.partitions
            except LakebedError:
                # Staging will process the same rows, and return the error as a value; a task that
                # fails here would be retried.
                keys = partitions = pa.nulls(count, pa.string())
            numbers = pa.array(np.arange(arrival, arrival + count, dtype=np.int64))
            arrival += count
            columns = [*batch.columns, keys, partitions, numbers]
            yield pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, *_ADDED])

    return frame.mapInArrow(work, schema)


def _known_keys(spark: SparkSession, spec: WriteSpec, slices: Sequence[FileSlice]) -> DataFrame:
    """Return every key that the index knows, with its partition and file id."""
    storage = spec.storage
    native = []
    others = []
    for source in spec.locator.key_sources(spec.view, slices, None):
        base = source.base_file
        if base is not None and is_native(storage, base):
            native.append(base)
        else:
            others.append(source)
    frames = []
    if native:
        schema = arrow_to_spark(_KEY_SCHEMA.remove(2))
        file_id = F.split_part(F.col("_metadata.file_name"), F.lit("_"), F.lit(1))
        read = native_frame(spark, storage, native, schema)
        frames.append(read.select(RECORD_KEY, PARTITION_PATH, file_id.alias(LOCATED_FILE)))
    if others:
        frames.append(_keys_through_python(spark, spec, slices, others))
    if not frames:
        frames.append(spark.createDataFrame([], arrow_to_spark(_KEY_SCHEMA)))
    return reduce(DataFrame.unionAll, frames).select(
        F.col(RECORD_KEY).alias(_KEY),
        F.coalesce(F.col(PARTITION_PATH), F.lit("")).alias(_PARTITION),
        LOCATED_FILE,
    )


def _keys_through_python(
    spark: SparkSession, spec: WriteSpec, slices: Sequence[FileSlice], sources: Sequence[KeySource]
) -> DataFrame:
    groups = [slice_.group for slice_ in slices]
    partitions = pa.array([group.partition for group in groups], pa.string())
    file_ids = pa.array([group.file_id for group in groups], pa.string())

    def read(numbers: Iterator[int]) -> Iterator[pa.RecordBatch]:
        for number in numbers:
            for batch in sources[number].open(spec.view).batches:
                at = batch.column(HOLDERS).cast(pa.int64())
                columns = [batch.column(RECORD_KEY), partitions.take(at), file_ids.take(at)]
                yield pa.RecordBatch.from_arrays(columns, schema=_KEY_SCHEMA)

    costs = [source.cost_bytes for source in sources]
    return spread(spark, costs, read, arrow_to_spark(_KEY_SCHEMA))


def _joined_everywhere(keyed: DataFrame, keys: DataFrame) -> DataFrame:
    """Join by key alone; each row occurs once, with all locations of its key as one string."""
    place = F.concat(F.col(_PARTITION), F.lit(_IN_PLACE), F.col(LOCATED_FILE))
    joined = (
        keyed.drop(_PARTITION)
        .repartition(_KEY)
        .join(keys.select(_KEY, place.alias(HOLDERS)), _KEY, "left")
    )
    # Both windows partition by the key alone, so that its rows stay in one task.
    by_key = Window.partitionBy(_KEY)
    places = F.nullif(F.array_join(F.collect_set(HOLDERS).over(by_key), _BETWEEN_PLACES), F.lit(""))
    before = F.lag(_ARRIVAL).over(by_key.orderBy(_ARRIVAL, HOLDERS))
    return (
        joined.withColumns({_BEFORE: before})
        .withColumns({HOLDERS: places})
        .where(F.col(_BEFORE).isNull() | (F.col(_BEFORE) != F.col(_ARRIVAL)))
        .sortWithinPartitions(_KEY, _ARRIVAL)
        .drop(_KEY, _ARRIVAL, _BEFORE)
    )


def _stage_everywhere(
    spark: SparkSession, joined: DataFrame, spec: WriteSpec, slices: Sequence[FileSlice]
) -> list[Staged]:
    groups = [slice_.group for slice_ in slices]
    known = pa.array([f"{g.partition}{_IN_PLACE}{g.file_id}" for g in groups], pa.string())

    def to_holders(texts: pa.Array) -> pa.StringArray:
        return _as_numbers(texts, known)

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield run_packed(lambda: stage_located(batches, spec, task_id(), slices, to_holders))

    staged = joined.mapInArrow(work, RESULT_DDL)
    return [item for part in collect_results(spark, staged, "stage") for item in part]


def _as_numbers(texts: pa.Array, known: pa.StringArray) -> pa.StringArray:
    """Replace locations, as the join returns them, with their numbers in `known`."""
    lists = pc.split_pattern(texts, _BETWEEN_PLACES)
    flat = pc.list_flatten(lists)
    numbers = pc.index_in(flat, value_set=known)
    if numbers.null_count:
        strange = flat.filter(numbers.is_null())[0].as_py()
        partition, _, file_id = strange.partition(_IN_PLACE)
        raise CorruptError(
            f"a row of file group {file_id} has partition {partition!r} in its meta column, which has "
            "no such file group"
        )
    spelled = numbers.cast(pa.string())
    return pc.binary_join(
        pa.ListArray.from_arrays(lists.offsets, spelled, mask=texts.is_null()), ","
    )
