"""Parse the statistics of column chunks from a Parquet footer.

    footer:  FileMetaData in Thrift's compact protocol, its length (4 bytes, little-endian), PAR1

Field numbers are those of `parquet.thrift`. pyarrow's own accessor is not used, because it aborts
the process on a corrupt footer instead of raising. The bounds `min` and `max` of old writers are
ignored, because their order is undefined.
"""

import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import pyarrow.parquet as pq

from lakebed.format.files.footer_layout import FooterLayout, malformed
from lakebed.format.files.thrift import MALFORMED, Struct, as_bytes, as_fields, as_number


class Physical(IntEnum):
    """The physical type of a column: parquet.thrift's `Type`. Stored on disk: do not change it."""

    BOOLEAN = 0
    INT32 = 1
    INT64 = 2
    INT96 = 3
    FLOAT = 4
    DOUBLE = 5
    BYTE_ARRAY = 6
    FIXED_LEN_BYTE_ARRAY = 7


@dataclass(frozen=True, slots=True)
class ChunkStatistics:
    """The statistics of one column chunk, with bounds as bytes; None for those not stored.

    The bounds do not cover NaN; with `may_be_nan` there may be one.
    """

    physical: Physical
    num_values: int
    null_count: int | None
    lower: bytes | None
    upper: bytes | None
    may_be_nan: bool = True


@dataclass(frozen=True, slots=True)
class FileStatistics:
    """The statistics of columns of a file, over all of its row groups.

    `schema` has all columns of the file, serialized by Arrow. Bounds may be shortened, so they need
    not be values of the column.
    """

    schema: bytes
    columns: Mapping[str, ChunkStatistics]


def parse_statistics(
    layout: FooterLayout, columns: Collection[str], without_nan: Collection[str] = ()
) -> list[Mapping[str, ChunkStatistics]]:
    """Return each row group's statistics of `columns`, by name, without nested columns.

    The columns `without_nan` are known to hold no NaN.
    """
    wanted = [leaf for name in columns if (leaf := layout.flat(name)) is not None]
    try:
        return [
            {
                leaf.path: replace(
                    _parse_statistics(layout.chunk(group, leaf), layout.ordered[leaf.number]),
                    may_be_nan=leaf.path not in without_nan,
                )
                for leaf in wanted
            }
            for group in range(len(layout.groups))
        ]
    except MALFORMED as error:
        raise malformed(layout.what, repr(error)) from error


def written_statistics(
    metadata: pq.FileMetaData,
    columns: Collection[str],
    without_nan: Collection[str],
    with_nan: Sequence[Collection[str]],
) -> list[Mapping[str, ChunkStatistics]]:
    """Return what `parse_statistics` returns for a file that pyarrow has just written.

    `metadata` is in memory, so pyarrow's accessor is safe, and much quicker than parsing. Of a value
    that is too long for a bound, pyarrow does not return the other bound either. `with_nan` are the
    columns with NaN in each row group: `mark_nan` replaces their upper bounds, and equal lower ones.
    """
    paths = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    leaves = [(number, path) for number, path in enumerate(paths) if path in columns]
    found: list[Mapping[str, ChunkStatistics]] = []
    for group in range(metadata.num_row_groups):
        chunks = metadata.row_group(group)
        found.append(
            {
                path: _written(
                    chunks.column(number),
                    may_be_nan=path not in without_nan,
                    is_marked=path in with_nan[group],
                )
                for number, path in leaves
            }
        )
    return found


def _written(
    chunk: pq.ColumnChunkMetaData, *, may_be_nan: bool, is_marked: bool
) -> ChunkStatistics:
    physical = Physical[chunk.physical_type]
    told = chunk.statistics
    if told is None:
        return ChunkStatistics(physical, chunk.num_values, None, None, None, may_be_nan)
    lower = _plain(told.min_raw, physical) if told.has_min_max else None
    upper = _plain(told.max_raw, physical) if told.has_min_max else None
    if is_marked:
        lower, upper = None if lower == upper else lower, None
    nulls = told.null_count if told.has_null_count else None
    return ChunkStatistics(physical, chunk.num_values, nulls, lower, upper, may_be_nan)


def _plain(raw: object, physical: Physical) -> bytes | None:
    """Return a bound in Parquet's plain encoding, as footers have it."""
    if isinstance(raw, bool):
        return bytes([raw])
    if isinstance(raw, bytes):
        return raw
    layout = _LAYOUTS.get(physical)
    return None if layout is None else struct.pack(layout, raw)


_LAYOUTS = {
    Physical.INT32: "<i",
    Physical.INT64: "<q",
    Physical.FLOAT: "<f",
    Physical.DOUBLE: "<d",
}


def _parse_statistics(held: Struct, ordered: bool) -> ChunkStatistics:
    """Return the statistics of a chunk; its bounds only if their order is known."""
    told = as_fields(held.get(12, {}))
    return ChunkStatistics(
        Physical(as_number(held[1])),
        as_number(held[5]),
        as_number(told[3]) if 3 in told else None,
        as_bytes(told[6]) if ordered and 6 in told else None,
        as_bytes(told[5]) if ordered and 5 in told else None,
    )
