"""Start processes at work on a table, hear what they say, kill them; judge what is left."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakebed.api.opening import create_table, open_table
from lakebed.api.table import Table
from lakebed.model.clock import SystemClock
from lakebed.model.executor import LocalExecutor
from lakebed.services.verify.verify import verify

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHILD = ROOT / "tests" / "soak" / "child.py"
SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64()), ("dt", pa.string())])
SMALL_RETENTION = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.clean.commits.retained": "3",
    "hoodie.keep.min.commits": "8",
    "hoodie.keep.max.commits": "12",
}
LAST = {"hoodie.clean.commits.retained": "1", "lakebed.clean.min.age.seconds": "0"}


def make_table(path: pathlib.Path, mode: str, **properties: str) -> Table:
    """Make a table for several writers on local disk."""
    table = create_table(
        None,
        str(path),
        SCHEMA,
        key="id",
        partition_by="dt",
        table_type="MERGE_ON_READ",
        index="bucket",
        buckets=1,
        properties={**SMALL_RETENTION, "hoodie.write.concurrency.mode": mode, **properties},
    )
    table.create_index("by_v", ["v"])
    table.create_index("by_two", ["dt", "v"])
    return table


@dataclass
class Child:
    """A process, and what it has said so far."""

    role: str
    number: int
    process: subprocess.Popen[str]
    complaints: pathlib.Path
    said: list[dict[str, Any]] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            # A line that a kill cut was not said.
            with contextlib.suppress(json.JSONDecodeError), self.changed:
                self.said.append(json.loads(line))
                self.changed.notify_all()
        self.process.wait()
        with self.changed:
            self.changed.notify_all()

    def wait_for(self, count: int, seconds: float = 120) -> None:
        """Wait until it has said `count` things."""
        with self.changed:
            heard = self.changed.wait_for(
                lambda: len(self.said) >= count or self.process.poll() is not None, seconds
            )
            assert heard
            assert len(self.said) >= count, self.complaints.read_text()

    @property
    def commits(self) -> dict[int, str]:
        """Return the instants of the commits that it was told of, by their numbers."""
        return {one["number"]: one["instant"] for one in self.said if "instant" in one}


def start(role: str, path: pathlib.Path, number: int = 0, commits: int = 0) -> Child:
    """Start a process; its reader thread ends with it."""
    arguments = [str(number), str(commits)] if role == "writer" else []
    complaints = path.with_name(f"{role}-{number}.err")
    with complaints.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, str(CHILD), role, str(path), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
    child = Child(role, number, process, complaints)
    thread = threading.Thread(target=child.listen, daemon=True)
    thread.start()
    return child


def finish(child: Child, seconds: float) -> None:
    """Tell a process to end and wait for it."""
    assert child.process.stdin is not None
    child.process.stdin.close()
    assert child.process.wait(seconds) == 0, child.complaints.read_text()


@contextlib.contextmanager
def no_orphans(children: list[Child]) -> Iterator[None]:
    """Leave no process behind, whatever happens."""
    try:
        yield
    finally:
        for child in children:
            if child.process.poll() is None:
                child.process.kill()
            child.process.wait()


def rows_by_key(table: Table) -> dict[tuple[str, str], int]:
    """Read a table; a key that comes twice is an error."""
    found: dict[tuple[str, str], int] = {}
    for row in table.read().read_all().to_pylist():
        key = (row["dt"], row["id"])
        assert key not in found, f"{key} occurs twice"
        found[key] = row["v"]
    return found


def settle(path: pathlib.Path) -> Table:
    """Bring a table in order as its next user would: finish plans, clean; then nothing is wrong."""
    table = open_table(None, str(path))
    table.compact()
    table.clean(options=LAST)
    report = verify(table._storage, SystemClock(), LocalExecutor(2))
    assert report.is_sound, "\n".join(map(str, report))
    return table
