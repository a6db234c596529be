"""Many actors on one table, step by step in an order that a seed chooses.

Writers, compactors, cleaners, archivers and readers take turns at every storage operation; some
die, for some the time jumps. Storage itself notes in which order commits became visible, and a
dict that does the same one after the other says what must be read, at every moment and at the end.
"""

import functools
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest

from lakebed.errors import ConflictError
from lakebed.model.clock import ManualClock
from lakebed.model.executor import LocalExecutor
from lakebed.services.compaction.execute import execute_compaction, pending_compactions
from lakebed.services.verify.verify import verify
from lakebed.storage.objects import memory_storage
from support.faulty import FaultyStorage
from support.figures import FIGURE
from support.indexes import check_indexes
from support.schedule import (
    ActorClock,
    Choice,
    Lagging,
    MemoryObjects,
    Priorities,
    Schedule,
    SharedTime,
    Uniform,
)
from support.tables import check_files, make, reopen
from support.world import (
    ARCHIVE,
    AT_ONCE,
    CAREFUL,
    HOUR,
    MODES,
    START,
    Actor,
    Batch,
    Done,
    World,
    beside_writers,
    check_nothing_left,
    keep_trying,
    prepared,
    read,
    state_of,
    write,
)

SEEDS = int(os.environ.get("LAKEBED_SCHEDULES", "600"))
CHUNKS = 20


@dataclass(frozen=True)
class Plan:
    """Who meets in a schedule, drawn from its seed."""

    seed: int
    mode: str
    version: int
    kind: str
    planned: bool
    roles: tuple[str, ...]
    at_once: bool
    dies: str = ""
    jumps: bool = False
    # What the last writer does; nothing means that it is drawn.
    batches: tuple[Batch, ...] = ()
    index: str = "bucket"
    # Whether the table has column groups, and writers write one of them or all.
    groups: bool = False


CASTS = (
    ("writer", "writer"),
    ("writer", "writer", "reader"),
    ("writer", "compactor"),
    ("writer", "compactor", "reader"),
    ("writer", "compactor", "cleaner"),
    ("writer", "writer", "cleaner"),
    ("writer", "cleaner", "reader"),
    ("compactor", "compactor", "writer"),
    ("compactor", "cleaner", "reader"),
    ("writer", "cleaner", "archiver"),
    ("writer", "writer", "archiver", "reader"),
    ("writer", "writer", "compactor", "cleaner", "reader"),
)


def plan_of(seed: int) -> Plan:
    random = Random(seed)
    mode = random.choice(("occ", "occ", "nbcc", "nbcc", "single"))
    on_read = mode == "nbcc" or random.random() < 0.6
    cast = random.choice([c for c in CASTS if on_read or "compactor" not in c])
    roles = tuple(f"{role}{number}" for number, role in enumerate(cast))
    mortal = [role for role in roles if not role.startswith("reader")]
    return Plan(
        seed,
        mode,
        random.choice((9, 10)) if on_read else 9,
        "MERGE_ON_READ" if on_read else "COPY_ON_WRITE",
        random.random() < 0.3,
        roles,
        random.random() < 0.5,
        random.choice(mortal) if random.random() < 0.3 else "",
        random.random() < 0.15,
    )


def batches_of(
    random: Random, first: int, counts: Sequence[int], *, purges: bool, groups: bool
) -> list[Batch]:
    places = (("p",), ("p",), ("q",), ("p", "q"), ("p", "new"))
    # A purge reads the table, which is safe only beside cleaners that wait for readers.
    kinds = ("upsert", "upsert", "upsert", "delete", "overwrite", *(["purge"] if purges else ()))
    if groups:
        kinds = ("upsert", "part", "part", "rest", "rest", "delete")
    return [
        Batch(first + number, random.choice(places), random.choice(kinds))
        for number in range(random.choice(counts))
    ]


def program(actor: Actor, plan: Plan, random: Random, number: int) -> Callable[[], object]:
    role = actor.name.rstrip("0123456789")
    options = AT_ONCE if plan.at_once else CAREFUL
    if role == "writer":
        # What is old becomes waste only after some more commits.
        wastes = any(role.startswith(("cleaner", "archiver")) for role in plan.roles)
        actor.world.writers += 1
        counts = (1, 2, 3) if wastes else (1, 2)
        purges, groups = not plan.at_once, plan.groups
        batches = batches_of(random, 100 * (number + 1), counts, purges=purges, groups=groups)
        last = number == max(n for n, r in enumerate(plan.roles) if r.startswith("writer"))
        return functools.partial(write, actor, plan.batches if last and plan.batches else batches)
    if role == "compactor":
        mode = random.choice(("full", "full", "log", "hybrid"))
        if plan.groups and random.random() < 0.5:
            return lambda: keep_trying(lambda: actor.table.compact(widen=True))
        return lambda: keep_trying(lambda: actor.table.compact(mode))
    if role == "cleaner":
        return lambda: beside_writers(actor.world, lambda: actor.table.clean(options=options))
    if role == "archiver":
        return lambda: beside_writers(actor.world, lambda: actor.table.archive(options=ARCHIVE))
    cleans = any(role.startswith("cleaner") for role in plan.roles)
    return lambda: read(actor, 3, random, may_miss=plan.at_once and cleans)


def choice_of(plan: Plan, random: Random) -> Choice:
    if plan.seed % 3 == 0:
        return Uniform(random)
    if plan.seed % 3 == 1:
        return Priorities(random, random.randrange(1, 5), 150)
    return Lagging(random, random.choice(plan.roles), random.randrange(1, 35))


def run(plan: Plan, choice: Choice | None = None) -> tuple[World, Schedule]:
    random = Random(plan.seed + 1)
    indexed = bool(plan.seed % 2)
    objects, done = prepared(
        plan.mode, plan.version, plan.kind, plan.planned, indexed, plan.index, plan.groups
    )
    world = World(
        MemoryObjects(objects, f"memory://schedule-{plan.seed}"),
        SharedTime(START + HOUR),
        plan.mode,
        list(done),
        compacts=plan.planned or any(role.startswith("compactor") for role in plan.roles),
    )
    schedule = Schedule(choice or choice_of(plan, random))
    actors: dict[str, Callable[[], object]] = {}
    for number, name in enumerate(plan.roles):
        fail_at = random.randrange(1, 45) if name == plan.dies else 0
        actor = Actor(name, world, schedule, fail_at, random.choice(("before", "after")))
        actors[name] = program(actor, plan, random, number)
    if plan.jumps:
        after = random.randrange(1, 25)

        def jump() -> None:
            for _ in range(after):
                schedule.step("time")
            # More than two intervals of a heartbeat, less than a reader is promised.
            world.time.ms += 130_000

        actors["time"] = jump
    schedule.run(actors)
    return world, schedule


def check(plan: Plan, choice: Choice | None = None) -> Counter[str]:
    world, schedule = run(plan, choice)
    for name, error in schedule.errors.items():
        raise AssertionError(f"{name} failed") from error
    for judged in world.reads:
        judged()
    seen = [one.batch for one in world.done]
    assert len(set(seen)) == len(seen), "a write became visible twice"
    lost = set(world.acknowledged) - set(seen)
    assert not lost, f"acknowledged and lost: {lost}"
    assert not set(world.refused) & set(seen), "refused, and visible"
    counts = Counter(
        schedules=1,
        steps=len(schedule.trace),
        commits=len(world.acknowledged),
        reads=len(world.reads),
        deaths=len(schedule.dead),
    )
    check_end(world, plan)
    return counts


def check_end(world: World, plan: Plan) -> None:
    """Look at what is left: by a process that comes later and knows that the others ended."""
    world.time.ms += HOUR
    clock = ActorClock("last", world.time)
    table = reopen(world.storage, clock)
    count = len(world.done)
    assert world.judged(state_of(table)) == world.model(count), "the rows at the end"
    if plan.seed % 2 and not any(role.startswith("cleaner") for role in plan.roles):
        newest = world.done[-1].requested
        found = world.judged(state_of(table, newest))
        assert found == world.model(count, newest), "a moment ago"
    last = Batch(999, ("p", "q"))
    world.done.append(Done(last.write(table).instant, last))
    for pending in pending_compactions(table._now()):
        execute_compaction(table._target(), pending)
    if plan.kind == "MERGE_ON_READ" and plan.seed % 3 == 0:
        table.compact()
    table.clean(options=AT_ONCE)
    rows = world.judged(state_of(table))
    assert rows == world.model(count + 1), "after the next write and the last clean"
    check_nothing_left(world.storage, table)
    check_indexes(table, covered=True)
    if plan.index != "bucket":
        # Also keys that are there twice, which a dict does not show.
        assert table.read().read_all().num_rows == len(rows)
        check_files(reopen(world.storage, clock))
    if plan.seed % 16 == 0:
        report = verify(world.storage, clock, LocalExecutor(1))
        assert report.is_sound, "\n".join(map(str, report))


@pytest.mark.parametrize("chunk", range(2))
def test_a_record_index_knows_every_key_whoever_wrote_and_died(chunk: int):
    for seed in range(chunk, SEEDS // 10, 2):
        plan = plan_of(seed)
        if plan.mode != "nbcc":  # non-blocking writers need buckets
            check(replace(plan, index="record"))


@pytest.mark.parametrize("chunk", range(2))
def test_writers_of_different_column_groups_lose_nothing_of_each_other(chunk: int):
    for seed in range(chunk, SEEDS // 8, 2):
        plan = plan_of(seed)
        if plan.kind == "MERGE_ON_READ":
            plan = replace(plan, version=10, groups=True)
            try:
                check(plan)
            except BaseException as error:
                error.add_note(f"seed {seed}: {plan}")
                raise


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_schedule_ends_in_what_its_commits_say_one_after_the_other(
    chunk: int, record_property: Callable[[str, object], None]
):
    counts: Counter[str] = Counter()
    for seed in range(chunk, SEEDS, CHUNKS):
        plan = plan_of(seed)
        try:
            counts += check(plan)
        except BaseException as error:
            error.add_note(f"seed {seed}: {plan}")
            raise
    counted = ", ".join(f"{number:,} {what}" for what, number in counts.items())
    record_property(FIGURE, f"schedules, part {chunk + 1} of {CHUNKS}: {counted}")


@pytest.mark.parametrize("role", ["reader", "writer", "compactor"])
def test_one_that_stands_still_at_any_step_finds_all_it_needs_when_it_goes_on(role: str):
    """Writers and a cleaner make waste of what it was about to read."""
    for steps in range(1, 45):
        plan = Plan(
            steps,
            "occ",
            9,
            "MERGE_ON_READ" if role == "compactor" else "COPY_ON_WRITE",
            planned=role == "compactor",
            roles=(f"{role}0", "writer1", "cleaner2"),
            at_once=role != "reader",
            batches=tuple(
                Batch(900 + n, ("p",), "overwrite" if n == 1 else "upsert") for n in range(3)
            ),
        )
        try:
            check(plan, Lagging(Random(steps), f"{role}0", steps))
        except BaseException as error:
            error.add_note(f"stood still after {steps} steps")
            raise


def test_what_a_write_under_way_has_written_is_never_taken_for_archived_data():
    for steps in range(8, 36, 4):
        plan = Plan(
            steps,
            "occ",
            9,
            "COPY_ON_WRITE",
            planned=False,
            roles=("writer0", "writer1", "archiver2", "reader3"),
            at_once=False,
            batches=tuple(Batch(900 + n, ("new",)) for n in range(4)),
        )
        check(plan, Lagging(Random(steps), "writer0", steps))


def test_a_schedule_is_the_same_again_from_its_seed():
    for seed in (4, 5, 6):
        first, second = (run(plan_of(seed)) for _ in range(2))
        assert first[1].trace == second[1].trace
        assert first[0].storage.contents().keys() == second[0].storage.contents().keys()


def test_one_whose_temporary_files_were_taken_is_told_to_try_again():
    storage = memory_storage()
    properties = {"hoodie.write.concurrency.mode": MODES["occ"]}
    make(storage, ManualClock(step_ms=1), properties=properties).insert(Batch(1, ("p",)).rows())

    class Overtaken(FaultyStorage):
        def run(self, op: str, act: Callable[[], Any]) -> Any:
            if op.startswith("open_read .hoodie/.temp"):
                later = ManualClock(ms=START + HOUR, step_ms=1)
                reopen(storage, later).upsert(Batch(2, ("q",)).rows())
            return super().run(op, act)

    slow = reopen(Overtaken(storage), ManualClock(ms=START, step_ms=1))
    with pytest.raises(ConflictError, match="the write is over or was rolled back"):
        slow.insert_overwrite(Batch(3, ("p",)).rows())
    assert state_of(reopen(storage))["p", "all"] == 1
