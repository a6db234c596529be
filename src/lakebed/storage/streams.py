"""The streams of all stores: new objects, and files that are read at random."""

import io
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

import pyarrow as pa

from lakebed.errors import InvalidError, LakebedError


class WriteStream(ABC):
    """A new object that becomes visible on `close`, or is discarded by `abort`.

    As a context manager, the stream is closed on success and aborted on an exception. It is also
    aborted if it is garbage-collected, or if `close` or `write` fails. pyarrow can use it as a
    binary file (`write`, `tell`, `closed`, `flush`).

    Subclasses implement publishing and dropping. If appending fails, the object is dropped; if
    publishing fails, the subclass must clean up.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._size = 0
        self._open = True

    @abstractmethod
    def _append(self, view: memoryview) -> None: ...

    @abstractmethod
    def _publish(self) -> None: ...

    @abstractmethod
    def _drop(self) -> None: ...

    @property
    def closed(self) -> bool:
        """Return whether `close` or `abort` was called."""
        return not self._open

    def write(self, data: bytes | memoryview | pa.Buffer) -> int:
        """Append `data`."""
        if not self._open:
            raise InvalidError(f"{self._name}: write to a closed stream")
        view = memoryview(data).cast("B")
        try:
            self._append(view)
        except LakebedError:
            self.abort()
            raise
        self._size += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self._size

    def flush(self) -> None:  # noqa: B027 - nothing to do in any store
        """Do nothing: bytes become durable and visible only on `close`."""

    def close(self) -> None:
        """Make the complete object visible and durable; do nothing if closed before."""
        if self._open:
            self._open = False
            self._publish()

    def abort(self) -> None:
        """Discard everything written; do nothing after `close`."""
        if self._open:
            self._open = False
            self._drop()

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

    def __del__(self) -> None:
        self.abort()


class RandomReader(io.RawIOBase, ABC):
    """A read-only file of `size` bytes; a subclass fetches parts of it."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__()
        self._name = name
        self._size = size
        self._position = 0

    @abstractmethod
    def _fetch(self, start: int, length: int) -> bytes: ...

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def size(self) -> int:
        """Return the size of the file."""
        return self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to `offset` and return the new position."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise InvalidError(f"{self._name}: no position {base + offset}")
        self._position = base + offset
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        """Read up to `size` bytes; fewer only at the end."""
        left = max(0, self._size - self._position)
        length = left if size is None or size < 0 else min(size, left)
        data = self._fetch(self._position, length) if length else b""
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        """Read the rest of the file."""
        return self.read()
