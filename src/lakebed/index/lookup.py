"""Find rows by their keys: which slices can hold which keys, one sorted pass over each."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lakebed.format.record_key import join_key_texts, key_texts
from lakebed.index.prune import folders_follow_columns, prune_buckets
from lakebed.index.scan import Scan
from lakebed.model.executor import LocalExecutor, TaskId
from lakebed.table.constraints import Constraints
from lakebed.table.file_group import FileSlice
from lakebed.table.key_filter import KeyFilter
from lakebed.table.partitions import partition_column
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
    names = keys.schema.names
    read = replace(scan, columns=tuple(dict.fromkeys((*scan.columns, *names))))
    probes = plan_probes(read, keys, cache)
    found = sorted(LocalExecutor().run(_probe, probes, "look up"))
    schema = pa.schema([read.full_schema.field(name) for name in read.columns])
    table = pa.Table.from_batches([batch for _, rows in found for batch in rows], schema)
    if len(names) > len(scan.config.record_key_fields):
        # Where folders do not follow the columns, other partitions were searched too.
        table = table.filter(_is_among(table.select(names), keys))
    return table.select(list(scan.columns))


def _is_among(rows: pa.Table, asked: pa.RecordBatch) -> pa.Array:
    """Tell for each row whether `asked`, of the same columns, has one like it; null equals null."""
    numbers = np.zeros(rows.num_rows + asked.num_rows, dtype=np.int64)
    for name in asked.schema.names:
        both = pa.chunked_array([*rows.column(name).chunks, asked.column(name)])
        coded = both.combine_chunks().dictionary_encode(null_encoding="encode")
        pairs = numbers * len(coded.dictionary) + coded.indices.to_numpy()
        # Counted anew for each column, so that the products stay small.
        numbers = np.unique(pairs, return_inverse=True)[1]
    return pa.array(np.isin(numbers[: rows.num_rows], numbers[rows.num_rows :]))


def plan_probes(scan: Scan, keys: pa.RecordBatch, cache: SourceCache) -> list[Probe]:
    """Give each slice that can hold one of the keys, with those that it can hold."""
    probes = []
    for partition, texts in _by_partition(scan, keys).items():
        key_filter = KeyFilter.of(keys=texts)
        slices: Iterable[FileSlice] = scan.slices
        if partition is not None:
            slices = [slice_ for slice_ in slices if slice_.group.partition == partition]
        slices = prune_buckets(scan.config, scan.schema, Constraints({}), key_filter, slices)
        narrow = replace(scan, slices=(), key_filter=key_filter)
        probes += [Probe(narrow, slice_, cache) for slice_ in slices]
    return probes


def _by_partition(scan: Scan, keys: pa.RecordBatch) -> Mapping[str | None, Sequence[str]]:
    """Spell the keys, by partition where they say it and folders follow; None is all partitions."""
    config = scan.config
    fields = config.record_key_fields
    texts = key_texts({name: keys.column(name) for name in fields}, fields)
    wanted = join_key_texts(texts, config.composite_key).to_pylist()
    named = set(keys.schema.names).issuperset(config.partition_fields)
    follows = named and folders_follow_columns(config)
    folders = partition_column(keys, config).to_pylist() if follows else [None] * len(wanted)
    places: dict[str | None, list[str]] = defaultdict(list)
    for text, folder in zip(wanted, folders, strict=True):
        places[folder].append(text)
    if config.composite_key and len(fields) == 1:
        # Some releases of Hudi wrote the bare value of a single field, as if not composite.
        for text, folder in zip(texts[fields[0]].to_pylist(), folders, strict=True):
            places[folder].append(text)
    return dict(places)


def _probe(probe: Probe, task: TaskId) -> tuple[int, list[pa.RecordBatch]]:
    scan, slice_ = probe.scan, probe.slice_
    sources = probe.cache.get(slice_, lambda: scan.sources(slice_))
    return task.partition, list(scan.read(slice_, scan.columns, None, sources))
