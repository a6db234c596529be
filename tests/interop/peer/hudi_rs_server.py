"""Answer JSON commands on standard input with hudi-rs: one command a line, one answer a line.

    {"do": "read", "path": P, "into": F}    rows of the latest snapshot to one Parquet file F
    {"do": "shutdown"}

An answer is {"ok": true} or {"ok": false, "error": text}.
"""

import json
import os
import sys
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hudi import HudiTableBuilder


def answer(command: dict[str, Any]) -> dict[str, Any]:
    """Read all rows, meta columns too; whatever goes wrong is the answer."""
    try:
        batches = HudiTableBuilder.from_base_uri(command["path"]).build().read()
    except BaseException as error:  # noqa: BLE001  a panic of its Rust code is no Exception
        return {"ok": False, "error": f"{type(error).__name__}: {error}"}
    pq.write_table(pa.Table.from_batches(batches) if batches else pa.table({}), command["into"])
    return {"ok": True}


def main() -> None:
    """Serve until shutdown or the end of standard input."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "shutdown":
            break
        print(json.dumps(answer(command)), file=answers, flush=True)


if __name__ == "__main__":
    main()
