"""Tables of the hudi-rs test suite (versions 6, 8, 9), and the rows that Apache Hudi reads from them.

They are read where they lie, beside this repository, and are not part of it.
"""

import json
import os
import zipfile
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
FOLDER = Path(
    os.environ.get("LAKEBED_HUDI_RS_FIXTURES", REPOSITORY.parent / "shared/fixtures/hudi-rs")
)
NAMES = sorted(path.stem for path in FOLDER.glob("*.zip"))


def unpack(name: str, into: Path) -> tuple[Path, list[dict[str, Any]], list[str]]:
    """Unpack the table `name` below `into`; give its folder, Hudi's rows and their columns."""
    expected = json.loads((FOLDER / f"{name}.expected.json").read_text("utf-8"))
    with zipfile.ZipFile(FOLDER / f"{name}.zip") as archive:
        wanted = [member for member in archive.namelist() if not member.startswith("__MACOSX")]
        archive.extractall(into, wanted)
    columns = [field["name"] for field in expected["schema"]["fields"]]
    return into / expected["table"], expected["rows"], columns
