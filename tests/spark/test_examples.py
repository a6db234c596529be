"""The examples and the job of the deployment that need Spark."""

import runpy
from pathlib import Path

from pyspark.sql import SparkSession

from support.pages import ROOT


def test_the_ingested_table_equals_the_database(spark: SparkSession, tmp_path: Path, capsys):
    example = runpy.run_path(str(ROOT / "examples" / "cdc_ingestion.py"))
    example["run"](spark, tmp_path, changes=300, rounds=2)
    out = capsys.readouterr().out
    assert "each with its last values" in out
    assert "changes of rows after the first commit" in out


def test_the_job_of_the_deployment_loads_a_table_again_and_again(
    spark: SparkSession, tmp_path: Path, capsys
):
    job = runpy.run_path(str(ROOT / "deploy" / "try_it.py"))
    for _ in range(2):
        job["run"](spark, str(tmp_path / "trips"), rows=1_000)
    out = capsys.readouterr().out
    assert out.count("'city': 'city7'") == 2
    assert out.count("upsert ") >= 2
