"""Change data that we write: Hudi 1.2.0's CDC query gives what it gives over its own commits."""

import datetime as dt
import decimal
import json
import pathlib
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from interop.clients import Hudi, HudiRs
from interop.rows import user_rows
from lakebed.api.table import Table
from lakebed.storage.local import LocalStorage
from lakebed.table.store.cdc_log import BLOCK_BYTES
from support.cdc import cdc_blocks, cdc_paths, cdc_records

MODES = ["OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER"]
SCHEMA = pa.schema(
    [("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("v", pa.int64())]
)
Told = tuple[str, int]
# An insert, then an update, a late row and a new key, deletes, and a commit of which all is late.
STEPS: list[tuple[str, list[Told]]] = [
    ("upsert", [(f"k{n}", 10) for n in range(6)]),
    ("upsert", [("k1", 11), ("k2", 9), ("n1", 5)]),
    ("delete", [("k3", 0), ("nobody", 0)]),
    ("upsert", [("k4", 1)]),
]
LATER: list[tuple[str, list[Told]]] = [
    ("upsert", [("k5", 10), ("n1", 6), ("n2", 1)]),
    ("delete", [("k0", 0)]),
]


def rows(told: list[Told]) -> pa.Table:
    made = [{"id": key, "region": "eu", "ts": ts, "v": ts * 10} for key, ts in told]
    return pa.Table.from_pylist(made, schema=SCHEMA)


def options(kind: str, mode: str, index: str) -> dict[str, str]:
    return {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.table.type": kind,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "region",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.table.cdc.enabled": "true",
        "hoodie.table.cdc.supplemental.logging.mode": mode,
        "hoodie.metadata.enable": "false",
        "hoodie.compact.inline": "false",
        "hoodie.clean.automatic": "false",
        "hoodie.index.type": index.upper(),
        **({"hoodie.bucket.index.num.buckets": "1"} if index == "bucket" else {}),
    }


def create(path: pathlib.Path, kind: str, mode: str, index: str, schema: pa.Schema) -> Table:
    return lakebed.create_table(
        None,
        path,
        schema,
        key=["id"],
        ordering="ts",
        partition_by=["region"],
        name="t",
        table_type=kind,
        index=index,
        buckets=1 if index == "bucket" else None,
        properties={
            "hoodie.table.cdc.enabled": "true",
            "hoodie.table.cdc.supplemental.logging.mode": mode.lower(),
        },
    )


def ours(table: Table, steps: list[tuple[str, list[Told]]]) -> None:
    for operation, told in steps:
        if operation == "upsert":
            table.upsert(rows(told))
        else:
            table.delete([{"id": key, "region": "eu"} for key, _ in told])


def theirs(
    hudi: Hudi, path: pathlib.Path, steps: list[tuple[str, list[Told]]], given: dict[str, str]
) -> None:
    for operation, told in steps:
        hudi.write(path, rows(told), given | {"hoodie.datasource.write.operation": operation})


def queried(hudi: Hudi, path: pathlib.Path, since: str = "000") -> list[tuple[Any, ...]]:
    """Return what Hudi's CDC query returns, with instants numbered and without meta columns.

    Whether an image has meta columns is kept: it tells where Hudi took it from.
    """
    answer = hudi.read_typed(
        path,
        **{
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.query.incremental.format": "cdc",
            "hoodie.datasource.read.begin.instanttime": since,
        },
    )
    numbers = {instant: n for n, instant in enumerate(sorted({row[1] for row in answer["rows"]}))}
    found = [
        (numbers[instant], op, _image(before), _image(after))
        for op, instant, before, after in answer["rows"]
    ]
    return sorted(found, key=str)


def rows_alone(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Leave out where images were taken from."""
    return sorted(
        (
            tuple(
                part[1] if isinstance(part, tuple) else None if part == "null" else part
                for part in change
            )
            for change in found
        ),
        key=str,
    )


def _image(text: str | None) -> Any:
    if text is None or text == "null":
        return text
    row = json.loads(text)
    plain = {name: value for name, value in row.items() if not name.startswith("_hoodie_")}
    return ("with meta columns" if len(plain) < len(row) else "plain", plain)


CASES = [(kind, "bucket", mode) for kind in ("COPY_ON_WRITE", "MERGE_ON_READ") for mode in MODES]


@pytest.mark.parametrize(
    ("kind", "index", "mode"), [*CASES, ("MERGE_ON_READ", "simple", "DATA_BEFORE_AFTER")]
)
def test_hudis_cdc_query_over_our_commits_is_that_over_its_own(
    kind: str, index: str, mode: str, tmp_path: pathlib.Path, hudi: Hudi, hudi_rs: HudiRs
):
    mine, its = tmp_path / "ours", tmp_path / "its"
    given = options(kind, mode, index)
    table = create(mine, kind, mode, index, SCHEMA)
    ours(table, STEPS)
    theirs(hudi, its, STEPS, given)
    if kind == "MERGE_ON_READ":
        [done] = table.compact(mode="full")
        hudi.sql(
            f"CALL run_compaction(op => 'scheduleAndExecute', path => '{its}', "
            "options => 'hoodie.compact.inline.max.delta.commits=1')"
        )
        assert net_change(mine, done.instant) == net_change(its, None)
    ours(table, LATER)
    theirs(hudi, its, LATER, given)
    found = queried(hudi, mine)
    if index == "simple":
        # Hudi fills no file that has a log beside it, not even one of change data.
        assert rows_alone(found) == rows_alone(queried(hudi, its))
    else:
        assert found == queried(hudi, its)
    changed = [(number, op) for number, op, _, _ in found]
    assert changed.count((0, "i")) == 6
    assert [change for change in changed if change[0]] == [
        (1, "i"),
        (1, "u"),
        (2, "d"),
        (3, "i"),
        (3, "u"),
        (3, "u"),
        (4, "d"),
    ]
    assert schemas(mine) == schemas(its)
    expected = user_rows(lakebed.open_table(None, mine).read().read_all(), ["id"])
    assert user_rows(hudi.read(mine), ["id"]) == expected
    assert user_rows(hudi_rs.read(mine), ["id"]) == expected
    check_hudi_goes_on(hudi, mine, given)


def check_hudi_goes_on(hudi: Hudi, path: pathlib.Path, given: dict[str, str]) -> None:
    """Assert that Hudi writes to our table, with change data, and that all is still told."""
    before = queried(hudi, path)
    upsert = {"hoodie.datasource.write.operation": "upsert"}
    hudi.write(path, rows([("k1", 50), ("k9", 50)]), given | upsert)
    after = queried(hudi, path)
    new = [change for change in after if change not in before]
    assert [(op, image[1]["id"]) for _, op, _, image in new] == [("i", "k9"), ("u", "k1")]
    assert len(after) == len(before) + 2
    table = lakebed.open_table(None, path)
    assert {row["id"] for row in table.read().read_all().to_pylist()} >= {"k1", "k9"}


def storage_of(path: pathlib.Path) -> LocalStorage:
    return LocalStorage(path)


def net_change(path: pathlib.Path, instant: str | None) -> list[Any]:
    """Return the change data of a compaction, the last one without `instant`, but for its time."""
    storage = storage_of(path)
    logs = cdc_paths(storage)
    log = max(logs, key=lambda text: text.rpartition("_")[0].rpartition("_")[2])
    assert instant is None or instant in log
    records = [record | {"ts_ms": ""} for record in cdc_records(storage, log)]
    return sorted(records, key=str)


def schemas(path: pathlib.Path) -> set[str]:
    """Return the texts of the schemas in all change data of a table."""
    storage = storage_of(path)
    blocks = [block for log in cdc_paths(storage) for block in cdc_blocks(storage.read(log))]
    return {text for headers, _ in blocks for key, text in headers.items() if key.name == "SCHEMA"}


WIDE = pa.schema(
    [
        *SCHEMA,
        ("flag", pa.bool_()),
        ("few", pa.int32()),
        ("real", pa.float32()),
        ("money", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("raw", pa.binary()),
        ("inner", pa.struct([("a", pa.string()), ("b", pa.list_(pa.int64()))])),
        ("named", pa.map_(pa.string(), pa.int32())),
    ]
)


def wide(key: str, ts: int) -> dict[str, Any]:
    return {
        "id": key,
        "region": "eu",
        "ts": ts,
        "v": None,
        "flag": ts % 2 == 0,
        "few": -ts,
        "real": ts / 2,
        "money": decimal.Decimal(-ts) / 4,
        "day": dt.date(1999, 1, ts),
        "at": dt.datetime(1969, 12, 31, 23, 59, ts, 5, dt.UTC),
        "raw": bytes([0, ts, 255]),
        "inner": None if ts % 2 else {"a": "ü", "b": [ts, 0]},
        "named": {"x": ts},
    }


def test_rows_of_all_types_come_out_of_our_change_data_as_out_of_hudis(
    tmp_path: pathlib.Path, hudi: Hudi
):
    """A change that fills a block ends it: Hudi reads the blocks of a log one by one."""
    kind, mode = "COPY_ON_WRITE", "DATA_BEFORE_AFTER"
    table = create(tmp_path / "ours", kind, mode, "bucket", WIDE)
    for made in ([("a", 1), ("b", 1)], [("a", 2), ("b", 3), ("c", 4)]):
        rows = [wide(*row) for row in made]
        rows[0]["raw"] *= BLOCK_BYTES // 5  # three bytes each, before and after the change
        batch = pa.Table.from_pylist(rows, schema=WIDE)
        table.upsert(batch)
        upsert = {"hoodie.datasource.write.operation": "upsert"}
        hudi.write(tmp_path / "its", batch, options(kind, mode, "bucket") | upsert)
    storage = storage_of(tmp_path / "ours")
    [log] = cdc_paths(storage)
    assert len(cdc_blocks(storage.read(log))) == 2
    answers = [hudi_text(hudi, tmp_path / name) for name in ("ours", "its")]
    assert len(answers[0]) == 3
    assert answers[0] == answers[1]


def hudi_text(hudi: Hudi, path: pathlib.Path) -> list[tuple[str, ...]]:
    """Return the second commit's changes, to the letter."""
    answer = hudi.read_typed(
        path,
        **{
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.query.incremental.format": "cdc",
            "hoodie.datasource.read.begin.instanttime": "000",
        },
    )
    last = max(row[1] for row in answer["rows"])
    return sorted((row[0], row[2], row[3]) for row in answer["rows"] if row[1] == last)
