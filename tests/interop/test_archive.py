"""Tables whose past was cleaned and archived by Lakebed and by Apache Hudi in turns."""

import pathlib
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from interop.clients import Hudi, HudiRs
from interop.rows import user_rows
from lakebed.errors import UnavailableError
from lakebed.format.names.instant_name import Action
from lakebed.model.executor import LocalExecutor
from lakebed.model.options.services import CleanOptions
from lakebed.services.clean.execute import clean
from lakebed.storage.open import open_storage
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.archived import read_archived, read_manifest

SCHEMA = pa.schema(
    [("id", pa.string()), ("v", pa.int64()), ("ts", pa.int64()), ("dt", pa.string())]
)
# Hudi refuses a writer whose options differ from what the table's properties say.
UPKEEP = {
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "5",
    "hoodie.clean.commits.retained": "2",
    "hoodie.timeline.compaction.batch.size": "2",
}
TYPES = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])


def rows_of(number: int) -> pa.Table:
    rows = [
        {"id": f"k{(number + n) % 7}", "v": number * 10 + n, "ts": number, "dt": f"d{n % 2}"}
        for n in range(2)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def create(path: pathlib.Path, table_type: str, **more: str) -> lakebed.Table:
    return lakebed.create_table(
        None,
        str(path),
        SCHEMA,
        key=["id"],
        partition_by=["dt"],
        ordering=["ts"],
        table_type=table_type,
        index="bucket",
        buckets=2,
        layout="default",
        table_version=9,
        properties=more,
    )


def hudi_options(path: pathlib.Path, table_type: str, **more: str) -> dict[str, str]:
    return {
        "hoodie.table.name": path.name,
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "dt",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "2",
        "hoodie.logfile.data.block.format": "parquet",
        "hoodie.metadata.enable": "false",
        "hoodie.compact.inline": "false",
        "hoodie.upsert.shuffle.parallelism": "2",
        **more,
    }


def found(table: pa.Table | pa.RecordBatchReader) -> list[dict[str, Any]]:
    read = table.read_all() if isinstance(table, pa.RecordBatchReader) else table
    return user_rows(read, ["id", "dt"])


def seen_commits(path: pathlib.Path) -> list[str]:
    """Return every commit there ever was, archived or active; each must come once."""
    storage = open_storage(str(path))
    words = {"commit", "deltacommit"}
    archived = [row.requested for row in read_archived(storage) if row.action in words]
    active = [c.requested for c in ActiveTimeline(storage).load().commits]
    assert not set(archived) & set(active)
    return sorted([*archived, *active])


def check_partitions_alone(path: pathlib.Path) -> None:
    """Assert that each partition alone is as in the whole table, and is found by each of its keys."""
    whole = lakebed.open_table(None, str(path))
    for partition in ("d0", "d1"):
        alone = lakebed.open_table(None, str(path))._now().within([partition])
        slices = tuple(s for s in whole._now().slices if s.group.partition == partition)
        assert alone.slices == slices
    for row in found(whole.read()):
        table = lakebed.open_table(None, str(path))
        for key in ({"id": row["id"], "dt": row["dt"]}, {"id": row["id"]}):
            assert row in found(table.lookup([key]))


@TYPES
def test_hudi_reads_writes_and_archives_on_top_of_our_archive(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path, table_type: str
) -> None:
    path = tmp_path / "t"
    ours_only = {"lakebed.clean.min.age.seconds": "0", "lakebed.file.index.min.files": "1"}
    table = create(path, table_type, **UPKEEP, **ours_only)
    storage = open_storage(str(path))
    commits: list[str] = []
    levels: set[int] = set()
    # Until files were merged twice, and there is one that Hudi's next one can be merged with.
    while not levels >= {0, 2}:
        commits.append(table.upsert(rows_of(len(commits))).instant)
        levels = {file.level for file in read_manifest(storage)}
    assert len(ActiveTimeline(storage).load().commits) <= 6
    assert seen_commits(path) == commits
    want = found(table.read())
    assert found(hudi.read(path)) == want
    assert found(hudi_rs.read(path)) == want
    ours = {file.name for file in read_manifest(storage)}
    count = len(commits)
    for number in range(count, count + 4):
        hudi.write(path, rows_of(number), hudi_options(path, table_type, **UPKEEP))
        check_partitions_alone(path)
    theirs = {file.name for file in read_manifest(storage)}
    assert theirs - ours, "Hudi archived nothing"
    assert ours - theirs, "Hudi merged none of our files"
    assert len(seen_commits(path)) == count + 4
    table = lakebed.open_table(None, str(path))
    want = found(table.read())
    assert set(range(count, count + 4)) <= {row["ts"] for row in want}
    assert found(hudi.read(path)) == want
    for number in range(count + 4, count + 7):
        table.upsert(rows_of(number))
        check_partitions_alone(path)
    assert len(seen_commits(path)) == count + 7
    want = found(lakebed.open_table(None, str(path)).read())
    assert found(hudi.read(path)) == want
    assert found(hudi_rs.read(path)) == want


class Unlucky(LocalExecutor):
    """Fails before the first task."""

    def run(self, task: Any, items: Any, label: str) -> Any:
        raise UnavailableError(label)


def test_hudi_finishes_a_clean_that_we_began(hudi: Hudi, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t"
    table = create(path, "COPY_ON_WRITE")
    for number in range(6):
        table.upsert(rows_of(number))
    target = replace(table._target(), executor=Unlucky(1))
    with pytest.raises(UnavailableError):
        clean(target, CleanOptions(commits_retained=2, min_age_seconds=0))
    active = ActiveTimeline(open_storage(str(path)))
    [pending] = active.load().pending(Action.CLEAN)
    before = len(list(path.glob("d*/*.parquet")))
    hudi.write(path, rows_of(6), hudi_options(path, "COPY_ON_WRITE"))
    finished = active.load().find(pending.requested, Action.CLEAN)
    assert finished is not None
    assert finished.is_completed
    assert len(list(path.glob("d*/*.parquet"))) < before
    again = lakebed.open_table(None, str(path))
    assert found(again.read()) == found(hudi.read(path))
    assert clean(again._target(), CleanOptions(commits_retained=1, min_age_seconds=0)) is not None
    assert found(again.read()) == found(hudi.read(path))
