"""Read a table with hudi-rs and write its rows as one Parquet file: `hudi_rs_read.py TABLE FILE`.

Ends with status 1 and the error's text on standard error if hudi-rs refuses the table.
"""

import sys

import pyarrow as pa
import pyarrow.parquet as pq
from hudi import HudiTableBuilder


def main(table_path: str, into: str) -> int:
    """Read all rows of the latest snapshot, meta columns too."""
    try:
        batches = HudiTableBuilder.from_base_uri(table_path).build().read()
    except BaseException as error:  # noqa: BLE001  a panic of its Rust code is no Exception
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    pq.write_table(pa.Table.from_batches(batches) if batches else pa.table({}), into)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
