"""Reads a base file, ours or Hudi's, as columns of the table's schema."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakebed.format.files.footer import (
    FOOTER_COLUMN_GROUPS,
    FOOTER_IS_ORDERED,
    FOOTER_KEYS_SINCE,
    FOOTER_MAX_KEY,
    FOOTER_MIN_KEY,
    same_order_in_java,
)
from lakebed.groups.wide import WideColumns
from lakebed.storage.storage import Storage
from lakebed.table.files.file_group import BaseFile
from lakebed.table.read.pages.paged_file import ParquetFooter, reading
from lakebed.table.read.pages.sorted_keys import RowSpan
from lakebed.table.read.parquet_source import ParquetSource, open_parquet
from lakebed.table.read.projection import find_columns, project, shape


@dataclass(frozen=True, slots=True)
class BaseFileFooter:
    """The content of a base file's footer; the keys are None if the footer lacks them."""

    num_rows: int
    min_key: str | None
    max_key: str | None
    is_ordered: bool
    schema: pa.Schema
    metadata: Mapping[str, str]


def read_footer(storage: Storage, path: str) -> BaseFileFooter:
    """Read the footer of a base file, without reading rows.

    Raises CorruptError, naming the file, if it is not a Parquet file.
    """
    with open_parquet(storage, path, f"base file {path!r}") as file:
        metadata = file.key_values
        low, high = metadata.get(FOOTER_MIN_KEY), metadata.get(FOOTER_MAX_KEY)
        if low is None or high is None or not same_order_in_java(low + high):
            low = high = None
        return BaseFileFooter(
            num_rows=file.num_rows,
            min_key=low,
            max_key=high,
            is_ordered=metadata.get(FOOTER_IS_ORDERED) == "true",
            schema=file.schema,
            metadata=metadata,
        )


def keys_since(storage: Storage, base: BaseFile) -> str:
    """Return the instant from which the column group of a base file has had the same keys."""
    own = base.name.instant
    found = read_footer(storage, base.path).metadata.get(FOOTER_KEYS_SINCE, "")
    return found if len(found) == len(own) and found.isdigit() and found < own else own


def read_base_file(
    storage: Storage,
    path: str,
    schema: pa.Schema,
    columns: Sequence[str] | None = None,
    batch_rows: int = 65_536,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a base file, ours or Hudi's, as `columns` of the table's schema.

    `columns` may include meta columns; None means all of `schema` without meta columns. A column
    that the file does not have is null; older, narrower types are cast up. Memory is bounded by a
    row group and a batch. Raises CorruptError, naming the file, perhaps only after some rows.
    """
    fields = project(schema, columns)
    target = pa.schema(fields)
    what = f"base file {path!r}"
    with open_parquet(storage, path, what) as file:
        for batch in file.read(find_columns(file.schema, fields), batch_rows=batch_rows):
            with reading(what):
                shaped = shape(batch, target)
            yield shaped


def sample_base_file(
    storage: Storage, path: str, schema: pa.Schema, columns: Sequence[str], most_rows: int = 256
) -> Iterator[pa.RecordBatch]:
    """Yield up to `most_rows` rows each of the first and the last row group of a base file."""
    fields = project(schema, columns)
    what = f"base file {path!r}"
    with open_parquet(storage, path, what) as file:
        names = find_columns(file.schema, fields)
        last = file.num_row_groups - 1
        for group in sorted({0, last}) if last >= 0 else ():
            batch = next(file.read(names, batch_rows=most_rows, row_groups=[group]), None)
            if batch is not None:
                with reading(what):
                    shaped = shape(batch, pa.schema(fields))
                yield shaped


class WideSource(ParquetSource):
    """An open base file of all columns; the columns of the groups that it `serves` are seen."""

    __slots__ = ("_stored",)

    def __init__(self, what: str, *given: Any, serves: Sequence[str], **more: Any) -> None:
        super().__init__(what, *given, **more)
        wide = WideColumns.parse(self.key_values.get(FOOTER_COLUMN_GROUPS), what)
        self._stored = wide.stored(serves)

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the groups."""
        whole = self.footer.schema
        seen = self._stored.items()
        return pa.schema(
            [whole.field(of).with_name(name) for name, of in seen if of in whole.names]
        )

    def size_bytes(self, columns: Collection[str], groups: Sequence[int]) -> int:
        """Return the compressed size of these columns in these row groups."""
        return super().size_bytes(self._names(columns), groups)

    def read_spans(
        self, columns: Sequence[str], spans: Sequence[RowSpan]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `spans`, as `ParquetSource` does."""
        yield from map(self._shown, super().read_spans(self._names(columns), spans))

    def column_page(self, column: str, group: int, first: int, stop: int) -> pa.Array | None:
        """Return the values of one page of a column, as `PagedFile` does."""
        return super().column_page(self._stored[column], group, first, stop)

    def read(self, columns: Sequence[str], **how: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `columns`, as `ParquetSource` does."""
        yield from map(self._shown, super().read(self._names(columns), **how))

    def _names(self, columns: Collection[str]) -> list[str]:
        return [self._stored[name] for name in columns]

    def _shown(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.schema.names == [""]:
            return batch  # without columns there is only the number of rows
        names = {of: name for name, of in self._stored.items()}
        return batch.rename_columns([names[of] for of in batch.schema.names])


@contextmanager
def open_columns(
    storage: Storage,
    path: str,
    what: str,
    *,
    offset: int = 0,
    length: int | None = None,
    footer: ParquetFooter | None = None,
    serves: Sequence[str] | None = None,
) -> Iterator[ParquetSource]:
    """Open a Parquet file as `open_parquet` does; `serves` is as in `BaseFile`."""
    if serves is None:
        with open_parquet(storage, path, what, offset=offset, length=length, footer=footer) as file:
            yield file
        return
    remote = storage.local_path(path) is None
    with storage.open_read(path) as source:
        yield WideSource(what, source, remote=remote, forget=None, footer=footer, serves=serves)
