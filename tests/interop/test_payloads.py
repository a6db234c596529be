"""Payload classes and partial updates of Apache Hudi: it merges as we do, whoever writes.

Every key has a history of its own, so one table tries many of them. The model says what Hudi
1.2.0 answered when it was asked; where it and the versions of a table differ, `RULES` says how.
"""

import pathlib
import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa
import pytest

import lakebed
from interop.clients import Hudi
from interop.rows import user_rows
from lakebed.api.table import Table

Row = dict[str, Any]

MODEL = "org.apache.hudi.common.model."
MARKER = "__debezium_unavailable_value"
IS_DELETED = "_hoodie_is_deleted"
KEYS = [f"k{number:02}" for number in range(60)]
BLOCKS = "hoodie.logfile.data.block.format"
BIN_FILES = ("mysql-bin.000001", "mysql-bin.000002")


@dataclass(frozen=True)
class Rule:
    """What becomes of two versions: by time or by arrival, and which values give way."""

    ordering: tuple[str, ...] = ()
    gives_way: Literal["null", "marker"] | None = None
    # A delete by a column beats what is older whatever its time, and loses to what is newer.
    natural_deletes: bool = False


@dataclass(frozen=True)
class Payload:
    """A payload class, the ordering that Hudi wants with it, and the column that marks deletes."""

    name: str
    ordering: tuple[str, ...] = ("ts",)
    deletes: tuple[str, str, str] | None = None

    @property
    def needs_avro(self) -> bool:
        """Return whether a text is among several ordering values.

        Hudi 1.2.0 merges wrongly then, if the log has Parquet blocks.
        """
        return "_event_bin_file" in self.ordering


PAYLOADS = {
    "latest": Payload("OverwriteWithLatestAvroPayload"),
    "default": Payload("DefaultHoodieRecordPayload"),
    "event time": Payload("EventTimeAvroPayload"),
    "non-defaults": Payload("OverwriteNonDefaultsWithLatestAvroPayload"),
    "partial": Payload("PartialUpdateAvroPayload"),
    "postgres": Payload(
        "debezium.PostgresDebeziumAvroPayload",
        ("_event_lsn",),
        ("_change_operation_type", "u", "d"),
    ),
    "mysql": Payload(
        "debezium.MySqlDebeziumAvroPayload",
        ("_event_bin_file", "_event_pos"),
        ("_change_operation_type", "u", "d"),
    ),
    "dms": Payload("AWSDmsAvroPayload", deletes=("Op", "U", "D")),
}
RULES = {
    ("latest", 9): Rule(),
    ("default", 9): Rule(("ts",)),
    ("event time", 9): Rule(("ts",)),
    ("non-defaults", 9): Rule((), "null"),
    ("partial", 9): Rule(("ts",), "null"),
    ("postgres", 9): Rule(("_event_lsn",), "marker"),
    ("mysql", 9): Rule(("_event_bin_file", "_event_pos")),
    ("dms", 9): Rule(),
    ("non-defaults", 8): Rule((), "null"),
    ("partial", 8): Rule(("ts",), "null", natural_deletes=True),
    ("dms", 8): Rule(),
    ("non-defaults", 6): Rule((), "null"),
    ("partial", 6): Rule(("ts",), "null", natural_deletes=True),
    ("dms", 6): Rule(),
}


@dataclass(frozen=True)
class Version:
    """A row, or a delete by key, which has no time, or one by a column, which has."""

    row: Row
    kind: Literal["row", "key", "column"] = "row"


class Model:
    """What a table holds: the base file of a key, and its logs, folded before they meet it."""

    def __init__(self, rule: Rule, on_read: bool) -> None:
        self.rule = rule
        self.on_read = on_read
        self.base: dict[str, Version] = {}
        self.logs: dict[str, Version] = {}

    def put(self, versions: Iterable[Version]) -> None:
        """Write: a key that no base file has is new, and a delete of it is nothing."""
        for version in versions:
            key = version.row["id"]
            if key not in self.base:
                if version.kind == "row":
                    self.base[key] = version
            elif self.on_read:
                held = self.logs.get(key)
                self.logs[key] = version if held is None else self._merge(held, version)
            else:
                self.base[key] = self._merge(self.base[key], version)
        if not self.on_read:
            self._keep(self.base)

    def compact(self) -> None:
        """Make the rows the new base files."""
        self._keep(self._standing())
        self.logs = {}

    def rows(self) -> list[Row]:
        """Return what a reader sees, by key."""
        standing = self._standing()
        return [standing[key].row for key in sorted(standing) if standing[key].kind == "row"]

    def _keep(self, versions: dict[str, Version]) -> None:
        self.base = {key: held for key, held in versions.items() if held.kind == "row"}

    def _standing(self) -> dict[str, Version]:
        return {
            key: self._merge(base, self.logs[key]) if key in self.logs else base
            for key, base in self.base.items()
        }

    def _merge(self, old: Version, new: Version) -> Version:
        if old.kind == "key" and new.kind != "row":
            return old
        natural = ("key", "column") if self.rule.natural_deletes else ("key",)
        new_wins = old.kind in natural or new.kind in natural or self._time(new) >= self._time(old)
        winner, loser = (new, old) if new_wins else (old, new)
        if winner.kind != "row" or loser.kind != "row" or self.rule.gives_way is None:
            return winner
        weak = None if self.rule.gives_way == "null" else MARKER
        return replace(
            winner,
            row={
                name: loser.row[name] if value == weak else value
                for name, value in winner.row.items()
            },
        )

    def _time(self, version: Version) -> list[Any]:
        return [version.row[name] for name in self.rule.ordering]


def schema_of(payload: Payload) -> pa.Schema:
    fields = [("id", pa.string()), ("ts", pa.int64()), ("a", pa.string()), ("b", pa.int64())]
    fields += [("c", pa.list_(pa.string())), (IS_DELETED, pa.bool_())]
    kinds = {"_event_bin_file": pa.string()}
    fields += [(n, kinds.get(n, pa.int64())) for n in payload.ordering if n != "ts"]
    fields += [(payload.deletes[0], pa.string())] if payload.deletes else []
    return pa.schema(fields)


def version_of(dice: random.Random, payload: Payload, key: str, step: int, alive: bool) -> Version:
    ts = dice.choice([1, 5, 10, 15])
    row: Row = {
        "id": key,
        "ts": ts,
        "a": dice.choice([None, MARKER, f"a{step}", f"a{step}"]),
        "b": dice.choice([None, step]),
        "c": dice.choice([None, [], [f"c{step}"]]),
        IS_DELETED: not alive and dice.random() < 0.12,
    }
    row |= dict.fromkeys(payload.ordering, ts)
    if "_event_bin_file" in row:
        row |= {"_event_bin_file": BIN_FILES[ts > 5], "_event_pos": 16 - ts}
    gone = bool(row[IS_DELETED])
    if payload.deletes is not None:
        column, update, delete = payload.deletes
        marked = not alive and dice.random() < 0.15
        row[column] = delete if marked else update
        gone |= marked
    return Version(row, "column" if gone else "row")


class History:
    """The next write of each key: rows, late rows, nulls, markers, deletes."""

    def __init__(self, payload: Payload) -> None:
        self.payload = payload
        self.dice = random.Random(7)
        self.step = 0

    def next(self, keys: Iterable[str], *, alive: bool = False) -> list[Version]:
        self.step += 1
        return [
            version_of(self.dice, self.payload, key, self.step, alive)
            for key in keys
            if alive or self.dice.random() < 0.75
        ]

    def deletes(self, keys: Iterable[str]) -> list[Version]:
        chosen = [key for key in keys if self.dice.random() < 0.1]
        return [replace(v, kind="key") for v in self.next(chosen, alive=True)]


def options(payload: Payload, version: int, table_type: str) -> dict[str, str]:
    return {
        "hoodie.table.name": "payloads",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.precombine.field": ",".join(payload.ordering),
        "hoodie.datasource.write.payload.class": MODEL + payload.name,
        "hoodie.datasource.write.keygenerator.class": (
            "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
        ),
        "hoodie.write.table.version": str(version),
        "hoodie.write.auto.upgrade": "false",
        "hoodie.index.type": "SIMPLE",
        "hoodie.metadata.enable": "false",
        "hoodie.compact.inline": "false",
        "hoodie.parquet.small.file.limit": "0",
        **{f"hoodie.{name}.shuffle.parallelism": "1" for name in ("upsert", "delete", "insert")},
    }


def rows_of(versions: list[Version], payload: Payload) -> pa.Table:
    return pa.Table.from_pylist([version.row for version in versions], schema=schema_of(payload))


def ours(path: pathlib.Path) -> list[Row]:
    return user_rows(lakebed.open_table(None, path).read().read_all(), ["id"])


def hudis(hudi: Hudi, path: pathlib.Path) -> list[Row]:
    # The server writes lists under Spark's names of items.
    return user_rows(hudi.read(path), ["id"])


def wanted(model: Model) -> list[Row]:
    return [{n: v for n, v in row.items() if n != IS_DELETED} for row in model.rows()]


def seen(rows: list[Row]) -> list[Row]:
    return [{n: v for n, v in row.items() if n != IS_DELETED} for row in rows]


def fill(hudi: Hudi, path: pathlib.Path, name: str, version: int, table_type: str) -> Model:
    """Let Hudi write a table: rows, two updates, deletes by key, one more update."""
    payload = PAYLOADS[name]
    model = Model(RULES[name, version], table_type == "MERGE_ON_READ")
    history = History(payload)
    how = options(payload, version, table_type)
    writes = [
        ("upsert", history.next(KEYS[:45], alive=True)),
        ("upsert", history.next(KEYS)),
        ("upsert", history.next(KEYS)),
        ("delete", history.deletes(KEYS[:45])),
        ("upsert", history.next(KEYS)),
    ]
    for number, (operation, versions) in enumerate(writes):
        blocks = "parquet" if number % 2 and not payload.needs_avro else "avro"
        now = {
            "hoodie.datasource.write.operation": operation,
            BLOCKS: blocks,
        }
        hudi.write(path, rows_of(versions, payload), how | now)
        model.put(versions)
    return model


@pytest.mark.parametrize(("name", "version"), RULES, ids=str)
def test_what_hudi_wrote_to_logs_we_read_as_it_does_and_go_on(
    name: str, version: int, tmp_path: pathlib.Path, hudi: Hudi
):
    model = fill(hudi, tmp_path, name, version, "MERGE_ON_READ")
    want = wanted(model)
    assert seen(hudis(hudi, tmp_path)) == want, "Hudi, after its writes"
    assert seen(ours(tmp_path)) == want
    if version == 6:
        return  # read only
    payload = PAYLOADS[name]
    history = History(payload)
    history.step = 10
    model.put(update(tmp_path, history.next(sorted(model.base), alive=True), payload))
    deleted = sorted(model.base)[::9]
    lakebed.open_table(None, tmp_path).delete([{"id": key} for key in deleted])
    model.put([Version({"id": key}, "key") for key in deleted])
    want = wanted(model)
    assert seen(ours(tmp_path)) == want
    assert seen(hudis(hudi, tmp_path)) == want, "Hudi, after our upsert and delete"
    assert lakebed.open_table(None, tmp_path).compact(mode="full") is not None
    model.compact()
    assert seen(ours(tmp_path)) == want
    assert seen(hudis(hudi, tmp_path)) == want, "Hudi, after our compaction"
    more = history.next(KEYS)
    how = options(payload, version, "MERGE_ON_READ")
    hudi.write(tmp_path, rows_of(more, payload), how)
    model.put(more)
    assert seen(hudis(hudi, tmp_path)) == wanted(model), "Hudi, after one more write of its own"
    assert seen(ours(tmp_path)) == wanted(model)


@pytest.mark.parametrize(("name", "version"), [key for key in RULES if key[1] > 6], ids=str)
def test_base_files_are_rewritten_as_hudi_rewrites_them(
    name: str, version: int, tmp_path: pathlib.Path, hudi: Hudi
):
    model = fill(hudi, tmp_path, name, version, "COPY_ON_WRITE")
    assert seen(hudis(hudi, tmp_path)) == wanted(model), "Hudi, after its writes"
    assert seen(ours(tmp_path)) == wanted(model)
    payload = PAYLOADS[name]
    history = History(payload)
    history.step = 10
    for _ in range(2):
        model.put(update(tmp_path, history.next(sorted(model.base)), payload))
    assert seen(ours(tmp_path)) == wanted(model)
    assert seen(hudis(hudi, tmp_path)) == wanted(model), "Hudi, after our upserts"


def update(path: pathlib.Path, versions: list[Version], payload: Payload) -> list[Version]:
    """Write as a guest; give what was written."""
    table: Table = lakebed.open_table(None, path)
    table.upsert(rows_of(versions, payload), index="simple")
    return versions


def test_what_a_partial_update_lacks_comes_from_whichever_row_lost(
    tmp_path: pathlib.Path, hudi: Hudi
):
    hudi.sql(
        "CREATE TABLE partly (id STRING, name STRING, price DOUBLE, ts BIGINT) USING hudi "
        "TBLPROPERTIES (type = 'mor', primaryKey = 'id', orderingFields = 'ts', "
        "'hoodie.compact.inline' = 'false', 'hoodie.metadata.enable' = 'false', "
        "'hoodie.logfile.data.block.format' = 'parquet', "
        f"'hoodie.parquet.small.file.limit' = '0') LOCATION '{tmp_path}/partly'"
    )
    hudi.sql("INSERT INTO partly SELECT concat('k', id), 'n0', 0.0D, 10L FROM range(1, 5) AS t(id)")

    def merge(rows: str, names: str, columns: Iterable[str]) -> None:
        changes = ", ".join(f"{name} = s.{name}" for name in columns)
        hudi.sql(
            f"MERGE INTO partly t USING (SELECT * FROM VALUES {rows} AS v({names})) s "
            f"ON t.id = s.id WHEN MATCHED THEN UPDATE SET {changes}"
        )

    merge(
        "('k1', 1.0D, 5L), ('k2', 2.0D, 15L), ('k3', 3.0D, 15L)", "id, price, ts", ["price", "ts"]
    )
    merge("('k3', 'n3', 12L), ('k4', 'n4', 5L), ('k1', 'n1', 4L)", "id, name, ts", ["name", "ts"])
    hudi.sql("SET hoodie.spark.sql.merge.into.partial.updates=false")
    merge("('k2', 'nf', 9.0D, 12L)", "id, name, price, ts", ["id", "name", "price", "ts"])
    hudi.sql("SET hoodie.spark.sql.merge.into.partial.updates=true")
    want = [
        # A row with all columns wins: what loses, partial or not, gives it nothing.
        {"id": "k1", "name": "n0", "price": "float 0.0", "ts": 10},
        # A partial update wins: a late row, later still than the base file's, gives the name,
        {"id": "k2", "name": "nf", "price": "float 2.0", "ts": 15},
        # and so does a late partial one.
        {"id": "k3", "name": "n3", "price": "float 3.0", "ts": 15},
        {"id": "k4", "name": "n0", "price": "float 0.0", "ts": 10},
    ]
    assert hudis(hudi, tmp_path / "partly") == want
    assert ours(tmp_path / "partly") == want
