"""The simple index: the base files themselves show which file group holds a key.

Hudi's simple and global simple index only look at base files. A key that is in no base file is new
and goes to a base file; later versions of the key go to the file group of that base file.

Logs are read where they may hold a key that the base file lacks: a key that was deleted before a
compaction was planned and written again before it was executed is not in the new base file, but in
a log on top of it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from lakebed.errors import InvalidError
from lakebed.format.names.bucket_hash import bucket_of_file_id
from lakebed.format.names.instant_name import Action
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.index.holders import HOLDERS_SCHEMA
from lakebed.index.rings import HASHING_FOLDER
from lakebed.index.strategy import IndexStrategy, KeySource
from lakebed.index.unstored import check_base_files
from lakebed.merge.rule import MergeRule
from lakebed.merge.run import Run
from lakebed.merge.window import merge_runs
from lakebed.model.options.table import UPDATE_PARTITION
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.writer_index import SimpleIndex
from lakebed.table.files.file_group import FileSlice, LogFile
from lakebed.table.read.log_reader import slice_sources
from lakebed.table.read.run_reader import Needs, open_run
from lakebed.table.read.run_source import RunSource
from lakebed.table.snapshot import Snapshot
from lakebed.table.view import TableView
from lakebed.timeline.archived import read_completions
from lakebed.timeline.timeline import Timeline

# Keys are small, and there may be many files.
_BUFFER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SimpleStrategy(IndexStrategy):
    """Keys are looked up in the base files; a global index searches all partitions."""

    value: SimpleIndex

    def settle(self, snapshot: Snapshot) -> SimpleIndex:
        """Return the index; raise an error if file groups are buckets or have only logs.

        A bucket writer would not find a key that is elsewhere.
        """
        if any(snapshot.storage.list_names(HASHING_FOLDER)):
            raise InvalidError(
                f"the table has {HASHING_FOLDER}: it is written with consistent hashing; name "
                'index="consistent_hashing"'
            )
        ids = [slice_.group.file_id for slice_ in snapshot.slices]
        if ids and all(bucket_of_file_id(file_id) is not None for file_id in ids):
            raise InvalidError(
                f"file id {ids[0]!r} is a bucket's: the table is written with a bucket index; "
                'name index="bucket" and its number of buckets'
            )
        check_base_files(snapshot)
        return self.value

    def indexed_slices(self, snapshot: Snapshot) -> list[FileSlice]:
        """Return the slices with a base file.

        Damaged slices are left out: a write that would need one is rejected.
        """
        slices = [s for s in snapshot.slices if s.base_file is not None and not s.damage]
        completions = _base_completions(snapshot, slices)
        return [replace(s, key_logs=_key_logs(snapshot.timeline, s, completions)) for s in slices]

    def key_sources(self, slices: Sequence[FileSlice]) -> list[KeySource]:
        """Return the keys of each slice, from its base file and from logs that may have more."""
        return [
            KeySource(
                partial(_key_run, slice_, number),
                slice_.cost_bytes,
                None if slice_.tombstones or slice_.key_logs else slice_.base_file,
            )
            for number, slice_ in enumerate(slices)
        ]

    def moves_rows(self, config: TableConfig) -> bool:
        """Return the table's setting; by default rows move to their new partition."""
        return UPDATE_PARTITION.value(config.properties)


def _base_completions(snapshot: Snapshot, slices: Iterable[FileSlice]) -> dict[str, str]:
    """Return the completion times of the commits that wrote base files with logs on top."""
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

    Such a log was started before the base file existed, when keys were looked up in the previous
    base file; or it is the result of a log compaction, which may have merged such logs.
    """
    assert slice_.base_file is not None, slice_
    based = completions.get(slice_.base_file.name.instant)

    def is_plain(log: LogFile) -> bool:
        commit = timeline.completed(log.name.instant)
        joined = commit is None or commit.plan_action is Action.LOGCOMPACTION
        return not joined and based is not None and based < log.name.instant

    return tuple(log for log in slice_.log_files if not is_plain(log))


def _key_run(slice_: FileSlice, number: int, view: TableView) -> Run:
    """Return a run of the keys of a slice; runs not marked as sorted are sorted in memory."""
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
