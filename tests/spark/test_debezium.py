"""The recipe for change records of Debezium runs as it is written: deletes, late, twice, growing."""

import json
import re
from pathlib import Path
from typing import Any

RECIPE = (Path(__file__).resolve().parents[2] / "docs" / "debezium.md").read_text()


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


def rows(table: Any, *columns: str) -> dict[int, tuple[Any, ...]]:
    return {row["id"]: tuple(row[name] for name in columns) for row in table.read().collect()}


def test_deletes_late_and_repeated_records_and_a_new_column(spark, tmp_path, capsys):
    first = [
        change("r", 10, 1, name="a", price="1.00"),
        change("r", 10, 2, name="b", price="2.00"),
        change("c", 11, 3, name="c", price="3.00"),
        change("u", 13, 1, name="a3", price="1.30"),
        change("u", 12, 1, name="a2", price="1.20"),  # late
        change("d", 14, 2),
        (None,),  # the tombstone behind it
    ]
    second = [
        change("u", 13, 1, name="a3", price="1.30"),  # sent again
        change("u", 12, 2, name="late", price="9.00"),  # from before the delete of 2
        change("c", 15, 4, name="d", price="4.00", colour="red"),
        change("u", 16, 3, name="c", price="3.00", colour="blue"),
        change("d", 9, 4),  # of an older row with the key
    ]
    code = re.findall(r"```python\n(.*?)```", RECIPE, re.DOTALL)
    assert len(code) == 1
    create, grow = code[0].split("# The source has a new column from here on.\n")
    names: dict[str, Any] = {
        "spark": spark,
        "first": spark.createDataFrame(first, "value STRING"),
        "second": spark.createDataFrame(second, "value STRING"),
    }
    exec(create.replace("/data/products", str(tmp_path / "products")), names)
    table = names["t"]
    assert rows(table, "name", "_position") == {1: ("a3", 13), 3: ("c", 11)}
    exec(grow, names)
    wanted = {1: ("a3", None, 13), 3: ("c", "blue", 16), 4: ("d", "red", 15)}
    assert rows(table, "name", "colour", "_position") == wanted
    assert "red" in capsys.readouterr().out
    exec(grow, names)  # everything once more
    assert rows(table, "name", "colour", "_position") == wanted
    table.compact()
    assert rows(table, "name", "colour", "_position") == wanted
