"""Files that appear atomically and survive a power failure: the building blocks of LocalStorage.

A file is written under a hidden name in its final folder and synced, then gets its final name in
one step (rename or link), and then the folder is synced. Paths are absolute, and errors are
OSErrors.
"""

import contextlib
import fcntl
import hashlib
import os
import secrets
from collections.abc import Iterator
from typing import BinaryIO

from lakebed.storage.paths import LOCK_NAME, TEMPORARY_PREFIX

_HASH_LIMIT_BYTES = 4096
_BUFFER_BYTES = 1 << 20


def tag_of(status: os.stat_result, content: bytes | None) -> str:
    """Return a file's tag: its inode, time and size and, if it is small, a hash of its bytes.

    A replacement has another inode than the file that it replaces. The hash detects changes that
    the rest may miss: a reused inode and equal size within one tick of the file system's clock.
    Files over 4 KiB have no hash, so that listings need not read data.
    """
    tag = f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"
    if content is None or status.st_size > _HASH_LIMIT_BYTES:
        return tag
    return f"{tag}-{hashlib.blake2b(content, digest_size=8).hexdigest()}"


def read_tag(path: str, status: os.stat_result) -> tuple[int, str]:
    """Return the size and tag of the file at `path`, whose `status` the caller has just read."""
    if status.st_size > _HASH_LIMIT_BYTES:
        return status.st_size, tag_of(status, None)
    if status.st_size == 0:
        return 0, tag_of(status, b"")
    with open(path, "rb", buffering=0) as file:
        # Read from one open file, so that size, time and bytes are consistent.
        status = os.fstat(file.fileno())
        return status.st_size, tag_of(status, file.read(_HASH_LIMIT_BYTES))


def sync_folder(folder: str) -> None:
    """Make the file names in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folders(folder: str) -> None:
    """Create `folder` and its missing parents, durably."""
    if os.path.isdir(folder):
        return
    parent = os.path.dirname(folder)
    make_folders(parent)
    with contextlib.suppress(FileExistsError):  # another writer has just created it
        os.mkdir(folder)
    sync_folder(parent)


@contextlib.contextmanager
def folder_lock(folder: str, *, create: bool) -> Iterator[None]:
    """Hold the lock of `folder`, which excludes all threads and processes of this machine.

    The lock is an flock on the file `.lakebed-lock` in the folder, which listings omit and which is
    never deleted (deletion could let two holders in). Without `create`, a folder without a lock
    file is not locked: only conditional replacement creates the file, so folders of data files lack
    it.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
    try:
        descriptor = os.open(f"{folder}/{LOCK_NAME}", flags, 0o666)
    except FileNotFoundError:
        if create:
            raise
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class NewFile:
    """A hidden file that gets its final name in one step, or is removed.

    The owner must finally call `replace`, `link` or `drop`; `drop` after one of the others does
    nothing. A process that dies before that leaves the hidden file, which listings omit.
    """

    __slots__ = ("_folder", "_hidden", "_target", "file")

    file: BinaryIO

    def __init__(self, target: str) -> None:
        self._target = target
        self._folder = os.path.dirname(target)
        self._hidden = ""
        make_folders(self._folder)
        hidden = f"{self._folder}/{TEMPORARY_PREFIX}{secrets.token_hex(16)}"
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        self.file = os.fdopen(os.open(hidden, flags, 0o666), "wb", buffering=_BUFFER_BYTES)
        self._hidden = hidden

    def sync(self) -> os.stat_result:
        """Make the bytes durable; the file keeps its hidden name."""
        self.file.flush()
        os.fsync(self.file.fileno())
        return os.fstat(self.file.fileno())

    def replace(self) -> None:
        """Replace the target, durably. The caller must have called `sync`."""
        os.rename(self._hidden, self._target)
        self._hidden = ""
        self.file.close()
        sync_folder(self._folder)

    def link(self) -> None:
        """Take the target's name durably; raise FileExistsError if it is in use.

        The caller must have called `sync`.
        """
        try:
            os.link(self._hidden, self._target)
        except FileExistsError:
            # NFS may raise this if it retries a call whose response was lost.
            if os.fstat(self.file.fileno()).st_nlink < 2:
                raise
        self.drop()
        sync_folder(self._folder)

    def drop(self) -> None:
        """Remove the hidden file."""
        hidden, self._hidden = self._hidden, ""
        if hidden:
            # Remove the name first, because closing flushes the buffer, which may fail.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(hidden)
            with contextlib.suppress(OSError):
                self.file.close()
