"""Tables that Lakebed and Apache Hudi both write and keep in shape, in turns, and read alike."""

import pathlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from interop.clients import Hudi, HudiRs
from interop.rows import user_rows
from lakebed.errors import InvalidError
from lakebed.model.instant import format_instant, parse_instant
from lakebed.services.compaction.execute import Compaction

SCHEMA = pa.schema(
    [("id", pa.string()), ("v", pa.int64()), ("ts", pa.int64()), ("dt", pa.string())]
)
MOR, COW = "MERGE_ON_READ", "COPY_ON_WRITE"
PROVIDER = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
# Two logs are worth joining, and what is deleted was not read a moment ago.
JOIN = {"hoodie.log.compaction.blocks.threshold": "2", "lakebed.compaction.log.ratio": "1000"}
AT_ONCE = {"lakebed.clean.min.age.seconds": "0"}
KEEP_TWO = AT_ONCE | {"hoodie.clean.commits.retained": "2"}
SHORT = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4"}

Rows = list[dict[str, Any]]
TYPES = pytest.mark.parametrize("table_type", [MOR, COW])


@dataclass
class Shared:
    """A table of both engines, what it must hold, and what it held after each change."""

    path: pathlib.Path
    hudi: Hudi
    hudi_rs: HudiRs
    options: Mapping[str, str]
    index: Mapping[str, Any]
    live: dict[str, dict[str, Any]] = field(default_factory=dict)
    past: dict[str, Rows] = field(default_factory=dict)
    number: int = 0

    @property
    def table(self) -> lakebed.Table:
        """Open the table anew."""
        return lakebed.open_table(None, str(self.path))

    def rows(self) -> Rows:
        """Return what every reader must see."""
        return [self.live[key] for key in sorted(self.live)]

    def made(self, keys: Iterable[int]) -> pa.Table:
        """Return newer rows than all before for `keys`, and note them."""
        self.number += 1
        made = [
            {"id": f"k{n:02}", "v": self.number * 100 + n, "ts": self.number, "dt": f"d{n % 2}"}
            for n in keys
        ]
        self.live |= {row["id"]: row for row in made}
        return pa.Table.from_pylist(made, SCHEMA)

    def gone(self, keys: Iterable[int]) -> Rows:
        """Note that `keys` are deleted; give their rows."""
        return [self.live.pop(f"k{n:02}") for n in keys]

    def noted(self) -> None:
        """Remember the rows as those of the newest instant that is there."""
        newest = self.table.history().column("instant").to_pylist()
        self.past[max(newest)] = self.rows()

    def upsert(self, *keys: int) -> None:
        self.table.upsert(self.made(keys), **self.index)
        self.noted()

    def delete(self, *keys: int) -> None:
        gone = self.gone(keys)
        self.table.delete([{"id": row["id"], "dt": row["dt"]} for row in gone])
        self.noted()

    def compact(self, mode: str) -> Compaction:
        """Let us compact; something must have been there to do."""
        (done,) = self.table.compact(mode, options=JOIN)
        self.noted()
        return done

    def hudi_upsert(self, *keys: int, **more: str) -> None:
        self.hudi.write(self.path, self.made(keys), {**self.options, **more})
        self.noted()

    def hudi_delete(self, *keys: int) -> None:
        rows = pa.Table.from_pylist(self.gone(keys), SCHEMA)
        operation = {"hoodie.datasource.write.operation": "delete"}
        self.hudi.write(self.path, rows, {**self.options, **operation})
        self.noted()

    def hudi_compact(self, **more: str) -> None:
        """Let Hudi compact all file groups that have logs."""
        settings = {
            "hoodie.compact.inline.max.delta.commits": "1",
            "hoodie.metadata.enable": "false",
            **more,
        }
        said = ",".join(f"{name}={value}" for name, value in settings.items())
        answer = self.hudi.sql(
            f"CALL run_compaction(op => 'scheduleandexecute', path => '{self.path}', "
            f"options => '{said}')"
        )
        assert len(answer["rows"]) == 1
        assert not any(row["level"] == "L0" for row in self.table.files().to_pylist())
        self.noted()

    def hudi_clean(self, policy: str, retain: str, *, more: str = "") -> int:
        """Let Hudi clean; give how many files it deleted."""
        name = f"t_{abs(hash(str(self.path)))}"
        self.hudi.sql(f"CREATE TABLE IF NOT EXISTS {name} USING hudi LOCATION '{self.path}'")
        answer = self.hudi.sql(
            f"CALL run_clean(table => '{name}', clean_policy => '{policy}', {retain}, "
            f"trigger_max_commits => 1, options => 'hoodie.metadata.enable=false{more}')"
        )
        count = answer["columns"].index("total_files_deleted")
        return sum(int(row[count]) for row in answer["rows"])

    def check(self) -> None:
        """Read with every engine: all must see what the table must hold."""
        want = self.rows()
        assert user_rows(self.table.read().read_all(), ["id"]) == want
        assert user_rows(self.hudi.read(self.path), ["id"]) == want
        assert user_rows(self.hudi_rs.read(self.path), ["id"]) == want

    def refused_moments(self) -> list[str]:
        """Read all that was; give the instants that are refused. All others must be right."""
        refused = []
        for instant, want in self.past.items():
            try:
                found = self.table.read(as_of=instant).read_all()
            except InvalidError:
                refused.append(instant)
            else:
                assert user_rows(found, ["id"]) == want, instant
        return refused


def hudi_options(path: pathlib.Path, table_type: str, index: str, **more: str) -> dict[str, str]:
    """Return the options of a Hudi writer that leaves all services to the test."""
    found = {
        "hoodie.table.name": path.name,
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "dt",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.index.type": index.upper(),
        "hoodie.logfile.data.block.format": "parquet",
        "hoodie.metadata.enable": "false",
        "hoodie.compact.inline": "false",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.simple.index.parallelism": "2",
        "hoodie.upsert.shuffle.parallelism": "2",
    }
    if index == "bucket":
        found["hoodie.bucket.index.num.buckets"] = "2"
    return found | more


def ours(
    path: pathlib.Path,
    hudi: Hudi,
    hudi_rs: HudiRs,
    table_type: str,
    index: str,
    layout: str = "lsm_tree",
    **properties: str,
) -> Shared:
    """Make a table that we created."""
    lakebed.create_table(
        None,
        str(path),
        SCHEMA,
        key="id",
        ordering="ts",
        partition_by="dt",
        table_type=table_type,
        index=index,
        buckets=2 if index == "bucket" else None,
        layout=layout,
        properties={
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            **properties,
        },
    )
    more = {
        name: value for name, value in properties.items() if ".lock." in name or "concur" in name
    }
    return Shared(path, hudi, hudi_rs, hudi_options(path, table_type, index, **more), {})


def test_a_shared_table_notices_a_wrong_row(
    tmp_path: pathlib.Path, hudi: Hudi, hudi_rs: HudiRs
) -> None:
    shared = ours(tmp_path / "t", hudi, hudi_rs, COW, "bucket")
    shared.upsert(1, 2)
    shared.live["k01"] = {**shared.live["k01"], "v": 0}
    with pytest.raises(AssertionError):
        shared.check()
    with pytest.raises(AssertionError):
        shared.past = {instant: shared.rows() for instant in shared.past}
        shared.refused_moments()


@pytest.mark.parametrize(
    ("table_type", "index", "layout"),
    [
        (MOR, "bucket", "lsm_tree"),
        (MOR, "bucket", "default"),
        (MOR, "simple", "lsm_tree"),
        (COW, "bucket", "lsm_tree"),
        (COW, "simple", "default"),
    ],
)
def test_hudi_compacts_and_cleans_our_table_and_we_go_on(
    tmp_path: pathlib.Path,
    hudi: Hudi,
    hudi_rs: HudiRs,
    table_type: str,
    index: str,
    layout: str,
) -> None:
    shared = ours(tmp_path / "t", hudi, hudi_rs, table_type, index, layout)
    shared.upsert(*range(12))
    shared.upsert(0, 1, 2, 3, 20)
    shared.delete(4, 5)
    shared.upsert(0, 1, 5)
    if table_type == MOR:
        assert shared.compact("log").log
        shared.check()
        shared.upsert(2, 3, 4)
        shared.delete(0, 7)
        shared.compact("hybrid")
        shared.upsert(1, 8)
        shared.delete(9)
        shared.check()
        shared.hudi_compact()
    shared.upsert(10)
    shared.upsert(11)
    shared.check()
    assert shared.refused_moments() == []
    assert shared.hudi_clean("KEEP_LATEST_COMMITS", "retain_commits => 2")
    shared.check()
    first = min(shared.past)
    assert first in shared.refused_moments()
    shared.upsert(0, 1, 2, 30)
    shared.delete(3)
    if table_type == MOR:
        shared.compact("full")
    shared.upsert(0, 31)
    shared.upsert(1)
    shared.check()
    assert shared.table.clean(options=KEEP_TWO) is not None
    shared.check()
    assert shared.table.archive(options=KEEP_TWO | SHORT) is not None
    shared.check()
    shared.hudi_upsert(0, 1, 40)
    shared.hudi_delete(2)
    if table_type == MOR:
        shared.hudi_compact()
    assert shared.hudi_clean("KEEP_LATEST_FILE_VERSIONS", "file_versions_retained => 1")
    shared.check()
    assert set(shared.past) - set(shared.refused_moments()) >= {max(shared.past)}
    shared.upsert(0, 50)
    shared.check()
    assert shared.table.verify().is_sound


@pytest.mark.parametrize("index", ["bucket", "simple"])
@TYPES
def test_we_keep_a_table_of_hudi_in_shape_and_hudi_goes_on(
    tmp_path: pathlib.Path, hudi: Hudi, hudi_rs: HudiRs, table_type: str, index: str
) -> None:
    path = tmp_path / "t"
    settled = {"index": index} | ({"buckets": 2} if index == "bucket" else {})
    shared = Shared(path, hudi, hudi_rs, hudi_options(path, table_type, index), settled)
    shared.hudi_upsert(*range(12))
    shared.hudi_upsert(0, 1, 2, 3, 20)
    shared.hudi_delete(4, 5)
    shared.hudi_upsert(0, 5)
    if table_type == MOR:
        assert shared.compact("log").log
        shared.check()
    shared.hudi_upsert(1, 2)
    shared.upsert(3, 21)
    shared.hudi_upsert(2, 3)
    if table_type == MOR:
        shared.compact("hybrid")
        shared.check()
    shared.delete(6)
    if table_type == MOR:
        assert shared.compact("full").full
    shared.check()
    assert shared.refused_moments() == []
    kept, saved = dict(shared.live), shared.table.savepoint()
    shared.hudi_upsert(0, 7)
    shared.hudi_delete(8)
    shared.check()
    shared.table.restore(saved.instant)
    shared.live = kept
    shared.past = {i: rows for i, rows in shared.past.items() if i <= saved.instant}
    shared.check()
    shared.table.delete_savepoint(saved.instant)
    shared.hudi_upsert(0, 9)
    shared.upsert(0, 10)
    if table_type == MOR:
        shared.hudi_compact()
    shared.upsert(11)
    assert shared.table.clean(options=KEEP_TWO) is not None
    assert shared.refused_moments()
    shared.check()
    assert shared.table.archive(options=KEEP_TWO | SHORT) is not None
    shared.hudi_upsert(0, 11, 22)
    shared.hudi_delete(1)
    shared.check()
    if table_type == MOR:
        shared.hudi_compact()
    shared.hudi_upsert(0, **{"hoodie.clean.automatic": "true", "hoodie.archive.automatic": "true"})
    shared.check()
    assert shared.table.verify().is_sound


def test_a_table_of_writers_that_do_not_block_is_read_and_compacted_by_hudi(
    tmp_path: pathlib.Path, hudi: Hudi, hudi_rs: HudiRs
) -> None:
    mode = {
        "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": PROVIDER,
    }
    shared = ours(tmp_path / "t", hudi, hudi_rs, MOR, "bucket", **mode)
    shared.upsert(*range(8))
    shared.upsert(0, 1, 9)
    assert not any(row["level"] == "L1" for row in shared.table.files().to_pylist())
    ids = {row["file_id"] for row in shared.table.files().to_pylist()}
    assert ids == {f"{n:08}-0000-0000-0000-000000000000-0" for n in range(2)}
    shared.check()
    shared.hudi_upsert(1, 2, 10)
    shared.check()
    shared.hudi_compact()
    shared.check()
    shared.upsert(0, 2, 11)
    shared.check()
    assert shared.table.compact("full")
    shared.check()
    assert shared.refused_moments() == []


@TYPES
def test_an_optimistic_table_is_written_by_both_in_turns(
    tmp_path: pathlib.Path, hudi: Hudi, hudi_rs: HudiRs, table_type: str
) -> None:
    mode = {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": PROVIDER,
    }
    shared = ours(tmp_path / "t", hudi, hudi_rs, table_type, "bucket", **mode)
    lazy = {"hoodie.clean.failed.writes.policy": "LAZY"}
    for number in range(3):
        shared.upsert(0, number + 1)
        shared.hudi_upsert(0, number + 10, **lazy)
        shared.check()
    if table_type == MOR:
        shared.compact("full")
    shared.hudi_upsert(0, 20, **lazy)
    shared.delete(10)
    assert shared.table.clean(options=KEEP_TWO) is not None
    shared.check()
    assert shared.refused_moments()


def test_a_clean_of_hudis_is_left_to_it_for_a_while_and_may_be_completed_twice(
    tmp_path: pathlib.Path, hudi: Hudi, hudi_rs: HudiRs
) -> None:
    shared = ours(tmp_path / "t", hudi, hudi_rs, COW, "bucket")
    for number in range(5):
        shared.upsert(0, 1, number)
    assert shared.hudi_clean("KEEP_LATEST_COMMITS", "retain_commits => 2")
    timeline = shared.path / ".hoodie" / "timeline"
    [completed] = timeline.glob("*_*.clean")
    # As if Hudi were still at it.
    content = completed.read_bytes()
    completed.unlink()
    assert shared.table.clean(options=AT_ONCE) is None
    shared.check()
    assert not list(timeline.glob("*_*.clean"))
    # And as if it had begun five minutes earlier.
    requested, _, completion = completed.name.partition("_")
    earlier = format_instant(parse_instant(requested, "UTC") - 300_000, "UTC")
    for file in timeline.glob(f"{requested}.clean.*"):
        file.rename(timeline / file.name.replace(requested, earlier))
    done = shared.table.clean(options=AT_ONCE)
    assert done is not None
    assert done.resumed == (earlier,)
    # It was alive nevertheless, and ends.
    (timeline / f"{earlier}_{completion}").write_bytes(content)
    assert len(list(timeline.glob("*_*.clean"))) == 2
    shared.check()
    assert shared.refused_moments()
    shared.upsert(0, 9)
    shared.hudi_upsert(1, 10)
    shared.check()
    assert shared.table.verify().is_sound
