"""Tables that Apache Hudi 1.2.0 wrote, and the rows that it reads from them."""

import functools
import json
import tarfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "golden" / "fixtures" / "hudi-1.2"
SPELLING = FOLDER.parent / "spelling"


def names(folder: Path = FOLDER) -> list[str]:
    """Return the name of every table."""
    return sorted(path.name.removesuffix(".tar.gz") for path in folder.glob("*.tar.gz"))


def unpack(name: str, into: Path) -> Path:
    """Unpack the table `name` below `into` and give its folder."""
    return unpack_from(FOLDER, name, into)


def unpack_from(folder: Path, name: str, into: Path) -> Path:
    """Unpack the table `name` of another collection."""
    with tarfile.open(folder / f"{name}.tar.gz") as archive:
        archive.extractall(into, filter="data")
    return into / name


def expected_rows(name: str) -> list[dict[str, Any]]:
    """Return the snapshot of a table as Hudi returned it, sorted by record key."""
    rows = json.loads((FOLDER / f"{name}.expected.json").read_text("utf-8"))
    if not isinstance(rows, list):
        raise TypeError(f"{name}: Hudi 1.2.0 reads no rows from this table")
    return rows


@functools.lru_cache(maxsize=4)
def files(name: str) -> dict[str, bytes]:
    """Return every file of the table `name` by its path below the table, without unpacking."""
    found: dict[str, bytes] = {}
    with tarfile.open(FOLDER / f"{name}.tar.gz") as archive:
        for member in archive:
            if member.isfile() and (content := archive.extractfile(member)) is not None:
                found[member.name.removeprefix("./").partition("/")[2]] = content.read()
    return found
