"""A base file of a file group, and the files that must become visible together with it.

Writes, compaction, clustering and repair all publish their base files here.
"""

from collections.abc import Callable, Mapping
from typing import Final, Self, TypeVar

import pyarrow as pa

from lakebed.commit.fence import Fence
from lakebed.format.names.data_names import BaseFileName
from lakebed.format.names.meta_columns import COMMIT_SEQNO, COMMIT_TIME, RECORD_KEY
from lakebed.index.secondary.definition import parse_definitions
from lakebed.model.options.writers import BloomOptions
from lakebed.table.files.file_group import FileGroupId, join_path
from lakebed.table.store.data_writer import DataFileStats, DataFileWriter, NewDataFile
from lakebed.table.store.run_writer import ROW_GROUP_BYTES, ROW_GROUP_ROWS
from lakebed.table.view import TableView

MAX_COLUMNS: Final = 32
"""How many columns of a file have statistics in the file index, besides those of indexes."""

# A row group stores a dictionary once. The rows of a column group are short, and with half as many
# more of them, dictionaries of thousands of numbers take no more space than they save.
_GROUP_ROW_GROUPS: Final = 1.5

T = TypeVar("T")


def _bloom_options(view: TableView) -> BloomOptions | None:
    """Return the options of Bloom filters; None if the table's index does not use them."""
    index = view.config.index
    filters = index is not None and index.filters_keys
    return BloomOptions.of(view.config.properties) if filters else None


def statistics_columns(schema: pa.Schema, properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns whose statistics are kept for whole files.

    These are the first columns that are not nested, and those of secondary indexes.
    """
    flat = [field.name for field in schema if not pa.types.is_nested(field.type)]
    indexed = {name for index in parse_definitions(properties) for name in index.columns}
    later = (name for name in flat[MAX_COLUMNS:] if name in indexed)
    return (*flat[:MAX_COLUMNS], *later)


class NewBaseFile:
    """A base file in progress; nothing is visible before `close`.

    A `number` must be unique within an instant: sequence numbers contain it. With `may_repeat` a
    key may occur more than once, as in another writer's base file that is rewritten.
    """

    def __init__(
        self,
        view: TableView,
        fence: Fence,
        group: FileGroupId,
        write_token: str,
        number: int,
        *,
        may_repeat: bool = False,
    ) -> None:
        self._columns = view.schema.names
        self._fence = fence
        self.name = BaseFileName(
            group.file_id, write_token, fence.instant, column_group=group.column_group
        )
        path = join_path(group.partition, self.name.encode())
        share = _GROUP_ROW_GROUPS if view.config.column_groups else 1
        self._writer = DataFileWriter(
            view.storage.open_write(path),
            NewDataFile(
                path,
                view.schema,
                table_name=view.config.name,
                instant=fence.instant,
                partition_path=group.partition,
                task=number,
                page_rows=view.config.sparse_index_rows,
                row_group_rows=int(share * ROW_GROUP_ROWS),
                row_group_bytes=int(share * ROW_GROUP_BYTES),
                may_repeat=may_repeat,
                bloom=_bloom_options(view),
                statistics=statistics_columns(view.schema, view.config.properties),
            ),
        )

    @property
    def num_rows(self) -> int:
        """Return how many rows were added."""
        return self._writer.rows

    def put(self, rows: pa.RecordBatch) -> None:
        """Append rows in key order; existing commit times and sequence numbers are kept."""
        if not rows.num_rows:
            return
        carried = {}
        if COMMIT_TIME in rows.schema.names:
            carried["commit_times"] = rows.column(COMMIT_TIME)
            carried["commit_seqnos"] = rows.column(COMMIT_SEQNO)
        self._writer.write(rows.select(self._columns), rows.column(RECORD_KEY), **carried)

    def annotate(self, entries: Mapping[str, str]) -> None:
        """Add entries to the footer that are known only once all rows are added."""
        self._writer.annotate(entries)

    def close(self, beside: Callable[[], Mapping[str, T]]) -> tuple[DataFileStats, Mapping[str, T]]:
        """Publish the files of `beside`, which returns facts by path, and then this file.

        Raises ConflictError, and leaves no file, if the fence's attempt is no longer in progress.
        """
        self._fence.check()
        others = beside()
        stats = self._writer.close()
        self._fence.check_written([stats.path, *others])
        return stats, others

    def abort(self) -> None:
        """Discard everything; no effect after `close`."""
        self._writer.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.abort()
