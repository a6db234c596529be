"""Tables with a simple or global simple index against a dictionary, through random histories."""

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lakebed.api.table import Table
from lakebed.format.names.meta_columns import IS_DELETED
from lakebed.model.clock import ManualClock
from lakebed.storage.objects import memory_storage
from support.machines import history_settings
from support.tables import check_no_leftovers, make, reopen, user_rows

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("dt", pa.string()),
        ("ts", pa.int64()),
        ("v", pa.int64()),
        ("w", pa.int64()),
    ]
)
KEYS = st.sampled_from(["a", "b", "c", "é", "k:1,x"])
PARTITIONS = st.sampled_from(["p", "q", "r"])
ROW = st.fixed_dictionaries(
    {
        "id": KEYS,
        "dt": PARTITIONS,
        "ts": st.integers(0, 4),
        "v": st.integers(0, 99),
        "w": st.integers(0, 99),
    }
)
ROWS = st.lists(ROW, max_size=8)


class SimpleIndexMachine(RuleBasedStateMachine):
    """One table, one dictionary from (partition, key), or the key alone, to a row and its place."""

    @initialize(
        index=st.sampled_from(["simple", "global_simple"]),
        table_type=st.sampled_from(["COPY_ON_WRITE", "MERGE_ON_READ"]),
        ordering=st.sampled_from([(), ("ts",)]),
        fills=st.booleans(),
        moves=st.booleans(),
        version=st.sampled_from([9, 10]),
    )
    def create(
        self,
        index: str,
        table_type: str,
        ordering: tuple[str, ...],
        fills: bool,
        moves: bool,
        version: int,
    ) -> None:
        self.storage = memory_storage()
        # One for all: it makes the random ids too, which must not come twice.
        self.clock = ManualClock()
        self.is_global = index == "global_simple"
        self.on_read = table_type == "MERGE_ON_READ"
        self.ordering = ordering
        # A base file that is rewritten forgets deleted keys, and with them where they were.
        self.moves = moves or (self.on_read and fills)
        self.fresh = 0
        self.rows: dict[Any, tuple[str, dict[str, Any]]] = {}
        self.ghosts: dict[Any, str] = {}
        # Up to version 9 the row of a base file below a delete may come back, as with Hudi.
        self.avoids_ghosts = self.on_read and version < 10
        properties = {
            "hoodie.simple.index.update.partition.path": str(self.moves).lower(),
            **({} if fills else {"hoodie.parquet.small.file.limit": "0"}),
        }
        self.table: Table = make(
            self.storage,
            self.clock,
            SCHEMA,
            index=index,
            table_type=table_type,
            ordering=ordering,
            table_version=version,
            properties=properties,
        )

    @rule(rows=ROWS)
    def upsert(self, rows: list[dict[str, Any]]) -> None:
        rows = self._safe(rows)
        self.table.upsert(_stream(rows, SCHEMA))
        self._apply(rows)

    @rule(count=st.integers(1, 4), partition=PARTITIONS)
    def insert(self, count: int, partition: str) -> None:
        rows = []
        for _ in range(count):
            self.fresh += 1
            rows.append({"id": f"new {self.fresh}", "dt": partition, "ts": 2, "v": 0, "w": 0})
        self.table.insert(_stream(rows, SCHEMA))
        self._apply(rows)

    @rule(rows=ROWS)
    def update_columns(self, rows: list[dict[str, Any]]) -> None:
        schema = pa.schema([field for field in SCHEMA if field.name != "w"])
        partial = [{name: row[name] for name in schema.names} for row in self._safe(rows)]
        self.table.update_columns(_stream(partial, schema))
        self._apply(partial)

    @rule(rows=ROWS)
    def delete(self, rows: list[dict[str, Any]]) -> None:
        self.table.delete(_stream(rows, SCHEMA))
        for row in rows:
            self._remove(self._key(row))

    @rule(rows=st.lists(st.tuples(ROW, st.booleans()), max_size=8))
    def upsert_with_deletes(self, rows: list[tuple[dict[str, Any], bool]]) -> None:
        """On a merge-on-read table such a delete keeps its ordering value: not modelled here."""
        if self.on_read and self.ordering:
            return
        schema = SCHEMA.append(pa.field(IS_DELETED, pa.bool_()))
        marked = self._safe([{**row, IS_DELETED: gone} for row, gone in rows])
        self.table.upsert(_stream(marked, schema))
        self._apply(marked)

    @rule(partition=PARTITIONS)
    def delete_where(self, partition: str) -> None:
        self.table.delete(where=f"dt = '{partition}' AND v > 50")
        for key, (_, row) in list(self.rows.items()):
            if row["dt"] == partition and row["v"] is not None and row["v"] > 50:
                self._remove(key)

    @rule()
    def open_again(self) -> None:
        self.table = reopen(self.storage, self.clock)

    def _key(self, row: dict[str, Any]) -> Any:
        return row["id"] if self.is_global else (row["dt"], row["id"])

    def _safe(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        gone = self.ghosts if self.avoids_ghosts else {}
        return [row for row in rows if self._key(row) not in gone]

    def _remove(self, key: Any) -> None:
        held = self.rows.pop(key, None)
        if held is not None and self.on_read:
            self.ghosts[key] = held[0]

    def _apply(self, rows: list[dict[str, Any]]) -> None:
        for key, row in self._deduplicated(rows).items():
            held = self.rows.get(key)
            if held is not None and self.ordering and row["ts"] < held[1]["ts"]:
                continue
            if row.get(IS_DELETED):
                self._remove(key)
                continue
            place = row["dt"]
            if held is not None and not self.moves:
                place = held[0]
            elif held is None and not self.moves:
                place = self.ghosts.get(key, place)
            older = dict.fromkeys(SCHEMA.names) if held is None else held[1]
            merged = {**older, **row}
            merged.pop(IS_DELETED, None)
            self.rows[key] = (place, merged)

    def _deduplicated(self, rows: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
        """Keep of each key the row with the greatest ordering value, else the last."""
        kept: dict[Any, dict[str, Any]] = {}
        for row in rows:
            key = self._key(row)
            held = kept.get(key)
            if held is None or not self.ordering or row["ts"] >= held["ts"]:
                kept[key] = row
        return kept

    @invariant()
    def the_table_holds_what_the_model_holds(self) -> None:
        if hasattr(self, "table"):
            wanted = {(place, row["id"]): row for place, row in self.rows.values()}
            assert user_rows(self.table) == wanted

    @invariant()
    def nothing_is_left_over(self) -> None:
        if hasattr(self, "table"):
            check_no_leftovers(self.storage)


def _stream(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatchReader:
    half = len(rows) // 2
    batches = [
        pa.RecordBatch.from_pylist(part, schema=schema) for part in (rows[:half], rows[half:])
    ]
    return pa.RecordBatchReader.from_batches(schema, batches)


SimpleIndexMachine.TestCase.settings = history_settings(15, stateful_step_count=10)
TestSimpleIndex = SimpleIndexMachine.TestCase
