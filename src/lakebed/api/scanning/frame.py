"""A scan as a lazy frame of Polars, with columns, predicates and rows pushed down."""

from collections.abc import Iterator

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from lakebed.api.scanning.frame_filter import filter_texts
from lakebed.api.scanning.source import ScanSource

_BATCH_ROWS = 65_536


def lazy_frame(scan: ScanSource) -> pl.LazyFrame:
    """Return a lazy frame that reads the scan whenever it is collected."""
    schema = scan.schema
    names = schema.names

    def frames(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        wanted = names if with_columns is None else with_columns
        tested = [] if predicate is None else predicate.meta.root_names()
        # Polars counts `n_rows` before it applies the predicate, so these rows are not filtered here.
        pushed = [] if predicate is None or n_rows is not None else filter_texts(predicate, schema)
        left = n_rows
        with scan.read(list(dict.fromkeys((*wanted, *tested))), pushed) as rows:
            for batch in rows:
                frame = _frame(batch) if left is None else _frame(batch.slice(0, left))
                if left is not None:
                    left -= frame.height
                # Polars does not apply the predicate again, and only a part of it was pushed down.
                kept = frame if predicate is None else frame.filter(predicate)
                chosen = kept.select(wanted) if wanted else pl.DataFrame(height=kept.height)
                yield from chosen.iter_slices(batch_size or _BATCH_ROWS)
                if left == 0:
                    return

    return register_io_source(frames, schema=_frame(schema.empty_table()).schema, is_pure=True)


def _frame(rows: pa.Table | pa.RecordBatch) -> pl.DataFrame:
    found = pl.from_arrow(rows)
    assert isinstance(found, pl.DataFrame), "rows have columns"
    return found
