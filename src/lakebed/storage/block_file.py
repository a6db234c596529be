"""Present a block of bytes inside an object as a separate file."""

import io
import mmap

import pyarrow as pa


def map_block(descriptor: int, offset: int, length: int) -> tuple[mmap.mmap, int]:
    """Map the pages around a block; return the map and the block's position in it."""
    skip = offset % mmap.ALLOCATIONGRANULARITY
    mapped = mmap.mmap(descriptor, skip + length, access=mmap.ACCESS_READ, offset=offset - skip)
    return mapped, skip


class BlockFile(io.RawIOBase):
    """A read-only file over `length` bytes of an open object, starting at `offset`."""

    def __init__(self, source: pa.NativeFile, offset: int, length: int) -> None:
        super().__init__()
        self._source = source
        self._offset = offset
        self._length = length
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position in the block."""
        return self._position

    def size(self) -> int:
        """Return the length of the block."""
        return self._length

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position; return it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._length}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        """Return up to `size` bytes, or all remaining bytes."""
        left = max(0, self._length - self._position)
        wanted = left if size is None or size < 0 else min(size, left)
        data: bytes = self._source.read_at(wanted, self._offset + self._position) if wanted else b""
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        """Return all remaining bytes."""
        return self.read()
