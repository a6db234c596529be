"""The lock files of a table: `.hoodie/.locks/table_lock.json`, and `.hoodie/lock` on local disk.

The first is one line of JSON, as in Hudi's StorageLockFile and StorageLockData:

    {"expired":false,"validUntil":1700000000123,"owner":"6f2c..."}

`validUntil` is in milliseconds since 1970 UTC. The file is overwritten and never deleted.

The second belongs to Hudi's FileSystemBasedLockProvider: its existence is the lock. Hudi's file is
empty (in older releases, a message). Ours contains

    {"validUntil":  1700000000123,"writer":"lakebed","owner":"6f2c...","process":"...","guard":"..."}

with `validUntil` always 15 characters wide, so that it can be renewed in place.
"""

import json
from dataclasses import dataclass
from typing import Self

from lakebed.errors import CorruptError

LOCK_FILE_PATH = ".hoodie/.locks/table_lock.json"
LOCK_FILE_MAX_BYTES = 1 << 16
CLOCK_DRIFT_MS = 500  # the tolerated difference between the clocks of two writers
DISK_LOCK_PATH = ".hoodie/lock"
VALID_UNTIL_OFFSET = len('{"validUntil":')
_VALID_UNTIL_WIDTH = 15
_WRITER = "lakebed"
_END_OF_TIME_MS = 253_402_300_800_000  # the year 10000


@dataclass(frozen=True, slots=True)
class LockFile:
    """The owner of a table lock, and the time at which the lock expires.

    >>> LockFile("own-1", 1700000000123).encode()
    b'{"expired":false,"validUntil":1700000000123,"owner":"own-1"}'
    """

    owner: str
    valid_until_ms: int
    expired: bool = False

    @classmethod
    def parse(cls, data: bytes, name: str) -> Self:
        """Parse the content of the file `name`."""
        try:
            found = json.loads(data)
            owner, until, expired = found["owner"], found["validUntil"], found["expired"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise _corrupt(data, name) from error
        if (
            type(owner) is not str
            or type(expired) is not bool
            or type(until) is not int
            or not 0 <= until < _END_OF_TIME_MS
        ):
            raise _corrupt(data, name)
        return cls(owner, until, expired)

    def encode(self) -> bytes:
        """Encode the file as Hudi does."""
        fields = {"expired": self.expired, "validUntil": self.valid_until_ms, "owner": self.owner}
        return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()

    def is_held(self, now_ms: int) -> bool:
        """Return whether the lock is still valid, allowing for clock drift."""
        return not self.expired and now_ms <= self.valid_until_ms + CLOCK_DRIFT_MS


@dataclass(frozen=True, slots=True)
class DiskLockFile:
    """The content of our own lock file on local disk.

    `process` identifies the process that holds the lock (`model.clock`), `guard` the operating
    system lock that it also holds (`commit.file_lock`).

    >>> DiskLockFile("own-1", "m/12.7", "803:1f", 1700000000123).encode()[:45]
    b'{"validUntil":  1700000000123,"writer":"lakeb'
    """

    owner: str
    process: str
    guard: str
    valid_until_ms: int

    @classmethod
    def parse(cls, data: bytes) -> Self | None:
        """Parse the content of a lock file; return None if it is not ours."""
        try:
            found = json.loads(data)
            texts = [found[name] for name in ("writer", "owner", "process", "guard")]
            until = found["validUntil"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        writer, owner, process, guard = texts
        if (
            writer != _WRITER
            or any(type(text) is not str for text in texts)
            or type(until) is not int
            or not 0 <= until < _END_OF_TIME_MS
        ):
            return None
        return cls(owner, process, guard, until)

    def encode(self) -> bytes:
        """Encode the file."""
        fields = {
            "writer": _WRITER,
            "owner": self.owner,
            "process": self.process,
            "guard": self.guard,
        }
        rest = json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
        return b'{"validUntil":' + self.encode_valid_until() + b"," + rest[1:].encode()

    def encode_valid_until(self) -> bytes:
        """Return the bytes to write at VALID_UNTIL_OFFSET."""
        return f"{self.valid_until_ms:{_VALID_UNTIL_WIDTH}}".encode()

    def is_held(self, now_ms: int) -> bool:
        """Return whether the lock is still valid, allowing for a small clock difference."""
        return now_ms <= self.valid_until_ms + CLOCK_DRIFT_MS


def _corrupt(data: bytes, name: str) -> CorruptError:
    return CorruptError(
        f'lock file {name}: expected {{"expired":<true or false>,"validUntil":<epoch ms>,'
        f'"owner":"<text>"}}, found {data[:120]!r}; delete it if no writer is active'
    )
