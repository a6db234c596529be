"""Versions are resolved in sequence, and no compaction or clustering changes what a read shows.

The model is one of its own, beside `support.model`: a second opinion on the order of versions, which
shares no merge rule with the first. It is small and knows nothing of files: writes in the order of their places in the sequence,
the plans of full compactions between them, and what expires at a plan. Compactions of all kinds are
planned and carried out at random points; a slow writer begins before a plan and ends after it.
Tables with a simple index have several file groups, which are clustered as well.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.api.table import Table
from lakebed.errors import ConflictError, InvalidError
from lakebed.format.names.meta_columns import COMMIT_TIME
from lakebed.model.clock import ManualClock
from lakebed.model.instant import format_instant, parse_instant
from lakebed.storage.objects import memory_storage
from support.machine import history_settings
from support.model import replay
from support.tables import make, reopen

SCHEMA = pa.schema(
    [("id", pa.string()), ("ts", pa.int64()), ("a", pa.string()), ("b", pa.string())]
)
KEYS = ["k", "l", "钥匙", "🗝"]
RETENTION_MS = 60 * 60_000
EAGER = {"hoodie.log.compaction.blocks.threshold": "2", "lakebed.compaction.log.ratio": "2.0"}
PROPERTIES = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "lakebed.tombstone.retention": "60 minutes",
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
}
SHAPES: dict[str, dict[str, Any]] = {
    "bucket": {"buckets": 1},
    "ring": {"index": "consistent_hashing", "buckets": 1},
    "simple": {"index": "simple", "buckets": None},
}
ONE_WRITER = {"hoodie.write.concurrency.mode": "SINGLE_WRITER"}
# Several file groups would forget deletes one by one: none does here.
KEPT = {"lakebed.tombstone.retention": "7 days"}
NOT_FILLED = {"hoodie.parquet.small.file.limit": "0"}
_END = "9" * 17


@dataclass(frozen=True)
class Row:
    """A key that is there: its values, and the commit that changed it last."""

    ts: int
    a: str | None
    b: str | None
    commit: str


@dataclass(frozen=True)
class Tombstone:
    """A key that is deleted at an ordering value, by a commit."""

    ts: int
    commit: str


State = dict[str, Row | Tombstone]


@dataclass(frozen=True)
class Change:
    """What a write says of one key: put, patch, mark (deleted at `ts`) or delete (by key)."""

    kind: str
    key: str
    ts: int = 0
    a: str | None = None
    b: str | None = None


@dataclass(frozen=True)
class Write:
    """Changes of one commit."""

    requested: str
    completed: str
    changes: tuple[Change, ...]


@dataclass
class Model:
    """All writes and all plans of full compactions, whatever became of the plans."""

    mode: str
    retention_ms: int = RETENTION_MS
    writes: list[Write] = field(default_factory=list)
    plans: list[str] = field(default_factory=list)

    def as_of(self, instant: str) -> State:
        """Return what the table shows as of a requested instant."""
        return self._state(lambda write: write.requested <= instant, instant)

    def after(self, completion: str) -> State:
        """Return what the table showed when a commit had just completed."""
        return self._state(lambda write: write.completed <= completion, completion)

    def _state(self, counts: Callable[[Write], bool], until: str) -> State:
        plans = [plan for plan in self.plans if plan <= until]

        def place(write: Write) -> tuple[int, str]:
            return sum(plan <= write.completed for plan in plans), write.requested

        state: State = {}
        reached = 0
        for write in sorted(filter(counts, self.writes), key=place):
            for plan in plans[reached : place(write)[0]]:
                self._expire(state, plan)
            reached = max(reached, place(write)[0])
            for change in write.changes:
                self._apply(state, change, write.requested)
        return state

    def _expire(self, state: State, plan: str) -> None:
        cutoff = format_instant(parse_instant(plan, "UTC") - self.retention_ms, "UTC")
        for key, held in list(state.items()):
            if isinstance(held, Tombstone) and held.commit < cutoff:
                del state[key]

    def _apply(self, state: State, change: Change, commit: str) -> None:
        old = state.get(change.key)
        if change.kind == "delete":
            state.pop(change.key, None)
            return
        wins = old is None or self.mode == "commit_time" or change.ts >= old.ts
        row = old if isinstance(old, Row) else None
        if change.kind == "mark":
            if wins and self.mode == "commit_time":
                state.pop(change.key, None)
            elif wins:
                state[change.key] = Tombstone(change.ts, commit)
        elif not wins:
            if self.mode == "fill" and row is not None:
                filled = replace(row, a=row.a or change.a, b=row.b or change.b)
                # A row that a late one fills is one of the late commit.
                state[change.key] = filled if filled == row else replace(filled, commit=commit)
        elif change.kind == "patch":
            state[change.key] = Row(change.ts, change.a, row.b if row else None, commit)
        elif self.mode == "fill" and row is not None:
            state[change.key] = Row(change.ts, change.a or row.a, change.b or row.b, commit)
        else:
            state[change.key] = Row(change.ts, change.a, change.b, commit)


def shown(state: State) -> dict[str, tuple[Any, ...]]:
    return {k: (v.ts, v.a, v.b, v.commit) for k, v in state.items() if isinstance(v, Row)}


class Harness:
    """A table, its model, and everything that was ever read of it."""

    def __init__(self, shape: str, mode: str, version: int, *, fills: bool) -> None:
        self.model = Model(mode, 7 * 24 * 60 * 60_000 if shape == "simple" else RETENTION_MS)
        self.clock = ManualClock(step_ms=1)
        self.storage = memory_storage()
        self.shape = shape
        more = {} if shape == "bucket" else ONE_WRITER
        more = more | (KEPT if shape == "simple" else {}) | ({} if fills else NOT_FILLED)
        fill = {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"} if mode == "fill" else {}
        make(
            self.storage,
            self.clock,
            SCHEMA,
            ordering=() if mode == "commit_time" else ("ts",),
            partition_by=(),
            table_type="MERGE_ON_READ",
            table_version=version,
            properties={**PROPERTIES, **more, **fill},
            **SHAPES[shape],
        )
        self.keeps_parts = version == 10 and mode == "event_time"
        self.pending: list[str] = []
        self.written_since = False
        # What the last reads found, where nothing happened since.
        self.known: list[object] | None = None

    def table(self) -> Table:
        return reopen(self.storage, self.clock)

    def write(self, changes: tuple[Change, ...], meanwhile: tuple[Any, ...] = ()) -> None:
        """Write changes of one kind; `meanwhile` other things happen before it completes."""
        table, kind = self.table(), changes[0].kind
        there = self.model.as_of(_END)
        if self.shape == "simple" and kind in ("mark", "delete"):
            # What the index does not know is not deleted: there is no file group to delete it from.
            changes = tuple(change for change in changes if change.key in there)
            if not changes:
                return
        names = [name for name in SCHEMA.names if not (kind == "patch" and name == "b")]
        rows = pa.Table.from_pylist(
            [
                {name: getattr(c, "key" if name == "id" else name) for name in names}
                for c in changes
            ],
            schema=pa.schema([SCHEMA.field(name) for name in names]),
        )
        if kind == "mark":
            rows = rows.append_column("_hoodie_is_deleted", pa.array([True] * len(changes)))

        def batches() -> Iterator[pa.RecordBatch]:
            for step in meanwhile:
                self.do(step)
            yield from rows.to_batches()

        reader = pa.RecordBatchReader.from_batches(rows.schema, batches())
        try:
            if kind == "delete":
                for step in meanwhile:
                    self.do(step)
                done = table.delete([{"id": change.key} for change in changes])
            else:
                done = table.update_columns(reader) if kind == "patch" else table.upsert(reader)
        except ConflictError:
            # What it completed its rows from has changed.
            assert kind == "patch"
            assert meanwhile
            return
        stored = tuple(self.stored(change, there) for change in changes)
        self.model.writes.append(Write(done.instant, done.completion_time, stored))
        self.written_since = True

    def stored(self, change: Change, there: State) -> Change:
        """Return what is written of a change: some patches are completed from what is there."""
        row = there.get(change.key)
        if change.kind != "patch":
            return change
        if not isinstance(row, Row):
            return replace(change, kind="put", b=None)
        return change if self.keeps_parts else replace(change, kind="put", b=row.b)

    def do(self, step: tuple[str, Any]) -> None:
        what, told = step
        if what == "write":
            self.write(told)
        elif what == "slow":
            self.write(told[0], told[1])
        elif what == "tick":
            self.clock.ms += told * 60_000
        elif what == "plan":
            self.plan(told)
        elif what == "run":
            self.run()
        elif what == "drop":
            self.drop()
        elif what == "cluster":
            self.cluster()
        else:
            self.plan(told)
            self.run()
        if what in ("write", "slow", "tick"):
            self.known = None

    def plan(self, mode: str) -> None:
        before = self.known or self.reads()
        scheduled = self.table().schedule_compaction(mode, options=EAGER)
        if scheduled is not None:
            self.pending.append(scheduled.instant.requested)
            if scheduled.full:
                self.model.plans.append(scheduled.instant.requested)
            self.written_since = False
        assert self.reads() == before

    def run(self) -> None:
        if not self.pending:
            return
        before = self.known or self.reads()
        instant = self.pending[0]
        try:
            self.table().compact(instant=instant)
        except ConflictError:
            # A slow write began before the logs that a log compaction joins.
            assert instant not in self.model.plans
            self.table().rollback(instant, delete_plan=True)
        self.pending.pop(0)
        assert self.reads() == before

    def cluster(self) -> None:
        before = self.known or self.reads()
        self.table().cluster()
        assert self.reads() == before

    def drop(self) -> None:
        if not self.pending:
            return
        before = self.known or self.reads()
        instant = self.pending[-1]
        try:
            self.table().rollback(instant, delete_plan=True)
        except InvalidError:
            assert self.written_since
            return
        self.pending.pop()
        if instant in self.model.plans:
            self.model.plans.remove(instant)
        assert self.reads() == before

    def reads(self) -> list[object]:
        """Read the table in every way, compare with the model, and return all that was read."""
        table = self.table()
        found: list[object] = [self._rows(table)]
        assert found[0] == shown(self.model.as_of(_END))
        writes = sorted(self.model.writes, key=lambda write: write.completed)
        for write in writes:
            past = self._rows(table, as_of=write.requested)
            assert past == shown(self.model.as_of(write.requested)), f"as of {write.requested}"
            found.append(past)
        for number in range(len(writes) - 1):
            found += self._changes(table, writes[number:])
        self.known = found
        return found

    def _changes(self, table: Table, writes: list[Write]) -> Iterator[object]:
        since, until = writes[0].completed, writes[-1].completed
        before, after = (shown(self.model.after(end)) for end in (since, until))
        told = table.read(mode="cdc", since=since, until=until).read_all().to_pylist()
        held = {
            ("", key): dict(zip(["id", "ts", "a", "b"], (key, *row[:3]), strict=True))
            for key, row in before.items()
        }
        # Slow writes complete in another order than they began.
        ends = {write.requested: write.completed for write in self.model.writes}
        by_end = [{**change, "ts_ms": ends[change["ts_ms"]]} for change in told]
        replayed = replay(held, by_end, lambda row: ("", row["id"]))
        assert {k: (r["ts"], r["a"], r["b"]) for (_, k), r in replayed.items()} == {
            key: row[:3] for key, row in after.items()
        }
        in_range = {write.requested for write in writes[1:]}
        rows = self._rows(table, since=since, until=until)
        assert rows == {key: row for key, row in after.items() if row[3] in in_range}
        yield told
        yield rows

    def _rows(self, table: Table, **how: str) -> Mapping[str, tuple[Any, ...]]:
        names = [*SCHEMA.names, COMMIT_TIME]
        rows = [
            tuple(row.values()) for row in table.read(columns=names, **how).read_all().to_pylist()
        ]
        found = {row[0]: row[1:] for row in rows}
        assert len(found) == len(rows), "a key occurs twice"
        return found


def changes(mode: str) -> st.SearchStrategy[tuple[Change, ...]]:
    value = st.sampled_from([None, "x", "y", "z"])
    kinds = ["put", "put", "put", "mark", "delete"] + (["patch"] if mode != "fill" else [])

    def of(kind: str) -> st.SearchStrategy[tuple[Change, ...]]:
        one = st.builds(
            Change, st.just(kind), st.sampled_from(KEYS), st.integers(1, 6), value, value
        )
        return st.lists(one, min_size=1, max_size=2, unique_by=lambda c: c.key).map(tuple)

    return st.sampled_from(kinds).flatmap(of)


def steps(shape: str, mode: str) -> st.SearchStrategy[list[tuple[str, Any]]]:
    write = st.tuples(st.just("write"), changes(mode))
    kind = st.sampled_from(["full", "full", "log", "hybrid"])
    plan = st.tuples(st.just("plan"), kind)
    slow = st.tuples(
        st.just("slow"),
        st.tuples(changes(mode), st.lists(write | plan, max_size=3).map(tuple)),
    )
    service = st.one_of(
        plan,
        st.just(("run", None)),
        st.just(("drop", None)),
        st.tuples(st.just("compact"), kind),
        st.tuples(st.just("tick"), st.sampled_from([25, 95])),
    )
    # Writers that do not wait for each other need a bucket index, clustering a simple one.
    special = {"bucket": slow, "ring": write, "simple": st.just(("cluster", None))}[shape]
    return st.lists(st.one_of(write, write, service, special), min_size=4, max_size=14)


# Few examples are run of these shapes: each of them has deletes to remember.
DELETED = [
    ("write", tuple(Change("put", key, 2, "first") for key in KEYS[:2])),
    ("write", tuple(Change("put", key, 2, "first") for key in KEYS[2:])),
    ("write", tuple(Change("mark", key, 4) for key in KEYS[1:3])),
]
SHARES = {
    ("bucket", "event_time"): 7,
    ("bucket", "commit_time"): 3,
    ("bucket", "fill"): 4,
    ("ring", "event_time"): 3,
    ("simple", "event_time"): 4,
    ("simple", "fill"): 2,
}


@pytest.mark.parametrize("version", [9, 10])
@pytest.mark.parametrize(("shape", "mode"), SHARES)
def test_no_service_planned_running_or_done_changes_what_a_read_shows(
    shape: str, mode: str, version: int
):
    @history_settings(SHARES[shape, mode])
    @given(steps(shape, mode), st.booleans())
    def history(told: list[tuple[str, Any]], fills: bool) -> None:
        harness = Harness(shape, mode, version, fills=fills)
        for step in (*(DELETED if shape != "bucket" else ()), *told):
            harness.do(step)
        harness.reads()
        while harness.pending:
            harness.run()
        harness.do(("cluster" if shape == "simple" else "compact", "full"))
        # Late rows meet what all of that has left of the deletes.
        harness.do(("write", tuple(Change("put", key, 1, "late") for key in KEYS)))
        harness.do(("compact", "full"))

    history()
