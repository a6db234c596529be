"""Rewrites file slices: their rows as a base file, and beside it the deletes that are kept.

Compaction, clustering and repair share this module. Rows and deletes keep the commit that wrote
them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.commit.fence import Fence
from lakebed.format.names.data_names import TOMBSTONE_VERSION
from lakebed.format.names.meta_columns import RECORD_KEY, STAMPS
from lakebed.format.timeline.commit_metadata import WriteStat
from lakebed.merge.run import DELETED, FLAGS
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.tombstone_retention import forgotten_deletes
from lakebed.table.files.file_group import FileGroupId, FileSlice
from lakebed.table.read.run_source import RunSource
from lakebed.table.read.slice_reader import read_slice
from lakebed.table.store.data_writer import DataFileStats
from lakebed.table.store.log_writer import LogRunWriter, NewLog
from lakebed.table.view import TableView
from lakebed.write.base_file import NewBaseFile
from lakebed.write.spec.status import file_stat

TakeDeletes = Callable[[pa.RecordBatch], None]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The settings with which the tasks of a service read slices and write files.

    Ordered deletes of commits before `cutoff` are dropped; with an empty cutoff, all of them are.
    Logs beside base files are written as `log_config` requires.
    """

    view: TableView
    log_config: TableConfig
    instant: str
    fence: Fence
    cutoff: str

    @property
    def columns(self) -> list[str]:
        """Return the columns that are read and carried over."""
        return [*STAMPS, RECORD_KEY, *self.view.schema.names]

    def read(
        self,
        slice_: FileSlice,
        *,
        sources: Sequence[RunSource] | None = None,
        buffer_bytes: int | None = None,
        deletes: TakeDeletes | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a slice in key order.

        `deletes` is called as in `read_group`, but not if all deletes are dropped.
        """
        return read_slice(
            replace(self.view, own_buffer_bytes=buffer_bytes),
            slice_,
            self.columns,
            sources=sources,
            by_key=True,
            deletes=deletes if self.cutoff else None,
        )

    def kept(self, deletes: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of `deletes` to keep: recent ones that have an ordering value."""
        return deletes.filter(pc.invert(forgotten_deletes(deletes, self.cutoff)))


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A base file that was written, and the stats of the tombstones beside it."""

    base: DataFileStats
    tombstones: tuple[WriteStat, ...]


class _Tombstones:
    """The deletes of one column group that are kept beside a new base file."""

    def __init__(self, rewrite: Rewrite, group: FileGroupId, write_token: str) -> None:
        self.group = group
        self._rewrite = rewrite
        self._write_token = write_token
        self._log: LogRunWriter | None = None

    def put(self, deletes: pa.RecordBatch) -> None:
        """Keep, in key order, the rows of `deletes` that are not dropped."""
        kept = self._rewrite.kept(deletes)
        if not kept.num_rows:
            return
        if self._log is None:
            self._log = LogRunWriter(
                NewLog(
                    storage=self._rewrite.view.storage,
                    config=self._rewrite.log_config,
                    group=self.group,
                    write_token=self._write_token,
                    version=TOMBSTONE_VERSION,
                    instant=self._rewrite.instant,
                    schema=self._rewrite.view.schema,
                    table_schema_text=self._rewrite.view.avro_schema,
                )
            )
        # Everything below the new base file is merged: nothing is left for a delete to apply to.
        flags = pa.repeat(pa.scalar(DELETED, pa.uint8()), kept.num_rows)
        at = kept.schema.get_field_index(FLAGS)
        self._log.put(kept.set_column(at, kept.schema.field(at), flags))

    def close(self) -> dict[str, tuple[FileGroupId, DataFileStats]]:
        """Make the log visible; return its files by path, none without deletes."""
        closed = () if self._log is None else self._log.close()
        return {log.path: (self.group, log) for log in closed}

    def exit(self, *error: object) -> None:
        """Discard the log, unless it was closed."""
        if self._log is not None:
            self._log.__exit__(*error)


class RewrittenFile:
    """A base file in progress, with its tombstones; nothing is visible before `close`.

    A `number` must be unique within an instant: sequence numbers contain it. With `may_repeat` a
    key may occur more than once, as in another writer's base file that is rewritten. `base_token` is
    the write token of the base file, if it differs from that of the tombstones.
    """

    def __init__(
        self,
        rewrite: Rewrite,
        group: FileGroupId,
        write_token: str,
        number: int,
        *,
        may_repeat: bool = False,
        base_token: str | None = None,
    ) -> None:
        self._rewrite = rewrite
        self._write_token = write_token
        self._base = NewBaseFile(
            rewrite.view,
            rewrite.fence,
            group,
            base_token or write_token,
            number,
            may_repeat=may_repeat,
        )
        self._tombstones = [_Tombstones(rewrite, group, write_token)]

    def put(self, rows: pa.RecordBatch) -> None:
        """Append rows in key order, with their commit times and sequence numbers."""
        self._base.put(rows)

    @property
    def num_rows(self) -> int:
        """Return how many rows were added."""
        return self._base.num_rows

    def annotate(self, entries: Mapping[str, str]) -> None:
        """Add entries to the footer of the base file that are known once all rows are added."""
        self._base.annotate(entries)

    def put_deletes(self, deletes: pa.RecordBatch) -> None:
        """Keep, in key order, the rows of `deletes` that are not dropped."""
        self._tombstones[0].put(deletes)

    def deletes_of(self, rewrite: Rewrite, group: FileGroupId) -> TakeDeletes:
        """Return what keeps the deletes of a column group beside a file of all columns."""
        self._tombstones.append(_Tombstones(rewrite, group, self._write_token))
        return self._tombstones[-1].put

    def close(self) -> Rewritten:
        """Make the files visible.

        Raises ConflictError, and leaves no file, if the attempt is no longer in progress.
        """
        base, logs = self._base.close(self._close_logs)
        stats = (self._tombstone_stat(base, group, log) for group, log in logs.values())
        return Rewritten(base, tuple(stats))

    def _close_logs(self) -> dict[str, tuple[FileGroupId, DataFileStats]]:
        return {path: log for one in self._tombstones for path, log in one.close().items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._base.abort()
        for tombstones in self._tombstones:
            tombstones.exit(*error)

    def _tombstone_stat(
        self, base: DataFileStats, group: FileGroupId, log: DataFileStats
    ) -> WriteStat:
        """Return the stat of the tombstones beside the base file, which delete no further rows."""
        return replace(
            file_stat(group, log),
            key_range=None,
            prev_commit=self._rewrite.instant,
            num_writes=0,
            num_deletes=0,
            base_file=base.path.rpartition("/")[2],
        )
