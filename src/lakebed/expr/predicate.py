"""A predicate that filters rows: parsed once, then evaluated on each batch."""

from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.expr.bind import bind_predicate
from lakebed.expr.bound import Bound, column_names
from lakebed.expr.evaluate import evaluate
from lakebed.expr.tokens import invalid


@dataclass(frozen=True, slots=True)
class Predicate:
    """A bound predicate and the columns that it needs."""

    text: str
    columns: tuple[str, ...]
    bound: Bound

    @classmethod
    def parse(cls, text: str, schema: pa.Schema) -> Self:
        """Parse `text` and bind it to `schema`; raise an error if it is invalid or unsupported."""
        bound = bind_predicate(text, schema)
        predicate = cls(text, column_names(bound), bound)
        # Evaluate without rows, to detect incompatible types before a stream starts.
        predicate.filter(_empty(schema, predicate.columns))
        return predicate

    def filter(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of `batch` for which the predicate is true.

        Raises InvalidError if evaluation fails for a row, for example by an overflow.
        """
        return batch.filter(self.mask(batch))

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return the result of the predicate for each row: true, false or null."""
        try:
            found = evaluate(self.bound, batch)
        except pa.ArrowException as error:
            raise invalid(self.text, str(error)) from error
        if found.failed is not None and pc.any(found.failed).as_py():
            raise invalid(self.text, found.reason)
        if isinstance(found.data, pa.Scalar):
            return pa.repeat(found.data, batch.num_rows)
        return found.data


def _empty(schema: pa.Schema, names: tuple[str, ...]) -> pa.RecordBatch:
    fields = [schema.field(name) for name in names]
    return pa.record_batch([pa.array([], field.type) for field in fields], schema=pa.schema(fields))
