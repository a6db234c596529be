"""Run a piece of Python in a process of its own and see what it took."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_TESTS = Path(__file__).parents[1]
_FRAME = """
import json, resource, time
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
said = None
{before}
held, start = peak(), time.process_time()
try:
    {code}
except Exception as error:
    said = f"{{type(error).__name__}}: {{error}}"
took = dict(said=said, megabytes=(peak() - held) >> 10, seconds=time.process_time() - start)
print(json.dumps(took))
"""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a process said, by how much its memory grew, and how long it computed."""

    said: str | None
    megabytes: int
    seconds: float


def measure(code: str, before: str = "") -> Taken:
    """Run one line of `code` after the lines `before`, which do not count."""
    path = os.pathsep.join([str(_TESTS), str(_TESTS.parent / "src")])
    done = subprocess.run(
        [sys.executable, "-c", _FRAME.format(before=before, code=code)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return Taken(**json.loads(done.stdout))
