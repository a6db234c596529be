"""Interleavings by a seed: actors in threads of which one moves at a time, a storage operation each.

Every operation on storage and every sleep is a step, and before each step a seeded choice says
whose turn it is. The same seed gives the same run. Three ways to choose: uniformly; by random
priorities that change at a few random steps (PCT), which finds bugs that need few but particular
switches; and with one that lags behind all others.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from types import TracebackType
from typing import Any, Literal, Protocol, Self

import pyarrow as pa

from lakebed.errors import ChangedError, ExistsError, NotFoundError
from lakebed.storage.storage import Entry, Names
from support.faulty import FaultyStorage, SimulatedCrash

_STUCK_SECONDS = 20.0


def unlock_cached_properties(*kinds: type) -> None:
    """Let one actor stand still within a cached property while another enters it.

    Before Python 3.12 such a property has one lock for all instances. Actors stand for
    processes, which share none.
    """
    for kind in kinds:
        for held in vars(kind).values():
            if isinstance(held, cached_property) and hasattr(held, "lock"):
                held.lock = nullcontext()


class MemoryObjects:
    """Objects in a dict, linearizable: every operation happens whole, at one moment."""

    def __init__(
        self, objects: Mapping[str, bytes] | None = None, url: str = "memory://schedule"
    ) -> None:
        self.url = url
        self._lock = threading.Lock()
        self._count = 0
        self._objects: dict[str, tuple[bytes, str]] = {}
        for path, data in (objects or {}).items():
            self.put(path, data)

    def contents(self) -> dict[str, bytes]:
        with self._lock:
            return {path: data for path, (data, _) in self._objects.items()}

    def _get(self, path: str) -> tuple[bytes, str]:
        found = self._objects.get(path)
        if found is None:
            raise NotFoundError(f"{self.url}/{path}: no such object")
        return found

    def _set(self, path: str, data: bytes) -> str:
        self._count += 1
        tag = f'"{self._count}"'
        self._objects[path] = (bytes(data), tag)
        return tag

    def local_path(self, path: str) -> None:
        return None

    def read(self, path: str) -> bytes:
        with self._lock:
            return self._get(path)[0]

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self.read(path)[offset : offset + length]

    def head(self, path: str) -> Entry:
        with self._lock:
            data, tag = self._get(path)
        return Entry(path, len(data), tag)

    def list(self, prefix: str = "") -> Iterator[Entry]:
        below = f"{prefix}/" if prefix else ""
        with self._lock:
            held = sorted((p, len(d)) for p, (d, _) in self._objects.items() if p.startswith(below))
        return iter([Entry(path, size) for path, size in held])

    def list_names(self, prefix: str = "") -> Names:
        below = f"{prefix}/" if prefix else ""
        folders, entries = set(), []
        for entry in self.list(prefix):
            folder, slash, _ = entry.path[len(below) :].partition("/")
            if slash:
                folders.add(folder)
            else:
                entries.append(entry)
        return sorted(folders), entries

    def names(self, prefix: str = "") -> Sequence[str]:
        below = f"{prefix}/" if prefix else ""
        with self._lock:
            found = sorted(path[len(below) :] for path in self._objects if path.startswith(below))
        return [name for name in found if "/" not in name]

    def put(self, path: str, data: bytes) -> str:
        with self._lock:
            return self._set(path, data)

    def put_if_absent(self, path: str, data: bytes) -> str:
        with self._lock:
            if path in self._objects:
                raise ExistsError(f"{self.url}/{path}: already exists")
            return self._set(path, data)

    def put_if_unchanged(self, path: str, data: bytes, etag: str) -> str:
        with self._lock:
            found = self._objects.get(path)
            if found is None or found[1] != etag:
                raise ChangedError(f"{self.url}/{path}: changed since it was read")
            return self._set(path, data)

    def delete(self, path: str) -> None:
        with self._lock:
            self._objects.pop(path, None)

    def make_folder(self, path: str) -> None:
        """Do nothing: there are no folders."""

    def open_write(self, path: str, *, durable: bool = True) -> "_Stream":
        return _Stream(self, path)

    def open_read(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self.read(path))


class _Stream:
    """A new object, invisible before `close`."""

    def __init__(self, storage: MemoryObjects, path: str) -> None:
        self._storage = storage
        self._path = path
        self._data = bytearray()
        self.closed = False

    def write(self, data: bytes | memoryview | pa.Buffer) -> int:
        view = memoryview(data)
        self._data += view
        return view.nbytes

    def tell(self) -> int:
        return len(self._data)

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._storage.put(self._path, bytes(self._data))

    def abort(self) -> None:
        self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


class Choice(Protocol):
    """Says whose turn it is."""

    def pick(self, names: Sequence[str], now: str | None, step: int) -> str: ...

    def yields(self, name: str) -> None: ...


class Uniform:
    """Everybody is as likely as the others, at every step."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def pick(self, names: Sequence[str], now: str | None, step: int) -> str:
        return self._random.choice(names)

    def yields(self, name: str) -> None:
        """Do nothing: the others come by themselves."""


class Priorities:
    """The one of highest priority runs; at a few random steps it becomes the lowest."""

    def __init__(self, random: Random, changes: int, length: int) -> None:
        self._random = random
        self._at = {random.randrange(1, length) for _ in range(changes)}
        self._rank: dict[str, float] = {}
        self._lowest = 0.0

    def pick(self, names: Sequence[str], now: str | None, step: int) -> str:
        for name in names:
            if name not in self._rank:
                self._rank[name] = 1 + self._random.random()
        if now is not None and step in self._at:
            self.yields(now)
        return max(names, key=self._rank.__getitem__)

    def yields(self, name: str) -> None:
        self._lowest -= 1
        self._rank[name] = self._lowest


class Lagging:
    """One stands still after its first steps, until the others are done or all wait for it."""

    def __init__(self, random: Random, laggard: str, steps: int) -> None:
        self._random = random
        self._laggard = laggard
        self._left = steps
        self._sleeps = 0
        self._slept = False

    def pick(self, names: Sequence[str], now: str | None, step: int) -> str:
        # Only sleepers for a while: what they wait for is the laggard's.
        self._sleeps = self._sleeps + 1 if self._slept else 0
        self._slept = False
        if self._sleeps > 10:
            self._left, self._sleeps = self._random.randrange(1, 20), 0
        if self._laggard in names and self._left > 0:
            self._left -= 1
            return self._laggard
        return self._random.choice([name for name in names if name != self._laggard] or names)

    def yields(self, name: str) -> None:
        self._slept = True


class Schedule:
    """Runs actors, one step at a time."""

    def __init__(self, choice: Choice) -> None:
        self.trace: list[str] = []
        self.dead: set[str] = set()
        self.errors: dict[str, BaseException] = {}
        self._choice = choice
        self._turns: dict[str, threading.Semaphore] = {}
        self._names: dict[int, str] = {}
        self._running: list[str] = []
        self._over = threading.Event()

    def run(self, actors: Mapping[str, Callable[[], object]]) -> None:
        """Run all actors to their ends; what they raise is in `errors`."""
        self._running = list(actors)
        self._turns = {name: threading.Semaphore(0) for name in actors}
        threads = [
            threading.Thread(target=self._live, args=(name, act), name=name, daemon=True)
            for name, act in actors.items()
        ]
        for thread in threads:
            thread.start()
        self._turns[self._next(None)].release()
        if not self._over.wait(_STUCK_SECONDS):
            raise AssertionError(f"no actor moves after {self.trace[-5:]}")
        for thread in threads:
            thread.join()

    def step(self, what: str, *, yields: bool = False) -> None:
        """Give an actor its turn: another one, or the caller. Other threads pass."""
        name = self._names.get(threading.get_ident())
        if name is None:
            return
        if yields:
            self._choice.yields(name)
        chosen = self._next(name)
        if chosen != name:
            self._turns[chosen].release()
            self._wait(name)
        self.trace.append(f"{name}: {what}")

    def _next(self, now: str | None) -> str:
        return self._choice.pick(self._running, now, len(self.trace) + 1)

    def _wait(self, name: str) -> None:
        if not self._turns[name].acquire(timeout=_STUCK_SECONDS):
            raise AssertionError(f"{name} never had a turn")

    def _live(self, name: str, act: Callable[[], object]) -> None:
        self._names[threading.get_ident()] = name
        self._wait(name)
        try:
            act()
        except SimulatedCrash:
            self.dead.add(name)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.errors[name] = error
        finally:
            # Numbers of threads come again, the next time for one that is no actor.
            del self._names[threading.get_ident()]
            self._running.remove(name)
            if self._running:
                self._turns[self._next(None)].release()
            else:
                self._over.set()


@dataclass
class SharedTime:
    """The time of all actors: a millisecond for each look."""

    ms: int


@dataclass
class ActorClock:
    """The clock of one actor; its sleep is a step."""

    name: str
    time: SharedTime
    schedule: Schedule | None = None
    _count: int = field(default=0, init=False)

    def now_ms(self) -> int:
        self.time.ms += 1
        return self.time.ms

    def new_uuid(self) -> str:
        self._count += 1
        # The first eight digits are an actor's own: file ids begin with them.
        text = f"{self.name.encode().hex()[-8:]:0>8}{self._count:024x}"
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:]}"

    def sleep(self, seconds: float) -> None:
        until = self.time.ms + int(seconds * 1000)
        if self.schedule is not None:
            self.schedule.step(f"sleep {seconds:g}", yields=True)
        self.time.ms = max(self.time.ms, until)

    def process(self) -> str:
        return self.name

    def is_gone(self, process: str) -> bool:
        return self.schedule is not None and process in self.schedule.dead


class ActorStorage(FaultyStorage):
    """The storage as one actor has it: each operation waits for its turn.

    `seen` is called with each operation that took effect, at that very moment.
    """

    def __init__(
        self,
        inner: MemoryObjects,
        schedule: Schedule,
        seen: Callable[[str], None],
        fail_at: int = 0,
        when: Literal["before", "after"] = "before",
    ) -> None:
        super().__init__(inner, fail_at, when)
        self._schedule = schedule
        self._seen = seen

    def run(self, op: str, act: Callable[[], Any]) -> Any:
        self._schedule.step(op)

        def acted() -> Any:
            result = act()
            self._seen(op)
            return result

        return super().run(op, acted)
