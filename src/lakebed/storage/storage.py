"""The storage interface, implemented for local disk, memory and object stores."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, TypeAlias

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Entry:
    """One object: its path below the root, its size, its tag (content version) and its age.

    A listing leaves tag and time empty, because on some stores they cost a read of the object.
    """

    path: str
    size: int
    etag: str = ""
    modified_ms: int = 0


# Not in the class, where `list` is the method.
Names: TypeAlias = tuple[list[str], list[Entry]]


class WriteStream(Protocol):
    """A new object that becomes visible on `close`; `abort` leaves nothing of it.

    As a context manager it closes on success and aborts on an exception; one that is
    garbage-collected aborts too. It is a binary file for pyarrow (`write`, `tell`, `closed`,
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
        """Do nothing: bytes become durable and visible on `close` only."""
        ...

    def close(self) -> None:
        """Make the object visible, whole and durable. Closing twice does nothing."""
        ...

    def abort(self) -> None:
        """Discard everything written. After `close` this does nothing."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Storage(Protocol):
    """Objects below one root. A path is relative, uses `/`, and never leaves the root.

    Every method rejects a path that leaves the root (`InvalidError`) before it touches anything. A
    missing object is `NotFoundError`, an outage `UnavailableError`, a missing permission
    `InvalidError`. A write that returned is durable.

    A tag identifies the current content of an object: `put` and `head` return the same tag for the
    same object. Stores that derive the tag from the content (S3) have equal tags for equal bytes:
    put a nonce into an object whose versions must all differ.
    """

    @property
    def url(self) -> str:
        """Return the root as a URL for messages: `file:///...`, `memory://...`, `s3://bucket/prefix`."""
        ...

    def read(self, path: str) -> bytes:
        """Read a whole object."""
        ...

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Read up to `length` bytes from `offset`; fewer only at the end of the object."""
        ...

    def head(self, path: str) -> Entry:
        """Return the entry of one object."""
        ...

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Yield every object below the folder `prefix`, at any depth, sorted by path.

        A folder that does not exist is empty. Objects that are still being written (an open
        WriteStream, a put in progress) are never listed.
        """
        ...

    def list_names(self, prefix: str = "") -> Names:
        """Return the sub-folders and the objects directly in the folder `prefix`, sorted by name.

        On local disk, sub-folders without objects may be included.
        """
        ...

    def names(self, prefix: str = "") -> Sequence[str]:
        """Return the names of the objects directly in the folder `prefix`, in any order.

        The cheapest listing: it opens a timeline of thousands of instants.
        """
        ...

    def put(self, path: str, data: bytes) -> str:
        """Write a whole object atomically, replacing any existing one; return its tag."""
        ...

    def put_if_absent(self, path: str, data: bytes) -> str:
        """Write a whole object unless it exists (`ExistsError`).

        One of several concurrent calls wins.
        """
        ...

    def put_if_unchanged(self, path: str, data: bytes, etag: str) -> str:
        """Replace an object if its tag is still `etag`.

        Otherwise, or if it is gone, raise ChangedError.
        """
        ...

    def delete(self, path: str) -> None:
        """Delete an object; a missing object is not an error."""
        ...

    def make_folder(self, path: str) -> None:
        """Create a folder, if the store has folders."""
        ...

    def open_write(self, path: str, *, durable: bool = True) -> WriteStream:
        """Start a new object; on close it replaces any existing one.

        One that is not `durable` may be lost in a power failure: for temporary files.
        """
        ...

    def open_read(self, path: str) -> pa.NativeFile:
        """Open an object for random reads by pyarrow."""
        ...

    def local_path(self, path: str) -> str | None:
        """Return the path in the operating system, or None if there is none."""
        ...
