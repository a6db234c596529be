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
    """Give a folder of all tables for each worker."""
    made = [tmp_path_factory.mktemp(f"worker{number}") for number in range(WORKERS)]
    for folder in made:
        unpack_all(folder)
    return made


def run_worker(folder: Path, first: int, count: int) -> Iterator[str]:
    """Run `count` cases from `first` on, every WORKERS-th; yield what was wrong.

    A worker that dies is followed by another one, which goes on behind the case that killed it.
    """
    while count > 0:
        done, trouble, last = _run_once(folder, first, count)
        yield from trouble
        if last is None:
            return
        yield last
        first, count = first + done * WORKERS, count - done


def _run_once(folder: Path, first: int, count: int) -> tuple[int, list[str], str | None]:
    """Give how many cases were begun, what was wrong, and what killed the process, if any did."""
    command = [
        sys.executable,
        "-m",
        "fuzz.worker",
        str(folder),
        str(first),
        str(count),
        str(WORKERS),
    ]
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
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
                process.wait()
                return begun, trouble, None
        errors = process.stderr.read()
        process.wait()
        return begun, trouble, f"{case}: the process died, {process.returncode}: {errors[-2000:]}"


def test_every_damaged_file_is_refused_by_name_or_read_as_it_was(folders: list[Path]):
    share = CASES // WORKERS
    with ThreadPoolExecutor(WORKERS) as pool:
        found = pool.map(
            lambda number: list(run_worker(folders[number], FIRST + number, share)), range(WORKERS)
        )
        trouble = [what for part in found for what in part]
    assert not trouble, f"{len(trouble)} of {CASES}:\n" + "\n".join(trouble[:20])
