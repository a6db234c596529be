"""The simple index: the base files themselves tell which file group holds a key.

Hudi's simple and global simple index look at base files only. A key that is not in one is
new and goes to a base file; whatever comes later for it goes to that file's group. A key may lie
in several file groups, because a plain insert looks nothing up.

Logs are looked at where they may hold a key that the base file lacks: a key that was deleted
before a compaction was planned and written again before it was carried out is not in the new base
file, but in a log on top of it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from uuid import UUID, uuid5

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError
from lakebed.format.names.instant_name import Action
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.merge.rule import MergeRule
from lakebed.merge.run import Run
from lakebed.merge.window import merge_runs
from lakebed.table.config.property_values import flag
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.file_group import FileSlice, LogFile
from lakebed.table.read.log_reader import slice_sources
from lakebed.table.read.run_reader import Needs, open_run
from lakebed.table.read.run_source import RunSource
from lakebed.table.snapshot import Snapshot
from lakebed.table.view import TableView
from lakebed.timeline.archived import read_completions
from lakebed.timeline.timeline import Timeline

# The column that says where a key is: numbers of file slices, joined by commas.
HOLDERS = "_lakebed_holders"
HOLDERS_SCHEMA = pa.schema([pa.field(RECORD_KEY, pa.string()), pa.field(HOLDERS, pa.string())])

_UPDATE_PARTITION = "hoodie.simple.index.update.partition.path"
# Keys alone are small, and there may be many files.
_BUFFER_BYTES = 1 << 20

Numbers = npt.NDArray[np.int64]


def moves_rows(config: TableConfig) -> bool:
    """Return whether a row whose partition changed moves there; else it stays where it was."""
    return flag(config.properties, _UPDATE_PARTITION, default=True)


def new_file_id(partition: str, number: int, seed: str) -> str:
    """Return the id of the new file group `number` of a partition, as Hudi spells them.

    It follows from the write's own random `seed`, so a task that runs twice gives the same.
    """
    return f"{uuid5(UUID(seed), f'{partition}/{number}')}-0"


def indexed_slices(snapshot: Snapshot) -> list[FileSlice]:
    """Return the slices that the index looks at, in the order in which places number them.

    Damaged ones are left out: a write that would have to look into one is refused.
    """
    slices = [s for s in snapshot.slices if s.base_file is not None and not s.damage]
    completions = _base_completions(snapshot, slices)
    return [replace(s, key_logs=_key_logs(snapshot.timeline, s, completions)) for s in slices]


def _base_completions(snapshot: Snapshot, slices: Iterable[FileSlice]) -> dict[str, str]:
    """Return when the commits completed that wrote base files with logs on top."""
    found: dict[str, str] = {}
    archived = []
    for slice_ in slices:
        if slice_.log_files and slice_.base_file is not None:
            instant = slice_.base_file.name.instant
            completion = snapshot.timeline.completion_of(instant)
            if completion is None:
                archived.append(instant)
            else:
                found[instant] = completion
    if archived:
        history = snapshot.config.history_path
        found.update(read_completions(snapshot.storage, history, since=min(archived)))
    return found


def _key_logs(
    timeline: Timeline, slice_: FileSlice, completions: Mapping[str, str]
) -> tuple[LogFile, ...]:
    """Return the logs that may hold keys which the base file lacks.

    They began before the base file was there, and others looked for their keys in the one before
    it; or they may be what a log compaction made of such logs.
    """
    assert slice_.base_file is not None, slice_
    based = completions.get(slice_.base_file.name.instant)

    def is_plain(log: LogFile) -> bool:
        commit = timeline.completed(log.name.instant)
        joined = commit is None or commit.plan_action is Action.LOGCOMPACTION
        return not joined and based is not None and based < log.name.instant

    return tuple(log for log in slice_.log_files if not is_plain(log))


def key_runs(view: TableView, slices: Sequence[FileSlice]) -> list[Run]:
    """Return for each of `slices`, which `indexed_slices` gave, a run of its keys and its number.

    Files are opened when they are read. One that is not marked as sorted is sorted in memory.
    """
    return [_key_run(view, slice_, number) for number, slice_ in enumerate(slices)]


def _key_run(view: TableView, slice_: FileSlice, number: int) -> Run:
    base = replace(slice_, log_files=slice_.key_logs, boundary=None)
    needs = Needs((), buffer_bytes=_BUFFER_BYTES)

    def keys(source: RunSource) -> Iterator[pa.RecordBatch]:
        place = pa.scalar(str(number))
        for batch in open_run(view.storage, source, needs).batches:
            columns = [batch.column(RECORD_KEY), pa.repeat(place, batch.num_rows)]
            yield pa.RecordBatch.from_arrays(columns, schema=HOLDERS_SCHEMA)

    def batches() -> Iterator[pa.RecordBatch]:
        sources = slice_sources(view, base)
        if len(sources) == 1:
            yield from keys(sources[0])
            return
        # A late row of a key with a tombstone belongs where the tombstone is.
        runs = [Run(source.name, keys(source)) for source in sources]
        yield from merge_runs(runs, MergeRule(), HOLDERS_SCHEMA)

    assert base.base_file is not None, slice_
    return Run(f"base file {base.base_file.path!r}", batches())


def _join_holders(older: pa.RecordBatch, newer: pa.RecordBatch) -> pa.RecordBatch:
    places = pc.binary_join_element_wise(older.column(HOLDERS), newer.column(HOLDERS), ",")
    at = newer.schema.get_field_index(HOLDERS)
    return newer.set_column(at, newer.schema.field(at), places)


HOLDERS_RULE = MergeRule(merger=_join_holders)
"""Merges runs of keys and places: a key that several files hold gets all their numbers."""


def explode_holders(places: pa.StringArray) -> tuple[Numbers, Numbers]:
    """Return (row, place) for every place of every row; -1 is the place of a row without any.

    A row whose text names a place twice gives it once. Rows ascend.
    """
    texts = pc.if_else(pc.equal(places, ""), pa.scalar(None, pa.string()), places)
    none = np.flatnonzero(texts.is_null().to_numpy(zero_copy_only=False))
    lists = pc.split_pattern(texts, ",")
    rows = pc.list_parent_indices(lists).to_numpy().astype(np.int64)
    try:
        numbers = pc.list_flatten(lists).cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid as error:
        raise CorruptError(f"places of keys: want numbers of file slices: {error}") from error
    pairs = np.unique(
        np.stack([np.append(rows, none), np.append(numbers, np.full(none.size, -1))]), axis=1
    )
    return pairs[0], pairs[1]
