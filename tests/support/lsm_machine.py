"""Random histories of every operation on a table, next to a dictionary that says what is right."""

import functools
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lakebed.api.table import Table
from lakebed.errors import NotFoundError
from lakebed.format.names.meta_columns import COMMIT_TIME
from lakebed.write import beginning
from lakebed.write.spec.write_spec import WriteSpec
from support.lsm_model import COLUMNS, IS_DELETED, NOTE, Changes, Ident, ModelTable, Row, Shape
from support.tables import check_files, check_no_leftovers

KEYS = st.sampled_from(["a", "b", "é", "雪", "\U0001f600", "￿"])
PARTITIONS = ["p", "ü"]
ROWS = {
    "id": KEYS,
    "k2": st.integers(0, 1),
    "dt": st.sampled_from(PARTITIONS),
    "ts": st.integers(-2, 2),
    "seq": st.sampled_from("xyz"),
    "n": st.none() | st.integers(-(2**63), 2**63 - 1),
    "select": st.none() | st.text(max_size=3),
}
OPERATIONS = ["bulk_insert", "insert", "upsert", "upsert", "upsert", "update_columns"]
OPERATIONS += ["update_columns", "delete_keys", "delete_where", "insert_overwrite"]
OPERATIONS += ["delete_partitions"]
LOOKS = ["open_again", "read_as_of", "read_some", "look_up"]
NOTES = st.none() | st.text(max_size=3)
INDEXES = ("bucket", "simple", "global_simple")


def shapes_of(table_type: str, *indexes: str) -> st.SearchStrategy[Shape]:
    """Return every shape of tables of one type."""
    return st.builds(
        Shape,
        table_type=st.just(table_type),
        layout=st.sampled_from(["lsm_tree", "default"]),
        version=st.sampled_from([8, 9, 10]),
        index=st.sampled_from(indexes or INDEXES),
        buckets=st.sampled_from([1, 2]),
        key=st.sampled_from([("id",), ("id", "k2")]),
        ordering=st.sampled_from([("ts",), ("ts", "seq"), ()]),
        partition_by=st.sampled_from([("dt",), ()]),
    )


Predicate = Callable[[Row], bool]
# A comparison with null is not true.
PREDICATES: dict[str, Predicate] = {
    "n > 0": lambda row: row["n"] is not None and row["n"] > 0,
    "n IS NULL": lambda row: row["n"] is None,
    "id = 'b'": lambda row: row["id"] == "b",
    "dt = 'p'": lambda row: row["dt"] == "p",
    "dt <> 'p' AND ts >= 0": lambda row: (
        row["dt"] == "ü" and row["ts"] is not None and row["ts"] >= 0
    ),
    "id IN ('a', 'é') OR k2 = 1": lambda row: row["id"] in ("a", "é") or row["k2"] == 1,
    "id >= 'b' AND NOT k2 = 0": lambda row: row["id"] >= "b" and row["k2"] == 1,
    "`select` IS NOT NULL AND id = '雪'": lambda row: (
        row["select"] is not None and row["id"] == "雪"
    ),
}


def collect(rows: Any) -> list[Row]:
    """Return what a read of the in-process engine gives, as dicts."""
    return rows.read_all().to_pylist()


def check_same(found: dict[Ident, Row], wanted: dict[Ident, Row], what: str) -> None:
    """Assert that two sets of rows are the same, or name those that differ."""
    differing = [
        f"{ident}: found {found.get(ident)}, expected {wanted.get(ident)}"
        for ident in sorted({*found, *wanted})
        if found.get(ident) != wanted.get(ident)
    ]
    assert not differing, f"{what}: " + "; ".join(differing)


@contextmanager
def memory_of(size_bytes: int | None) -> Iterator[None]:
    """Let each flush of a write hold so many bytes."""
    if size_bytes is None:
        yield
    else:
        with patch.object(
            beginning, "WriteSpec", functools.partial(WriteSpec, memory_bytes=size_bytes)
        ):
            yield


class LsmMachine(RuleBasedStateMachine):
    """One table and its model; a subclass says where the table lies and what writes it."""

    table: Table
    is_sound = False
    # Whether each batch of an input may be a flush of its own.
    flushes = st.booleans()
    # Where changes are logged, the rows of a write meet each other before they meet the table.
    logs_changes = False
    shapes: st.SearchStrategy[Shape]

    def make(self, shape: Shape) -> Table:
        """Make an empty table."""
        raise NotImplementedError

    def again(self) -> Table:
        """Open the table as another process would, without Spark."""
        raise NotImplementedError

    def opened(self) -> Table:
        """Open the table with the engine under test."""
        return self.again()

    def given(self, batches: list[pa.RecordBatch], schema: pa.Schema) -> Any:
        """Return rows as a caller has them."""
        return pa.RecordBatchReader.from_batches(schema, batches)

    def shown(self) -> list[Row]:
        """Read everything through the engine under test."""
        return collect(self.table.read(columns=self.all_columns))

    @initialize(data=st.data())
    def create(self, data: st.DataObject) -> None:
        self.shape = data.draw(self.shapes, label="shape")
        self.model = ModelTable(self.shape)
        self.columns = list(COLUMNS)
        self.past: list[tuple[str, dict[Ident, Row]]] = []
        self.once: set[tuple[Ident, str]] = set()
        self.table = self.make(self.shape)
        # Every operation has its turn, in some order.
        self.plan = data.draw(st.permutations(OPERATIONS), label="plan")

    @property
    def all_columns(self) -> list[str]:
        return [*(field.name for field in self.columns), COMMIT_TIME, "_hoodie_partition_path"]

    # --- writes

    # One rule for all: of several, hypothesis leaves some out for a whole history.
    @rule(data=st.data(), look=st.sampled_from(LOOKS))
    def act(self, data: st.DataObject, look: str) -> None:
        """Do what comes next in the plan, then look at the table in some way."""
        operation = self.plan[len(self.past) % len(self.plan)]
        if operation in ("bulk_insert", "insert", "upsert"):
            self.write(data, operation)
        else:
            getattr(self, operation)(data)
        getattr(self, look)(data)

    def write(self, data: st.DataObject, operation: str) -> None:
        fresh = self.shape.index != "bucket" and operation != "upsert"
        schema, batches = self._draw(data, fresh=fresh)
        self._merge(data, operation, schema, batches)

    def update_columns(self, data: st.DataObject) -> None:
        needed = {*self.shape.key, *self.shape.partition_by, *self.shape.ordering}
        free = [field.name for field in self.columns if field.name not in needed]
        chosen = data.draw(st.sets(st.sampled_from(free), max_size=3), label="columns") | needed
        fields = [field for field in self.columns if field.name in chosen]
        batches = self._draw_rows(data, {field.name for field in fields})
        if self.shape.index != "bucket":
            batches = [[row for row in rows if self._may_patch(row)] for rows in batches]
        self._merge(data, "update_columns", pa.schema(fields), batches, partial=True)

    def delete_keys(self, data: st.DataObject) -> None:
        form = data.draw(st.sampled_from(["dicts", "table"]), label="keys as")
        names = [*self.shape.key, *(() if self.shape.is_global else self.shape.partition_by)]
        rows = [row for rows in self._draw_rows(data, set(ROWS)) for row in rows]
        fields = [field for field in COLUMNS if field.name in names or form == "table"]
        keys = [{field.name: row[field.name] for field in fields} for row in rows]
        if form == "dicts" and self.shape.is_global and self.shape.partition_by:
            keys = [{**key, "dt": row["dt"]} for key, row in zip(keys, rows, strict=True)]
        if form == "table":
            schema = pa.schema(fields)
            given = self.given([pa.RecordBatch.from_pylist(keys, schema=schema)], schema)
        else:
            given = keys
        commit = self.table.delete(given)
        self._deleted(rows, commit.instant)

    def delete_where(self, data: st.DataObject) -> None:
        where = data.draw(st.sampled_from(sorted(PREDICATES)), label="where")
        matching = [row for row in self.model.rows().values() if PREDICATES[where](self._full(row))]
        commit = self.table.delete(where=where)
        self._deleted(matching, commit.instant)

    def insert_overwrite(self, data: st.DataObject) -> None:
        whole_table = data.draw(st.integers(0, 3), label="whole table") == 0
        schema, batches = self._draw(data, marks=self.shape.index == "bucket")
        rows = [row for rows in batches for row in rows]
        gone = None if whole_table else {self.shape.partition(row) for row in rows}
        if self.shape.is_global:
            batches = self._fresh(batches, gone)
            rows = [row for rows in batches for row in rows]
            gone = None if whole_table else {self.shape.partition(row) for row in rows}
        given = self._stream(schema, batches)
        commit = self.table.insert_overwrite(given, whole_table=whole_table, evolve=True)
        self._evolve(schema)
        self.model.drop(gone)
        self.model.merge([self._changes(rows, commit.instant)])
        self._done(commit.instant)

    def delete_partitions(self, data: st.DataObject) -> None:
        gone = [""]
        as_dicts = False
        if self.shape.partition_by:
            gone = [data.draw(st.sampled_from(PARTITIONS), label="partition")]
            as_dicts = data.draw(st.booleans(), label="as dicts")
        given = [{"dt": name} for name in gone] if as_dicts else gone
        try:
            commit = self.table.delete_partitions(given)
        except NotFoundError:
            assert not [ident for ident in self.model.rows() if ident[0] in gone]
            self.write(data, "upsert")
            return
        self.model.drop(gone)
        self._done(commit.instant)

    def _merge(
        self,
        data: st.DataObject,
        operation: str,
        schema: pa.Schema,
        batches: list[list[Row]],
        partial: bool = False,
    ) -> None:
        tiny = data.draw(self.flushes, label="a flush for each batch")
        batches = [[row for row in rows if not self._is_unsure(row)] for rows in batches]
        with memory_of(1 if tiny else None):
            commit = getattr(self.table, operation)(self._stream(schema, batches), evolve=True)
        self._evolve(schema)
        apart = tiny and not self.logs_changes
        flushes = batches if apart else [[row for rows in batches for row in rows]]
        self.model.merge([self._changes(rows, commit.instant, partial) for rows in flushes])
        self._done(commit.instant)

    def _is_unsure(self, row: Row) -> bool:
        order = tuple(row[name] for name in self.shape.ordering)
        return self.model.depends_on_files(self.shape.ident(row), order)

    def _deleted(self, rows: list[Row], instant: str) -> None:
        self.model.merge([[self.model.delete_of(row) for row in rows]])
        self._done(instant)

    def _changes(self, rows: list[Row], instant: str, partial: bool = False) -> Changes:
        return [self.model.version(row, instant, partial=partial) for row in rows]

    def _stream(self, schema: pa.Schema, batches: list[list[Row]]) -> Any:
        made = [pa.RecordBatch.from_pylist(rows, schema=schema) for rows in batches]
        return self.given(made, schema)

    def _evolve(self, schema: pa.Schema) -> None:
        if "note" in schema.names and NOTE not in self.columns:
            self.columns.append(NOTE)

    def _done(self, instant: str) -> None:
        rows = {ident: self._full(row) for ident, row in self.model.rows().items()}
        self.past.append((instant, rows))
        self.once |= {(ident, row[COMMIT_TIME]) for ident, row in rows.items()}

    def _draw(
        self, data: st.DataObject, fresh: bool = False, marks: bool = True
    ) -> tuple[pa.Schema, list[list[Row]]]:
        noted = NOTE in self.columns or data.draw(st.integers(0, 9), label="new column") == 0
        marked = marks and data.draw(st.integers(0, 2), label="with deletes") == 0
        names = {*ROWS, *(["note"] if noted else []), *([IS_DELETED] if marked else [])}
        batches = self._draw_rows(data, names)
        if fresh:
            batches = self._fresh(batches, frozenset())
        mark = [pa.field(IS_DELETED, pa.bool_())] if marked else []
        return pa.schema([*COLUMNS, *([NOTE] if noted else []), *mark]), batches

    def _draw_rows(self, data: st.DataObject, names: set[str]) -> list[list[Row]]:
        known = {**ROWS, "note": NOTES, IS_DELETED: st.none() | st.booleans()}
        drawn = {
            name: strategy
            for name, strategy in known.items()
            if name in names or name in (*self.shape.key, "dt")
        }
        row = st.fixed_dictionaries(drawn)
        batches = data.draw(
            st.lists(st.lists(row, min_size=1, max_size=8), min_size=1, max_size=3), label="batches"
        )
        return [
            [{name: row[name] for name in row if name in names} for row in rows] for rows in batches
        ]

    def _fresh(self, batches: list[list[Row]], gone: AbstractSet[str] | None) -> list[list[Row]]:
        """Keep rows that a write which looks nothing up may bring: keys that are new.

        Also deleted ones are not: an old base file may hold them. With None for `gone` all
        partitions end with the write.
        """
        kept: list[list[Row]] = []
        places: dict[Ident, str] = {}
        for rows in batches:
            kept.append([])
            for row in rows:
                ident, partition = self.shape.ident(row), self.shape.partition(row)
                is_new = gone is None or ident not in self.model.seen
                if is_new and places.setdefault(ident, partition) == partition:
                    kept[-1].append(row)
        return kept

    def _may_patch(self, row: Row) -> bool:
        """Tell whether a simple index says for sure what a partial update meets."""
        ident = self.shape.ident(row)
        stands = self.model.standing(ident)
        if stands is None:
            return True
        order = tuple(row[name] for name in self.shape.ordering)
        is_late = ident in self.model.late or order < stands.order
        return not stands.deleted and not is_late

    # --- reads

    def _full(self, row: Row) -> Row:
        return {name: row.get(name) for name in [*(f.name for f in self.columns), COMMIT_TIME]}

    def _partition(self, row: Row) -> str:
        return str(row["_hoodie_partition_path"])

    def _by_ident(self, rows: list[Row]) -> dict[Ident, Row]:
        found: dict[Ident, Row] = {}
        for row in rows:
            ident = (self._partition(row), self.shape.record_key(row))
            assert ident not in found, f"{ident} occurs twice"
            found[ident] = {k: v for k, v in row.items() if k != "_hoodie_partition_path"}
        return found

    def _wanted(self) -> dict[Ident, Row]:
        return {ident: self._full(row) for ident, row in self.model.rows().items()}

    def open_again(self, data: st.DataObject) -> None:
        del data
        self.table = self.opened()

    def read_as_of(self, data: st.DataObject) -> None:
        self._check_past(*data.draw(st.sampled_from(self.past), label="as of"))

    def _check_past(self, instant: str, rows: dict[Ident, Row]) -> None:
        names = list(dict.fromkeys(name for row in rows.values() for name in row))
        names = [*(names or ["id", *self.shape.key]), "_hoodie_partition_path"]
        read = self.again().read(columns=list(dict.fromkeys(names)), as_of=instant)
        check_same(self._by_ident(collect(read)), rows, f"as of {instant}")

    def read_some(self, data: st.DataObject) -> None:
        where = data.draw(st.none() | st.sampled_from(sorted(PREDICATES)), label="where")
        names = data.draw(
            st.lists(st.sampled_from(self.all_columns[:-1]), min_size=1, max_size=3, unique=True),
            label="columns",
        )
        wanted = [
            tuple(row[name] for name in names)
            for row in self._wanted().values()
            if where is None or PREDICATES[where](row)
        ]
        read = collect(self.again().read(columns=names, where=where))
        found = [tuple(row[name] for name in names) for row in read]
        assert sorted(found, key=repr) == sorted(wanted, key=repr)

    def look_up(self, data: st.DataObject) -> None:
        rows = [row for rows in self._draw_rows(data, set(ROWS)) for row in rows]
        names = list(self.shape.key)
        if data.draw(st.booleans(), label="with partition"):
            names += self.shape.partition_by
        keys = [{name: row[name] for name in names} for row in rows]
        found = self.again().lookup(keys, columns=self.all_columns).to_pylist()
        wanted = {
            ident: row
            for ident, row in self._wanted().items()
            if any(all(row[name] == key[name] for name in names) for key in keys)
        }
        check_same(self._by_ident(found), wanted, "lookup")

    @invariant()
    def the_table_holds_what_the_model_holds(self) -> None:
        if not hasattr(self, "table"):
            return
        self.is_sound = False
        check_same(self._by_ident(self.shown()), self._wanted(), "snapshot")
        self.is_sound = True

    @invariant()
    def base_files_alone_show_what_they_held(self) -> None:
        if not hasattr(self, "table"):
            return
        read = self.again().read(columns=self.all_columns, mode="read_optimized")
        if not self.shape.on_read or self.shape.index == "bucket":
            base = {ident: self._full(row) for ident, row in self.model.base_rows().items()}
            check_same(self._by_ident(collect(read)), base, "base files")
        else:
            # A key that was deleted or moved may lie in several base files.
            for row in collect(read):
                ident = (self._partition(row), self.shape.record_key(row))
                assert (ident, row[COMMIT_TIME]) in self.once, f"{ident} never was there"

    @invariant()
    def the_files_keep_their_promises(self) -> None:
        if not hasattr(self, "table"):
            return
        table = self.again()
        check_files(table)
        check_no_leftovers(table._storage)
        instants = [row["instant"] for row in table.history().to_pylist()]
        assert instants == [instant for instant, _ in reversed(self.past)]

    def teardown(self) -> None:
        """Read the table as it was at each of its commits."""
        if self.is_sound:
            for instant, rows in self.past:
                self._check_past(instant, rows)
