"""What a scan reads: columns and rows of one snapshot, as often as they are asked for."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakebed.scan.spelling import understood

Read = Callable[[Sequence[str], str | None], pa.RecordBatchReader]


@dataclass(frozen=True, slots=True)
class ScanSource:
    """The columns of a scan, its predicate, and the function that reads columns by a predicate."""

    schema: pa.Schema
    where: str | None
    open: Read

    def read(
        self, columns: Sequence[str], pushed: Iterable[str | None] = ()
    ) -> pa.RecordBatchReader:
        """Return some columns of the rows as a stream, without rows that `pushed` excludes.

        Of the predicates in `pushed`, None and those that the table does not understand are ignored.
        """
        where = understood(pushed, self.schema)
        if self.where is not None:
            where = self.where if where is None else f"({self.where}) AND ({where})"
        if columns:
            return self.open(columns, where)
        rows = self.open(self.schema.names[:1], where)
        return pa.RecordBatchReader.from_batches(pa.schema([]), (one.select([]) for one in rows))
