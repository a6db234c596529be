"""The common part of the writers of a table's files and sorted runs."""

from abc import ABC, abstractmethod
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import InvalidError, KeyValueError
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.storage.streams import WriteStream


class NewFile:
    """An open file that is published or dropped exactly once; it owns `stream`.

    `path` is its location, and its name in errors. As a context manager it closes on success and
    aborts on an exception.
    """

    def __init__(self, stream: WriteStream, path: str) -> None:
        self.path = path
        self._stream = stream
        self._size_bytes: int | None = None
        self._aborted = False

    def _end(self) -> None:
        """Write the end of the file; by default it has none."""

    def _drop(self) -> None:
        """Release resources besides the stream; by default there are none."""

    def close(self) -> int:
        """Make the complete file visible and return its size; a second call returns it again."""
        if self._size_bytes is None:
            if self._aborted:
                raise InvalidError(f"{self.path}: close after abort")
            self._end()
            size_bytes = self._stream.tell()
            self._stream.close()
            self._size_bytes = size_bytes
        return self._size_bytes

    def abort(self) -> None:
        """Discard everything written. After `close`, or the second time, this does nothing."""
        if self._size_bytes is not None or self._aborted:
            return
        self._aborted = True
        try:
            self._drop()
        finally:
            self._stream.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is not None or self._aborted:
            self.abort()
            return
        try:
            self.close()
        except BaseException:
            self.abort()
            raise


class KeyOrder:
    """The order of the keys of a run: each key must be above the previous key.

    With `may_repeat` it may also be equal. `min_key` and `max_key` are the first and the last key,
    None before there is a key.
    """

    def __init__(self, name: str, *, may_repeat: bool = False) -> None:
        self._name = name
        self._rises = pc.greater_equal if may_repeat else pc.greater
        self.min_key: pa.Scalar | None = None
        self.max_key: pa.Scalar | None = None

    def check(self, keys: pa.Array) -> None:
        """Check and add the next keys, at least one; raise InvalidError for a key out of order.

        Arrow compares strings by their bytes, which is the order that the file promises.
        """
        if keys.null_count:
            raise KeyValueError(f"{self._name}: expected a record key in each row, found null")
        first = keys[0]
        if self.max_key is not None and not self._rises(first, self.max_key).as_py():
            raise InvalidError(
                f"{self._name}: expected record keys above {self.max_key.as_py()!r}, found {first.as_py()!r}"
            )
        rising = self._rises(keys.slice(1), keys.slice(0, len(keys) - 1))
        if pc.all(rising, min_count=0).as_py() is False:
            at = pc.index(rising, pa.scalar(False)).as_py() + 1
            before, found = keys[at - 1].as_py(), keys[at].as_py()
            raise InvalidError(
                f"{self._name}: expected record keys above {before!r}, found {found!r}"
            )
        if self.min_key is None:
            self.min_key = first
        self.max_key = keys[-1]


class NewRun(NewFile, ABC):
    """A file of rows sorted by the column `key`, whose values are unique unless they `may_repeat`."""

    def __init__(
        self, stream: WriteStream, path: str, *, may_repeat: bool = False, key: str = RECORD_KEY
    ) -> None:
        super().__init__(stream, path)
        self._key = key
        self._order = KeyOrder(path, may_repeat=may_repeat)
        self._rows = 0

    @abstractmethod
    def _append(self, batch: pa.RecordBatch) -> None: ...

    @property
    def rows(self) -> int:
        """Return how many rows were added so far."""
        return self._rows

    @property
    def min_key(self) -> str | None:
        """Return the first record key; None without rows, and in a run with another key."""
        return self._text(self._order.min_key)

    @property
    def max_key(self) -> str | None:
        """Return the last record key so far; None in the same cases as `min_key`."""
        return self._text(self._order.max_key)

    def _text(self, key: pa.Scalar | None) -> str | None:
        return None if key is None or self._key != RECORD_KEY else str(key.as_py())

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows of exactly the run's schema, with keys above all previous keys."""
        if batch.num_rows:
            self._order.check(batch.column(self._key))
            self._rows += batch.num_rows
            self._append(batch)
