"""Writes of the batches of streams, each committed once."""

import logging
from dataclasses import replace

from lakebed.api.writing import TableWrites
from lakebed.commit.stream_batches import EmptyBatchError, StreamBatch, is_committed
from lakebed.errors import LakebedError
from lakebed.table.config.writer_index import WriterIndex
from lakebed.write.pipeline import Source
from lakebed.write.spec.commit_summary import Commit
from lakebed.write.spec.operation import Operation

log = logging.getLogger(__name__)


class TableBatches(TableWrites):
    """Writes of the batches of streams, each committed once."""

    def _execute_once(
        self, batch: StreamBatch, operation: Operation, source: Source, named: WriterIndex | None
    ) -> Commit | None:
        """Write a batch of a stream unless it is empty or was committed by an earlier attempt."""
        if is_committed(self._snapshot(None), batch):
            log.warning("%s is committed already; it is not written again", batch)
            return None
        source = replace(source, commit_metadata={**source.commit_metadata, **batch.metadata()})
        try:
            return self._execute(operation, source, named)
        except EmptyBatchError:
            return None
        except LakebedError:
            # Another process may have written the batch meanwhile, or an answer was lost.
            if self._has(batch):
                return None
            raise

    def _has(self, batch: StreamBatch) -> bool:
        """Return whether a batch is known to be committed."""
        try:
            return is_committed(self._snapshot(None), batch)
        except LakebedError:
            return False
