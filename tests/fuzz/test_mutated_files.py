"""Thousands of damaged files: each is refused by name or read as it was, in bounded time and memory.

They are read in processes of their own: a library that dies takes one of them along, and the
file that did it is named. `LAKEBED_MUTATED` sets their number.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest

from fuzz.corpus import unpack_all

TESTS = Path(__file__).parents[1]
WORKERS = 2
CASES = int(os.environ.get("LAKEBED_MUTATED", "5000"))
FIRST = int(os.environ.get("LAKEBED_MUTATED_FIRST", "0"))
PEAK_KB = 1_500_000


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return a folder of all tables for each worker."""
    made = [tmp_path_factory.mktemp(f"worker{number}") for number in range(WORKERS)]
    for folder in made:
        unpack_all(folder)
    return made


def run_worker(folder: Path, first: int, count: int, module: str = "fuzz.worker") -> Iterator[str]:
    """Run `count` cases from `first` on, every WORKERS-th; yield what was wrong.

    A worker that dies is followed by another one, which goes on behind the case that killed it.
    """
    while count > 0:
        done, trouble, last = _run_once(folder, first, count, module)
        yield from trouble
        if last is None:
            return
        yield last
        if not done:
            return  # it does not even begin
        first, count = first + done * WORKERS, count - done


def _run_once(
    folder: Path, first: int, count: int, module: str
) -> tuple[int, list[str], str | None]:
    """Return how many cases were begun, what was wrong, and what killed the process, if any did."""
    command = [sys.executable, "-m", module, *map(str, (folder, first, count, WORKERS))]
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])
    with (
        TemporaryFile("w+") as errors,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        ) as process,
    ):
        assert process.stdout is not None
        case: dict[str, Any] = {}
        begun, trouble = 0, []
        for line in process.stdout:
            said = json.loads(line)
            if "table" in said:
                case, begun = said, begun + 1
            elif said.get("wrong"):
                trouble.append(f"{case}: {said['wrong']}")
            elif "done" in said:
                if said["peak_kb"] > PEAK_KB:
                    trouble.append(f"a worker took {said['peak_kb']} KB of memory")
                return begun, trouble, None
        code = process.wait()
        errors.seek(0)
        last = f"{case}: the process died, {code}: {errors.read()[-2000:]}"
        return begun, trouble, last


def test_every_damaged_file_is_refused_by_name_or_read_as_it_was(folders: list[Path]):
    share = CASES // WORKERS
    with ThreadPoolExecutor(WORKERS) as pool:
        found = pool.map(
            lambda number: list(run_worker(folders[number], FIRST + number, share)), range(WORKERS)
        )
        trouble = [what for part in found for what in part]
    assert not trouble, f"{len(trouble)} of {CASES}:\n" + "\n".join(trouble[:20])


def test_a_file_that_kills_its_process_is_named_and_the_others_are_read_all_the_same(
    tmp_path: Path,
):
    trouble = list(run_worker(tmp_path, 0, 6, "fuzz.dying_worker"))
    assert len(trouble) == 2
    assert "file 4" in trouble[0]
    assert "died, -6" in trouble[0]
    assert "took too long" in trouble[1]
    assert "file 8" in trouble[1]
