"""The one interface to bytes, over local disk, memory and object stores."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, TypeAlias

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Entry:
    """One object: its path below the root, its size, the tag of its present content, its age.

    A listing leaves tag and time empty, because on some stores they cost a read of the object.
    """

    path: str
    size: int
    etag: str = ""
    modified_ms: int = 0


# Here and not in the class, where `list` is the method.
Names: TypeAlias = tuple[list[str], list[Entry]]


class WriteStream(Protocol):
    """A new object that is not visible before `close`, and of which `abort` leaves nothing.

    As a context manager it closes on success and aborts on an exception; one that is
    forgotten aborts too. It is a binary file for pyarrow (`write`, `tell`, `closed`,
    `flush`). A `close` or `write` that fails has aborted.
    """

    @property
    def closed(self) -> bool:
        """Return whether `close` or `abort` was called."""
        ...

    def write(self, data: bytes | memoryview | pa.Buffer) -> int:
        """Append `data`."""
        ...

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        ...

    def flush(self) -> None:
        """Do nothing: bytes become durable and visible at `close` only."""
        ...

    def close(self) -> None:
        """Make the object visible, whole and durable. Closing twice does nothing."""
        ...

    def abort(self) -> None:
        """Drop everything written. After `close` this does nothing."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Storage(Protocol):
    """Objects below one root. A path is relative, with `/`, and never leaves the root.

    Every method refuses a path that leaves the root (`InvalidError`) before it touches
    anything. A missing object is `NotFoundError`. An outage is `UnavailableError`; a
    right that is missing is `InvalidError`. A write that returned is durable.

    A tag names the present content of an object. `put`, `head` and `list` give the same
    tag for the same object. Stores that take the tag from the content (S3) give equal
    bytes equal tags: put a nonce into an object whose every version must differ.
    """

    @property
    def url(self) -> str:
        """Name the root for people: `file:///...`, `memory://...`, `s3://bucket/prefix`."""
        ...

    def read(self, path: str) -> bytes:
        """Read a whole object."""
        ...

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Read up to `length` bytes from `offset`; shorter only at the end of the object."""
        ...

    def head(self, path: str) -> Entry:
        """Describe one object."""
        ...

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Yield every object below the folder `prefix`, at any depth, sorted by path.

        A folder that does not exist is empty. Objects that are still being written
        (an open WriteStream, a put under way) are never listed.
        """
        ...

    def list_names(self, prefix: str = "") -> Names:
        """Return the names of sub-folders and the objects directly in the folder `prefix`, sorted.

        On a disk a sub-folder that holds no object may be named too.
        """
        ...

    def names(self, prefix: str = "") -> Sequence[str]:
        """Return the names of the objects directly in the folder `prefix`, in any order.

        The cheapest listing there is: a timeline of thousands of instants is opened by it.
        """
        ...

    def put(self, path: str, data: bytes) -> str:
        """Write a whole object, replacing what is there, atomically; give its tag."""
        ...

    def put_if_absent(self, path: str, data: bytes) -> str:
        """Write a whole object unless it exists (`ExistsError`); one of many racers wins."""
        ...

    def put_if_unchanged(self, path: str, data: bytes, etag: str) -> str:
        """Replace an object that still has `etag` (else `ChangedError`, also when it is gone)."""
        ...

    def delete(self, path: str) -> None:
        """Delete an object; one that is not there is no error."""
        ...

    def make_folder(self, path: str) -> None:
        """Make a folder exist where the store has folders; elsewhere there is nothing to do."""
        ...

    def open_write(self, path: str, *, durable: bool = True) -> WriteStream:
        """Start a new object; it replaces what is there when it is closed.

        One that is not `durable` may be lost in a power cut: for temporary files.
        """
        ...

    def open_read(self, path: str) -> pa.NativeFile:
        """Open an object for random reads, for pyarrow's readers."""
        ...

    def local_path(self, path: str) -> str | None:
        """Return the path that the operating system knows, or None where there is none."""
        ...
