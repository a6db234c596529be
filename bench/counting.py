"""A table's storage on local disk that counts what is read, as an object store would be asked for it.

It says of no file that it is local, so nothing is mapped into memory and every byte that a reader
looks at comes through here. pyarrow then joins reads that lie close together, as it does for S3.
"""

import io
import os

import pyarrow as pa

from lakebed.api.engines import Engines
from lakebed.api.table import Table
from lakebed.model.clock import SystemClock
from lakebed.storage.local import LocalStorage
from lakebed.table.config.properties_file import load_config


class Count:
    """Requests and bytes so far."""

    def __init__(self) -> None:
        self.requests = 0
        self.size_bytes = 0

    def copy(self) -> "Count":
        """Give the state now."""
        now = Count()
        now.requests, now.size_bytes = self.requests, self.size_bytes
        return now

    def add(self, size: int) -> None:
        """Count one request."""
        self.requests += 1
        self.size_bytes += size


class CountedFile(io.RawIOBase):
    """A file, or `length` bytes from `offset` of one, of which every read is counted."""

    def __init__(self, path: str, count: Count, offset: int = 0, length: int | None = None) -> None:
        super().__init__()
        self._descriptor = os.open(path, os.O_RDONLY)
        self._count = count
        self._offset = offset
        self._length = os.fstat(self._descriptor).st_size if length is None else length
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._length}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        left = self._length - self._position
        wanted = left if size is None or size < 0 else min(size, left)
        data = os.pread(self._descriptor, wanted, self._offset + self._position)
        self._position += len(data)
        self._count.add(len(data))
        return data

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()


class CountingStorage(LocalStorage):
    """Local files, counted; the timeline's small files and listings are left out of the count."""

    __slots__ = ("count",)

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.count = Count()

    def local_path(self, path: str) -> None:
        """Say that there is none."""

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Read and count."""
        data = super().read_range(path, offset, length)
        self.count.add(len(data))
        return data

    def open_read(self, path: str) -> pa.NativeFile:
        """Open a file whose reads are counted."""
        return pa.PythonFile(CountedFile(self._locate(path), self.count), mode="r")


def open_counted(path: str) -> tuple[Table, CountingStorage]:
    """Open a table, in process, whose reads of data are counted."""
    storage = CountingStorage(path)
    return Table(storage, load_config(storage), Engines(None), SystemClock()), storage
