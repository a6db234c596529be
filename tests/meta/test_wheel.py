"""The wheel: what `make dist` packs, and what it says that it needs."""

import email
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel in a copy of the project, where an earlier build left a module."""
    tree = tmp_path_factory.mktemp("project") / "tree"
    skipped = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", tree / "src", ignore=skipped)
    for name in ("pyproject.toml", "README.md", "LICENSE", "Makefile"):
        shutil.copy(ROOT / name, tree / name)
    left = tree / "build" / "lib" / "lakebed" / "gone.py"
    left.parent.mkdir(parents=True)
    left.touch()
    done = subprocess.run(
        ["make", "-o", "setup", f"BIN={Path(sys.executable).parent}", "dist"],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (found,) = (tree / "dist").iterdir()
    return found


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def test_the_wheel_holds_every_file_of_the_packages_and_nothing_else(wheel):
    source = ROOT / "src"
    files = {
        str(path.relative_to(source))
        for package in ("lakebed", "pyspark_lakebed")
        for path in (source / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    assert {name for name in packed if ".dist-info/" not in name} == files
    assert {name.rpartition("/")[2] for name in packed - files} >= {"METADATA", "LICENSE"}


def test_without_an_extra_no_spark_comes(metadata):
    needed = [text for text in metadata.get_all("Requires-Dist") if "extra ==" not in text]
    names = sorted(re.match(r"[\w-]+", text)[0] for text in needed)
    assert names == ["fastavro", "numba", "numpy", "obstore", "pyarrow", "rich", "typer"]
    assert set(metadata.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])


def test_every_extra_that_a_sentence_names_exists():
    said = set()
    for path in (*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"):
        for names in re.findall(r"(?:lakebed|\.)\[([a-z,]+)\]'", path.read_text("utf-8")):
            said |= set(names.split(","))
    assert (
        {"spark", "sql", "delta", "polars", "duckdb"}
        <= said
        <= set(PROJECT["optional-dependencies"])
    )


def test_the_changelog_is_of_the_version(metadata):
    version = metadata["Version"]
    assert version == PROJECT["version"]
    first = re.search(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    assert first.split()[0] == ("Unreleased" if ".dev" in version else version)


def test_duckdb_comes_with_what_it_needs_for_timestamps(metadata):
    needed = [text for text in metadata.get_all("Requires-Dist") if 'extra == "duckdb"' in text]
    code = """if True:
        import sys
        sys.modules["pytz"] = None
        import duckdb
        duckdb.sql("SELECT TIMESTAMPTZ '2026-11-15 00:00:00+00'").fetchall()
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pytz" in done.stderr
    assert sorted(re.match(r"[\w-]+", text)[0] for text in needed) == ["duckdb", "pytz"]
