"""The base class of the write streams of all stores."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

import pyarrow as pa

from lakebed.errors import InvalidError, LakebedError


class NewObject(ABC):
    """A write stream that is published or dropped exactly once.

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
