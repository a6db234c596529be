"""Random histories of every operation on a table, next to the model that says what is right.

`TableMachine` is the one state machine. `steps` switches its rules on: writes here, services in
`machine_services`. An adapter says where the table lies and what reads and writes it: this process
(`InMemory`), two processes that take turns, or Spark.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from lakebed.api.table import Table
from lakebed.errors import InvalidError, NotFoundError
from lakebed.format.names.meta_columns import COMMIT_SEQNO, COMMIT_TIME, PARTITION_PATH
from lakebed.model.clock import ManualClock
from lakebed.storage.objects import memory_storage
from lakebed.timeline.timeline import COMMIT_ACTIONS
from support.indexes import check_indexes
from support.model import (
    COLUMNS,
    IS_DELETED,
    NOTE,
    WIDE,
    Changes,
    Event,
    History,
    Ident,
    ModelTable,
    Row,
    Shape,
    check_incremental,
    replay,
)
from support.tables import check_files, check_no_leftovers, make, reopen

START = 1_700_000_000_000
# Like a key of two columns, in a table with a key of one.
ODD_KEY = "k:1,x"
LARGE = st.none() | st.integers(-(2**63), 2**63 - 1)
KEYS = st.sampled_from(["a", "b", "é", "雪", "\U0001f600", "￿"])
PARTITIONS = ["p", "ü"]
ROWS = {
    "id": KEYS,
    "k2": st.integers(0, 1),
    "dt": st.sampled_from(PARTITIONS),
    "ts": st.integers(-2, 2),
    "seq": st.sampled_from("xyz"),
    "n": st.none() | st.integers(-(2**31), 2**31 - 1),
    "select": st.none() | st.text(max_size=3),
}
OPERATIONS = ["bulk_insert", "insert", "upsert", "upsert", "upsert", "update_columns"]
OPERATIONS += ["update_columns", "delete_keys", "delete_where", "insert_overwrite"]
OPERATIONS += ["delete_partitions", "write_back", "change_indexes"]
LOOKS = ["open_again", "read_as_of", "read_some", "look_up", "read_changes"]
HIDDEN = (PARTITION_PATH, COMMIT_SEQNO)
NOTES = st.none() | st.text(max_size=3)
INDEXES = ("bucket", "simple", "global_simple", "bloom", "global_bloom", "record", "global_record")
SECONDARY = {"by_n": ["n"], "by_text": ["select", "ts"]}


def shapes_of(table_type: str, *indexes: str, stays: bool = False) -> st.SearchStrategy[Shape]:
    """Return every shape of tables of one type; where keys stay, none moves to a new partition."""
    partitionings: list[tuple[str, ...]] = [("dt",)] if stays else [("dt",), ()]
    return st.builds(
        Shape,
        table_type=st.just(table_type),
        layout=st.sampled_from(["lsm_tree", "default"]),
        version=st.sampled_from([8, 9, 10]),
        index=st.sampled_from(indexes or INDEXES),
        buckets=st.sampled_from([1, 2, 3]),
        key=st.sampled_from([("id",), ("id", "k2")]),
        ordering=st.sampled_from([("ts",), ("ts", "seq"), ()]),
        partition_by=st.sampled_from(partitionings),
        hive=st.booleans(),
        moves=st.just(False) if stays else st.booleans(),
    )


SLOW_CHECKS = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)


def history_settings(share: int, **more: int) -> settings:
    """Return settings for `share` percent of the profile's examples, each a history of a table.

    An example takes tenths of a second, so that shortening a failing one would outlast the test's
    timeout and hide the failure. It is shown as it was found, and found again at the next run;
    LAKEBED_SHRINK=1 (with `--timeout 0`) shortens it.
    """
    profile = settings()
    phases = set(profile.phases) - {Phase.explain}
    if os.environ.get("LAKEBED_SHRINK") != "1":
        phases -= {Phase.shrink}
    return settings(
        max_examples=max(1, profile.max_examples * share // 100),
        deadline=None,
        phases=tuple(phase for phase in Phase if phase in phases),
        suppress_health_check=SLOW_CHECKS,
        **more,
    )


def run_machine(machine: Callable[[], RuleBasedStateMachine], share: int, steps: int) -> None:
    """Run `share` percent of the profile's examples, with at most `steps` steps each."""
    run_state_machine_as_test(machine, settings=history_settings(share, stateful_step_count=steps))


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
def memory_of(table: Table, size_bytes: int | None) -> Iterator[None]:
    """Let each flush of a write to `table` hold so many bytes."""
    engines = table._engines
    before = engines.memory_bytes
    engines.memory_bytes = size_bytes or before
    yield
    engines.memory_bytes = before


class TableMachine(RuleBasedStateMachine):
    """One table and its history; an adapter says where the table lies and what writes it."""

    table: Table
    is_sound = False
    # What happens, each in its turn; what is looked at after it.
    steps: Sequence[str] = OPERATIONS
    looks: Sequence[str] = LOOKS
    # Whether each batch of an input may be a flush of its own.
    flushes = st.booleans()
    # Where changes are logged, the rows of a write meet each other before they meet the table.
    logging: st.SearchStrategy[Any] = st.none()
    shapes: st.SearchStrategy[Shape]

    def make(self, shape: Shape, properties: Mapping[str, str]) -> Table:
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
        self.shape = self.settled(data.draw(self.shapes, label="shape"))
        self.history = History(self.empty_model())
        self.columns = list(COLUMNS)
        self.step = 0
        # Every row that ever was there, and its number within its commit.
        self.once: dict[tuple[Ident, str], str] = {}
        self.change_log = data.draw(self.logging, label="logging")
        self.table = self.make(self.shape, self.properties(data))
        if data.draw(st.booleans(), label="secondary indexes"):
            for name, columns in SECONDARY.items():
                self.table.create_index(name, columns)
        # Every step has its turn, in some order.
        self.plan = [*self.first_steps(), *data.draw(st.permutations(self.steps), label="plan")]

    def settled(self, shape: Shape) -> Shape:
        """Return a shape of which the model is sure."""
        moves = shape.moves or not (shape.is_global and shape.partition_by)
        if shape.on_read and set(self.steps) - set(OPERATIONS):
            moves = True  # where a key was deleted from, a rewritten base file forgets
        return replace(shape, moves=moves, hive=shape.hive and bool(shape.partition_by))

    def empty_model(self) -> ModelTable:
        return ModelTable(self.shape)

    def first_steps(self) -> list[str]:
        return []

    def properties(self, data: st.DataObject) -> dict[str, str]:
        """Return what the table is created with."""
        found = dict(self.change_log or {})
        if data.draw(st.booleans(), label="indexed files"):
            found["lakebed.file.index.min.files"] = "1"
        if self.shape.hive:
            found["hoodie.datasource.write.hive_style_partitioning"] = "true"
        if not self.shape.moves:
            found["hoodie.simple.index.update.partition.path"] = "false"
        stay = self.shape.on_read and not self.shape.moves
        if self.shape.index != "bucket" and (stay or data.draw(st.booleans(), label="not filled")):
            # Then every write makes file groups.
            found["hoodie.parquet.small.file.limit"] = "0"
        return found

    @property
    def model(self) -> ModelTable:
        return self.history.now

    @property
    def events(self) -> list[Event]:
        return self.history.events

    @property
    def names(self) -> list[str]:
        return [*(field.name for field in self.columns), COMMIT_TIME]

    @property
    def all_columns(self) -> list[str]:
        return [*self.names, *HIDDEN]

    # --- writes

    # One rule for all: of several, hypothesis leaves some out for a whole history.
    @rule(data=st.data())
    def act(self, data: st.DataObject) -> None:
        """Do what comes next in the plan, then look at the table in some way."""
        what = self.plan[self.step % len(self.plan)]
        look = data.draw(st.sampled_from(self.looks), label="look")
        self.step += 1
        self.turn(data)
        if what in ("bulk_insert", "insert", "upsert"):
            self.write(data, what)
        else:
            getattr(self, what)(data)
        getattr(self, look)(data)

    def turn(self, data: st.DataObject) -> None:
        """Say whose turn it is."""

    def write(self, data: st.DataObject, operation: str) -> None:
        fresh = self.shape.index != "bucket" and operation != "upsert"
        schema, batches = self._draw(data, fresh=fresh)
        self._merge(data, operation, schema, batches)

    def write_back(self, data: st.DataObject) -> None:
        """Write what is there."""
        rows = list(self.model.rows().values())
        if any(map(self._is_unsure, rows)):
            self.write(data, "upsert")
            return
        commit = self.table.upsert(self.table.read())
        names = [field.name for field in self.columns]
        full = [{name: row.get(name) for name in names} for row in rows]
        self.model.merge([self._changes(full, commit.instant)])
        self._done(commit.instant)

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
            name = data.draw(st.sampled_from(PARTITIONS), label="partition")
            gone = [self.shape.partition({"dt": name})]
            as_dicts = data.draw(st.booleans(), label="as dicts")
        given = [{"dt": name}] if as_dicts else gone
        try:
            commit = self.table.delete_partitions(given)
        except NotFoundError:
            assert not [ident for ident in self.model.rows() if ident[0] in gone]
            self.write(data, "upsert")
            return
        self.model.drop(gone)
        self._done(commit.instant)

    def change_indexes(self, data: st.DataObject) -> None:
        """Create a secondary index, compact it, or build it again."""
        name = data.draw(st.sampled_from(sorted(SECONDARY)), label="index")
        table, known = self.again(), {index.name: index for index in self.again().indexes()}
        if name in known and known[name].state == "ready" and data.draw(st.booleans()):
            assert table.compact_index(name) is not None
        else:
            table.drop_index(name, if_exists=True)
            table.create_index(name, SECONDARY[name])
        assert {index.name: index for index in self.again().indexes()}[name].state == "ready"

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
        with memory_of(self.table, 1 if tiny else None):
            commit = getattr(self.table, operation)(self._stream(schema, batches), evolve=True)
        self._evolve(schema)
        apart = tiny and not self.change_log
        flushes = batches if apart else [[row for rows in batches for row in rows]]
        self.model.merge([self._changes(rows, commit.instant, partial) for rows in flushes])
        self._done(commit.instant)

    def _is_unsure(self, row: Row) -> bool:
        order = tuple(row[name] for name in self.shape.ordering)
        ident = self.shape.ident(row)
        # Where a key stays in its partition, that may have ended with one of its file groups.
        ended = any(event.dropped != frozenset() for event in self.events)
        strays = self.shape.on_read and not self.shape.moves and ended and ident in self.model.seen
        return strays or self.model.depends_on_files(ident, order)

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
        if WIDE in list(schema):
            self.columns = [WIDE if field.name == "n" else field for field in self.columns]

    def _done(self, instant: str) -> None:
        self._shown_once(self.history.wrote(instant, self.columns))
        self.sync()

    def _shown_once(self, event: Event) -> None:
        rows = self.history.state_at(event.at).rows()
        for ident, row in rows.items():
            self.once.setdefault((ident, row[COMMIT_TIME]), "")

    def sync(self) -> None:
        """Learn what services did by themselves."""
        self.history.go_on()

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
        wide = WIDE in self.columns or data.draw(st.integers(0, 9), label="wider column") == 0
        if wide:
            numbers = data.draw(st.lists(LARGE, min_size=1, max_size=3), label="n")
            rows = [row for rows in batches for row in rows]
            for at, row in enumerate(rows):
                row["n"] = numbers[at % len(numbers)]
        fields = [WIDE if wide and field.name == "n" else field for field in COLUMNS]
        return pa.schema([*fields, *([NOTE] if noted else []), *mark]), batches

    def _draw_rows(self, data: st.DataObject, names: set[str]) -> list[list[Row]]:
        known = {**ROWS, "note": NOTES, IS_DELETED: st.none() | st.booleans()}
        drawn = {
            name: strategy
            for name, strategy in known.items()
            if name in names or name in (*self.shape.key, "dt")
        }
        if len(self.shape.key) == 1:
            drawn["id"] = KEYS | st.just(ODD_KEY)
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
        """Return whether a simple index says for sure what a partial update meets."""
        ident = self.shape.ident(row)
        stands = self.model.standing(ident)
        if stands is None:
            return True
        order = tuple(row[name] for name in self.shape.ordering)
        is_late = ident in self.model.late or order < stands.order
        return not stands.deleted and not is_late

    # --- reads

    def _full(self, row: Row) -> Row:
        return {name: row.get(name) for name in self.names}

    def _by_ident(self, rows: list[Row]) -> dict[Ident, Row]:
        found: dict[Ident, Row] = {}
        for row in rows:
            ident = (row[PARTITION_PATH], self.shape.record_key(row))
            assert ident not in found, f"{ident} occurs twice"
            found[ident] = {k: v for k, v in row.items() if k not in HIDDEN}
        return found

    def _wanted(self) -> dict[Ident, Row]:
        return {ident: self._full(row) for ident, row in self.model.rows().items()}

    def open_again(self, data: st.DataObject) -> None:
        del data
        self.table = self.opened()

    def is_promised(self, at: str) -> bool:
        """Return whether a moment must be readable."""
        del at
        return True

    def is_unsure_at(self, state: ModelTable) -> bool:
        """Return whether it follows from the files, not from the history, what a moment shows."""
        del state
        return False

    def read_as_of(self, data: st.DataObject) -> None:
        if self.events:
            self.check_event(data.draw(st.sampled_from(self.events), label="as of"))

    def check_event(self, event: Event) -> None:
        """Read a moment as it was, or be refused where it may be gone."""
        names = list(dict.fromkeys([*(f.name for f in event.columns), COMMIT_TIME]))
        try:
            read = self.again().read(columns=[*names, PARTITION_PATH], as_of=event.at)
            found = self._by_ident(collect(read))
        except InvalidError:
            assert not self.is_promised(event.at)
            return
        state = self.history.state_at(event.at)
        if not self.is_unsure_at(state):
            rows = state.rows()
            wanted = {i: {name: row.get(name) for name in names} for i, row in rows.items()}
            check_same(found, wanted, f"as of {event.at}")

    def read_changes(self, data: st.DataObject) -> None:
        """Read what changed between two commits, as rows and as change data."""
        ends = [at for at, done in self.completions() if self.is_promised(at) and done]
        if ends:
            one, other = (data.draw(st.sampled_from(ends), label="end") for _ in "ab")
            self.check_changes(min(one, other), max(one, other))

    def completions(self) -> list[tuple[str, str | None]]:
        """Return when each commit that changes rows was completed, in order."""
        commits = self.again()._now().timeline.commits
        return [(c.requested, c.completion) for c in commits if c.plan_action in COMMIT_ACTIONS]

    def folds_logs_first(self) -> bool:
        """Return whether some logs are, or were, folded before they met the base file."""
        return self.shape.folds_logs_first

    def check_changes(self, since: str, until: str) -> None:
        """Replay the changes between two commits that are still readable."""
        done = dict(self.completions())
        state, wanted = self.history.state_at(since), self.history.state_at(until)
        if self.is_unsure_at(wanted):
            return
        table = self.again()
        names = table.schema.names
        ends = {"since": done[since], "until": done[until]}
        folds = self.folds_logs_first()
        unsure = self.history.shown_by_compactions(until) if folds else set()

        def full(rows: ModelTable, *more: str) -> dict[Ident, Row]:
            wide = [
                {name: row.get(name) for name in [*names, *more]} for row in rows.rows().values()
            ]
            return {self.shape.ident(row): row for row in wide if is_sure(row)}

        def is_sure(row: Mapping[str, Any]) -> bool:
            return self.shape.ident(row) not in unsure

        told = collect(table.read(mode="cdc", **ends))
        changes = [change for change in told if is_sure(change["before"] or change["after"])]
        replayed = replay(full(state), changes, self.shape.ident)
        check_same(replayed, full(wanted), f"{since} to {until}")
        written = {at for at, end in done.items() if ends["since"] < (end or "") <= ends["until"]}
        found = filter(is_sure, collect(table.read(columns=[*names, COMMIT_TIME], **ends)))
        check_incremental(list(found), full(wanted, COMMIT_TIME), written, self.shape.ident)

    def read_some(self, data: st.DataObject) -> None:
        where = data.draw(st.none() | st.sampled_from(sorted(PREDICATES)), label="where")
        names = data.draw(
            st.lists(st.sampled_from(self.names), min_size=1, max_size=3, unique=True),
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
        if self.shape.moves and data.draw(st.booleans(), label="with partition"):
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
        rows = self.shown()
        check_same(self._by_ident(rows), self._wanted(), "snapshot")
        for row in rows:
            # Whatever rewrites a row, it keeps its number.
            written = ((row[PARTITION_PATH], self.shape.record_key(row)), row[COMMIT_TIME])
            number = self.once.get(written) or row[COMMIT_SEQNO]
            assert number == row[COMMIT_SEQNO], row
            self.once[written] = number
        kinds = {field.name: field.type for field in self.again().schema}
        assert kinds == {field.name: field.type for field in self.columns}
        self.is_sound = True

    @invariant()
    def a_partition_alone_is_as_in_the_whole_table(self) -> None:
        if not hasattr(self, "table") or not self.shape.partition_by:
            return
        whole, part = self.again()._now(), self.again()._now()
        for partition in {*(slice_.group.partition for slice_ in whole.slices), *whole.replaced}:
            wanted = tuple(s for s in whole.slices if s.group.partition == partition)
            assert part.within([partition]).slices == wanted

    @invariant()
    def base_files_alone_show_what_they_held(self) -> None:
        if not hasattr(self, "table"):
            return
        rows = collect(self.again().read(columns=self.all_columns, mode="read_optimized"))
        if not self.shape.on_read or self.shape.index == "bucket":
            base = {ident: self._full(row) for ident, row in self.model.base_rows().items()}
            check_same(self._by_ident(rows), base, "base files")
        else:
            # A key that was deleted or moved may lie in several base files.
            for row in rows:
                ident = (row[PARTITION_PATH], self.shape.record_key(row))
                assert (ident, row[COMMIT_TIME]) in self.once, f"{ident} never was there"

    @invariant()
    def every_row_is_a_candidate_in_every_index(self) -> None:
        if hasattr(self, "table"):
            check_indexes(self.again())

    @invariant()
    def the_files_keep_their_promises(self) -> None:
        if hasattr(self, "table"):
            self.check_files(self.again())

    def check_files(self, table: Table) -> None:
        check_files(table)
        check_no_leftovers(table._storage)
        instants = [row["instant"] for row in table.history().to_pylist()]
        assert instants == [event.at for event in reversed(self.events)]

    def teardown(self) -> None:
        """Read the table as it was at each of its commits."""
        if self.is_sound:
            for event in self.events:
                self.check_event(event)


class InMemory(TableMachine):
    """The adapter of a table in memory, written and read in this process."""

    def make(self, shape: Shape, properties: Mapping[str, str]) -> Table:
        self.storage = memory_storage()
        self.clock = ManualClock(step_ms=1)
        return make(self.storage, self.clock, COLUMNS, **creation(shape), properties=properties)

    def properties(self, data: st.DataObject) -> dict[str, str]:
        # As Hudi's writers do unless sorted runs are requested.
        blocks = "avro" if self.shape.folds_logs_first else "parquet"
        return {**super().properties(data), "hoodie.logfile.data.block.format": blocks}

    def again(self) -> Table:
        # Another machine's clock may be behind; its random ids are new ones all the same.
        self.clock.ms = START
        return reopen(self.storage, self.clock)


def creation(shape: Shape) -> dict[str, Any]:
    """Return the arguments that make a table of a shape."""
    return {
        "key": shape.key,
        "ordering": shape.ordering,
        "partition_by": shape.partition_by,
        "table_type": shape.table_type,
        "index": shape.index,
        "buckets": shape.buckets if shape.index == "bucket" else None,
        "layout": shape.layout,
        "table_version": shape.version,
    }
