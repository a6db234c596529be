"""Apache Hudi and hudi-rs read what Lakebed wrote, and Lakebed reads what Hudi then wrote to it."""

import datetime as dt
import decimal
import itertools
import pathlib
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from interop.clients import Hudi, HudiRs
from interop.rows import user_rows, user_types
from support.pairs import pairwise

BUCKETS = 4

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("n", pa.int64()),
        ("ts", pa.int64()),
        ("region", pa.string()),
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
    ]
)
FLOATS = [0.1, float("nan"), float("inf"), float("-inf"), -0.0, 5e-324]


def row(number: int, ts: int = 10) -> dict[str, Any]:
    """Return a full row; every value depends on `number` and `ts`, so that a mix-up shows."""
    return {
        "id": f"käse {number}",
        "n": number * 37 % 101,  # apart from `id`, or the two parts' hashes cancel out
        "ts": ts,
        "region": ["eu", "us", "亚洲"][number % 3],
        "yes": number % 2 == 0,
        "small": number - 2**31,
        "single": number / 4,
        "double": FLOATS[number % len(FLOATS)],
        "price": decimal.Decimal(number) + decimal.Decimal("0.25") - ts,
        "huge": decimal.Decimal("-123456789012345678.1234567891") + number,
        "bytes": bytes([number % 256, 255, 0]),
        "day": dt.date(2024, 2, 28) + dt.timedelta(days=number),
        "at": dt.datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC) + dt.timedelta(days=number),
        "items": [number, ts],
        "entries": [{"p": f"p{ts}", "q": number}, {"p": None, "q": None}],
        "counts": [("a", number), ("b", None)],
        "place": {"x": number, "tags": ["", "é"]},
    }


def bare_row(number: int, ts: int = 10) -> dict[str, Any]:
    """Return a row of nulls but for key, ordering and partition."""
    return {"id": f"bare {number}", "n": number, "ts": ts, "region": "eu"}


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    """Return `rows` as an Arrow table of SCHEMA."""
    return pa.Table.from_pylist(rows, SCHEMA)


def some_rows() -> pa.Table:
    """Return enough rows that every bucket holds some."""
    return table_of([row(n) for n in range(40)] + [bare_row(n) for n in range(5)])


def create(path: pathlib.Path, **how: Any) -> lakebed.Table:
    """Create a table of SCHEMA with key (id, n) and ordering ts."""
    settings: dict[str, Any] = {"key": ["id", "n"], "ordering": "ts", "buckets": BUCKETS} | how
    return lakebed.create_table(None, str(path), SCHEMA, **settings)


def assert_same(got: pa.Table, want: pa.Table) -> None:
    """Compare the user's columns: names, types and every value."""
    assert user_types(got) == user_types(want)
    assert user_rows(got, ["id", "n"]) == user_rows(want, ["id", "n"])


def hudi_options(path: pathlib.Path, partitioned: bool, **more: str) -> dict[str, str]:
    """Return the options of a Hudi writer that upserts by its own bucket index."""
    options = {
        "hoodie.table.name": path.name,
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.recordkey.field": "id,n",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "SIMPLE",
        "hoodie.bucket.index.num.buckets": str(BUCKETS),
        "hoodie.metadata.enable": "false",
    }
    keys = "org.apache.hudi.keygen."
    if partitioned:
        options["hoodie.datasource.write.partitionpath.field"] = "region"
        options["hoodie.datasource.write.keygenerator.class"] = keys + "ComplexKeyGenerator"
    else:
        options["hoodie.datasource.write.keygenerator.class"] = keys + "NonpartitionedKeyGenerator"
    return options | more


TYPES = ["COPY_ON_WRITE", "MERGE_ON_READ"]
PARTITIONS = pytest.mark.parametrize("partition_by", [[], ["region"]], ids=["flat", "partitioned"])


@pytest.mark.parametrize(
    ("table_type", "version", "layout", "partition_by"),
    pairwise(list(itertools.product(TYPES, [8, 9], ["lsm_tree", "default"], [[], ["region"]]))),
)
def test_others_read_what_lakebed_wrote(
    hudi: Hudi,
    hudi_rs: HudiRs,
    tmp_path: pathlib.Path,
    table_type: str,
    version: int,
    layout: str,
    partition_by: list[str],
) -> None:
    path = tmp_path / "t"
    rows = some_rows()
    table = create(
        path,
        table_type=table_type,
        table_version=version,
        layout=layout,
        partition_by=partition_by,
    )
    if table_type == "COPY_ON_WRITE":
        table.bulk_insert(rows.slice(0, 20))
        table.insert(rows.slice(20))
    else:
        table.bulk_insert(rows)
    assert_same(hudi.read(path), rows)
    assert_same(hudi_rs.read(path), rows)
    assert_same(lakebed.open_table(None, str(path)).read().read_all(), rows)


@pytest.mark.parametrize("table_type", TYPES)
def test_others_resolve_a_repeated_key_by_ordering_as_lakebed_does(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path, table_type: str
) -> None:
    path = tmp_path / "t"
    table = create(path, table_type=table_type)
    first = [row(n, ts=10) for n in range(12)]
    then = [row(3, ts=20), row(4, ts=5), row(50, ts=1)]
    if table_type == "COPY_ON_WRITE":
        table.bulk_insert(table_of(first))
        table.insert(table_of(then))
    else:
        table.bulk_insert(table_of(first + then))
    want = {n: row(n) for n in range(12)} | {3: row(3, ts=20), 50: row(50, ts=1)}
    rows = table_of(list(want.values()))
    assert_same(table.read().read_all(), rows)
    assert_same(hudi.read(path), rows)
    assert_same(hudi_rs.read(path), rows)


@PARTITIONS
@pytest.mark.parametrize("table_type", TYPES)
def test_hudi_upserts_by_its_own_bucket_index_and_lakebed_reads_the_result(
    hudi: Hudi,
    hudi_rs: HudiRs,
    tmp_path: pathlib.Path,
    table_type: str,
    partition_by: list[str],
) -> None:
    path = tmp_path / "t"
    table = create(path, table_type=table_type, partition_by=partition_by)
    table.bulk_insert(some_rows())
    model: dict[tuple[str, int], Mapping[str, Any]] = {
        (r["id"], r["n"]): r for r in some_rows().to_pylist()
    }
    changes = [row(n, ts=20) for n in (0, 7, 8, 39)] + [row(n, ts=1) for n in (1, 2)]
    changes += [row(n, ts=20) for n in range(100, 110)]
    options = hudi_options(
        path, bool(partition_by), **{"hoodie.datasource.write.table.type": table_type}
    )
    hudi.write(path, table_of(changes), options)
    for change in changes:
        old = model.get((change["id"], change["n"]))
        if old is None or change["ts"] >= old["ts"]:
            model[change["id"], change["n"]] = change
    rows = table_of([dict(r) for r in model.values()])
    assert_same(hudi.read(path), rows)
    if table_type == "COPY_ON_WRITE":
        assert_same(lakebed.open_table(None, str(path)).read().read_all(), rows)
        assert_same(hudi_rs.read(path), rows)


def test_hudi_and_lakebed_write_in_turn_to_a_copy_on_write_table(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "t"
    create(path, table_type="COPY_ON_WRITE").bulk_insert(table_of([row(n) for n in range(10)]))
    hudi.write(path, table_of([row(n, ts=20) for n in range(5, 15)]), hudi_options(path, False))
    lakebed.open_table(None, str(path)).insert(table_of([row(n, ts=30) for n in range(12, 18)]))
    hudi.write(path, table_of([row(n, ts=40) for n in (0, 17, 18)]), hudi_options(path, False))
    stamps = dict.fromkeys(range(5), 10) | dict.fromkeys(range(5, 12), 20)
    stamps |= dict.fromkeys(range(12, 18), 30) | {0: 40, 17: 40, 18: 40}
    rows = table_of([row(n, ts=ts) for n, ts in stamps.items()])
    assert_same(lakebed.open_table(None, str(path)).read().read_all(), rows)
    assert_same(hudi.read(path), rows)
    assert_same(hudi_rs.read(path), rows)


def test_a_hudi_writer_that_names_no_index_takes_the_bucket_index_that_the_table_stores(
    hudi: Hudi, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "t"
    create(path, table_type="COPY_ON_WRITE").bulk_insert(some_rows())
    options = hudi_options(path, False)
    for name in list(options):
        if "index" in name:
            del options[name]
    hudi.write(path, table_of([row(n, ts=20) for n in range(200, 240)]), options)
    # Lakebed looks a key up in its bucket only, so a row that Hudi put elsewhere would be there twice.
    new = table_of([row(n, ts=30) for n in range(200, 240)])
    lakebed.open_table(None, str(path)).insert(new)
    assert_same(hudi.read(path), pa.concat_tables([some_rows(), new]))


@pytest.mark.parametrize("table_type", TYPES)
def test_others_do_not_see_a_write_that_failed_half_way(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path, table_type: str
) -> None:
    path = tmp_path / "t"
    table = create(path, table_type=table_type)
    table.bulk_insert(some_rows())

    def broken() -> Iterator[pa.RecordBatch]:
        yield from table_of([row(n, ts=20) for n in range(300)]).to_batches()
        raise OSError("the source went away")

    with pytest.raises(Exception, match="the source went away"):
        table.insert(pa.RecordBatchReader.from_batches(SCHEMA, broken()))
    assert_same(hudi.read(path), some_rows())
    assert_same(hudi_rs.read(path), some_rows())


def orphan_of(path: pathlib.Path) -> pathlib.Path | None:
    """Leave what a killed attempt of a task leaves: a base file of the instant now in flight."""
    timeline = path / ".hoodie" / "timeline"
    done = {file.name.partition("_")[0] for file in timeline.glob("*_*")}
    pending = {file.name.partition(".")[0] for file in timeline.glob("*.requested")} - done
    base = next(path.glob("*.parquet"))
    if not pending:
        return None
    file_id, _, _ = base.name.split("_")
    orphan = path / f"{file_id}_9-9-9_{pending.pop()}.parquet"
    shutil.copy(base, orphan)
    return orphan


def test_others_do_not_see_the_orphan_of_a_failed_attempt(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "t"
    table = create(path, table_type="COPY_ON_WRITE")
    table.bulk_insert(some_rows())
    changed = table_of([row(n, ts=20) for n in range(40)])
    orphans: list[pathlib.Path | None] = []

    def leaving_an_orphan() -> Iterator[pa.RecordBatch]:
        yield from changed.to_batches()
        orphans.append(orphan_of(path))

    table.insert(pa.RecordBatchReader.from_batches(SCHEMA, leaving_an_orphan()))
    (orphan,) = orphans
    assert orphan is not None, "no instant was in flight while the rows were read"
    assert not orphan.exists()
    rows = table_of([row(n, ts=20) for n in range(40)] + [bare_row(n) for n in range(5)])
    assert_same(hudi.read(path), rows)
    assert_same(hudi_rs.read(path), rows)


def test_hudi_reads_dates_and_times_before_its_calendar_changed(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path
) -> None:
    old = row(0) | {"day": dt.date(1500, 2, 28), "at": dt.datetime(1500, 1, 1, tzinfo=dt.UTC)}
    rows = table_of([old])
    create(tmp_path / "t", table_type="COPY_ON_WRITE").bulk_insert(rows)
    assert_same(hudi.read(tmp_path / "t"), rows)
    assert_same(hudi_rs.read(tmp_path / "t"), rows)


def test_hudi_reads_local_timestamps_and_nulls_in_lists(hudi: Hudi, tmp_path: pathlib.Path) -> None:
    """Apart from the rest: hudi-rs 0.5.0 knows no local timestamps, and Hudi's own Avro writer no null elements."""
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("ts", pa.int64()),
            ("local", pa.timestamp("us")),
            ("items", pa.list_(pa.int64())),
        ]
    )
    local = dt.datetime(1850, 1, 2, 3, 4, 5, 678901)
    rows = pa.Table.from_pylist([{"id": 1, "ts": 1, "local": local, "items": [1, None]}], schema)
    for table_type in TYPES:
        path = tmp_path / table_type
        lakebed.create_table(
            None, str(path), schema, key=["id"], ordering="ts", table_type=table_type
        ).bulk_insert(rows)
        got = hudi.read(path)
        assert user_rows(got, ["id"]) == user_rows(rows, ["id"])
        assert user_types(got) == user_types(rows)


def test_others_read_a_column_whose_name_is_a_keyword(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path
) -> None:
    rows = pa.table({"id": ["a", "b"], "select": [1, 2]})
    path = tmp_path / "t"
    lakebed.create_table(None, str(path), rows.schema, key=["id"]).bulk_insert(rows)
    for peer in (hudi, hudi_rs):
        assert user_rows(peer.read(path), ["id"]) == user_rows(rows, ["id"])
