"""kill -9 of the driver, its JVM and its workers: after restarts, every row is there exactly once."""

import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import psutil
import pyarrow as pa
import pytest

import lakebed
from soak.stream_child import STREAMS
from support.figures import FIGURE
from support.spark_faults import QUICK_JVM

KILLS = 50 if os.environ.get("LAKEBED_SOAK") == "1" else 2
ROWS = 200
# Compactions, cleans and archiving happen between the batches, so that the records of batches are
# also looked up in the archive.
INLINE = {
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "5",
    "hoodie.clean.commits.retained": "3",
    "lakebed.clean.min.age.seconds": "0",
    "hoodie.keep.min.commits": "5",
    "hoodie.keep.max.commits": "7",
}
pytestmark = pytest.mark.spark


@contextmanager
def driver(folder: pathlib.Path) -> Iterator[subprocess.Popen[str]]:
    """Start a driver; at the end kill it with everything that it started, at once."""
    env = {**os.environ, "JDK_JAVA_OPTIONS": QUICK_JVM}
    with (folder / "driver.log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "soak.stream_child", str(folder), str(ROWS)],
            cwd=pathlib.Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=env,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            parent = psutil.Process(process.pid)
            everything = [parent, *parent.children(recursive=True)]
            for one in everything:
                one.suspend()
            for one in everything:
                one.kill()
            psutil.wait_procs(everything, timeout=30)
        process.wait()


def batches_of(process: subprocess.Popen[str], folder: pathlib.Path) -> dict[str, int]:
    """Wait until each stream has finished a batch; return the number of its last one."""
    assert process.stdout is not None
    seen: dict[str, int] = {}
    while len(seen) < len(STREAMS):
        line = process.stdout.readline()
        assert line, (folder / "driver.log").read_text()[-5_000:]
        said = json.loads(line)
        seen[said["stream"]] = said["batch"]
    return seen


@pytest.mark.timeout(7200)
def test_every_row_of_a_stream_is_there_once_after_kills(
    tmp_path: pathlib.Path, record_property: Callable[[str, object], None]
):
    random = Random(int(os.environ.get("LAKEBED_SEED", "20261119")))
    schema = pa.schema([("id", pa.string()), ("stream", pa.string()), ("value", pa.int64())])
    table = lakebed.create_table(
        None, str(tmp_path / "table"), schema, key="id", buckets=2, properties=INLINE
    )
    for _ in range(KILLS):
        with driver(tmp_path) as process:
            batches_of(process, tmp_path)
            time.sleep(random.random() * 3)
    with driver(tmp_path) as process:
        finished = batches_of(process, tmp_path)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(120)
    rows = table.to_arrow()
    counts = {name: check_once(rows, name, least=finished[name] + 1) for name in STREAMS}
    assert table.verify().is_sound
    repeated = (tmp_path / "driver.log").read_text().count("is committed already")
    record_property(
        FIGURE,
        f"{KILLS} kills of a driver with two streams into one table: {counts['sink']} batches of "
        f"writeStream and {counts['function']} of foreach_batch, each row exactly once; "
        f"{repeated} batches were repeated after their commit",
    )


def check_once(rows: pa.Table, name: str, least: int) -> int:
    """Check that the rows of a stream are whole batches from the first on; return their number."""
    mask = pa.compute.equal(rows.column("stream"), name)
    values = sorted(rows.filter(mask).column("value").to_pylist())
    assert values == list(range(len(values)))
    assert len(values) % ROWS == 0
    assert len(values) >= least * ROWS
    return len(values) // ROWS
