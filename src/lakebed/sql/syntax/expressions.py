"""Expressions of the grammar of predicates, of any type, evaluated in this process."""

import pyarrow as pa

from lakebed.errors import InvalidError
from lakebed.expr.bound import Constant
from lakebed.expr.parser import parse_syntax
from lakebed.expr.scope import Expression, ExpressionBinder
from lakebed.expr.tokens import invalid

_NOTHING = pa.schema([])


def parse_expression(text: str, schema: pa.Schema) -> Expression:
    """Parse `text` and bind it to `schema`."""
    try:
        return Expression.of(text, ExpressionBinder(text, schema).bind(parse_syntax(text)))
    except (pa.ArrowException, RecursionError) as error:
        raise invalid(text, str(error)) from error


def constant(text: str) -> pa.Scalar:
    """Return the value of an expression without columns."""
    bound = parse_expression(text, _NOTHING).bound
    if not isinstance(bound, Constant):
        raise InvalidError(f"{text}: expected a constant")
    return bound.value
