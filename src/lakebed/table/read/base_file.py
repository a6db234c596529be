"""Reads a base file, ours or Hudi's, as columns of the table's schema."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakebed.format.files.footer import (
    FOOTER_IS_ORDERED,
    FOOTER_KEYS_SINCE,
    FOOTER_MAX_KEY,
    FOOTER_MIN_KEY,
    same_order_in_java,
)
from lakebed.storage.storage import Storage
from lakebed.table.files.file_group import BaseFile
from lakebed.table.read.pages.paged_file import reading
from lakebed.table.read.parquet_source import open_parquet
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
