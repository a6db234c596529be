"""Present a block of bytes inside an object as a separate file."""

import mmap

import pyarrow as pa

from lakebed.storage.streams import RandomReader


def map_block(descriptor: int, offset: int, length: int) -> tuple[mmap.mmap, int]:
    """Map the pages around a block; return the map and the block's position in it."""
    skip = offset % mmap.ALLOCATIONGRANULARITY
    mapped = mmap.mmap(descriptor, skip + length, access=mmap.ACCESS_READ, offset=offset - skip)
    return mapped, skip


class BlockFile(RandomReader):
    """A read-only file over `length` bytes of an open object, starting at `offset`."""

    def __init__(self, source: pa.NativeFile, offset: int, length: int) -> None:
        super().__init__(f"block at byte {offset}", length)
        self._source = source
        self._offset = offset

    def _fetch(self, start: int, length: int) -> bytes:
        data: bytes = self._source.read_at(length, self._offset + start)
        return data
