"""Batch after batch with the services inline: files, timeline, memory and time stay bounded."""

import os
import pathlib
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numba  # noqa: F401 - a process imports it at some batch; its 100 MB are not the table's
import psutil
import pyarrow as pa
import pytest

from lakebed.api.opening import create_table, open_table
from lakebed.model.clock import SystemClock
from lakebed.model.executor import LocalExecutor
from lakebed.services.verify.verify import verify
from soak.curves import draw_curves
from support.figures import FIGURE

LONG = os.environ.get("LAKEBED_SOAK") == "1"
BATCHES = 200 if LONG else 60
ROWS, KEYS = 500, 5_000
CURVES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "figures" / "soak.svg"
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("dt", pa.string())])
INLINE = {
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "4",
    "lakebed.compaction.mode": "hybrid",
    "hoodie.clean.commits.retained": "3",
    "hoodie.clean.trigger.max.commits": "2",
    "lakebed.clean.min.age.seconds": "0",
    "hoodie.keep.min.commits": "6",
    "hoodie.keep.max.commits": "8",
}


@dataclass(frozen=True)
class Sample:
    """The table and the process after a batch."""

    seconds: float
    files: int
    instants: int
    archived: int
    rss_mb: float


def batch_of(number: int) -> pa.Table:
    keys = [(number * 7919 + n * 31) % KEYS for n in range(ROWS)]
    return pa.table(
        {"id": keys, "v": [number] * ROWS, "dt": [f"p{key % 2}" for key in keys]}, schema=SCHEMA
    )


@pytest.mark.timeout(1800)
def test_micro_batches_leave_a_table_that_stays_small(
    tmp_path: pathlib.Path, record_property: Callable[[str, object], None]
):
    path = tmp_path / "table"
    table = create_table(
        None,
        str(path),
        SCHEMA,
        key="id",
        partition_by="dt",
        table_type="MERGE_ON_READ",
        index="bucket",
        buckets=1,
        properties=INLINE,
    )
    me = psutil.Process()
    model: dict[int, int] = {}
    samples: list[Sample] = []
    for number in range(BATCHES):
        rows = batch_of(number)
        began = time.perf_counter()
        table.upsert(rows)
        took = time.perf_counter() - began
        model.update(dict.fromkeys(rows.column("id").to_pylist(), number))
        samples.append(sample(path, took, me))
        if (number + 1) % 20 == 0:
            record_property(FIGURE, line_of(number + 1, samples[-20:]))
    found = open_table(None, str(path)).read().read_all()
    ids, values = found.column("id").to_pylist(), found.column("v").to_pylist()
    assert len(ids) == len(model)
    assert dict(zip(ids, values, strict=True)) == model
    report = verify(table._storage, SystemClock(), LocalExecutor(2))
    assert report.is_sound, "\n".join(map(str, report))
    check_bounds(samples)
    if LONG:
        draw(samples)


def sample(path: pathlib.Path, took: float, me: psutil.Process) -> Sample:
    files = sum(p.is_file() for p in path.rglob("*") if ".hoodie" not in p.parts)
    timeline = path / ".hoodie" / "timeline"
    instants = sum(p.is_file() for p in timeline.iterdir())
    archived = sum(p.is_file() for p in (timeline / "history").rglob("*"))
    return Sample(took, files, instants, archived, me.memory_info().rss / 2**20)


def line_of(done: int, last: Sequence[Sample]) -> str:
    return (
        f"batch {done:4}: {statistics.median(s.seconds for s in last) * 1000:6.0f} ms median, "
        f"{max(s.seconds for s in last) * 1000:6.0f} ms at most, {last[-1].files:3} data files, "
        f"{last[-1].instants:3} files of the timeline, {last[-1].archived:3} of the archive, "
        f"{last[-1].rss_mb:5.0f} MB"
    )


def check_bounds(samples: Sequence[Sample]) -> None:
    """The second half needs no more than the first, with room for chance."""
    half = len(samples) // 2
    for name, room in (("files", 1.5), ("instants", 1.5), ("archived", 2.0), ("rss_mb", 1.5)):
        first, second = (
            max(getattr(s, name) for s in part) for part in (samples[:half], samples[half:])
        )
        assert second <= first * room, f"{name}: {first} at most, then {second}"
    # A median, for others use this machine too.
    first, second = (
        statistics.median(s.seconds for s in part) for part in (samples[10:half], samples[half:])
    )
    assert second <= first * 2 + 0.05, f"a batch took {first:.3f} s, then {second:.3f} s"


def draw(samples: Sequence[Sample]) -> None:
    curves = {
        "data files": [s.files for s in samples],
        "files of the timeline": [s.instants for s in samples],
        "files of the archive": [s.archived for s in samples],
        "memory, MB": [s.rss_mb for s in samples],
        "a batch, ms": [s.seconds * 1000 for s in samples],
    }
    CURVES.parent.mkdir(parents=True, exist_ok=True)
    CURVES.write_text(draw_curves(f"{len(samples)} micro-batches with inline services", curves))
