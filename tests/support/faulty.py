"""A Storage that dies at a chosen operation, to try a crash at every step of some work."""

import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Literal, Self, TypeVar

import pyarrow as pa

from lakebed.errors import UnavailableError
from lakebed.storage.storage import Entry, Names, Storage
from lakebed.storage.streams import WriteStream

T = TypeVar("T")


class SimulatedCrash(BaseException):
    """The process is dead. Not an Exception: no handler of the code under test may survive it."""


class FaultyStorage:
    """Count the operations on `inner`, and crash at number `fail_at` (the first is 1, 0 is never).

    An operation is every call that reads or writes storage, and the open, close and abort
    of a write stream. `when` says whether the one that crashes takes effect. After the
    crash every call raises, and streams that were open stay as a dead process leaves
    them: neither closed nor aborted. `ops` names the operations that were begun.
    """

    def __init__(
        self, inner: Storage, fail_at: int = 0, when: Literal["before", "after"] = "before"
    ) -> None:
        self.inner = inner
        self.fail_at = fail_at
        self.when = when
        self.ops: list[str] = []
        self.crashed = False
        self._lock = threading.Lock()
        self._streams: list[WriteStream] = []  # keeps abandoned ones from aborting themselves

    def run(self, op: str, act: Callable[[], T]) -> T:
        """Do `act` as the operation `op`, or crash before or after it."""
        with self._lock:
            self.refuse_if_dead(op)
            self.ops.append(op)
            dies = len(self.ops) == self.fail_at
            if dies:
                self.crashed = True
        if dies and self.when == "before":
            raise SimulatedCrash(f"before {op}")
        result = act()
        if dies:
            raise SimulatedCrash(f"after {op}")
        return result

    def refuse_if_dead(self, op: str) -> None:
        if self.crashed:
            raise SimulatedCrash(f"{op}: the process died at {self.ops[-1]}")

    @property
    def url(self) -> str:
        return self.inner.url

    def local_path(self, path: str) -> str | None:
        self.refuse_if_dead(f"local_path {path}")
        return self.inner.local_path(path)

    def read(self, path: str) -> bytes:
        return self.run(f"read {path}", lambda: self.inner.read(path))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self.run(f"read_range {path}", lambda: self.inner.read_range(path, offset, length))

    def head(self, path: str) -> Entry:
        return self.run(f"head {path}", lambda: self.inner.head(path))

    def list(self, prefix: str = "") -> Iterator[Entry]:
        return self.run(f"list {prefix}", lambda: iter(tuple(self.inner.list(prefix))))

    def names(self, prefix: str = "") -> Sequence[str]:
        return self.run(f"names {prefix}", lambda: self.inner.names(prefix))

    def list_names(self, prefix: str = "") -> Names:
        return self.run(f"list_names {prefix}", lambda: self.inner.list_names(prefix))

    def put(self, path: str, data: bytes) -> str:
        return self.run(f"put {path}", lambda: self.inner.put(path, data))

    def put_if_absent(self, path: str, data: bytes) -> str:
        return self.run(f"put_if_absent {path}", lambda: self.inner.put_if_absent(path, data))

    def put_if_unchanged(self, path: str, data: bytes, etag: str) -> str:
        return self.run(
            f"put_if_unchanged {path}", lambda: self.inner.put_if_unchanged(path, data, etag)
        )

    def delete(self, path: str) -> None:
        self.run(f"delete {path}", lambda: self.inner.delete(path))

    def make_folder(self, path: str) -> None:
        self.run(f"make_folder {path}", lambda: self.inner.make_folder(path))

    def open_write(self, path: str, *, durable: bool = True) -> "FaultyStream":
        def act() -> WriteStream:
            stream = self.inner.open_write(path, durable=durable)
            self._streams.append(stream)
            return stream

        return FaultyStream(self, self.run(f"open_write {path}", act), path)

    def open_read(self, path: str) -> pa.NativeFile:
        return self.run(f"open_read {path}", lambda: self.inner.open_read(path))


class Silent(FaultyStorage):
    """Does not answer operation `fail_at` and the `length - 1` after it; the process lives on."""

    def __init__(
        self, inner: Storage, fail_at: int, when: Literal["before", "after"], length: int = 1
    ) -> None:
        super().__init__(inner, fail_at, when)
        self._length = length

    def run(self, op: str, act: Callable[[], T]) -> T:
        with self._lock:
            self.ops.append(op)
            fails = self.fail_at <= len(self.ops) < self.fail_at + self._length
        if fails and self.when == "before":
            raise UnavailableError(f"no answer: {op}")
        result = act()
        if fails:
            raise UnavailableError(f"answer lost: {op}")
        return result


class FaultyStream:
    """A write stream whose close and abort are operations of its storage."""

    def __init__(self, storage: FaultyStorage, inner: WriteStream, path: str) -> None:
        self._storage = storage
        self._inner = inner
        self._path = path

    @property
    def closed(self) -> bool:
        return self._inner.closed

    def write(self, data: bytes | memoryview | pa.Buffer) -> int:
        self._storage.refuse_if_dead(f"write {self._path}")
        return self._inner.write(data)

    def tell(self) -> int:
        return self._inner.tell()

    def flush(self) -> None:
        self._inner.flush()

    def close(self) -> None:
        if not self._inner.closed:
            self._storage.run(f"close {self._path}", self._inner.close)

    def abort(self) -> None:
        if not self._inner.closed:
            self._storage.run(f"abort {self._path}", self._inner.abort)

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
        elif not self._storage.crashed:  # a dead process cleans up nothing
            self.abort()
