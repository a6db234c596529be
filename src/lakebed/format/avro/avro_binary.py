"""Avro's binary encoding of numbers, strings and lists, for records that are decoded by hand.

long    zigzag, then 7 bits per byte, least significant first, at most 10 bytes
bytes   long length, then the bytes; strings are UTF-8
list    { long count | items } 0; a negative count is followed by the size of the items
"""

from collections.abc import Iterator

from lakebed.errors import CorruptError


def encode_long(value: int) -> bytes:
    """Encode an integer of at most 64 bits.

    >>> encode_long(300).hex()
    'd804'
    """
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def encode_bytes(data: bytes) -> bytes:
    """Encode bytes, prefixed with their length."""
    return encode_long(len(data)) + data


class AvroReader:
    """Decodes successive values; raises CorruptError instead of reading past the end."""

    def __init__(self, data: bytes, at: int, what: str) -> None:
        self._data = data
        self._at = at
        self.what = what

    @property
    def at_end(self) -> bool:
        """Return whether all data has been read."""
        return self._at == len(self._data)

    def take(self, size: int) -> bytes:
        """Read `size` bytes."""
        if not 0 <= size <= len(self._data) - self._at:
            raise CorruptError(
                f"{self.what}: expected {size} bytes at byte {self._at} of {len(self._data)}"
            )
        self._at += size
        return self._data[self._at - size : self._at]

    def long(self) -> int:
        """Read an integer of at most 64 bits."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        if byte >= 0x80 or value >= 1 << 64:
            raise CorruptError(f"{self.what}: a number of more than 64 bits before {self._at}")
        return (value >> 1) ^ -(value & 1)

    def sized(self) -> bytes:
        """Read length-prefixed bytes."""
        return self.take(self.long())

    def text(self) -> str:
        """Read a length-prefixed string."""
        try:
            return self.sized().decode()
        except UnicodeDecodeError as error:
            raise CorruptError(f"{self.what}: invalid UTF-8 before byte {self._at}") from error

    def items(self) -> Iterator[None]:
        """Yield once for each item of a list; the caller reads the item before it continues.

        The encoding of an item must not be empty, so that a wrong count reaches the end of the
        data.
        """
        while count := self.long():
            if count < 0:
                self.long()
            for _ in range(abs(count)):
                yield None
