"""The README's example runs as it is written."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROWS = "SELECT 1L AS user_id, {id}L AS id, timestamp'2026-01-0{id} 00:00:00' AS ts, {amount}BD AS amount"


def test_the_example_of_the_readme_runs(spark, tmp_path, capsys):
    code, moved, upkeep = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL
    )
    frame = spark.sql(f"{ROWS.format(id=1, amount=5)} UNION ALL {ROWS.format(id=2, amount=50)}")
    frame = frame.selectExpr("user_id", "id", "ts", "CAST(amount AS DECIMAL(12, 2)) AS amount")
    names = {"df": frame, "more": frame.selectExpr("user_id", "id + 2 AS id", "ts", "amount")}
    exec(code.replace("/data/ledger", str(tmp_path / "ledger")), names)
    assert names["t"].read().count() == 4
    assert names["t"].read(as_of=names["c"].instant).count() == 2
    assert "L1" in capsys.readouterr().out
    names |= {"risky": names["more"], "wrong": names["more"]}
    exec(upkeep, names)
    assert names["t"].read().count() == 4
    assert "nothing is wrong" in capsys.readouterr().out
    options = {
        "hoodie.table.name": "trips",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
    }
    trips = {**names, "df": frame, "hudi_options": options, "spark": spark}
    exec(moved.replace("/data/trips", str(tmp_path / "trips")), trips)
    assert trips["trips"].read(since="earliest", mode="cdc").count() == 2
