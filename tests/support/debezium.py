"""Change records as a Debezium connector sends them: deletes, late, twice, of a table that grows."""

import json
from typing import Any


def change(op: str, lsn: int, key: int, **row: Any) -> tuple[str | None]:
    """Return a record as a connector sends it, with fields that are not used."""
    image = {"id": key, **row}
    return (
        json.dumps(
            {
                "before": {"id": key} if op in "ud" else None,
                "after": None if op == "d" else image,
                "op": op,
                "ts_ms": 1_700_000_000_000 + lsn,
                "source": {"lsn": lsn, "connector": "postgresql", "table": "products"},
            }
        ),
    )


FIRST = [
    change("r", 10, 1, name="a", price="1.00"),
    change("r", 10, 2, name="b", price="2.00"),
    change("c", 11, 3, name="c", price="3.00"),
    change("u", 13, 1, name="a3", price="1.30"),
    change("u", 12, 1, name="a2", price="1.20"),  # late
    change("d", 14, 2),
    (None,),  # the tombstone behind it
]
SECOND = [
    change("u", 13, 1, name="a3", price="1.30"),  # sent again
    change("u", 12, 2, name="late", price="9.00"),  # from before the delete of 2
    change("c", 15, 4, name="d", price="4.00", colour="red"),
    change("u", 16, 3, name="c", price="3.00", colour="blue"),
    change("d", 9, 4),  # of an older row with the key
]
