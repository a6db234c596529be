"""Find rows by their keys: which slices can hold which keys, one sorted pass over each."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lakebed.format.bucket import bucket_of_file_id, key_buckets
from lakebed.format.partition_path import partition_paths
from lakebed.format.record_key import join_key_texts, key_texts
from lakebed.index.scan import Scan
from lakebed.model.executor import LocalExecutor, TaskId
from lakebed.table.config import BucketIndex
from lakebed.table.file_group import FileSlice
from lakebed.table.key_filter import KeyFilter
from lakebed.table.source_cache import SourceCache


@dataclass(frozen=True, slots=True)
class Probe:
    """The keys to look for in one slice."""

    scan: Scan
    slice_: FileSlice
    cache: SourceCache


def look_up(scan: Scan, keys: pa.RecordBatch, cache: SourceCache) -> pa.Table:
    """Give the rows of `scan` whose keys are in `keys`: the key columns, and perhaps the partition's.

    Without partition columns every partition is searched. A key that is not there gives no row.
    """
    probes = plan_probes(scan, keys, cache)
    schema = pa.schema([scan.full_schema.field(name) for name in scan.columns])
    found = sorted(LocalExecutor().run(_probe, probes, "look up"))
    return pa.Table.from_batches([batch for _, rows in found for batch in rows], schema)


def plan_probes(scan: Scan, keys: pa.RecordBatch, cache: SourceCache) -> list[Probe]:
    """Give each slice that can hold one of the keys, with those that it can hold."""
    if not keys.num_rows:
        return []
    config = scan.config
    fields = config.record_key_fields
    texts = key_texts({name: keys.column(name) for name in fields}, fields)
    wanted = join_key_texts(texts, config.composite_key)
    partitions = _partitions(scan, keys)
    buckets = None
    if isinstance(config.index, BucketIndex):
        buckets = key_buckets(
            wanted,
            fields,
            config.index.hash_fields,
            config.index.buckets,
            composite=config.composite_key,
            texts=texts,
        )
    places = _group(wanted, partitions, buckets)
    probes = []
    for slice_ in scan.slices:
        bucket = None if buckets is None else bucket_of_file_id(slice_.group.file_id)
        place = (None if partitions is None else slice_.group.partition, bucket)
        if place in places:
            key_filter = KeyFilter.of(keys=places[place])
            probes.append(Probe(replace(scan, slices=(), key_filter=key_filter), slice_, cache))
    return probes


def _partitions(scan: Scan, keys: pa.RecordBatch) -> pa.StringArray | None:
    """Spell the partitions of the keys, None where they do not say or folders do not follow."""
    config = scan.config
    names = set(keys.schema.names)
    if config.timestamp_keygen is not None or not names.issuperset(config.partition_fields):
        return None
    columns = {name: keys.column(name) for name in config.partition_fields}
    return partition_paths(columns, config.partition_fields, config.partition_style, keys.num_rows)


def _group(
    keys: pa.StringArray,
    partitions: pa.StringArray | None,
    buckets: "np.ndarray[tuple[int], np.dtype[np.int32]] | None",
) -> dict[tuple[str | None, int | None], Sequence[str]]:
    texts = keys.to_pylist()
    folders = [None] * len(texts) if partitions is None else partitions.to_pylist()
    numbers = [None] * len(texts) if buckets is None else buckets.tolist()
    places: dict[tuple[str | None, int | None], list[str]] = defaultdict(list)
    for text, folder, number in zip(texts, folders, numbers, strict=True):
        places[folder, number].append(text)
    return dict(places)


def _probe(probe: Probe, task: TaskId) -> tuple[int, list[pa.RecordBatch]]:
    scan, slice_ = probe.scan, probe.slice_
    sources = probe.cache.get(slice_, lambda: scan.sources(slice_))
    return task.partition, list(scan.read(slice_, scan.columns, None, sources))
