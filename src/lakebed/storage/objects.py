"""Storage on obstore: S3, GCS, Azure, and an in-memory store shared by the process."""

import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypedDict

import obstore
import pyarrow as pa
from obstore.store import GCSStore, MemoryStore

from lakebed.errors import ChangedError, InvalidError, NotFoundError, UnavailableError
from lakebed.storage.failures import STORE_FAILURES, failure, translated, without_panics
from lakebed.storage.object_streams import ObjectReader, ObjectStore, ObjectWriteStream
from lakebed.storage.paths import check_path, is_reserved, join
from lakebed.storage.storage import Entry, Names

# A lower-case word, because Azure restricts names of metadata.
_WRITE_ATTRIBUTE = "lakebedwrite"
_MAX_RANGE_BYTES = 1 << 43  # larger than any object


class _Meta(TypedDict):
    """The fields of obstore's object metadata that are used here."""

    path: str
    size: int
    e_tag: str | None


class ObjectStorage:
    """Objects below `prefix` in an obstore store.

    `store` must be at the root of its bucket, container or memory. An object's tag is its ETag.
    Paths with control characters are rejected, because obstore does not support them. Pickling
    includes the store's credentials; an in-memory store cannot be pickled.
    """

    __slots__ = ("_prefix", "_store", "_url")

    def __init__(self, store: ObjectStore, url: str, prefix: str = "") -> None:
        self._store = store
        self._url = url
        self._prefix = check_path(prefix) if prefix else ""

    def __repr__(self) -> str:
        return f"ObjectStorage({self._url!r})"

    def __reduce__(self) -> tuple[type["ObjectStorage"], tuple[ObjectStore, str, str]]:
        if isinstance(self._store, MemoryStore):
            raise InvalidError(f"{self._url}: memory tables live in one process")
        return ObjectStorage, (self._store, self._url, self._prefix)

    @property
    def url(self) -> str:
        """Return the root as `s3://bucket/prefix`, without percent-encoding."""
        return self._url

    def local_path(self, path: str) -> None:
        """Return None, because objects have no path in the operating system."""
        self._key(path)

    def read(self, path: str) -> bytes:
        """Read all bytes of an object."""
        key = self._key(path)
        with translated(self._name(path)):
            return bytes(obstore.get(self._store, key).bytes())

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Read up to `length` bytes from `offset`, or fewer at the end of the object."""
        key = self._key(path)
        if offset < 0 or length < 0:
            raise InvalidError(f"{self._name(path)}: no range of {length} bytes at {offset}")
        if length == 0 or offset >= _MAX_RANGE_BYTES:
            self.head(path)  # a missing object is still an error
            return b""
        length = min(length, _MAX_RANGE_BYTES)
        try:
            with translated(self._name(path)):
                return bytes(obstore.get_range(self._store, key, start=offset, length=length))
        except UnavailableError:
            # For a range that starts after the end, the store's response looks like an outage.
            if offset >= self.head(path).size:
                return b""
            raise

    def head(self, path: str) -> Entry:
        """Return the entry of one object, with tag and time."""
        key = self._key(path)
        with translated(self._name(path)):
            meta = obstore.head(self._store, key)
        modified_ms = int(meta["last_modified"].timestamp() * 1000)
        return Entry(path, meta["size"], _tag(meta), modified_ms)

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Yield every object below the folder `prefix`, at any depth, sorted by path.

        Hadoop clients mark a folder by an empty object, which is left out if there are objects
        below it. The marker of an empty folder looks like an empty object; `list_names` treats it
        as a folder.
        """
        folder = self._folder(prefix)
        with translated(self._name(prefix)):
            found = obstore.list(self._store, folder, chunk_size=1000).collect()
        entries = self._entries(found, folder)
        marks = {parent for entry in entries for parent in _parents(entry.path)}
        return (entry for entry in entries if entry.size or entry.path not in marks)

    def names(self, prefix: str = "") -> Sequence[str]:
        """Return the names of the objects directly in the folder `prefix`, in any order."""
        return [entry.path.rpartition("/")[2] for entry in self.list_names(prefix)[1]]

    def list_names(self, prefix: str = "") -> Names:
        """Return the sub-folders and objects directly in the folder `prefix`, sorted by name."""
        folder = self._folder(prefix)
        with translated(self._name(prefix)):
            found = obstore.list_with_delimiter(self._store, folder)
        names = {path.rpartition("/")[2] for path in found["common_prefixes"]}
        entries = self._entries(found["objects"], folder)
        return sorted(name for name in names if not is_reserved(name)), [
            entry for entry in entries if entry.size or entry.path.rpartition("/")[2] not in names
        ]

    def put(self, path: str, data: bytes) -> str:
        """Write an object atomically, replacing any existing one; return its tag."""
        key = self._key(path)
        with translated(self._name(path)):
            return _tag(obstore.put(self._store, key, data))

    def put_if_absent(self, path: str, data: bytes) -> str:
        """Write an object atomically and return its tag; raise ExistsError if it exists.

        Exactly one of several concurrent calls succeeds. If the store's answer is unclear, the call
        succeeded if the stored object has the mark of this call.
        """
        return self._put_on_condition(path, data, "create")

    def put_if_unchanged(self, path: str, data: bytes, etag: str) -> str:
        """Replace an object if its tag is still `etag`; return the new tag.

        Raises ChangedError if the object has another tag or no longer exists. If the store's answer
        is unclear, the call succeeded if the stored object has the mark of this call.
        """
        self._key(path)
        if not etag or not etag.isascii() or not etag.isprintable():
            raise ChangedError(f"{self._name(path)}: {etag!r} is not a tag of this store")
        try:
            return self._put_on_condition(path, data, self._version(path, etag))
        except NotFoundError as error:
            raise ChangedError(
                f"{self._name(path)}: expected tag {etag}, found no object"
            ) from error

    def delete(self, path: str) -> None:
        """Delete an object; ignore a missing object."""
        key = self._key(path)
        try:
            with translated(self._name(path)):
                obstore.delete(self._store, key)
        except NotFoundError:
            return

    def make_folder(self, path: str) -> None:
        """Check the path, but create nothing, because object stores have no folders."""
        self._key(path)

    def open_write(self, path: str, *, durable: bool = True) -> ObjectWriteStream:
        """Open a stream for a new object, which replaces any existing one when it is closed."""
        del durable  # object stores make every object durable
        return ObjectWriteStream(self._store, self._key(path), self._name(path))

    def open_read(self, path: str) -> pa.NativeFile:
        """Open an object for random reads, which raise ChangedError if it is replaced."""
        entry = self.head(path)
        name = self._name(path)
        reader = ObjectReader(self._store, self._key(path), name, entry.size, entry.etag)
        return pa.PythonFile(reader, mode="r")

    def _put_on_condition(
        self, path: str, data: bytes, mode: Literal["create"] | dict[str, str]
    ) -> str:
        """Put an object with a random mark in its metadata, which identifies it as ours.

        obstore retries requests after server errors, and a retry may find the object that the first
        attempt wrote: the call may have succeeded even if the store rejects the request. Comparing
        bytes does not help, because concurrent calls may write the same bytes.
        """
        key, name = self._key(path), self._name(path)
        mark = secrets.token_hex(16)
        try:
            with without_panics(name):
                written = obstore.put(
                    self._store,
                    key,
                    data,
                    mode=mode,
                    attributes={_WRITE_ATTRIBUTE: mark},
                    use_multipart=False,
                )
            return _tag(written)
        except STORE_FAILURES as error:
            refusal = failure(name, error)
            if isinstance(refusal, InvalidError):
                raise refusal from error
            return self._find_mark(path, mark, refusal)

    def _find_mark(self, path: str, mark: str, refusal: Exception) -> str:
        """Return the tag of the object if it has `mark`, otherwise raise `refusal`."""
        try:
            with without_panics(self._name(path)):
                found = obstore.get(self._store, self._key(path), options={"head": True})
        except STORE_FAILURES as error:
            raise refusal from error
        if found.attributes.get(_WRITE_ATTRIBUTE) != mark:
            raise refusal
        return _tag(found.meta)

    def _version(self, path: str, etag: str) -> dict[str, str]:
        """Return the condition that the tag is still `etag`, in the form that the store expects."""
        if not isinstance(self._store, GCSStore):
            return {"e_tag": etag}
        with translated(self._name(path)):  # GCS compares generations, not ETags
            meta = obstore.head(self._store, self._key(path))
        if _tag(meta) != etag:
            raise ChangedError(f"{self._name(path)}: expected tag {etag}, found {_tag(meta)}")
        return {"e_tag": etag, "version": meta["version"] or ""}

    def _key(self, path: str) -> str:
        check_path(path)
        # The first test is quick and says no to all of these characters, and to a few others.
        if not path.isprintable() and any(c < " " or c == "\x7f" for c in path):
            raise InvalidError(f"path {path!r}: object stores do not accept control characters")
        return join(self._prefix, path)

    def _folder(self, prefix: str) -> str | None:
        return (self._key(prefix) if prefix else self._prefix) or None

    def _name(self, path: str) -> str:
        return f"{self._url}/{path}"

    def _entries(self, found: Iterable[_Meta], folder: str | None) -> Sequence[Entry]:
        below = f"{folder}/" if folder else ""  # leaves out the marker of the folder itself
        start = len(self._prefix) + 1 if self._prefix else 0
        entries = [
            Entry(meta["path"][start:], meta["size"])
            for meta in found
            if meta["path"].startswith(below)
        ]
        entries.sort(key=lambda entry: entry.path)
        return [entry for entry in entries if not any(map(is_reserved, entry.path.split("/")))]


def memory_storage(name: str = "table") -> ObjectStorage:
    """Return a new, empty in-memory store that is not shared by its name."""
    return ObjectStorage(MemoryStore(), f"memory://{name}")


def _tag(meta: _Meta) -> str:
    return meta["e_tag"] or ""


def _parents(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path
