"""A scan in the shape of a pyarrow Dataset, of which DuckDB asks columns and a filter."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from lakebed.api.scanning.arrow_filter import columns_of, filter_texts, parse_filter
from lakebed.api.scanning.source import ScanSource


class ScanDataset(pads.Dataset):
    """A scan as DuckDB reads it: `schema`, and a scanner for each query.

    DuckDB knows datasets by their class. Nothing else of a Dataset works, so it stays inside.
    """

    def __init__(self, scan: ScanSource) -> None:
        self._scan = scan

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the scan."""
        return self._scan.schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        **_: Any,
    ) -> "ScanScanner":
        """Return what reads `columns` of the rows for which `filter` is true."""
        names = self.schema.names if columns is None else list(columns)
        return ScanScanner(self._scan, names, filter)


class ScanScanner:
    """Reads columns of the rows that a filter keeps."""

    def __init__(
        self, scan: ScanSource, columns: list[str], expression: pc.Expression | None
    ) -> None:
        self._scan = scan
        self._columns = columns
        self._expression = expression

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream; files are opened as it is read."""
        scan, columns, expression = self._scan, self._columns, self._expression
        if expression is None:
            return scan.read(columns)
        schema = scan.schema
        tree = parse_filter(expression)
        tested = schema.names if tree is None else columns_of(tree)
        texts: list[str | None] = [] if tree is None else filter_texts(tree, schema)
        rows = scan.read(list(dict.fromkeys((*columns, *tested))), texts)

        def kept() -> Iterator[pa.RecordBatch]:
            with rows:
                for batch in rows:
                    yield batch.filter(expression).select(columns)

        chosen = pa.schema([schema.field(name) for name in columns])
        return pa.RecordBatchReader.from_batches(chosen, kept())
