"""The storage interface, which is implemented for local disk, memory and object stores."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

from lakebed.storage.streams import WriteStream


@dataclass(frozen=True, slots=True)
class Entry:
    """One object: its path below the root, size, tag (content version) and modification time.

    Listings leave tag and time empty, because some stores would have to read the object for them.
    """

    path: str
    size: int
    etag: str = ""
    modified_ms: int = 0


# Not in the class, because `list` is a method there.
Names: TypeAlias = tuple[list[str], list[Entry]]


class Storage(Protocol):
    """Objects below one root, with relative paths that use `/`.

    Before any access, all methods raise `InvalidError` for a path that leaves the root. They raise
    `NotFoundError` for a missing object, `UnavailableError` for an outage and `InvalidError` for a
    missing permission. A write is durable when its call returns.

    A tag identifies the content of an object; `put` and `head` return the same tag for the same
    object. Stores that derive tags from the content (S3) have equal tags for equal bytes, so an
    object whose versions must all have different tags needs a nonce.
    """

    @property
    def url(self) -> str:
        """Return the root as a URL for messages: `file:///...`, `memory://...`, `s3://bucket/prefix`."""
        ...

    def read(self, path: str) -> bytes:
        """Read all bytes of an object."""
        ...

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Read up to `length` bytes from `offset`, or fewer at the end of the object."""
        ...

    def head(self, path: str) -> Entry:
        """Return the entry of one object, with tag and time."""
        ...

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Yield every object below the folder `prefix`, at any depth, sorted by path.

        A folder that does not exist is empty. Objects that are still being written are not listed.
        """
        ...

    def list_names(self, prefix: str = "") -> Names:
        """Return the sub-folders and objects directly in the folder `prefix`, sorted by name.

        On local disk, sub-folders without objects may be included.
        """
        ...

    def names(self, prefix: str = "") -> Sequence[str]:
        """Return the names of the objects directly in the folder `prefix`, in any order.

        This is the cheapest listing, for loading timelines of thousands of instants.
        """
        ...

    def put(self, path: str, data: bytes) -> str:
        """Write an object atomically, replacing any existing one; return its tag."""
        ...

    def put_if_absent(self, path: str, data: bytes) -> str:
        """Write an object atomically and return its tag; raise ExistsError if it exists.

        Exactly one of several concurrent calls succeeds.
        """
        ...

    def put_if_unchanged(self, path: str, data: bytes, etag: str) -> str:
        """Replace an object if its tag is still `etag`; return the new tag.

        Raises ChangedError if the object has another tag or no longer exists.
        """
        ...

    def delete(self, path: str) -> None:
        """Delete an object; ignore a missing object."""
        ...

    def make_folder(self, path: str) -> None:
        """Create a folder if the store has folders."""
        ...

    def open_write(self, path: str, *, durable: bool = True) -> WriteStream:
        """Open a stream for a new object, which replaces any existing one when it is closed.

        Without `durable`, a power failure may lose the object: this is for temporary files.
        """
        ...

    def open_read(self, path: str) -> pa.NativeFile:
        """Open an object for random reads by pyarrow."""
        ...

    def local_path(self, path: str) -> str | None:
        """Return the absolute path in the operating system, or None if there is none."""
        ...
