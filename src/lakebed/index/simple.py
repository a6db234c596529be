"""The simple index, which reads base files to find the file group of a key.

Hudi's simple and global simple index only read base files. A key in no base file is new and goes to
a base file; later versions of the key go to the file group of that base file.

Here, logs that may hold keys missing from the base file are read too: a key that was deleted before
a compaction was planned, and written again before it was executed, is not in the new base file, but
in a log on top of it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import InvalidError
from lakebed.format.names.bucket_hash import bucket_of_file_id
from lakebed.format.names.instant_name import Action
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.index.default_index import check_base_files
from lakebed.index.holders import HOLDERS_SCHEMA
from lakebed.index.rings import HASHING_FOLDER
from lakebed.index.strategy import IndexStrategy, KeySource, Locator, NewWrite
from lakebed.merge.rule import MergeRule
from lakebed.merge.run import Run
from lakebed.merge.window import merge_runs
from lakebed.model.options.table import UPDATE_PARTITION
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.writer_index import SimpleIndex, WriterIndex
from lakebed.table.files.file_group import FileSlice, LogFile
from lakebed.table.read.key_filter import KeyFilter
from lakebed.table.read.log_reader import slice_sources
from lakebed.table.read.run_reader import Needs, open_run
from lakebed.table.read.run_source import RunSource
from lakebed.table.snapshot import Snapshot
from lakebed.table.view import TableView
from lakebed.timeline.archived import read_completions
from lakebed.timeline.timeline import Timeline

# Small buffers, because keys are small and files may be many.
_BUFFER_BYTES = 1 << 20
# For more keys than this, all row groups are read, because most of them contain one of the keys.
_MAX_FILTERED = 10_000


@dataclass(frozen=True, slots=True)
class SimpleLocator(Locator):
    """Finds the file groups of a write's keys by reading keys from files."""

    def key_sources(
        self, view: TableView, slices: Sequence[FileSlice], keys: pa.StringArray | None
    ) -> Sequence[KeySource]:
        """Return the keys of each slice, from its base file and from logs that may have others."""
        return [self._source(slice_, number, keys) for number, slice_ in enumerate(slices)]

    def _source(self, slice_: FileSlice, number: int, keys: pa.StringArray | None) -> KeySource:
        return KeySource(
            partial(self._key_run, slice_, number, keys),
            slice_.cost_bytes,
            None if slice_.tombstones or slice_.key_logs else slice_.base_file,
        )

    def narrow(
        self, view: TableView, source: RunSource, keys: pa.StringArray
    ) -> tuple[RunSource, pa.StringArray]:
        """Return a base file, and those of `keys` that its footer does not rule out."""
        return source, keys

    def _key_run(
        self, slice_: FileSlice, number: int, keys: pa.StringArray | None, view: TableView
    ) -> Run:
        """Return a run of a slice's keys, sorting in memory those of unsorted runs."""
        base = replace(slice_, log_files=slice_.key_logs, boundary=None)

        def runs() -> Iterator[Run]:
            for found in slice_sources(view, base):
                source, wanted = found, keys
                if source.is_base and keys is not None:
                    source, wanted = self.narrow(view, source, keys)
                if wanted is None or len(wanted):
                    yield Run(source.name, _keys_of(view, source, number, wanted))

        def batches() -> Iterator[pa.RecordBatch]:
            opened = list(runs())
            if len(opened) == 1:
                yield from opened[0].batches
            elif opened:
                # Keys of tombstones count: a late row of such a key must be written to the same
                # group.
                yield from merge_runs(opened, MergeRule(), HOLDERS_SCHEMA)

        assert base.base_file is not None, slice_
        return Run(f"base file {base.base_file.path!r}", batches())


def _keys_of(
    view: TableView, source: RunSource, number: int, wanted: pa.StringArray | None
) -> Iterator[pa.RecordBatch]:
    """Yield the keys of a run that are in `wanted` (None: all keys), with the slice's number."""
    needs = Needs((), buffer_bytes=_BUFFER_BYTES)
    few = wanted is not None and len(wanted) <= _MAX_FILTERED
    if wanted is not None and few:
        needs = replace(needs, key_filter=KeyFilter.of(keys=wanted.to_pylist()))
    place = pa.scalar(str(number))
    for batch in open_run(view.storage, source, needs).batches:
        keys = batch.column(RECORD_KEY)
        if wanted is not None and not few:
            keys = keys.filter(pc.is_in(keys, value_set=wanted))
        columns = [keys, pa.repeat(place, len(keys))]
        yield pa.RecordBatch.from_arrays(columns, schema=HOLDERS_SCHEMA)


@dataclass(frozen=True, slots=True)
class BaseFileStrategy(IndexStrategy):
    """The common part of strategies that write new keys to base files."""

    def settle(self, snapshot: Snapshot) -> WriterIndex:
        """Return the index; raise an error if file groups are buckets or have only logs.

        A bucket writer would not find the keys that this index adds.
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
        """Return the slices with a base file, except damaged ones.

        A write that needs a damaged slice is rejected elsewhere.
        """
        slices = [s for s in snapshot.slices if s.base_file is not None and not s.damage]
        completions = _base_completions(snapshot, slices)
        return [replace(s, key_logs=_key_logs(snapshot.timeline, s, completions)) for s in slices]

    def moves_rows(self, config: TableConfig) -> bool:
        """Return the table's setting; by default, rows move to their new partition."""
        return UPDATE_PARTITION.value(config.properties)


@dataclass(frozen=True, slots=True)
class SimpleStrategy(BaseFileStrategy):
    """The strategy that looks up keys in base files; a global index searches all partitions."""

    value: SimpleIndex

    def locator(self, write: NewWrite) -> Locator:
        """Return the locator of a write."""
        return SimpleLocator()


def _base_completions(snapshot: Snapshot, slices: Iterable[FileSlice]) -> dict[str, str]:
    """Return the completion times of the commits of base files with logs, by instant."""
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
    """Return the logs that may hold keys missing from the base file.

    Such a log was started before the base file's commit completed, when keys were looked up in the
    previous base file, or it is the result of a log compaction, which may have merged such logs.
    """
    assert slice_.base_file is not None, slice_
    based = completions.get(slice_.base_file.name.instant)

    def is_plain(log: LogFile) -> bool:
        commit = timeline.completed(log.name.instant)
        joined = commit is None or commit.plan_action is Action.LOGCOMPACTION
        return not joined and based is not None and based < log.name.instant

    return tuple(log for log in slice_.log_files if not is_plain(log))
