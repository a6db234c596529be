"""Sessions that Lakebed did not make: they work, or a sentence says what to change."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import venv
from typing import Any

import pytest

SCRIPT = pathlib.Path(__file__).with_name("foreign_sessions.py")


def other_python() -> str | None:
    """Find an interpreter of another version, or None."""
    names = [f"python3.{minor}" for minor in (10, 12, 13, 14) if minor != sys.version_info[1]]
    found = [shutil.which(name) for name in names]
    pyenv = pathlib.Path.home() / ".pyenv" / "versions"
    found += [str(path) for name in names for path in pyenv.glob(f"*/bin/{name}")]
    for path in filter(None, found):
        # pyenv leaves a name for every version, also for one that is not in use.
        ask = [path, "-c", "import sys; print(sys.executable)"]
        told = subprocess.run(ask, check=False, capture_output=True, text=True)
        if told.returncode == 0:
            return told.stdout.strip()
    return None


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run all kinds of session one after the other in one process with its own JVM."""
    folder = tmp_path_factory.mktemp("foreign")
    venv.create(folder / "bare", with_pip=False)
    env = {key: value for key, value in os.environ.items() if key not in UNSET}
    env["PATH"] = f"{folder / 'bare' / 'bin'}:{env['PATH']}"
    env["SPARK_LOCAL_IP"] = "127.0.0.1"
    arguments = [str(folder / "table"), other_python() or ""]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


UNSET = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH", "VIRTUAL_ENV")


def test_a_python3_on_the_path_without_our_packages_is_named_as_the_cause(outcomes):
    kind, text = outcomes["bare python3 on the path"]
    assert kind == "InvalidError"
    assert "PYSPARK_PYTHON" in text
    assert "lack the package" in text or "cannot import lakebed" in text


def test_a_worker_of_another_python_is_named_as_the_cause(outcomes):
    if "another version" not in outcomes:
        pytest.skip("no other Python 3 on this machine")
    kind, text = outcomes["another version"]
    assert kind == "InvalidError"
    assert "PYSPARK_PYTHON" in text


def test_a_python_that_does_not_exist_is_named_as_the_cause(outcomes):
    kind, text = outcomes["no such python"]
    assert kind == "InvalidError"
    assert text.startswith("Spark cannot start its Python workers")


def test_speculation_is_refused_for_dataframes_and_for_merges_of_arrow_data(outcomes):
    for case in ("speculation, DataFrame", "speculation, Arrow data"):
        kind, text = outcomes[case]
        assert kind == "InvalidError"
        assert "spark.speculation=false" in text


def test_a_plain_session_with_the_right_python_works(outcomes):
    assert outcomes["plain session"] == ["rows", 6]


def test_no_refusal_left_anything_in_the_table(outcomes):
    assert outcomes["history"] == 2
