"""Sums up the statistics of a file's row groups, so that a whole file can be left out."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import pyarrow as pa

from lakebed.format.files.parquet_statistics import ChunkStatistics, FileStatistics
from lakebed.storage.storage import Storage
from lakebed.table.read.parquet_source import open_parquet
from lakebed.table.read.row_group_filter import is_text, read_bound

MAX_TEXT_BYTES: Final = 32
"""Longer bounds of strings are shortened: the lower one to a prefix, the upper one to a string that
is greater than all strings with its prefix."""


def read_statistics(storage: Storage, path: str, columns: Collection[str]) -> FileStatistics:
    """Return the statistics of `columns` of a base file, from its footer."""
    with open_parquet(storage, path, f"base file {path!r}") as file:
        flat = [
            field.name
            for field in file.schema
            if field.name in columns and not pa.types.is_nested(field.type)
        ]
        return summarize(file.schema, file.statistics(flat))


def summarize(schema: pa.Schema, groups: Sequence[Mapping[str, ChunkStatistics]]) -> FileStatistics:
    """Return the statistics of a file with the columns `schema` from those of its row groups.

    A column without statistics in one of the row groups has none.
    """
    names = list(groups[0]) if groups else []
    columns = {
        name: _summary([group[name] for group in groups], schema.field(name).type)
        for name in names
        if schema.names.count(name) == 1 and all(name in group for group in groups)
    }
    return FileStatistics(schema.remove_metadata().serialize().to_pybytes(), columns)


def _summary(chunks: Sequence[ChunkStatistics], kind: pa.DataType) -> ChunkStatistics:
    nulls = [chunk.null_count for chunk in chunks]
    filled = [chunk for chunk in chunks if chunk.null_count != chunk.num_values]
    lower = _end([chunk.lower for chunk in filled], filled, kind, min)
    upper = _end([chunk.upper for chunk in filled], filled, kind, max)
    if pa.types.is_floating(kind) and any(chunk.may_be_nan for chunk in chunks):
        upper = None  # our own files have NaN there
    if is_text(kind):
        lower = None if lower is None else lower[:MAX_TEXT_BYTES]
        upper = None if upper is None else _rounded_up(upper)
    return ChunkStatistics(
        chunks[0].physical,
        sum(chunk.num_values for chunk in chunks),
        None if None in nulls else sum(count or 0 for count in nulls),
        lower,
        upper,
        any(chunk.may_be_nan for chunk in chunks),
    )


def _end(
    bounds: Sequence[bytes | None],
    chunks: Sequence[ChunkStatistics],
    kind: pa.DataType,
    choose: Callable[..., tuple[object, bytes]],
) -> bytes | None:
    """Return the smallest or greatest of the bounds; None if one is missing or has no order."""
    found = []
    for raw, chunk in zip(bounds, chunks, strict=True):
        value = read_bound(raw, chunk.physical, kind)
        if raw is None or value is None:
            return None
        found.append((value, raw))
    return choose(found)[1] if found else None


def _rounded_up(bound: bytes) -> bytes | None:
    """Return a short string of bytes that is not below `bound`; None if there is none.

    >>> _rounded_up(b"a" * 40) == b"a" * 31 + b"b"
    True
    """
    if len(bound) <= MAX_TEXT_BYTES:
        return bound
    head = bound[:MAX_TEXT_BYTES].rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else None
