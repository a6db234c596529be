"""Parse the statistics of column chunks from a Parquet footer.

    footer:  FileMetaData in Thrift's compact protocol, its length (4 bytes, little-endian), PAR1

Field numbers are those of `parquet.thrift`. pyarrow's own accessor is not used, because it aborts
the process on a corrupt footer instead of raising. The bounds `min` and `max` of old writers are
ignored, because their order is undefined.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum

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
    """The statistics of one column chunk, with bounds as bytes; None for those not stored."""

    physical: Physical
    num_values: int
    null_count: int | None
    lower: bytes | None
    upper: bytes | None


def parse_statistics(
    layout: FooterLayout, columns: Collection[str]
) -> list[Mapping[str, ChunkStatistics]]:
    """Return each row group's statistics of `columns`, by name, without nested columns."""
    wanted = [leaf for name in columns if (leaf := layout.flat(name)) is not None]
    try:
        return [
            {
                leaf.path: _parse_statistics(layout.chunk(group, leaf), layout.ordered[leaf.number])
                for leaf in wanted
            }
            for group in range(len(layout.groups))
        ]
    except MALFORMED as error:
        raise malformed(layout.what, repr(error)) from error


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
