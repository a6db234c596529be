"""Temporary runs of a read, on local disk, for merges of more runs than may be open at once."""

import contextlib
import tempfile
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa

from lakebed.errors import UnavailableError
from lakebed.merge.run import Run

# One batch of every run is in memory during the merge.
_BATCH_ROWS = 16_384


class Spills(contextlib.ExitStack):
    """Temporary runs, deleted when the context ends.

    The files have no names, so that nothing is left of them if the process dies.
    """

    def spill(self, batches: Iterator[pa.RecordBatch]) -> Run:
        """Write `batches` to a temporary file and return the run that reads them back."""
        try:
            file = self.enter_context(tempfile.TemporaryFile(prefix="lakebed-"))  # noqa: SIM115
            return Run("temporary run", _read(file) if _write(file, batches) else ())
        except OSError as error:
            raise UnavailableError(
                f"temporary file in {tempfile.gettempdir()}: {error}; merging many runs at once "
                "needs space there"
            ) from error


def _write(file: BinaryIO, batches: Iterator[pa.RecordBatch]) -> bool:
    writer = None
    for batch in batches:
        if writer is None:
            options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
            writer = pa.ipc.new_stream(file, batch.schema, options=options)
        for start in range(0, batch.num_rows, _BATCH_ROWS):
            writer.write_batch(batch.slice(start, _BATCH_ROWS))
    if writer is None:
        return False
    writer.close()
    file.seek(0)
    return True


def _read(file: BinaryIO) -> Iterator[pa.RecordBatch]:
    options = pa.ipc.IpcReadOptions(use_threads=False)
    with pa.ipc.open_stream(file, options=options) as reader:
        yield from reader
