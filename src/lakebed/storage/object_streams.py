"""Random reads and sequential writes on an object store."""

import contextlib
import queue
import threading
from collections.abc import Iterator
from typing import TypeAlias

import obstore
from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

from lakebed.storage.failures import translated
from lakebed.storage.streams import RandomReader, WriteStream

ObjectStore: TypeAlias = AzureStore | GCSStore | MemoryStore | S3Store

PART_BYTES = 8 << 20
_PARTS_UNDER_WAY = 4
_WINDOW_BYTES = 64 << 10


class ObjectReader(RandomReader):
    """One version of an object, read by ranges; reads raise ChangedError if it is replaced.

    A small read fetches and keeps a window of 64 KiB, so that footers and headers need one request.
    A larger read requests exactly its own range.
    """

    def __init__(self, store: ObjectStore, key: str, name: str, size: int, etag: str) -> None:
        super().__init__(name, size)
        self._store = store
        self._key = key
        self._etag = etag
        self._window_start = 0
        self._window = b""

    def _fetch(self, start: int, length: int) -> bytes:
        if length >= _WINDOW_BYTES:
            return self._request(start, length)
        skip = start - self._window_start
        if skip < 0 or skip + length > len(self._window):
            # Near the end, the window extends backwards, because footers are read from the end.
            self._window_start = max(0, min(start, self._size - _WINDOW_BYTES))
            window_bytes = min(_WINDOW_BYTES, self._size - self._window_start)
            self._window = self._request(self._window_start, window_bytes)
            skip = start - self._window_start
        return self._window[skip : skip + length]

    def _request(self, start: int, length: int) -> bytes:
        with translated(self._name):
            options = {"range": (start, start + length), "if_match": self._etag}
            return bytes(obstore.get(self._store, self._key, options=options).bytes())


class _AbortedError(Exception):
    """Raised to make obstore abort a multipart upload."""


class ObjectWriteStream(WriteStream):
    """A new object: one put if it is smaller than 8 MiB, otherwise a multipart upload.

    The upload runs in a thread that takes parts from a short queue, because obstore aborts an
    upload only if its source of parts raises; its own writer would leave parts in the bucket. Only
    a few parts are in memory. If the last request gets no response, `close` raises
    UnavailableError, although the complete object may have become visible.
    """

    def __init__(self, store: ObjectStore, key: str, name: str) -> None:
        self._store = store
        self._key = key
        self._buffer = bytearray()
        self._upload: _Upload | None = None
        super().__init__(name)

    def _append(self, view: memoryview) -> None:
        done = 0
        while done < view.nbytes:
            piece = view[done : done + PART_BYTES - len(self._buffer)]
            self._buffer += piece
            done += piece.nbytes
            if len(self._buffer) == PART_BYTES:
                self._send_part()

    def _send_part(self) -> None:
        upload = self._upload = self._upload or _Upload(self._store, self._key)
        upload.send(bytes(self._buffer))
        self._buffer.clear()
        if upload.error is not None:
            self._finish(upload)

    def _publish(self) -> None:
        if self._upload is not None:
            self._upload.send(bytes(self._buffer))
            self._finish(self._upload)
            return
        with translated(self._name):
            obstore.put(self._store, self._key, bytes(self._buffer), use_multipart=False)

    def _drop(self) -> None:
        if self._upload is not None:
            self._upload.abort()

    def _finish(self, upload: "_Upload") -> None:
        self._upload = None
        with translated(self._name):
            error = upload.finish()
            if error is not None:
                raise error


class _Upload:
    """A multipart upload in its own thread; after an error, it discards further parts."""

    def __init__(self, store: ObjectStore, key: str) -> None:
        self.error: Exception | None = None
        self._parts: queue.Queue[bytes | None] = queue.Queue(maxsize=1)
        self._aborted = False
        # A daemon thread, so that a stream that is never closed does not keep the process alive.
        self._thread = threading.Thread(target=self._run, args=(store, key), daemon=True)
        self._thread.start()

    def send(self, part: bytes) -> None:
        if part:
            self._parts.put(part)

    def finish(self) -> Exception | None:
        self._parts.put(None)
        self._thread.join()
        return self.error

    def abort(self) -> None:
        self._aborted = True
        self.finish()

    def _run(self, store: ObjectStore, key: str) -> None:
        source = self._pull()
        try:
            obstore.put(
                store,
                key,
                source,
                use_multipart=True,
                chunk_size=PART_BYTES,
                max_concurrency=_PARTS_UNDER_WAY,
            )
        except Exception as error:  # noqa: BLE001 - passed unchanged to the writing thread
            self.error = error
            with contextlib.suppress(_AbortedError):
                for _ in source:  # the writer must not block on a queue that is no longer drained
                    pass

    def _pull(self) -> Iterator[bytes]:
        while (part := self._parts.get()) is not None:
            yield part
        if self._aborted:
            raise _AbortedError
