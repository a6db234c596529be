"""Storage in a folder of a local or mounted file system."""

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from lakebed.errors import (
    ChangedError,
    ExistsError,
    InvalidError,
    LakebedError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from lakebed.storage.durable import (
    NewFile,
    folder_lock,
    make_folders,
    read_tag,
    sync_folder,
    tag_of,
)
from lakebed.storage.paths import check_path, is_reserved, join
from lakebed.storage.storage import Entry, Names
from lakebed.storage.streams import WriteStream

# An ASCII path of this length has no segment that is too long.
_PLAIN_LENGTH = 255
_MISSING = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR)
# Errors that remain until permissions, the name or the type of the file change.
_CALLER = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.EISDIR,
    errno.ENOTDIR,
    errno.ENOTEMPTY,
)
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class LocalStorage:
    """Objects as files below the folder `root`, which the first write creates.

    A write is durable when its call returns. Partial objects are never visible, and a process that
    dies leaves at most hidden files. Concurrent writers may be threads or processes. Raises
    InvalidError if permissions are missing, UnavailableError if the disk is full or broken.
    Symbolic links must point to files below the root.
    """

    __slots__ = ("_root",)

    def __init__(self, root: str) -> None:
        self._root = os.path.abspath(root)

    def __repr__(self) -> str:
        return f"LocalStorage({self._root!r})"

    @property
    def url(self) -> str:
        """Return the root as `file://` and its path, without percent-encoding."""
        return f"file://{self._root}"

    def local_path(self, path: str) -> str:
        """Return the absolute path of an object."""
        return self._locate(path)

    def read(self, path: str) -> bytes:
        """Read all bytes of an object."""
        full = self._locate(path)
        with self._reading(path), open(full, "rb") as file:
            return file.read()

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Read up to `length` bytes from `offset`, or fewer at the end of the object."""
        full = self._locate(path)
        if offset < 0 or length < 0:
            raise InvalidError(f"{self.url}/{path}: no range of {length} bytes at {offset}")
        with self._reading(path), open(full, "rb", buffering=0) as file:
            # `length` may come from corrupt data, so allocate at most the file's size.
            left = os.fstat(file.fileno()).st_size - offset
            return _pread(file.fileno(), offset, min(length, left)) if left > 0 else b""

    def head(self, path: str) -> Entry:
        """Return the entry of one object, with tag and time."""
        full = self._locate(path)
        with self._reading(path):
            status = os.stat(full)
            if not stat.S_ISREG(status.st_mode):
                raise NotFoundError(f"{self.url}/{path}: a folder, not an object")
            return Entry(path, *read_tag(full, status), status.st_mtime_ns // 1_000_000)

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Yield every object below the folder `prefix`, at any depth, sorted by path."""
        folder = self._locate(prefix) if prefix else self._root
        return self._walk(folder, prefix)

    def names(self, prefix: str = "") -> Sequence[str]:
        """Return the names of the objects directly in the folder `prefix`, in any order."""
        folder = self._locate(prefix) if prefix else self._root
        return [
            found.name
            for found in self._scan(folder, prefix)
            if found.is_file(follow_symlinks=False)
        ]

    def list_names(self, prefix: str = "") -> Names:
        """Return the sub-folders and objects directly in the folder `prefix`, sorted by name.

        Folders without objects are included.
        """
        folder = self._locate(prefix) if prefix else self._root
        names: list[str] = []
        entries: list[Entry] = []
        for found in self._scan(folder, prefix):
            if found.is_dir(follow_symlinks=False):
                names.append(found.name)
            else:
                entries.extend(self._describe(found, prefix))
        return sorted(names), sorted(entries, key=lambda entry: entry.path)

    def put(self, path: str, data: bytes) -> str:
        """Write an object atomically, replacing any existing one; return its tag."""
        return self._put(path, data, _replace)

    def put_if_absent(self, path: str, data: bytes) -> str:
        """Write an object atomically and return its tag; raise ExistsError if it exists.

        Exactly one of several concurrent calls succeeds. Raises UnsupportedError if the file system
        has no hard links.
        """
        try:
            return self._put(path, data, _link)
        except FileExistsError as error:
            raise ExistsError(f"{self.url}/{path}: already exists") from error

    def put_if_unchanged(self, path: str, data: bytes, etag: str) -> str:
        """Replace an object if its tag is still `etag`; return the new tag.

        Raises ChangedError if the object has another tag or no longer exists. The folder's lock
        (`durable.folder_lock`) is held for comparison and replacement. The first call in a folder
        creates the lock file; later `put`, `delete` and stream calls in the folder then take the
        lock too.
        """
        self._expect(path, etag)  # if the tag differs already, write nothing and create no folder

        def publish(new: NewFile, folder: str) -> None:
            with folder_lock(folder, create=True):
                self._expect(path, etag)
                new.replace()

        return self._put(path, data, publish)

    def delete(self, path: str) -> None:
        """Delete an object durably; ignore a missing object. Folders are not deleted."""
        full = self._locate(path)
        folder = os.path.dirname(full)
        with self._writing(path):
            try:
                if not stat.S_ISDIR(os.lstat(full).st_mode):
                    with folder_lock(folder, create=False):
                        os.unlink(full)
                    sync_folder(folder)
            except (FileNotFoundError, NotADirectoryError):
                return

    def make_folder(self, path: str) -> None:
        """Create a folder and its missing parents, durably."""
        full = self._locate(path)
        with self._writing(path):
            make_folders(full)

    def open_write(self, path: str, *, durable: bool = True) -> "LocalWriteStream":
        """Open a stream for a new object, which replaces any existing one when it is closed."""
        full = self._locate(path)
        with self._writing(path):
            return LocalWriteStream(NewFile(full), full, f"{self.url}/{path}", durable=durable)

    def open_read(self, path: str) -> pa.NativeFile:
        """Open an object for random reads, which still work if it is replaced or deleted."""
        full = self._locate(path)
        with self._reading(path):
            if not stat.S_ISREG(os.stat(full).st_mode):
                raise NotFoundError(f"{self.url}/{path}: a folder, not an object")
            return pa.OSFile(full, "rb")

    def _put(self, path: str, data: bytes, publish: Callable[[NewFile, str], None]) -> str:
        full = self._locate(path)
        with self._writing(path):
            new = NewFile(full)
            try:
                new.file.write(data)
                tag = tag_of(new.sync(), data)
                publish(new, os.path.dirname(full))
            finally:
                new.drop()
            return tag

    def _expect(self, path: str, etag: str) -> None:
        try:
            found = self.head(path).etag
        except NotFoundError as error:
            raise ChangedError(
                f"{self.url}/{path}: expected tag {etag}, found no object"
            ) from error
        if found != etag:
            raise ChangedError(f"{self.url}/{path}: expected tag {etag}, found {found}")

    def _locate(self, path: str) -> str:
        full = self._root
        linked = False
        for segment in check_path(path).split("/"):
            full = f"{full}/{segment}"
            linked = linked or os.path.islink(full)
        if linked:
            self._refuse_outside(path, full)
        return full

    def _refuse_outside(self, path: str, full: str) -> None:
        target, root = os.path.realpath(full), os.path.realpath(self._root)
        if not target.startswith(root.rstrip("/") + "/"):
            raise InvalidError(f"path {path!r}: a symbolic link leads out of {self.url}")

    def _walk(self, folder: str, prefix: str) -> Iterator[Entry]:
        # Compare folders by their names with a slash, because "a-b" sorts before "a/x".
        order = sorted(
            self._scan(folder, prefix),
            key=lambda found: (
                f"{found.name}/" if found.is_dir(follow_symlinks=False) else found.name
            ),
        )
        for found in order:
            if found.is_dir(follow_symlinks=False):
                yield from self._walk(found.path, join(prefix, found.name))
            else:
                yield from self._describe(found, prefix)

    def _scan(self, folder: str, prefix: str) -> Sequence[os.DirEntry[str]]:
        try:
            with self._reading(prefix), os.scandir(folder) as entries:
                return [entry for entry in entries if not is_reserved(entry.name)]
        except NotFoundError:
            return []

    def _describe(self, found: os.DirEntry[str], prefix: str) -> Iterator[Entry]:
        path = join(prefix, found.name)
        # The file system and `_scan` rule out all other faults; a table may have many files.
        if len(path) > _PLAIN_LENGTH or not path.isascii():
            check_path(path)
        if found.is_symlink():
            self._refuse_outside(path, found.path)
            if found.is_dir():
                raise InvalidError(f"{self.url}/{path}: a symbolic link to a folder")
        try:
            status = found.stat()
        except OSError as error:
            if error.errno in _MISSING:
                return  # deleted while its folder was listed
            raise _failure(f"{self.url}/{path}", error) from error
        if stat.S_ISREG(status.st_mode):
            yield Entry(path, status.st_size)

    @contextlib.contextmanager
    def _reading(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in _MISSING:
                raise NotFoundError(f"{self.url}/{path}: no such object") from error
            raise _failure(f"{self.url}/{path}", error) from error

    @contextlib.contextmanager
    def _writing(self, path: str) -> Iterator[None]:
        try:
            yield
        except FileExistsError:
            raise
        except OSError as error:
            raise _failure(f"{self.url}/{path}", error) from error


class LocalWriteStream(WriteStream):
    """A hidden file that gets its final name when it is closed."""

    def __init__(self, new: NewFile, target: str, name: str, *, durable: bool) -> None:
        self._new = new
        self._durable = durable
        self._folder = os.path.dirname(target)
        super().__init__(name)

    def _append(self, view: memoryview) -> None:
        try:
            self._new.file.write(view)
        except OSError as error:
            raise _failure(self._name, error) from error

    def _publish(self) -> None:
        try:
            if self._durable:
                self._new.sync()
            else:
                self._new.file.flush()
            _replace(self._new, self._folder)
        except OSError as error:
            raise _failure(self._name, error) from error
        finally:
            self._new.drop()

    def _drop(self) -> None:
        self._new.drop()


def _replace(new: NewFile, folder: str) -> None:
    with folder_lock(folder, create=False):
        new.replace()


def _link(new: NewFile, folder: str) -> None:
    try:
        new.link()
    except OSError as error:
        if error.errno in _NO_LINKS:
            raise UnsupportedError(f"{folder}: expected a file system with hard links") from error
        raise


def _pread(descriptor: int, offset: int, length: int) -> bytes:
    parts: list[bytes] = []
    while length > 0 and (part := os.pread(descriptor, length, offset)):
        parts.append(part)
        offset += len(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _failure(name: str, error: OSError) -> LakebedError:
    kind = InvalidError if error.errno in _CALLER else UnavailableError
    return kind(f"{name}: {error.strerror or error}")
