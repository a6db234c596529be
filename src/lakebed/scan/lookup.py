"""Finds rows by their keys: first the slices that can hold them, then one pass over each slice."""

import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import DAMAGE_ERRORS, DamageWarning, NotFoundError
from lakebed.expr.constraints import Constraints
from lakebed.format.names.record_key import join_key_texts, key_texts
from lakebed.index.key_format import keys_are_ours, may_differ, odd_folder
from lakebed.index.kinds import strategy_of
from lakebed.index.strategy import KeyIndex
from lakebed.model.executor import LocalExecutor, TaskId
from lakebed.scan.prune import (
    MAX_RANGED,
    folders_follow_columns,
    has_known_keys,
    prune_by_index,
)
from lakebed.scan.scan import Scan
from lakebed.table.config.partitions import partition_column
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.file_group import FileSlice
from lakebed.table.read.key_filter import KeyFilter
from lakebed.table.read.source_cache import SourceCache
from lakebed.table.snapshot import Snapshot

# With cached footers, a lookup in an index run takes as long as one in this many file groups.
_FILES_PER_RUN = 4

Accepts = Callable[[pa.RecordBatch], pa.BooleanArray]
"""Returns for each row of a batch whether it was requested."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A slice to search for the keys of the scan's key filter; `accepts` filters the rows found."""

    scan: Scan
    slice_: FileSlice
    cache: SourceCache
    accepts: Accepts | None = None


def look_up(scan: Scan, keys: pa.RecordBatch, cache: SourceCache) -> pa.Table:
    """Return the rows of `scan` with one of `keys`, which have key and perhaps partition columns.

    Without partition columns every partition is searched. A key that does not exist yields no row.
    If keys are not stored, or are stored in another format, the key columns of all rows are
    searched.
    """
    names = keys.schema.names
    read = replace(scan, columns=tuple(dict.fromkeys((*scan.columns, *names))))
    known = has_known_keys(scan.view.config) and cache.answer(
        "keys are ours",
        lambda: keys_are_ours(scan.view.storage, scan.view.config, scan.view.schema, scan.slices),
    )
    probes = plan_probes(read, keys, cache) if known else _plan_search(read, keys, cache)
    table = run_probes(read, probes)
    if len(names) > len(scan.view.config.record_key_fields):
        # If folders are not derived from the columns, other partitions were searched too.
        table = table.filter(_is_among(table.select(names), keys))
    return table.select(list(scan.columns))


def plan_lookup(
    snapshot: Snapshot, keys: pa.RecordBatch, plan: Callable[[Snapshot], Scan], cache: SourceCache
) -> Scan:
    """Return the scan of the slices that can hold the keys.

    The record index is used if that is cheaper than searching the slices. If the partitions of the
    keys are unknown, the index also saves listing all partitions.
    """
    within = within_keys(snapshot, keys)
    index = _key_index(snapshot, cache)
    if index is None:
        return plan(within)
    if within is not snapshot or not snapshot.config.partition_fields:
        scan = plan(within)
        if len(scan.slices) <= _FILES_PER_RUN * index.cost:
            return scan
    texts = pa.chunked_array(_spelled(snapshot.config, keys)).unique()
    try:
        groups = index.find(texts.take(pc.sort_indices(texts)))
    except DAMAGE_ERRORS as error:
        if not isinstance(error, NotFoundError):
            warnings.warn(
                f"{error}; keys are looked up in the files instead; run repair()",
                DamageWarning,
                stacklevel=2,
            )
        return plan(within)
    scan = plan(within.within(group.partition for group in groups))
    return replace(scan, slices=tuple(s for s in scan.slices if s.group in groups))


def _key_index(snapshot: Snapshot, cache: SourceCache) -> KeyIndex | None:
    config = snapshot.config
    index = config.index
    if index is None or snapshot.timeline.until is not None or not has_known_keys(config):
        return None
    if may_differ(snapshot.schema, config.record_key_fields):
        return None
    return cache.answer("key index", lambda: strategy_of(index).key_index(snapshot))


def run_probes(scan: Scan, probes: Sequence[Probe]) -> pa.Table:
    """Search the slices; return the rows found, with the columns of `scan`, in slice order."""
    found = sorted(LocalExecutor().run(_probe, probes, "look up"))
    schema = pa.schema([scan.full_schema.field(name) for name in scan.columns])
    return pa.Table.from_batches([batch for _, rows in found for batch in rows], schema)


def within_keys(snapshot: Snapshot, keys: pa.RecordBatch) -> Snapshot:
    """Return the snapshot of the partitions that can hold the keys, if they can be determined.

    They are determined from the partition columns, if the keys include these columns, and otherwise
    from the key ranges of files. Returns `snapshot` itself if some formats of its keys or folders
    can be recognised only by sampling the whole table.
    """
    config, schema = snapshot.config, snapshot.schema
    sampled = (*config.record_key_fields, *config.partition_fields)
    if not config.partition_fields or may_differ(schema, sampled):
        return snapshot
    folders = _folders(config, schema, keys, ())
    if folders is not None:
        return snapshot.within(folder for folder in folders if folder is not None)
    if keys.num_rows > MAX_RANGED or not has_known_keys(config):
        return snapshot
    texts = [text for column in _spelled(config, keys) for text in column.to_pylist()]
    partitions = snapshot.partitions_with(texts)
    return snapshot if partitions is None else snapshot.within(partitions)


def _is_among(rows: pa.Table | pa.RecordBatch, asked: pa.RecordBatch) -> pa.Array:
    """Return a mask of the rows that equal a row of `asked`; null equals null."""
    numbers = np.zeros(rows.num_rows + asked.num_rows, dtype=np.int64)
    for name in asked.schema.names:
        held = rows.column(name)
        chunks = held.chunks if isinstance(held, pa.ChunkedArray) else [held]
        both = pa.chunked_array([*chunks, asked.column(name)])
        coded = both.combine_chunks().dictionary_encode(null_encoding="encode")
        pairs = numbers * len(coded.dictionary) + coded.indices.to_numpy()
        # Renumbered after each column, so that the products stay small.
        numbers = np.unique(pairs, return_inverse=True)[1]
    return pa.array(np.isin(numbers[: rows.num_rows], numbers[rows.num_rows :]))


def plan_probes(scan: Scan, keys: pa.RecordBatch, cache: SourceCache) -> list[Probe]:
    """Return a probe for each slice that can hold one of the keys, with the keys it can hold."""
    probes = []
    held: dict[str | None, list[FileSlice]] = {None: list(scan.slices)}
    for slice_ in scan.slices:
        held.setdefault(slice_.group.partition, []).append(slice_)
    for partition, texts in _by_partition(scan, keys).items():
        key_filter = KeyFilter.of(keys=texts)
        slices = prune_by_index(
            scan.view.config,
            scan.view.schema,
            Constraints({}),
            key_filter,
            held.get(partition, ()),
        )
        narrow = replace(scan, slices=(), key_filter=key_filter)
        probes += [Probe(narrow, slice_, cache) for slice_ in slices]
    return probes


def _plan_search(scan: Scan, keys: pa.RecordBatch, cache: SourceCache) -> list[Probe]:
    """Return a probe for each slice that can hold a key whose stored form is unknown."""
    fields = scan.view.config.record_key_fields
    join_key_texts(key_texts({name: keys.column(name) for name in fields}, fields), True)
    folders = _scan_folders(scan, keys)
    kept = {folder for folder in folders or () if folder is not None}
    narrow = replace(scan, slices=(), key_filter=None)
    names = keys.schema.names

    def is_wanted(rows: pa.RecordBatch) -> pa.BooleanArray:
        return _is_among(rows.select(names), keys)

    return [
        Probe(narrow, slice_, cache, is_wanted)
        for slice_ in scan.slices
        if folders is None or slice_.group.partition in kept
    ]


def _by_partition(scan: Scan, keys: pa.RecordBatch) -> Mapping[str | None, Sequence[str]]:
    """Return the keys as strings, by partition if it is known; None stands for all partitions."""
    config = scan.view.config
    folders = _scan_folders(scan, keys)
    places: dict[str | None, list[str]] = defaultdict(list)
    for column in _spelled(config, keys):
        for number, text in enumerate(column.to_pylist()):
            folder = None if folders is None else folders[number]
            if folders is None or folder is not None:
                places[folder].append(text)
    return dict(places)


def _spelled(config: TableConfig, keys: pa.RecordBatch) -> list[pa.StringArray]:
    """Return the keys in each form in which they may be stored."""
    fields = config.record_key_fields
    texts = key_texts({name: keys.column(name) for name in fields}, fields)
    spelled = [join_key_texts(texts, config.composite_key)]
    if config.composite_key and len(fields) == 1:
        # Some releases of Hudi wrote the bare value of a single field, as if the key were not
        # composite.
        spelled.append(texts[fields[0]])
    return spelled


def _scan_folders(scan: Scan, keys: pa.RecordBatch) -> list[str | None] | None:
    there = {slice_.group.partition for slice_ in scan.slices}
    return _folders(scan.view.config, scan.view.schema, keys, there)


def _folders(
    config: TableConfig, schema: pa.Schema, keys: pa.RecordBatch, there: Collection[str]
) -> list[str | None] | None:
    """Return the folder of each key, or None for a key that cannot be in any folder.

    Returns None instead of a list if the keys lack the partition columns, or if the folders that
    are `there` are not derived from columns.
    """
    if not set(keys.schema.names).issuperset(config.partition_fields):
        return None
    if not folders_follow_columns(config) or odd_folder(config, schema, there) is not None:
        return None
    found: list[str | None] = partition_column(keys, config, strict=False).to_pylist()
    return found


def _probe(probe: Probe, task: TaskId) -> tuple[int, list[pa.RecordBatch]]:
    scan, slice_ = probe.scan, probe.slice_
    sources = probe.cache.get(slice_, lambda: scan.sources(slice_))
    rows = scan.read(slice_, scan.columns, sources)
    if probe.accepts is None:
        return task.partition, list(rows)
    found = (batch.filter(probe.accepts(batch)) for batch in rows)
    return task.partition, [batch for batch in found if batch.num_rows]
