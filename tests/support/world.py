"""A table under many actors: what each does, what became visible when, and what must be read."""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pyarrow as pa

from lakebed.api.table import Table
from lakebed.errors import ConflictError, InvalidError, LakebedError
from lakebed.format.names.data_names import parse_data_name
from lakebed.format.names.instant_name import InstantName, State
from lakebed.table.files.retention import named_files
from lakebed.table.snapshot import Snapshot
from lakebed.timeline.active import TIMELINE_FOLDER, load_timeline
from lakebed.timeline.timeline import COMMIT_ACTIONS
from support.schedule import (
    ActorClock,
    ActorStorage,
    MemoryObjects,
    Schedule,
    SharedTime,
    unlock_cached_properties,
)
from support.tables import SCHEMA, make, reopen

unlock_cached_properties(Snapshot)
START = 1_700_000_000_000
HOUR = 3_600_000
MODES = {
    "single": "SINGLE_WRITER",
    "occ": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "nbcc": "NON_BLOCKING_CONCURRENCY_CONTROL",
}
Found = dict[tuple[str, str], int | None]
# A purge deletes rows whose number is as great: those that the actors of a schedule wrote.
PURGED = 100


@dataclass(frozen=True)
class Batch:
    """What one write does: the same number to a key that all share and to one of its own."""

    number: int
    partitions: tuple[str, ...]
    kind: str = "upsert"
    # What a purge found when it became visible.
    keys: tuple[tuple[str, str], ...] | None = None

    def purging(self, state: Found) -> "Batch":
        found = [k for k, v in state.items() if k[0] in self.partitions and (v or 0) >= PURGED]
        return replace(self, keys=tuple(found))

    def rows(self) -> pa.Table:
        keys = [(dt, key) for dt in self.partitions for key in ("all", f"u{self.number}")]
        rows = [{"id": key, "v": self.number, "ts": 1, "dt": dt} for dt, key in keys]
        return pa.Table.from_pylist(rows, schema=SCHEMA)

    def write(self, table: Table) -> Any:
        if self.kind == "purge":
            some = ", ".join(f"'{dt}'" for dt in self.partitions)
            return table.delete(where=f"dt IN ({some}) AND v >= {PURGED}")
        if self.kind == "delete":
            return table.delete([{"id": "all", "dt": dt} for dt in self.partitions])
        act = table.insert_overwrite if self.kind == "overwrite" else table.upsert
        # In a table with column groups, `part` writes the group of v, `rest` the other one.
        left = {"part": ["ts"], "rest": ["v"]}.get(self.kind, [])
        return act(self.rows().drop_columns(left))

    def apply(self, state: Found) -> None:
        if self.kind == "overwrite":
            for key in [key for key in state if key[0] in self.partitions]:
                del state[key]
        for key in self.keys or ():
            state.pop(key, None)
        for dt in self.partitions if self.kind != "purge" else ():
            if self.kind == "delete":
                state.pop((dt, "all"), None)
            elif self.kind == "rest":
                for key in ("all", f"u{self.number}"):
                    state.setdefault((dt, key), None)
            else:
                state[dt, "all"] = state[dt, f"u{self.number}"] = self.number


@dataclass(frozen=True)
class Done:
    """A commit that became visible."""

    requested: str
    batch: Batch


@dataclass
class World:
    """One table, and what became of it."""

    storage: MemoryObjects
    time: SharedTime
    mode: str
    # In the order in which they became visible.
    done: list[Done] = field(default_factory=list)
    acknowledged: list[Batch] = field(default_factory=list)
    refused: list[Batch] = field(default_factory=list)
    reads: list[Callable[[], None]] = field(default_factory=list)
    writers: int = 0
    # Non-blocking writers of one key without ordering columns: what completes after a compaction
    # was planned lies on top of it, whenever it began. Then only keys of one writer are judged.
    compacts: bool = False

    def judged(self, rows: Found) -> Found:
        """Return the rows of which the order of commits alone says what they are."""
        if self.mode == "nbcc" and self.compacts:
            return {key: value for key, value in rows.items() if key[1] != "all"}
        return rows

    def model(self, count: int, as_of: str | None = None) -> Found:
        """Return the rows after the first `count` commits."""
        done: list[Done] = []
        for one in self.done[:count]:
            # It deletes the keys of the rows that were there when it became visible.
            purges = one.batch.kind == "purge"
            batch = one.batch.purging(self._applied(done)) if purges else one.batch
            done.append(replace(one, batch=batch))
        some = [one for one in done if as_of is None or one.requested <= as_of]
        return self.judged(self._applied(some))

    def _applied(self, some: list[Done]) -> Found:
        ordered = sorted(some, key=lambda one: one.requested) if self.mode == "nbcc" else some
        state: Found = {}
        for one in ordered:
            one.batch.apply(state)
        return state


@dataclass
class Actor:
    """One process: its own view of storage and clock."""

    name: str
    world: World
    schedule: Schedule
    fail_at: int = 0
    when: Any = "before"
    batch: Batch | None = None

    opened: Table | None = None
    storage_kind: type[ActorStorage] = ActorStorage

    @property
    def table(self) -> Table:
        if self.opened is None:
            storage = self.storage_kind(
                self.world.storage, self.schedule, self._seen, self.fail_at, self.when
            )
            self.opened = reopen(storage, ActorClock(self.name, self.world.time, self.schedule))
        return self.opened

    def _seen(self, op: str) -> None:
        kind, _, path = op.partition(" ")
        folder, _, name = path.rpartition("/")
        if not kind.startswith("put") or folder != TIMELINE_FOLDER or self.batch is None:
            return
        instant = InstantName.parse(name)
        completed = instant is not None and instant.state is State.COMPLETED
        if completed and instant.action in COMMIT_ACTIONS:
            self.world.done.append(Done(instant.requested, self.batch))


def write(actor: Actor, batches: Iterable[Batch]) -> None:
    try:
        for batch in batches:
            _write(actor, batch)
    finally:
        actor.world.writers -= 1


def _write(actor: Actor, batch: Batch) -> None:
    for _ in range(5):
        actor.batch = batch
        try:
            commit = batch.write(actor.table)
        except ConflictError:
            assert all(one.batch != batch for one in actor.world.done), "refused, and visible"
            continue
        finally:
            actor.batch = None
        actor.world.acknowledged.append(batch)
        assert any(one.requested == commit.instant for one in actor.world.done)
        return
    actor.world.refused.append(batch)


def beside_writers(world: World, act: Callable[[], object]) -> None:
    """Do `act` again and again until the writers are done, and once more."""
    for _ in range(40):
        last = not world.writers
        keep_trying(act)
        if last:
            return


def keep_trying(act: Callable[[], object]) -> None:
    for _ in range(3):
        try:
            act()
        except ConflictError:
            continue
        return


def state_of(table: Table, as_of: str | None = None) -> Found:
    found: Found = {}
    for row in table.read(columns=["dt", "id", "v"], as_of=as_of).read_all().to_pylist():
        key = (row["dt"], row["id"])
        assert key not in found, f"{key} occurs twice"
        found[key] = row["v"]
    return found


def read(actor: Actor, count: int, random: Random, *, may_miss: bool) -> None:
    """Read some times; what was seen is judged at the end, when the order of commits is known."""
    world = actor.world
    for number in range(count):
        first = len(world.done)
        as_of = random.choice(world.done).requested if number % 2 else None
        try:
            seen = state_of(actor.table, as_of)
        except LakebedError as error:
            # A moment of the past may be cleaned or archived meanwhile; the present only where
            # cleaning was told not to wait for readers.
            cleaned = may_miss or (as_of is not None and isinstance(error, InvalidError))
            if not cleaned:
                raise
            continue
        last = len(world.done)
        world.reads.append(functools.partial(judge, world, seen, first, last, as_of))


def judge(world: World, seen: Found, first: int, last: int, as_of: str | None) -> None:
    wanted = [world.model(count, as_of) for count in range(first, last + 1)]
    seen = world.judged(seen)
    assert seen in wanted, f"read {seen} as of {as_of}, expected one of {wanted}"


RETAIN = {"hoodie.clean.commits.retained": "1"}
AT_ONCE = {**RETAIN, "lakebed.clean.min.age.seconds": "0"}
CAREFUL = {**RETAIN, "lakebed.clean.min.age.seconds": "1800"}
ARCHIVE = {**RETAIN, "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
BY_HAND = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


@functools.cache
def prepared(
    mode: str,
    version: int,
    kind: str,
    planned: bool,
    indexed: bool = False,
    index: str = "bucket",
    groups: bool = False,
) -> tuple[dict[str, bytes], tuple[Done, ...]]:
    """Return a table with an hour of history: base files, logs, maybe a plan and indexes."""
    world = World(MemoryObjects(), SharedTime(START), mode)
    clock = ActorClock("past", world.time)
    properties = {
        **BY_HAND,
        "hoodie.write.concurrency.mode": MODES[mode],
        "lakebed.index.compact.max.runs": "3",
    }
    if index != "bucket":
        properties["hoodie.parquet.small.file.limit"] = "0"  # so that updates become logs
    table = make(
        world.storage,
        clock,
        table_type=kind,
        index=index,
        buckets=1 if index == "bucket" else None,
        table_version=version,
        properties=properties,
        column_groups={"risk": ["v"]} if groups else {},
    )
    on_read = kind == "MERGE_ON_READ"
    for batch in (Batch(1, ("p", "q")), Batch(2, ("p",)), Batch(3, ("p",))):
        commit = batch.write(table)
        world.done.append(Done(commit.instant, batch))
        if indexed and batch.number == 1:
            table.create_index("by_v", ["v"])
            table.create_index("by_two", ["ts", "id"])
        if on_read and batch.number == 2:
            table.compact()
        world.time.ms += 600_000
    if on_read and planned:
        assert table.schedule_compaction() is not None
    return world.storage.contents(), tuple(world.done)


def check_nothing_left(storage: MemoryObjects, table: Table) -> None:
    timeline = load_timeline(storage)
    assert not timeline.pending(), timeline.pending()
    named = {
        path for commit in timeline.commits for path in named_files(table._commits.read(commit))
    }
    first = timeline.commits[0].requested
    for path in storage.contents():
        name = parse_data_name(path.rpartition("/")[2])
        if name is not None and not path.startswith(".hoodie"):
            assert path in named or name.instant < first, f"{path} is named by no commit"
        assert not path.startswith((".hoodie/.temp", ".hoodie/.heartbeat")), path
