"""Parse the statistics of column chunks from a Parquet footer.

    footer:  FileMetaData in Thrift's compact protocol, its length (4 bytes, little-endian), PAR1

Field numbers are those of `parquet.thrift`. pyarrow's own accessor is not used, because it aborts
the process on a corrupt footer instead of raising. The bounds `min` and `max` of old writers are
ignored, because their order is undefined.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum

from lakebed.errors import CorruptError
from lakebed.format.files.thrift import (
    MALFORMED,
    CompactReader,
    Struct,
    as_bytes,
    as_fields,
    as_list,
    as_number,
    as_text,
)


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
    """The statistics of one column chunk, with bounds as bytes; None for those not stored."""

    physical: Physical
    num_values: int
    null_count: int | None
    lower: bytes | None
    upper: bytes | None


def parse_statistics(
    footer: bytes, columns: Collection[str], what: str
) -> list[Mapping[str, ChunkStatistics]]:
    """Return each row group's statistics of `columns`, by name, without nested columns."""
    try:
        return _statistics(CompactReader(footer).struct(), frozenset(columns))
    except MALFORMED as error:
        raise CorruptError(
            f"{what}: its footer is not valid Parquet metadata ({error!r})"
        ) from error


def _statistics(metadata: Struct, columns: frozenset[str]) -> list[Mapping[str, ChunkStatistics]]:
    # Bounds are usable only if the order of their column is declared.
    orders = as_list(metadata.get(7, []))
    found: list[Mapping[str, ChunkStatistics]] = []
    for group in as_list(metadata[4]):
        chunks: dict[str, ChunkStatistics] = {}
        for number, chunk in enumerate(as_list(as_fields(group)[1])):
            held = as_fields(as_fields(chunk).get(3, {}))
            path = as_list(held.get(3, []))
            name = as_text(path[0]) if len(path) == 1 else ""
            if name in columns:
                ordered = number < len(orders) and 1 in as_fields(orders[number])
                chunks[name] = _chunk(held, ordered)
        found.append(chunks)
    return found


def _chunk(held: Struct, ordered: bool) -> ChunkStatistics:
    told = as_fields(held.get(12, {}))
    return ChunkStatistics(
        Physical(as_number(held[1])),
        as_number(held[5]),
        as_number(told[3]) if 3 in told else None,
        as_bytes(told[6]) if ordered and 6 in told else None,
        as_bytes(told[5]) if ordered and 5 in told else None,
    )
