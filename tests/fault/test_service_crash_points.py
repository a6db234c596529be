"""A crash or a lost answer at every storage operation of services, and of writes among several.

Afterwards the rows are those from before or after, moments that are retained read as they did, the
next write works, and the same service called again ends what was begun; a last clean leaves no file
that no commit names. What other files try is not repeated here: compaction, cleaning by commits,
archiving, rollback of completed instants, savepoints and restore on table version 9.
"""

import contextlib
import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from lakebed.api.table import Table
from lakebed.errors import ConflictError, InvalidError, LakebedError
from lakebed.format.names.data_names import parse_data_name
from lakebed.model.clock import ManualClock
from lakebed.model.executor import LocalExecutor
from lakebed.services.upgrade.execute import downgrade, upgrade
from lakebed.services.verify.verify import verify
from lakebed.storage.objects import memory_storage
from lakebed.storage.storage import Storage
from lakebed.table.config.properties_file import load_config
from lakebed.table.files.retention import named_files
from lakebed.timeline.active import load_timeline
from support.crash_points import Unseen, Work
from support.faulty import FaultyStorage, SimulatedCrash
from support.figures import FIGURE
from support.indexes import add_indexes, check_indexes
from support.tables import Rows, batch, contents, copy_of, make, reopen, user_rows

Act = Callable[[Table], object]
START = 1_700_000_000_000
NOW = START + 7_200_000
EFFECTS = ("put", "delete", "open_write", "close", "abort")
FIRST = batch(("a", 1, 1, "p"), ("b", 1, 1, "p"), ("c", 1, 1, "q"))
SECOND = batch(("a", 2, 2, "p"), ("d", 2, 2, "q"))
CHANGES = batch(("a", 3, 3, "p"), ("n", 3, 3, "new"))
LATER = batch(("z", 9, 9, "p"), ("y", 9, 9, "q"))
BY_HAND = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
RETAIN = {"hoodie.clean.commits.retained": "1", "lakebed.clean.min.age.seconds": "0"}
OCC = {**BY_HAND, "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
NBCC = {**BY_HAND, "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}
INLINE = {
    **RETAIN,
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "2",
    "lakebed.compaction.mode": "full",
    "hoodie.clean.trigger.max.commits": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}
COW: dict[str, Any] = {"table_type": "COPY_ON_WRITE"}
MOR: dict[str, Any] = {"table_type": "MERGE_ON_READ"}
MOR10 = {**MOR, "table_version": 10}


@dataclass(frozen=True)
class Case:
    """A table, what is done to it, and what does it again."""

    act: Act
    kind: dict[str, Any]
    properties: dict[str, str] = field(default_factory=lambda: dict(BY_HAND))
    prepare: Act = lambda table: None
    commits: int = 2
    again: Act | None = None


def service(act: Act, kind: dict[str, Any], *rest: Any, **more: Any) -> Case:
    """Return the case of a service: called again it ends what was begun, and changes no rows."""
    return Case(act, kind, *rest, again=act, **more)


def by_policy(name: str, **options: str) -> Act:
    wanted = {"hoodie.clean.policy": name, "lakebed.clean.min.age.seconds": "0", **options}
    return lambda table: table.clean(options=wanted)


def left_pending(table: Table) -> None:
    """Let a writer die with its files written."""
    dying = Dies(table._storage)
    with pytest.raises(SimulatedCrash):
        reopen(dying, ManualClock(ms=NOW - 1000, name="dead")).upsert(CHANGES)


def roll_back_pending(table: Table) -> None:
    for pending in load_timeline(table._storage).pending():
        table.rollback(pending.requested)


class Dies(FaultyStorage):
    """Dies before it deletes its heartbeat, which it does right before it completes."""

    def run(self, op: str, act: Callable[[], Any]) -> Any:
        if op.startswith("delete .hoodie/.heartbeat"):
            self.crashed = True
        return super().run(op, act)


def upsert(table: Table) -> None:
    table.upsert(CHANGES)


def move(act: Callable[..., object], version: int) -> Act:
    return lambda table: act(table._target(), version)


CASES = {
    "write, optimistic, copy on write": Case(upsert, COW, OCC),
    "write, optimistic, inline logs": Case(upsert, MOR, OCC),
    "write, non-blocking, inline logs": Case(upsert, MOR, NBCC),
    "write, non-blocking, native logs": Case(upsert, MOR10, NBCC),
    "overwrite, non-blocking": Case(lambda t: t.insert_overwrite(CHANGES), MOR, NBCC),
    "compaction full, native logs": service(lambda t: t.compact("full"), MOR10),
    "compaction log, native logs": service(lambda t: t.compact("log"), MOR10, commits=4),
    "compaction hybrid, native logs": service(lambda t: t.compact("hybrid"), MOR10, NBCC),
    "clean by hours": service(
        by_policy("KEEP_LATEST_BY_HOURS", **{"hoodie.clean.hours.retained": "1"}), COW, commits=4
    ),
    "clean by file versions": service(
        by_policy("KEEP_LATEST_FILE_VERSIONS", **{"hoodie.clean.fileversions.retained": "1"}),
        COW,
        commits=4,
    ),
    "rollback of a pending write": service(roll_back_pending, MOR, OCC, left_pending),
    "write, then compaction and archiving inline": Case(
        upsert, MOR, INLINE, commits=5, again=lambda t: t.run_services()
    ),
    "write, then cleaning inline": Case(
        upsert, MOR, INLINE, commits=6, again=lambda t: t.run_services()
    ),
    "index that is created": service(
        lambda t: t.create_index("later", ["v"], if_not_exists=True), MOR
    ),
    "index that is merged": service(lambda t: t.compact_index("by_v"), MOR, commits=4),
    "index that is dropped": service(lambda t: t.drop_index("by_v", if_exists=True), MOR),
    "upgrade": service(move(upgrade, 10), MOR),
    "downgrade": service(move(downgrade, 9), MOR10),
}


def first_process(storage: Storage) -> Table:
    clock = ManualClock(ms=NOW, step_ms=1, ended=frozenset({"dead"}))
    return reopen(storage, clock)


def next_process(storage: Storage) -> Table:
    """Open the table in a process that knows that the others are dead."""
    ended = frozenset({"manual", "dead"})
    return reopen(storage, ManualClock(ms=NOW, step_ms=1, name="next", ended=ended))


@dataclass(frozen=True)
class Facts:
    """A case without any fault."""

    work: Work
    before: Rows
    after: Rows
    past: dict[str, Rows]


@functools.cache
def facts(name: str) -> Facts:
    case = CASES[name]
    storage = memory_storage()
    clock = ManualClock(ms=START, step_ms=1)
    table = make(
        storage, clock, ordering=("ts",), buckets=1, **case.kind, properties=case.properties
    )
    past = {}
    for number in range(case.commits):
        rows = FIRST if number == 0 else SECOND
        instant = table.upsert(rows).instant
        past[instant] = user_rows(table)
        if number == 0:
            add_indexes(table)
        clock.ms += 1_200_000
    case.prepare(table)
    work = Work.of(contents(storage), lambda given: case.act(first_process(given)))
    return Facts(work, user_rows(reopen(storage)), user_rows(reopen(work.done)), past)


@pytest.mark.parametrize("name", CASES)
def test_whatever_fails_the_rows_are_whole_and_the_next_one_ends_it(
    name: str, record_property: Callable[[str, object], None]
):
    case, known = CASES[name], facts(name)
    work = known.work
    crashes = work.ends()
    silences = work.points("after", EFFECTS) + work.points("before", EFFECTS, every=7)
    unseen = Unseen()
    outages = work.outages(silences, refused=LakebedError)
    for storage, what, *_ in itertools.chain(work.crashes(crashes), outages):
        if not unseen(storage):
            continue
        try:
            recover(case, known, storage)
        except BaseException as error:
            error.add_note(what)
            raise
    record_property(
        FIGURE,
        f"{name}: {len(work.ops)} storage operations, {len(crashes)} crashes, "
        f"{len(silences)} lost answers",
    )


def recover(case: Case, known: Facts, storage: Storage) -> None:
    now = user_rows(reopen(storage))
    assert now in (known.before, known.after)
    check_past(known, storage)
    table = next_process(storage)
    table.upsert(LATER)
    added = {(row["dt"], row["id"]): row for row in LATER.to_pylist()}
    if case.again is not None:
        case.again(table)
    ended = user_rows(reopen(storage))
    assert ended == {**now, **added}
    if case.kind is not COW:
        with contextlib.suppress(ConflictError):
            table.compact()
    table.clean(options=RETAIN)
    assert user_rows(reopen(storage)) == ended
    check_nothing_left(storage)
    check_indexes(reopen(storage), covered=True)


def check_past(known: Facts, storage: Storage) -> None:
    """Every moment reads as it did, or is refused because it was cleaned or archived."""
    table = reopen(storage)
    for instant, rows in known.past.items():
        with contextlib.suppress(InvalidError):
            assert user_rows(table, instant) == rows, instant


def check_nothing_left(storage: Storage) -> None:
    table = reopen(storage)
    timeline = load_timeline(storage)
    assert not timeline.pending(), timeline.pending()
    read = table._commits.read
    named = {path for commit in timeline.commits for path in named_files(read(commit))}
    first = timeline.commits[0].requested
    for entry in storage.list():
        name = parse_data_name(entry.path.rpartition("/")[2])
        if name is not None and not entry.path.startswith(".hoodie"):
            assert entry.path in named or name.instant < first, f"{entry.path}: it is in no commit"
        assert not entry.path.startswith((".hoodie/.temp", ".hoodie/.heartbeat")), entry.path


@pytest.mark.parametrize("name", CASES)
def test_a_case_does_what_it_is_named_after_and_leaves_a_sound_table(name: str):
    case, known = CASES[name], facts(name)
    ops = known.work.ops
    assert len(known.work.points("after", EFFECTS)) >= 3, ops
    made = " ".join(op for op in ops if op.startswith(("put", "close")))
    for word, sign in (("compaction", "compaction"), ("archiving", "history"), ("clean", ".clean")):
        assert word not in name or sign in made, made
    changes = name.startswith(("write", "overwrite"))
    assert (known.before != known.after) is changes
    storage = copy_of(known.work.objects)
    case.act(first_process(storage))
    assert load_config(storage).version == (
        10 if name == "upgrade" else load_config(storage).version
    )
    report = verify(storage, ManualClock(ms=NOW, step_ms=1), LocalExecutor(1))
    assert report.is_sound, "\n".join(map(str, report))
