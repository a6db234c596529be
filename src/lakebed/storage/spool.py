"""A buffer for bytes that can be written to their destination only when their length is known."""

import tempfile
from collections.abc import Iterator

from lakebed.errors import UnavailableError
from lakebed.storage.streams import WriteStream

MEMORY_BYTES = 16 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024


class Spool(WriteStream):
    """A write stream into memory or, beyond `memory_bytes`, into a temporary file.

    The bytes can be read from `close` until `release`. The file has no name, so nothing remains of
    it if the process dies.
    """

    def __init__(self, name: str, memory_bytes: int = MEMORY_BYTES) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=memory_bytes)  # noqa: SIM115 - until release
        super().__init__(name)

    def _append(self, view: memoryview) -> None:
        try:
            self._file.write(view)
        except OSError as error:
            raise self._failure(error) from error

    def _publish(self) -> None:
        try:
            self._file.seek(0)
        except OSError as error:
            raise self._failure(error) from error

    def _drop(self) -> None:
        self.release()

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes of a closed spool; can be called once."""
        try:
            while chunk := self._file.read(_CHUNK_BYTES):
                yield chunk
        except OSError as error:
            raise self._failure(error) from error

    def release(self) -> None:
        """Release the memory and the file."""
        self._file.close()

    def _failure(self, error: OSError) -> UnavailableError:
        return UnavailableError(f"{self._name}: temporary file in {tempfile.gettempdir()}: {error}")
