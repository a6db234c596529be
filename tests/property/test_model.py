"""Tables against a dictionary: whatever is written, in whatever order, both hold the same."""

import string
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lakebed.api.table import Table
from lakebed.format.names.meta_columns import COMMIT_TIME, META_COLUMNS
from lakebed.model.clock import ManualClock
from lakebed.storage.objects import memory_storage
from support.machines import history_settings
from support.tables import Key, check_files, check_no_leftovers, make, reopen, rows_of

CREATED = pa.schema(
    [("id", pa.string()), ("dt", pa.string()), ("ts", pa.int32()), ("n", pa.int32())]
)
ADDED = ["note", "score"]
KEYS = st.sampled_from([*string.ascii_lowercase[:8], "é", "ﬀ", "\U0001f600", "￿", "k:1,x"])
PARTITIONS = st.sampled_from(["p", "q", "2024-01-01", "ü", "r"])
SMALL = st.none() | st.integers(-(2**31), 2**31 - 1)
LARGE = st.none() | st.integers(-(2**63), 2**63 - 1)


@dataclass
class Model:
    """What the table should hold: rows by partition and key, and when each was written."""

    rows: dict[Key, dict[str, Any]] = field(default_factory=dict)
    written: dict[Key, str] = field(default_factory=dict)


class TableMachine(RuleBasedStateMachine):
    """One table, one dictionary, and every state that both went through."""

    @initialize(
        ordering=st.sampled_from([(), ("ts",)]),
        buckets=st.sampled_from([1, 2, 5]),
        partition_by=st.sampled_from([(), ("dt",)]),
        hive=st.booleans(),
    )
    def create(
        self, ordering: tuple[str, ...], buckets: int, partition_by: tuple[str, ...], hive: bool
    ) -> None:
        self.storage = memory_storage()
        self.ordering = ordering
        self.partitioned = bool(partition_by)
        self.prefix = "dt=" if hive else ""
        self.model = Model()
        self.columns = list(CREATED.names)
        self.wide = False
        self.past: list[tuple[str, Model, list[str]]] = []
        self.table: Table = make(
            self.storage,
            ManualClock(),
            CREATED,
            ordering=ordering,
            buckets=buckets,
            partition_by=partition_by,
            properties={"hoodie.datasource.write.hive_style_partitioning": str(hive).lower()},
        )

    @rule(data=st.data(), operation=st.sampled_from(["bulk_insert", "insert"]))
    def write(self, data: st.DataObject, operation: str) -> None:
        added = [
            name
            for name in ADDED
            if data.draw(st.booleans(), label=f"with {name}") or name in self.columns
        ]
        widen = data.draw(st.integers(0, 5), label="widen") == 0
        without_n = data.draw(st.integers(0, 5), label="without n") == 0
        row = st.fixed_dictionaries(
            {
                "id": KEYS,
                "dt": PARTITIONS,
                "ts": st.integers(-3, 3),
                "n": st.none() if without_n else LARGE if widen else SMALL,
                **({"note": st.none() | st.text(max_size=5)} if "note" in added else {}),
                **({"score": st.none() | st.floats(allow_nan=False)} if "score" in added else {}),
            }
        )
        batches = data.draw(st.lists(st.lists(row, max_size=8), max_size=3), label="batches")
        fields = [
            ("id", pa.string()),
            ("dt", pa.string()),
            ("ts", pa.int32()),
            ("n", pa.int64() if widen else pa.int32()),
            *([("note", pa.string())] if "note" in added else []),
            *([("score", pa.float64())] if "score" in added else []),
        ]
        schema = pa.schema(fields)
        stream = pa.RecordBatchReader.from_batches(
            schema, [pa.RecordBatch.from_pylist(rows, schema=schema) for rows in batches]
        )
        before = rows_of(self.table)
        commit = getattr(self.table, operation)(stream, evolve=True)
        self.columns += [name for name in added if name not in self.columns]
        self.wide = self.wide or widen
        touched = self._apply([row for rows in batches for row in rows], commit.instant)
        self.past.append((commit.instant, self._copy(), list(self.columns)))
        self._check_untouched(before, touched)
        assert commit.rows >= len(touched)

    def _apply(self, rows: list[dict[str, Any]], instant: str) -> set[Key]:
        touched = set()
        for row in rows:
            partition = f"{self.prefix}{row['dt']}" if self.partitioned else ""
            key = (partition, row["id"])
            held = self.model.rows.get(key)
            touched.add(key)
            if held is not None and self.ordering and row["ts"] < held["ts"]:
                continue
            self.model.rows[key] = row
            self.model.written[key] = instant
        return touched

    def _check_untouched(self, before: dict[Key, dict[str, Any]], touched: set[Key]) -> None:
        after = rows_of(self.table)
        for key, row in before.items():
            if key not in touched:
                seqno = "_hoodie_commit_seqno"
                assert after[key][COMMIT_TIME] == row[COMMIT_TIME]
                assert after[key][seqno] == row[seqno]

    def _copy(self) -> Model:
        return Model(dict(self.model.rows), dict(self.model.written))

    @rule()
    def open_again(self) -> None:
        self.table = reopen(self.storage, ManualClock())

    @rule(data=st.data())
    def read_as_of(self, data: st.DataObject) -> None:
        if not self.past:
            assert rows_of(self.table, "19990101000000000") == {}
            return
        instant, model, columns = data.draw(st.sampled_from(self.past), label="as of")
        self._check(rows_of(self.table, instant), model, columns)

    @rule()
    def write_what_is_there(self) -> None:
        before = rows_of(self.table)
        commit = self.table.insert(self.table.read())
        if not self.ordering or before:
            for key in self.model.rows:
                self.model.written[key] = commit.instant
        self.past.append((commit.instant, self._copy(), list(self.columns)))

    def _check(self, found: dict[Key, dict[str, Any]], model: Model, columns: list[str]) -> None:
        wanted = {key: {name: row.get(name) for name in columns} for key, row in model.rows.items()}
        plain = {
            key: {name: row[name] for name in row if name not in META_COLUMNS}
            for key, row in found.items()
        }
        assert plain == wanted
        assert {key: row[COMMIT_TIME] for key, row in found.items()} == model.written

    @invariant()
    def the_table_holds_what_the_model_holds(self) -> None:
        if not hasattr(self, "table"):
            return
        self._check(rows_of(self.table), self.model, self.columns)
        kinds = {name: self.table.schema.field(name).type for name in self.columns}
        assert kinds["n"] == (pa.int64() if self.wide else pa.int32())

    @invariant()
    def the_files_keep_their_promises(self) -> None:
        if not hasattr(self, "table"):
            return
        check_files(self.table)
        check_no_leftovers(self.storage)
        instants = [row["instant"] for row in self.table.history().to_pylist()]
        assert instants == [instant for instant, _, _ in reversed(self.past)]


TestTables = TableMachine.TestCase
TestTables.settings = history_settings(15, stateful_step_count=8)
