"""The examples that need no Spark run as they are, and the deployment names only what exists."""

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakebed.cli.commands import COMMANDS
from lakebed.spark import daemon
from lakebed.storage.options import CLIENT_OPTIONS, S3_OPTIONS
from support.pages import ROOT, blocks_of

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text("utf-8"))
DEPLOYMENT = (ROOT / "docs" / "deployment.md").read_text("utf-8")


def printed(name: str, *words: str, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what an example prints."""
    path = str(ROOT / "examples" / name)
    monkeypatch.setattr(sys, "argv", [path, *words])
    runpy.run_path(path, run_name="__main__")
    out: str = capsys.readouterr().out
    return out


def test_the_lookup_service_answers_by_key_and_by_index_what_was_just_written(capsys, monkeypatch):
    words = ("lookup_service.py", "--rows", "2000", "--requests", "40")
    out = printed(*words, capsys=capsys, monkeypatch=monkeypatch)
    assert len(re.findall(r"^  200 ", out, re.MULTILINE)) == 4
    assert len(re.findall(r"^  400 ", out, re.MULTILINE)) == 2
    assert "the upsert is seen at once: fare 99.99" in out
    assert "40 requests by 4 clients: 40 rows" in out


def test_the_wide_feature_table_is_filled_by_its_jobs(capsys, monkeypatch):
    out = printed("wide_features.py", "--rows", "2000", capsys=capsys, monkeypatch=monkeypatch)
    assert "web not read" in out
    assert "{'customer': 1, 'country': 'PE', 'clicks_1d': 1.0, 'score': 0.6}" in out
    assert "2,000 rows; customer 1 had clicks_1d = 0.4" in out  # before the update to 1.0


def test_the_demo_runs_without_spark(capsys, monkeypatch):
    words = ("demo.py", "--rows", "2000", "--no-spark")
    out = printed(*words, capsys=capsys, monkeypatch=monkeypatch)
    assert "1 row of two keys" in out
    assert "now 2,049 rows, then 2,000" in out


def test_every_example_is_run():
    tests = "".join(
        path.read_text("utf-8") for path in Path(ROOT, "tests").rglob("test_*examples.py")
    )
    for path in (ROOT / "examples").glob("*.py"):
        assert f'"{path.name}"' in tests, path.name


def commands() -> list[list[str]]:
    """Return the command of each service that runs Lakebed's image."""
    return [
        service["command"]
        for service in COMPOSE["services"].values()
        if service.get("image") == "lakebed-spark"
    ]


def test_the_compose_file_describes_a_master_two_workers_a_store_and_the_services():
    services = COMPOSE["services"]
    assert services["worker"]["deploy"]["replicas"] == 2
    assert "spark://master:7077" in services["worker"]["command"]
    port = services["master"]["command"][services["master"]["command"].index("--port") + 1]
    assert port == "7077"
    assert services["minio"]["environment"] == {
        "MINIO_ROOT_USER": COMPOSE["x-lake"]["AWS_ACCESS_KEY_ID"],
        "MINIO_ROOT_PASSWORD": COMPOSE["x-lake"]["AWS_SECRET_ACCESS_KEY"],
    }
    for service in services.values():
        assert set(service.get("depends_on", [])) <= set(services)
        if service.get("image") == "lakebed-spark":
            assert service["environment"] == COMPOSE["x-lake"]


def test_the_variables_and_commands_of_the_compose_file_exist():
    for name, value in COMPOSE["x-lake"].items():
        assert isinstance(value, str), f"{name}: a variable of a container is a string"
        short = name.removeprefix("AWS_").lower()
        assert short in S3_OPTIONS or short in CLIENT_OPTIONS, name
    for words in commands():
        if words[0] == "lakebed":
            assert words[1] in COMMANDS
        elif words[0] == "python":
            given = {word for word in words[2:] if word.startswith("--")}
            text = (ROOT / words[1]).read_text("utf-8")
            assert all(f'"{word}"' in text for word in given), words
        else:
            assert words[0].endswith("/pyspark/bin/spark-class")
            assert words[1].startswith("org.apache.spark.deploy.")


def test_the_dockerfile_copies_what_there_is():
    text = (ROOT / "deploy" / "Dockerfile").read_text("utf-8")
    for sources in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE):
        assert all((ROOT / source).exists() for source in sources.split()), sources
    home = re.search(r"SPARK_HOME=(\S+)", text)
    assert home is not None
    assert all(words[0].startswith(home[1]) for words in commands() if "spark-class" in words[0])


def test_the_page_on_deployment_names_what_exists():
    (shown,) = (block for block in blocks_of("docs/deployment.md") if block.kind == "yaml")
    assert yaml.safe_load(shown.body) == COMPOSE["x-lake"]
    assert daemon.__name__ == "lakebed.spark.daemon"
    assert f"`{daemon.__name__}`" in DEPLOYMENT
    for path in re.findall(r"`(deploy/[\w./]+)`", DEPLOYMENT):
        assert (ROOT / path).exists(), path
    for name in re.findall(r"AWS_[A-Z_]+", DEPLOYMENT):
        short = name.removeprefix("AWS_").lower()
        assert short in S3_OPTIONS or short in CLIENT_OPTIONS, name
