"""Compare the size of the ledger sorted by record key with its size in order of arrival.

    .venv/bin/python bench/storage.py LEDGER

Prints one JSON object: the bytes of one Parquet file each way, by the same writer with the same
settings (pyarrow's, zstd, our rows per row group), once with the ledger's own columns and once with
the record key as well, as a table has it.
"""

import argparse
import json

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.table.store.run_writer import ROW_GROUP_ROWS


def size_of(rows: pa.Table) -> int:
    """Give the size of `rows` as one Parquet file."""
    sink = pa.MockOutputStream()
    pq.write_table(rows, sink, compression="zstd", row_group_size=ROW_GROUP_ROWS)
    return sink.size()


def compare(rows: pa.Table, order: pa.Array) -> dict[str, float]:
    """Write `rows` as they are and in `order`."""
    arrived, ordered = size_of(rows), size_of(rows.take(order))
    return {
        "arrived_bytes": arrived,
        "sorted_bytes": ordered,
        "saved_percent": round(100 * (1 - ordered / arrived), 2),
    }


def main() -> None:
    """Read the ledger, spell the keys, write both ways."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ledger")
    args = parser.parse_args()
    rows = ds.dataset(args.ledger, format="parquet").to_table().combine_chunks()
    texts = [rows[name].cast(pa.string()) for name in ("user_id", "id")]
    keys = pc.binary_join_element_wise(
        pc.binary_join_element_wise("user_id:", texts[0], ""),
        pc.binary_join_element_wise("id:", texts[1], ""),
        ",",
    )
    order = pc.sort_indices(keys)
    with_key = rows.add_column(0, RECORD_KEY, keys)
    answer = {
        "rows": rows.num_rows,
        "columns": compare(rows, order),
        "with_key": compare(with_key, order),
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
