"""Expressions of the grammar of predicates, of any type, evaluated in this process."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import InvalidError
from lakebed.expr.bind import Binder
from lakebed.expr.bound import Bound, Constant, column_names
from lakebed.expr.evaluate import evaluate
from lakebed.expr.parser import parse_syntax
from lakebed.expr.tokens import invalid

_NOTHING = pa.schema([])


@dataclass(frozen=True, slots=True)
class Expression:
    """A bound expression, its columns and its type."""

    text: str
    columns: tuple[str, ...]
    bound: Bound

    @classmethod
    def parse(cls, text: str, schema: pa.Schema) -> "Expression":
        """Parse `text` and bind it to `schema`."""
        try:
            bound = Binder(text, schema).bind(parse_syntax(text))
        except (pa.ArrowException, RecursionError) as error:
            raise invalid(text, str(error)) from error
        return cls(text, column_names(bound), bound)

    @property
    def kind(self) -> pa.DataType:
        """Return the type of the values."""
        return self.bound.kind

    def values(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the value for each row of `batch`; raise InvalidError if evaluation fails."""
        try:
            found = evaluate(self.bound, batch)
        except pa.ArrowException as error:
            raise invalid(self.text, str(error)) from error
        if found.failed is not None and pc.any(found.failed).as_py():
            raise invalid(self.text, found.reason)
        if isinstance(found.data, pa.Scalar):
            return pa.repeat(found.data, batch.num_rows)
        return found.data


def constant(text: str) -> pa.Scalar:
    """Return the value of an expression without columns."""
    bound = Expression.parse(text, _NOTHING).bound
    if not isinstance(bound, Constant):
        raise InvalidError(f"{text}: expected a constant")
    return bound.value
