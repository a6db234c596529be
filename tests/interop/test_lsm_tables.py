"""Log files between Lakebed, Apache Hudi and hudi-rs: whoever wrote them, all read the same rows."""

import dataclasses
import datetime as dt
import decimal
import itertools
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from interop.clients import Hudi, HudiRs, PeerError
from interop.rows import user_rows, user_types
from lakebed.errors import KeyValueError
from lakebed.model.clock import SystemClock
from lakebed.model.executor import LocalExecutor, TaskId
from lakebed.storage.open import open_storage
from lakebed.table.config.properties_file import load_config
from lakebed.table.files.commit_cache import CommitCache
from lakebed.table.snapshot import Snapshot
from lakebed.timeline.active import ActiveTimeline
from lakebed.write.pipeline import Source, WriteTarget, execute_write
from lakebed.write.spec.operation import UPSERT
from lakebed.write.spec.write_spec import WriteSpec
from lakebed.write.staging import LogPolicy, Staged, stage_runs
from support.model import ModelTable, Shape
from support.pairs import pairwise

Row = dict[str, Any]

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.string()),
        ("ts", pa.int64()),
        ("seq", pa.int64()),
        ("v", pa.int64()),
        ("note", pa.string()),
    ]
)
DELETED = "_hoodie_is_deleted"
MARKED = SCHEMA.append(pa.field(DELETED, pa.bool_()))
SOME = pa.schema([SCHEMA.field(name) for name in ("id", "region", "ts", "seq", "v")])
META = ["_hoodie_commit_time", "_hoodie_record_key", "_hoodie_partition_path"]
SEEN = [*META, *SCHEMA.names]
READ_OPTIMIZED = {"hoodie.datasource.query.type": "read_optimized"}

REGIONS = ["eu", "us"]
MERGES = {"event": ["ts"], "two fields": ["ts", "seq"], "commit": []}


def make(number: int, ts: int = 10, seq: int = 5, region: str | None = None) -> Row:
    """Return a row; its values depend on `number` and its order, so that a mix-up shows."""
    return {
        "id": f"k{number}",
        "region": region or REGIONS[number % 2],
        "ts": ts,
        "seq": seq,
        "v": number * 1000 + ts * 10 + seq,
        "note": None if number % 5 == 0 else f"é{number} {ts}",
    }


class Model(ModelTable):
    """What the table must hold, and the commit that each row came with."""

    def upsert(self, rows: Iterable[Row], instant: str) -> None:
        """Let each row win or lose; one that is marked deletes its key."""
        self.merge([[self.version(row, instant) for row in rows]])

    def update(self, rows: Iterable[Row], instant: str) -> None:
        """Change the columns that came."""
        self.merge([[self.version(row, instant, partial=True) for row in rows]])

    def delete(self, rows: Iterable[Row]) -> None:
        """Delete whatever the ordering says, and forget it."""
        self.merge([[self.delete_of(row) for row in rows]])

    def forget_deletes(self) -> None:
        """Keep rows alone, as a compaction of Hudi's does."""
        stands = {ident: self.standing(ident) for ident in self.versions}
        self.versions = {i: (v,) for i, v in stands.items() if v is not None and not v.deleted}

    def as_read(self) -> list[Row]:
        """Return what a reader must see, by key."""
        rows = [
            {**row, "_hoodie_record_key": key, "_hoodie_partition_path": partition}
            for (partition, key), row in self.rows().items()
        ]
        return sorted(({name: row[name] for name in SEEN} for row in rows), key=lambda r: r["id"])


class Twin:
    """A table and its model, changed in step."""

    def __init__(self, path: pathlib.Path, merge: str, partitioned: bool, **how: Any) -> None:
        self.path = path
        self.merge = merge
        self.partitioned = partitioned
        self.table = lakebed.create_table(
            None,
            str(path),
            SCHEMA,
            key="id",
            ordering=MERGES[merge],
            partition_by=["region"] if partitioned else [],
            **({} if "index" in how else {"buckets": 2}),
            **how,
        )
        self.model = Model(
            Shape(
                table_type=how.get("table_type", "MERGE_ON_READ"),
                ordering=tuple(MERGES[merge]),
                partition_by=("region",) if partitioned else (),
            )
        )

    def bulk_insert(self, rows: Sequence[Row]) -> None:
        """Load `rows` as base files."""
        commit = self.table.bulk_insert(pa.Table.from_pylist(list(rows), SCHEMA))
        self.model.upsert(rows, commit.instant)

    def upsert(self, rows: Sequence[Row]) -> None:
        """Upsert `rows`; those with the mark are deletes with an ordering value."""
        schema = MARKED if any(DELETED in row for row in rows) else SCHEMA
        commit = self.table.upsert(pa.Table.from_pylist(list(rows), schema))
        self.model.upsert(rows, commit.instant)

    def update(self, rows: Sequence[Row]) -> None:
        """Update the column `v` and the ordering columns."""
        some = [{name: row[name] for name in SOME.names} for row in rows]
        commit = self.table.update_columns(pa.Table.from_pylist(some, SOME))
        self.model.update(some, commit.instant)

    def delete(self, rows: Sequence[Row]) -> None:
        """Delete the keys of `rows`."""
        self.table.delete([{"id": row["id"], "region": row["region"]} for row in rows])
        self.model.delete(rows)

    def overwrite(self, rows: Sequence[Row], *, whole_table: bool) -> None:
        """Overwrite the one partition of `rows`, or all."""
        table = pa.Table.from_pylist(list(rows), SCHEMA)
        commit = self.table.insert_overwrite(table, whole_table=whole_table)
        one = self.partitioned and not whole_table
        self.model.drop({rows[0]["region"]} if one else None)
        self.model.upsert(rows, commit.instant)

    def check(self, hudi: Hudi, hudi_rs: HudiRs | None) -> None:
        """Compare the model with all who read: rows and meta columns."""
        want = self.model.as_read()
        again = lakebed.open_table(None, str(self.path))
        assert seen(again.read(columns=SEEN).read_all()) == want
        keys = [{"id": f"k{n}"} for n in range(KEYS)]
        assert seen(again.lookup(keys, columns=SEEN)) == want
        assert seen_by_hudi(hudi, self.path) == want
        # hudi-rs 0.5.0 takes one ordering field.
        if hudi_rs is not None and self.merge != "two fields":
            assert seen(hudi_rs.read(self.path)) == want


def seen(table: pa.Table) -> list[Row]:
    """Return the columns that are compared, by key."""
    return sorted(table.select(SEEN).to_pylist(), key=lambda row: str(row["id"]))


def seen_by_hudi(hudi: Hudi, path: pathlib.Path, **options: str) -> list[Row]:
    """Read with Hudi, the rows in the answer: all values are text and whole numbers."""
    answer = hudi.read_typed(path, **options)
    rows = [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]]
    picked = [{name: row[name] for name in SEEN} for row in rows]
    return sorted(picked, key=lambda row: str(row["id"]))


def marked(row: Row) -> Row:
    """Return `row` as a delete that carries its ordering values."""
    return row | {DELETED: True}


def write_history(twin: Twin) -> None:
    """Let every kind of change meet rows of a base file, and of logs before it."""
    twin.bulk_insert([make(n) for n in range(20)])
    twin.upsert(
        [
            *(make(n, ts=20) for n in (0, 1, 6)),
            make(2, ts=10),  # a tie, which the newer wins
            make(3, ts=10, seq=4),  # a tie in the first field only
            *(make(n, ts=5) for n in (4, 5)),  # late
            *(make(n, ts=1) for n in range(20, 24)),  # new in buckets that are there
            *(make(n, ts=1, region="亚洲") for n in range(24, 30)),  # new in new ones
        ]
    )
    twin.delete([make(n) for n in (6, 7, 8, 20, 99)])
    twin.upsert(
        [
            marked(make(9, ts=30)),
            marked(make(10, ts=5)),  # late
            marked(make(11)),  # a tie
            marked(make(12, ts=30)),
            marked(make(21, ts=30)),
            marked(make(98, ts=30)),
            make(13, ts=30) | {DELETED: False},
        ]
    )
    twin.upsert(
        [
            *(make(n, ts=40) for n in (7, 9, 20)),  # back again
            *(make(n, ts=9) for n in (11, 12, 21)),  # later than their deletes, but lower
        ]
    )
    twin.update(
        [
            *(make(n, ts=50) for n in (0, 13, 14)),
            make(15, ts=5),  # late
            make(22, ts=50),
            make(25, ts=50, region="亚洲"),
        ]
    )


KEYS = 120
BLOCK_FORMAT = "hoodie.logfile.data.block.format"
PARTITIONED = pytest.mark.parametrize("partitioned", [False, True], ids=["flat", "partitioned"])
LAYOUTS = pytest.mark.parametrize("layout", ["lsm_tree", "default"])


@pytest.mark.parametrize(
    ("version", "layout", "merge", "partitioned"),
    pairwise(list(itertools.product([8, 9], ["lsm_tree", "default"], MERGES, [False, True]))),
)
def test_all_read_the_same_rows_after_every_operation(
    hudi: Hudi,
    hudi_rs: HudiRs,
    tmp_path: pathlib.Path,
    version: int,
    layout: str,
    merge: str,
    partitioned: bool,
) -> None:
    blocks = {BLOCK_FORMAT: "avro" if layout == "default" else "parquet"}
    twin = Twin(
        tmp_path / "t", merge, partitioned, table_version=version, layout=layout, properties=blocks
    )
    write_history(twin)
    twin.check(hudi, hudi_rs)
    twin.overwrite([make(n, ts=2) for n in (0, 6, 60)], whole_table=False)
    if partitioned:
        twin.table.delete_partitions(["us"])
        twin.model.drop({"us"})
    twin.upsert([make(0, ts=3), make(6, ts=1), make(61, ts=1), make(62, ts=1)])
    twin.check(hudi, hudi_rs)
    twin.overwrite([make(n, ts=2) for n in range(50, 60)], whole_table=True)
    twin.upsert([make(50, ts=3), make(51, ts=1), marked(make(52, ts=3)), make(0, ts=1)])
    twin.delete([make(53)])
    twin.check(hudi, hudi_rs)


@LAYOUTS
def test_a_read_optimized_query_sees_base_files_only(
    hudi: Hudi, tmp_path: pathlib.Path, layout: str
) -> None:
    twin = Twin(tmp_path / "t", "event", partitioned=True, layout=layout)
    twin.bulk_insert([make(n) for n in range(20)])
    want = twin.model.as_read()
    twin.upsert([make(n, ts=20) for n in range(5)] + [make(n) for n in range(20, 30)])
    twin.delete([make(7)])
    twin.update([make(8, ts=20)])
    assert seen(twin.table.read(columns=SEEN, mode="read_optimized").read_all()) == want
    assert seen_by_hudi(hudi, twin.path, **READ_OPTIMIZED) == want


def writer_options(
    name: str, ordering: Sequence[str], *, partitioned: bool, **more: str
) -> dict[str, str]:
    """Return the options of a Hudi writer: Parquet blocks, no metadata table, no compaction yet."""
    options = {
        "hoodie.table.name": name,
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.logfile.data.block.format": "parquet",
        "hoodie.metadata.enable": "false",
        "hoodie.compact.inline": "false",
    }
    if ordering:
        options["hoodie.table.ordering.fields"] = ",".join(ordering)
    keys = "org.apache.hudi.keygen."
    if partitioned:
        options["hoodie.datasource.write.partitionpath.field"] = "region"
        options["hoodie.datasource.write.keygenerator.class"] = keys + "SimpleKeyGenerator"
    else:
        options["hoodie.datasource.write.keygenerator.class"] = keys + "NonpartitionedKeyGenerator"
    return options | more


UTC = dt.UTC
ORDERINGS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [-5, 3, 7, 2**31 - 1]),
    "long": (pa.int64(), [-(2**40), 0, 2**33, 2**62]),
    "float": (pa.float32(), [-1.5, 0.0, 0.25, 3e38]),
    "double": (pa.float64(), [-1e300, -0.5, 0.1, 1e300]),
    "string": (pa.string(), ["", "Z", "é", "中"]),
    "date": (pa.date32(), [dt.date(1950, 1, 2), *(dt.date(2024, 2, day) for day in (1, 2, 29))]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(1950, 1, 2, 3, 4, 5, 6, UTC)]
        + [dt.datetime(2024, 1, 2, 3, 4, 5, micros, UTC) for micros in (0, 1, 999_999)],
    ),
    "decimal": (
        pa.decimal128(10, 2),
        [decimal.Decimal(text) for text in ("-99999999.99", "-0.01", "0.10", "12345678.90")],
    ),
}


class Ordered:
    """A table with one ordering column, `at`; rows count up in `v`."""

    def __init__(self, path: pathlib.Path, order_type: pa.DataType) -> None:
        self.path = path
        fields = [("id", pa.string()), ("at", order_type), ("v", pa.int64()), (DELETED, pa.bool_())]
        self.schema = pa.schema(fields)
        self.table = lakebed.create_table(
            None, str(path), self.schema, key="id", ordering="at", buckets=1
        )
        self.count = itertools.count()

    def changes(self, orders: Mapping[str, Any], deleted: bool = False) -> pa.Table:
        """Return a row, or a delete, for each key."""
        rows = [
            {"id": key, "at": at, "v": next(self.count), DELETED: deleted}
            for key, at in orders.items()
        ]
        return pa.Table.from_pylist(rows, self.schema)

    def check(self, hudi: Hudi, hudi_rs: HudiRs, want: Mapping[str, tuple[Any, int]]) -> None:
        """Compare key, ordering value and `v` of all rows."""
        rows = [
            {"id": key, "at": at, "v": v, DELETED: False} for key, (at, v) in sorted(want.items())
        ]
        table = pa.Table.from_pylist(rows, self.schema)
        for read in (
            self.table.read().read_all(),
            self.table.lookup(list("abcdefgx")),
            hudi.read(self.path),
            hudi_rs.read(self.path),
        ):
            assert user_rows(read.drop_columns([DELETED]), ["id"]) == user_rows(
                table.drop_columns([DELETED]), ["id"]
            )


@pytest.mark.parametrize("kind", ORDERINGS)
def test_deletes_are_ordered_by_values_of_every_type_whoever_wrote_them(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path, kind: str
) -> None:
    order_type, (low, middle, high, top) = ORDERINGS[kind]
    ordered = Ordered(tmp_path / "t", order_type)
    table, changes = ordered.table, ordered.changes
    table.upsert(changes(dict.fromkeys("abcdefg", middle)))
    table.upsert(
        changes({"a": low, "b": middle, "c": high, "d": high, "e": top, "x": high}, deleted=True)
    )
    table.upsert(changes({"d": middle, "e": high, "x": middle}))  # below their deletes
    table.upsert(changes({"c": high, "f": high, "g": low}))
    ordered.check(
        hudi, hudi_rs, {"a": (middle, 0), "c": (high, 16), "f": (high, 17), "g": (middle, 6)}
    )
    if kind == "date":
        return  # Hudi 1.2.0 cannot write a delete block with dates
    hudi.write(
        ordered.path,
        changes({"a": low, "c": top, "f": middle, "g": middle}, deleted=True),
        writer_options("t", ["at"], partitioned=False),
    )
    table.upsert(changes({"c": high, "g": middle}))
    ordered.check(hudi, hudi_rs, {"a": (middle, 0), "f": (high, 17), "g": (middle, 24)})


def test_a_delete_at_zero_in_an_int_column_is_refused_and_one_below_it_is_ordered_for_all(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path
) -> None:
    """Hudi's delete blocks spell a delete at 0 as one without an ordering value."""
    ordered = Ordered(tmp_path / "t", pa.int32())
    ordered.table.upsert(ordered.changes({"a": 7, "b": 7, "c": 7}))
    with pytest.raises(KeyValueError, match="cannot delete key 'a'"):
        ordered.table.upsert(ordered.changes({"a": 0}, deleted=True))
    ordered.table.upsert(ordered.changes({"b": -1, "c": 8}, deleted=True))
    ordered.check(hudi, hudi_rs, {"a": (7, 0), "b": (7, 1)})


def test_deletes_are_ordered_by_several_values_of_different_types(
    hudi: Hudi, tmp_path: pathlib.Path
) -> None:
    fields = {name: ORDERINGS[name] for name in ("date", "decimal", "timestamp", "string", "int")}
    schema = pa.schema([("id", pa.string()), *((name, kind) for name, (kind, _) in fields.items())])
    path = str(tmp_path / "t")
    table = lakebed.create_table(None, path, schema, key="id", ordering=list(fields), buckets=1)
    middle = {name: values[1] for name, (_, values) in fields.items()}
    table.upsert(pa.Table.from_pylist([{"id": "tie"} | middle] + [
        {"id": f"{name} {side}"} | middle for name in fields for side in ("low", "high")
    ], schema))  # fmt: skip
    deletes = [{"id": "tie", DELETED: True} | middle]
    for name, (_, values) in fields.items():
        for side, at in (("low", 0), ("high", 2)):
            deletes.append({"id": f"{name} {side}", DELETED: True} | middle | {name: values[at]})
    table.upsert(pa.Table.from_pylist(deletes, schema.append(pa.field(DELETED, pa.bool_()))))
    want = user_rows(
        pa.Table.from_pylist([{"id": f"{name} low"} | middle for name in fields], schema), ["id"]
    )
    assert user_rows(table.read().read_all(), ["id"]) == want
    assert user_rows(hudi.read(path), ["id"]) == want


WIDE = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("yes", pa.bool_()),
        ("small", pa.int32()),
        ("single", pa.float32()),
        ("double", pa.float64()),
        ("price", pa.decimal128(10, 2)),
        ("huge", pa.decimal128(38, 10)),
        ("bytes", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("items", pa.list_(pa.int32())),
        ("entries", pa.list_(pa.struct([("p", pa.string()), ("q", pa.int64())]))),
        ("counts", pa.map_(pa.string(), pa.int64())),
        ("place", pa.struct([("x", pa.int32()), ("tags", pa.list_(pa.string()))])),
        ("deep", pa.map_(pa.string(), pa.list_(pa.struct([("z", pa.decimal128(20, 4))])))),
    ]
)
FLOATS = [0.1, float("nan"), float("inf"), float("-inf"), -0.0, 5e-324]


def wide_row(number: int, ts: int) -> Row:
    """Return a row with a value of every type."""
    return {
        "id": f"k{number}",
        "ts": ts,
        "yes": number % 2 == 0,
        "small": number - 2**31,
        "single": FLOATS[number % 5],
        "double": FLOATS[number % len(FLOATS)],
        "price": decimal.Decimal(number) + decimal.Decimal("0.25") - ts,
        "huge": decimal.Decimal("-123456789012345678.1234567891") + number,
        "bytes": bytes([number % 256, 255, 0]),
        "day": dt.date(1500, 2, 28) + dt.timedelta(days=number * 50_000),
        "at": dt.datetime(1500, 1, 2, 3, 4, 5, 678901, UTC) + dt.timedelta(days=number * 50_000),
        "items": [number, ts] if number % 3 else [],
        "entries": [{"p": f"p{ts}", "q": number}, {"p": None, "q": None}],
        "counts": [("a", number), ("b", None)],
        "place": {"x": number, "tags": ["", "é"]},
        "deep": [("", [{"z": decimal.Decimal("1.2345")}]), ("e", [])],
    }


@pytest.mark.parametrize("blocks", ["parquet", "avro"])
def test_values_of_every_type_come_back_from_logs(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path, blocks: str
) -> None:
    path = str(tmp_path / "t")
    asked = {BLOCK_FORMAT: blocks}
    table = lakebed.create_table(
        None, path, WIDE, key="id", ordering="ts", buckets=1, properties=asked
    )
    table.bulk_insert(pa.Table.from_pylist([wide_row(n, 10) for n in range(4)], WIDE))
    bare: Row = {"id": "k1", "ts": 20}
    news = [wide_row(0, 20), bare, *(wide_row(n, 20) for n in range(4, 10)), {"id": "n", "ts": 20}]
    table.upsert(pa.Table.from_pylist(news, WIDE))
    # Every column but `yes` and `place`.
    some = pa.schema([field for field in WIDE if field.name not in ("yes", "place")])
    part = [{name: wide_row(n, 30)[name] for name in some.names} for n in (2, 4)]
    table.update_columns(pa.Table.from_pylist(part, some))
    state: dict[str, Row] = {row["id"]: row for row in (wide_row(n, 10) for n in range(4))}
    for row in (*news, *part):
        state[row["id"]] = (state[row["id"]] | row) if row in part else row
    want = pa.Table.from_pylist(list(state.values()), WIDE)
    for read in (table.read().read_all(), hudi.read(path), hudi_rs.read(path)):
        assert user_types(read) == user_types(want)
        assert user_rows(read, ["id"]) == user_rows(want, ["id"])


def test_hudi_reads_local_timestamps_and_nulls_in_lists_from_logs(
    hudi: Hudi, tmp_path: pathlib.Path
) -> None:
    """Apart from the rest: hudi-rs 0.5.0 knows no local timestamps."""
    schema = pa.schema(
        [("id", pa.int64()), ("local", pa.timestamp("us")), ("items", pa.list_(pa.int64()))]
    )
    path = str(tmp_path / "t")
    table = lakebed.create_table(None, path, schema, key="id", buckets=1)
    old, new = (
        pa.Table.from_pylist([{"id": 1, "local": local, "items": items}], schema)
        for local, items in (
            (dt.datetime(2024, 1, 2), [1]),
            (dt.datetime(1850, 1, 2, 3, 4, 5, 678901), [1, None]),
        )
    )
    table.bulk_insert(old)
    table.upsert(new)
    got = hudi.read(path)
    assert user_rows(got, ["id"]) == user_rows(new, ["id"])
    assert user_types(got) == user_types(new)


def upsert_in_pieces(path: pathlib.Path, tasks: Sequence[Sequence[pa.Table]]) -> list[str]:
    """Upsert in one commit by several tasks with a flush per table; give the names of the logs."""
    storage = open_storage(str(path), None)
    config = load_config(storage)
    commits = CommitCache(ActiveTimeline(storage, config.timeline_path))
    target = WriteTarget(storage, config, SystemClock(), commits, LocalExecutor())

    def stage(spec: WriteSpec, _: Snapshot) -> Iterable[Staged]:
        small = dataclasses.replace(spec, memory_bytes=1)
        for number, tables in enumerate(tasks):
            batches = (batch for table in tables for batch in table.to_batches())
            yield from stage_runs(batches, small, TaskId(number, 7, number), LogPolicy(True))

    commit, _ = execute_write(target, UPSERT, Source(SCHEMA, stage), None)
    return [name for stat in commit.write_stats for name in stat.log_files or ()]


def test_logs_of_one_instant_by_several_tasks_and_flushes_are_all_read(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "t"
    table = lakebed.create_table(None, str(path), SCHEMA, key="id", ordering="ts", buckets=1)
    table.bulk_insert(pa.Table.from_pylist([make(n) for n in range(10)], SCHEMA))

    def piece(*rows: Row) -> pa.Table:
        return pa.Table.from_pylist(list(rows), SCHEMA)

    logs = upsert_in_pieces(
        path,
        [
            [piece(make(0, ts=20), make(1, ts=30)), piece(make(0, ts=30), make(2, ts=5))],
            [piece(make(1, ts=20), make(0, ts=25)), piece(make(3, ts=20), make(1, ts=25))],
        ],
    )
    assert {name.rpartition(".log.")[2] for name in logs} == {
        *("1_0-7-0", "2_0-7-0"),
        *("1001_1-7-1", "1002_1-7-1"),
    }
    stamps = dict.fromkeys(range(10), 10) | {0: 30, 1: 30, 3: 20}
    want = user_rows(
        pa.Table.from_pylist([make(n, ts=ts) for n, ts in stamps.items()], SCHEMA), ["id"]
    )
    for read in (table.read().read_all(), hudi.read(path), hudi_rs.read(path)):
        assert user_rows(read, ["id"]) == want


@PARTITIONED
@pytest.mark.parametrize("merge", ["event", "commit"])
def test_all_read_a_copy_on_write_table_after_every_operation(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path, merge: str, partitioned: bool
) -> None:
    twin = Twin(tmp_path / "t", merge, partitioned, table_type="COPY_ON_WRITE")
    write_history(twin)
    twin.check(hudi, hudi_rs)
    twin.overwrite([make(n, ts=2) for n in (0, 6, 60)], whole_table=False)
    twin.upsert([make(0, ts=3), make(6, ts=1), make(61, ts=1)])
    twin.check(hudi, hudi_rs)


class HudiTwin(Twin):
    """A twin that Hudi writes to as well, with `options` of its own."""

    def __init__(
        self,
        path: pathlib.Path,
        merge: str,
        partitioned: bool,
        options: Mapping[str, str],
        **how: Any,
    ) -> None:
        super().__init__(path, merge, partitioned, **how)
        self.options = writer_options(path.name, MERGES[merge], partitioned=partitioned, **options)

    def hudi_upsert(self, hudi: Hudi, rows: Sequence[Row]) -> None:
        """Let Hudi upsert `rows`."""
        hudi.write(self.path, pa.Table.from_pylist(list(rows), SCHEMA), self.options)
        self.model.upsert(rows, newest_delta(self.table))

    def hudi_delete(self, hudi: Hudi, rows: Sequence[Row]) -> None:
        """Let Hudi delete the keys of `rows`."""
        options = self.options | {"hoodie.datasource.write.operation": "delete"}
        hudi.write(self.path, pa.Table.from_pylist(list(rows), SCHEMA), options)
        self.model.delete(rows)

    def hudi_compact(self, hudi: Hudi) -> None:
        """Let Hudi compact all file groups that have logs."""
        settings = {
            "hoodie.compact.inline.max.delta.commits": "1",
            "hoodie.metadata.enable": "false",
        }
        options = ",".join(f"{name}={value}" for name, value in settings.items())
        answer = hudi.sql(
            f"call run_compaction(op => 'scheduleandexecute', path => '{self.path}', "
            f"options => '{options}')"
        )
        assert len(answer["rows"]) == 1
        self.model.forget_deletes()

    def assert_compacted(self) -> None:
        """Check that base files alone hold every row."""
        read = self.table.read(columns=SEEN, mode="read_optimized").read_all()
        assert seen(read) == self.model.as_read()


def newest_delta(table: lakebed.Table) -> str:
    """Return the instant of the newest deltacommit."""
    rows = table.history().to_pylist()
    return str(next(row["instant"] for row in rows if row["action"] == "deltacommit"))


STAYS_AT_8 = {"hoodie.write.table.version": "8"}  # without it Hudi makes a version 9 of it


@pytest.mark.parametrize(
    ("version", "layout", "merge", "partitioned", "options"),
    [
        pytest.param(9, "lsm_tree", "event", True, {}, id="9, event time"),
        pytest.param(9, "default", "commit", False, {}, id="9, commit time, default layout"),
        pytest.param(9, "lsm_tree", "two fields", False, {}, id="9, two ordering fields"),
        pytest.param(8, "default", "event", False, STAYS_AT_8, id="8"),
        pytest.param(8, "lsm_tree", "commit", True, {}, id="8, upgraded by Hudi"),
    ],
)
def test_hudi_writes_and_compacts_on_top_and_lakebed_goes_on(
    hudi: Hudi,
    hudi_rs: HudiRs,
    tmp_path: pathlib.Path,
    version: int,
    layout: str,
    merge: str,
    partitioned: bool,
    options: dict[str, str],
) -> None:
    twin = HudiTwin(
        tmp_path / "t", merge, partitioned, options, table_version=version, layout=layout
    )
    write_history(twin)
    twin.hudi_upsert(
        hudi,
        [
            *(make(n, ts=60) for n in (0, 2, 13, 14, 22)),
            *(make(n, ts=4) for n in (1, 3, 16)),  # late
            *(make(n, ts=4) for n in range(70, 80)),
        ],
    )
    assert lakebed.open_table(None, str(twin.path)).config.version == (8 if options else 9)
    twin.hudi_delete(hudi, [make(n) for n in (17, 70)])
    twin.upsert([make(0, ts=70), make(71, ts=3), make(72, ts=9), make(81), marked(make(73, ts=9))])
    twin.delete([make(74)])
    twin.check(hudi, hudi_rs)
    twin.hudi_compact(hudi)
    twin.assert_compacted()
    twin.upsert([make(0, ts=80), make(1, ts=4), make(82), marked(make(75, ts=9))])
    twin.update([make(2, ts=90)])
    twin.delete([make(76)])
    twin.hudi_upsert(hudi, [make(0, ts=85), make(2, ts=95), make(83)])
    twin.check(hudi, hudi_rs)


@pytest.mark.parametrize("index", ["simple", "global_simple"])
def test_all_read_a_table_whose_writer_looks_keys_up(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path, index: str
) -> None:
    twin = Twin(tmp_path / "t", "event", partitioned=True, index=index)
    write_history(twin)
    twin.check(hudi, hudi_rs)


def test_others_refuse_to_merge_logs_of_a_table_with_a_merger_of_its_own(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path
) -> None:
    def newer(_: pa.RecordBatch, new: pa.RecordBatch) -> pa.RecordBatch:
        return new

    path = tmp_path / "t"
    table = lakebed.create_table(
        None, str(path), SCHEMA, key="id", ordering="ts", buckets=1, merger=newer
    )
    table.bulk_insert(pa.Table.from_pylist([make(0)], SCHEMA))
    loaded = table.read(columns=SEEN).read_all().to_pylist()
    assert seen_by_hudi(hudi, path) == loaded
    assert seen(hudi_rs.read(path)) == loaded
    table.upsert(pa.Table.from_pylist([make(0, ts=5)], SCHEMA))
    with pytest.raises(PeerError, match="No valid spark merger implementation"):
        hudi.read(path)
    with pytest.raises(PeerError, match="CUSTOM"):
        hudi_rs.read(path)
    assert seen_by_hudi(hudi, path, **READ_OPTIMIZED) == loaded


class Script:
    """Changes to one key, each a word: its kind, and the ordering value.

    U is a row; V and N update the column `v` or `note`; D deletes by key, X with a value.
    """

    def __init__(self, path: pathlib.Path, merge: str, layout: str = "lsm_tree") -> None:
        self.table = lakebed.create_table(
            None, str(path), SCHEMA, key="id", ordering=MERGES[merge], buckets=1, layout=layout
        )

    def run(self, word: str, keys: Sequence[int]) -> None:
        """Change each of `keys`."""
        kind, ts = word[0], int(word[1:] or 0)
        rows = [make(key, ts=ts) for key in keys]
        if kind == "D":
            self.table.delete([{"id": row["id"]} for row in rows])
        elif kind in "UX":
            marks = [row | {DELETED: kind == "X"} for row in rows]
            self.table.upsert(pa.Table.from_pylist(marks, MARKED))
        else:
            names = ["id", "ts", "v" if kind == "V" else "note"]
            some = pa.Table.from_pylist(rows, SCHEMA).select(names)
            self.table.update_columns(some)

    def run_all(self, words: Sequence[str]) -> None:
        """Change key 0 as the first of `words` says, and so on; all keys are in base files."""
        self.run("U10", [*range(len(words)), 50])
        steps = itertools.zip_longest(*(text.split() for text in words))
        for step in steps:
            changed: dict[str, list[int]] = {}
            for key, word in enumerate(step):
                if word is not None:
                    changed.setdefault(word, []).append(key)
            for word, keys in changed.items():
                self.run(word, keys)


DELETES = ["D U3", "D U30", "X20 U15", "X20 U25", "X5", "D D U30 X40", "X20 D U30", "U5 D U4"]
UPDATES = ["U5 V7", "U20 V15", "V20 D", "V20 X30", "V20 V30", "V20 U30", "U20 V30", "V20 N30",
           "V20 N15", "V5 N30"]  # fmt: skip
BOTH = ["D V30", "D V3", "X20 V30", "X20 V15"]


@pytest.mark.parametrize(
    ("merge", "words"),
    [
        pytest.param("event", DELETES + UPDATES + BOTH, id="event time"),
        # Apart: Hudi 1.2.0 fails on a row after a delete where partial rows are in the logs.
        pytest.param("commit", DELETES, id="commit time, deletes"),
        pytest.param("commit", UPDATES, id="commit time, updates"),
    ],
)
def test_all_agree_on_one_change_after_another_in_logs_of_their_own(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path, merge: str, words: Sequence[str]
) -> None:
    path = tmp_path / "t"
    script = Script(path, merge, layout="default")
    script.run_all(words)
    ours = seen(script.table.read(columns=SEEN).read_all())
    assert seen_by_hudi(hudi, path) == ours
    assert seen(hudi_rs.read(path)) == ours


def test_hudi_shows_deleted_rows_again_until_we_compact_as_the_docs_say(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "t"
    script = Script(path, "event")
    words = ["D U3", "D U3 X4", "D X7 U6", "X20 U15", "D U30", "U5 V7"]
    script.run_all(words)
    ours = seen(script.table.read(columns=SEEN).read_all())
    assert [(row["id"], row["ts"]) for row in ours] == [
        ("k0", 3),
        ("k4", 30),
        ("k5", 10),
        ("k50", 10),
    ]
    theirs = [(row["id"], row["ts"]) for row in seen_by_hudi(hudi, path)]
    assert theirs == [("k0", 10), ("k1", 10), ("k2", 10), ("k4", 30), ("k5", 10), ("k50", 10)]
    script.table.compact("full")
    assert seen(script.table.read(columns=SEEN).read_all()) == ours
    assert seen_by_hudi(hudi, path) == ours
    assert seen(hudi_rs.read(path)) == ours
    # The deletes at 4, 7 and 20 are kept beside the new base file; Hudi reads past them, and by them.
    script.run("U2", [1, 2, 3])
    assert seen(script.table.read(columns=SEEN).read_all()) == ours
    assert seen_by_hudi(hudi, path) == ours
    assert seen(hudi_rs.read(path)) == ours


def test_a_late_row_gives_nothing_to_an_update_of_some_columns(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path
) -> None:
    script = Script(tmp_path / "t", "event")
    script.run_all(["N20 U15"])
    ours = seen(script.table.read(columns=SEEN).read_all())
    assert ours[0]["v"] == make(0, ts=10)["v"]
    assert seen_by_hudi(hudi, tmp_path / "t") == ours
    assert seen(hudi_rs.read(tmp_path / "t")) == ours


@pytest.mark.parametrize("index", ["bucket", "global_simple"])
def test_hudi_reads_updated_columns_as_changes_and_writes_on_top(
    hudi: Hudi, tmp_path: pathlib.Path, index: str
) -> None:
    """Of partial rows its incremental query makes garbage; its global index cannot merge them."""
    path = tmp_path / "t"
    how: dict[str, Any] = {"buckets": 1} if index == "bucket" else {}
    table = lakebed.create_table(
        None, str(path), SCHEMA, "id", "ts", ["region"], index=index, table_version=9, **how
    )
    table.bulk_insert(pa.Table.from_pylist([make(n, ts=10) for n in range(6)], SCHEMA))
    first = table.history()["completion_time"][0].as_py()
    table.update_columns(
        pa.Table.from_pylist([make(n, ts=20) for n in (1, 2)], SCHEMA).select(
            ["id", "region", "ts", "v"]
        )
    )
    since = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": first,
    }
    ours = table.read(since=first).read_all()
    assert user_rows(hudi.read(path, **since), ["id"]) == user_rows(ours, ["id"])
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "region",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.metadata.enable": "false",
        "hoodie.index.type": index.upper(),
        "hoodie.bucket.index.num.buckets": "1",
    }
    hudi.write(path, pa.Table.from_pylist([make(1, ts=30)], SCHEMA), options)
    found = user_rows(lakebed.open_table(None, str(path)).read().read_all(), ["id"])
    assert found == user_rows(hudi.read(path), ["id"])
    assert [row["ts"] for row in found] == [10, 30, 20, 10, 10, 10]


@pytest.mark.parametrize("merge", ["event", "commit"])
def test_hudi_reads_a_column_update_of_a_key_that_is_not_there(
    hudi: Hudi, tmp_path: pathlib.Path, merge: str
) -> None:
    script = Script(tmp_path / "t", merge)
    script.run("U10", [50])
    script.run("V20", [1])
    ours = seen(script.table.read(columns=SEEN).read_all())
    assert seen_by_hudi(hudi, tmp_path / "t") == ours


def test_hudi_reads_a_row_after_its_delete_where_another_was_updated_in_part(
    hudi: Hudi, tmp_path: pathlib.Path
) -> None:
    script = Script(tmp_path / "t", "commit")
    script.run("U10", [1, 50])
    for word, key in (("V20", 50), ("D", 1), ("U30", 1)):
        script.run(word, [key])
    ours = seen(script.table.read(columns=SEEN).read_all())
    assert seen_by_hudi(hudi, tmp_path / "t") == ours
