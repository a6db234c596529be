"""Group columns into classes: in one class, values yield in the same versions.

To the fold, a value that yields is like a column that a partial run lacks: the version does not
have the value. Only repeated keys are considered.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.format.names.meta_columns import META_COLUMNS
from lakebed.merge.arrays import Bytes, Ints, int64_array, to_bools
from lakebed.merge.rule import Fill


def fill_classes(table: pa.Table, rows: Ints, fill: Fill) -> tuple[list[list[str]], Bytes]:
    """Group the columns by the versions that have them; return the classes and their presence.

    `rows` are the rows of the versions. presence[class, version] is 1 if the version has the
    columns of the class. Columns that all versions have, including meta columns, form one class.
    """
    grouped: dict[bytes, list[str]] = {}
    places = int64_array(rows)
    whole = np.ones(len(rows), np.uint8).tobytes()
    for name in table.column_names:
        # A row that is being written has no commit time yet, and must not take that of an older
        # row.
        is_meta = name in META_COLUMNS
        present = None if is_meta else _present(table.column(name), places, fill)
        grouped.setdefault(whole if present is None else present, []).append(name)
    presence = np.frombuffer(b"".join(grouped), np.uint8)
    return list(grouped.values()), presence.reshape(len(grouped), len(rows)).copy()


def stand_in(sources: Ints, winners: Ints) -> Ints:
    """Replace the source -1, where the values of all versions yield, with the winner."""
    found: Ints = np.where(sources < 0, winners, sources)
    return found


def _present(column: pa.ChunkedArray, places: pa.Int64Array, fill: Fill) -> bytes | None:
    """Return for each version 1 if its value does not yield, as bytes; None if all are present."""
    if fill.marker is None and column.null_count == 0:
        return None  # known without reading the versions
    gives_way = fill.gives_way(column.take(places))
    if gives_way is None:
        return None
    stands = pc.invert(gives_way)
    return _bytes(stands)


def _bytes(stands: pa.ChunkedArray) -> bytes:
    chunks: Sequence[pa.BooleanArray] = stands.chunks
    return b"".join(to_bools(chunk).astype(np.uint8).tobytes() for chunk in chunks)
