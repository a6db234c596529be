"""Object stores that refuse, slow down, or do the work and lose the answer; tasks that come too late."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from lakebed.api.opening import create_table, open_table
from lakebed.api.table import Table
from lakebed.errors import ConflictError, UnavailableError
from lakebed.format.names.data_names import parse_data_name
from lakebed.model.clock import ManualClock, SystemClock
from lakebed.model.executor import LocalExecutor, TaskId
from lakebed.services.verify.verify import verify
from lakebed.storage.objects import memory_storage
from lakebed.storage.storage import Storage
from support.faulty import FaultyStorage, SimulatedCrash
from support.s3 import S3Server
from support.s3_server import one_at_a_time
from support.schedule import (
    ActorStorage,
    MemoryObjects,
    Priorities,
    Schedule,
    SharedTime,
    Uniform,
)
from support.tables import SCHEMA, batch, make, reopen, user_rows
from support.world import (
    AT_ONCE,
    HOUR,
    START,
    Actor,
    Batch,
    World,
    check_nothing_left,
    prepared,
    state_of,
)

OCC = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
BY_HAND = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
SEEDS = 120


class Unsteady(ActorStorage):
    """Now and then does not answer, before or after the work is done."""

    random = Random(0)

    def run(self, op: str, act: Callable[[], Any]) -> Any:
        chance = self.random.random()
        if chance < 0.01:
            raise UnavailableError(f"slow down: {op}")
        result = super().run(op, act)
        if chance < 0.02:
            raise UnavailableError(f"timeout after success: {op}")
        return result


def insist(actor: Actor, batches: Sequence[Batch]) -> None:
    """Write each batch until a call says that it is there."""
    for wanted in batches:
        actor.batch = wanted
        for _ in range(40):
            try:
                wanted.write(actor.table)
            except (ConflictError, UnavailableError):
                continue
            actor.world.acknowledged.append(wanted)
            break
    actor.batch = None


def compact(actor: Actor) -> None:
    for _ in range(3):
        try:
            actor.table.compact()
            actor.table.clean(options=AT_ONCE)
        except (ConflictError, UnavailableError):
            continue


@pytest.mark.parametrize("lock", ["memory://faults", "s3://faults"])
@pytest.mark.parametrize("mode", ["occ", "nbcc"])
def test_writers_that_try_again_lose_and_double_nothing(mode: str, lock: str):
    for seed in range(SEEDS // 4):
        try:
            run_unsteady(seed, mode, lock)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def run_unsteady(seed: int, mode: str, lock: str) -> None:
    random = Random(seed)
    objects, done = prepared(mode, 9, "MERGE_ON_READ", planned=bool(seed % 2))
    storage = MemoryObjects(objects, f"{lock}-{seed}")
    world = World(storage, SharedTime(START + HOUR), mode, list(done), compacts=True)
    schedule = Schedule(Uniform(random) if seed % 2 else Priorities(random, 3, 200))
    actors = [Actor(name, world, schedule) for name in ("writer0", "writer1", "compactor")]
    for actor in actors:
        actor.storage_kind = type("Seeded", (Unsteady,), {"random": Random(seed)})
    first, second, third = actors
    schedule.run(
        {
            "writer0": lambda: insist(first, [Batch(100, ("p",)), Batch(101, ("p", "q"))]),
            "writer1": lambda: insist(second, [Batch(200, ("p", "new"))]),
            "compactor": lambda: compact(third),
        }
    )
    # One that could not even open the table is excused.
    wrong = [e for e in schedule.errors.values() if not isinstance(e, UnavailableError)]
    if wrong:
        raise wrong[0]
    seen = [one.batch for one in world.done]
    assert set(world.acknowledged) <= set(seen), "acknowledged and lost"
    world.time.ms += HOUR
    table = reopen(storage, ManualClock(world.time.ms, step_ms=1, name="last"))
    assert world.judged(state_of(table)) == world.model(len(world.done))
    table.upsert(Batch(999, ("p",)).rows())
    table.compact()
    table.clean(options=AT_ONCE)
    check_nothing_left(storage, table)


@dataclass
class Rule:
    """Which request fails, how, and how often still."""

    matches: Callable[[str, str], bool]
    status: str
    code: str
    after: bool
    left: int = 1
    hits: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def applies(self, method: str, path: str) -> bool:
        with self.lock:
            if not self.left or not self.matches(method, path):
                return False
            self.left -= 1
            self.hits += 1
            return True


@contextmanager
def faulty_s3(rules: list[Rule]) -> Iterator[S3Server]:
    """Run moto in a thread; the requests that `rules` name fail."""
    inner = one_at_a_time(DomainDispatcherApplication(create_backend_app))

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        rule = next((rule for rule in rules if rule.applies(method, path)), None)
        if rule is None:
            return inner(environ, start_response)
        if rule.after:
            inner(environ, lambda *_: None)
        else:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        body = f"<Error><Code>{rule.code}</Code><Message>injected</Message></Error>".encode()
        start_response(
            rule.status,
            [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))],
        )
        return [body]

    server = make_server("127.0.0.1", 0, serve, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        found = S3Server(server.server_port)
        found.client().create_bucket(Bucket=found.bucket)
        yield found
    finally:
        server.shutdown()
        thread.join()


def is_commit(method: str, path: str) -> bool:
    name = path.rpartition("/")[2]
    return method == "PUT" and "/timeline/" in path and "_" in name and "deltacommit" in name


def is_data(method: str, path: str) -> bool:
    return method == "PUT" and parse_data_name(path.rpartition("/")[2]) is not None


def is_lock(method: str, path: str) -> bool:
    return method == "PUT" and "/.locks/" in path


REQUESTS = {"commit": is_commit, "data file": is_data, "lock": is_lock}
ANSWERS = {
    "slow down": ("503 Slow Down", "SlowDown", False),
    "timeout after success": ("500 Internal Server Error", "InternalError", True),
    "conflict": ("409 Conflict", "ConditionalRequestConflict", False),
    "precondition failed after success": ("412 Precondition Failed", "PreconditionFailed", True),
}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("request_", REQUESTS)
def test_a_request_that_fails_once_is_asked_again_or_refused_whole(request_: str, answer: str):
    status, code, after = ANSWERS[answer]
    rule = Rule(REQUESTS[request_], status, code, after, left=0)
    with faulty_s3([rule]) as server:
        # moto's memory is that of this process, and outlives a server.
        folder = f"{request_}-{answer}".replace(" ", "-")
        url, options = f"s3://{server.bucket}/{folder}", server.options()
        table = create_table(
            None,
            url,
            SCHEMA,
            key="id",
            partition_by="dt",
            table_type="MERGE_ON_READ",
            index="bucket",
            buckets=1,
            properties={**OCC, **BY_HAND},
            storage_options=options,
        )
        table.upsert(batch(("a", 1, 1, "p")))
        rule.left = 1
        try:
            table.upsert(batch(("a", 2, 2, "p"), ("b", 2, 2, "p")))
            wanted = {("p", "a"): 2, ("p", "b"): 2}
        except (ConflictError, UnavailableError):
            wanted = {("p", "a"): 1}
        assert rule.hits == 1, "the fault was never met"
        again = open_table(None, url, options)
        assert {key: row["v"] for key, row in user_rows(again).items()} == wanted
        again.upsert(batch(("c", 3, 3, "p")))
        report = verify(again._storage, SystemClock(), LocalExecutor(1))
        assert report.is_sound, "\n".join(map(str, report))


class Late(FaultyStorage):
    """A task's storage: it stands still before its file appears, until it is let go."""

    def __init__(self, inner: Storage, gate: threading.Event, then: Callable[[], None]) -> None:
        super().__init__(inner)
        self.arrived = threading.Event()
        self._gate = gate
        self._then = then

    def run(self, op: str, act: Callable[[], Any]) -> Any:
        if not op.startswith("close"):
            return super().run(op, act)
        self.arrived.set()
        assert self._gate.wait(60)
        result = super().run(op, act)
        self._then()
        return result


class Straggling(LocalExecutor):
    """Runs each task twice; the first attempt stands still until all is over."""

    def __init__(self, then: Callable[[], None]) -> None:
        super().__init__(1)
        self.gate = threading.Event()
        self.raised: list[BaseException] = []
        self._then = then
        self._late: list[threading.Thread] = []

    def run(self, task: Any, items: Sequence[Any], label: str) -> Iterator[Any]:
        for number, item in enumerate(items):
            behind, slow = self._behind(item)
            thread = threading.Thread(target=self._lag, args=(task, behind, number))
            thread.start()
            self._late.append(thread)
            assert slow.arrived.wait(60)
        yield from super().run(task, items, label)

    def _behind(self, item: Any) -> tuple[Any, Late]:
        """Return the same work on a storage that is slow."""
        if hasattr(item, "spec"):
            slow = Late(item.spec.storage, self.gate, self._then)
            view = replace(item.spec.view, storage=slow)
            return replace(item, spec=replace(item.spec, view=view)), slow
        slow = Late(item.rewrite.view.storage, self.gate, self._then)
        view = replace(item.rewrite.view, storage=slow)
        return replace(item, rewrite=replace(item.rewrite, view=view)), slow

    def _lag(self, task: Any, item: Any, number: int) -> None:
        try:
            task(item, TaskId(number, 1, 1))
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.raised.append(error)

    def wake(self) -> None:
        self.gate.set()
        for thread in self._late:
            thread.join()


def rewrite(table: Table) -> None:
    table.upsert(batch(("a", 2, 2, "p")))


@pytest.mark.parametrize("dies", [False, True], ids=["lives", "dies"])
@pytest.mark.parametrize("work", [rewrite, Table.compact], ids=["write", "compaction"])
def test_a_task_that_ends_after_the_commit_leaves_no_file_that_anybody_reads(
    work: Callable[[Table], object], dies: bool
):
    storage = memory_storage()
    kind = "COPY_ON_WRITE" if work is rewrite else "MERGE_ON_READ"
    clock = ManualClock(step_ms=1)
    table = make(storage, clock, table_type=kind, buckets=1, properties={**OCC, **BY_HAND})
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    table.upsert(batch(("b", 5, 5, "p")))
    late: list[set[str]] = []
    wanted: list[Any] = []

    def closed() -> None:
        late.append(data_files(storage))
        # The file is there for a moment, under the name of a completed instant.
        assert user_rows(reopen(storage)) == wanted[0]
        if dies:
            raise SimulatedCrash("right after its file appeared")

    table._engines.main.executor = straggling = Straggling(closed)
    work(table)
    named, wanted = data_files(storage), [user_rows(reopen(storage))]
    assert wanted[0]["p", "b"]["v"] == 5
    straggling.wake()
    assert late, "no attempt came late"
    assert late[0] > named
    assert user_rows(reopen(storage)) == wanted[0]
    if dies:
        assert all(isinstance(error, SimulatedCrash) for error in straggling.raised)
        reopen(storage, clock).clean(options=AT_ONCE)
        assert data_files(storage) <= named
    else:
        assert all(isinstance(error, ConflictError) for error in straggling.raised)
        assert data_files(storage) == named, "what Hudi would list"
    assert user_rows(reopen(storage)) == wanted[0]


def data_files(storage: Storage) -> set[str]:
    paths = (entry.path for entry in storage.list())
    return {path for path in paths if parse_data_name(path.rpartition("/")[2])}
