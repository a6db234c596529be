"""Expressions over the columns of several tables, each known by an alias.

The columns of a merge are `target.id` or `source.id`; a bare name works where only one table has
such a column. The grammar is that of predicates, but an expression may have any type.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import LakebedError, SchemaError, UnsupportedError
from lakebed.expr.bind import Binder, missing_column
from lakebed.expr.bound import Bound, Column, Constant, column_names, walk
from lakebed.expr.casts import is_castable
from lakebed.expr.evaluate import evaluate
from lakebed.expr.parser import parse_syntax
from lakebed.expr.syntax import Syntax
from lakebed.expr.tokens import invalid
from lakebed.expr.types import is_supported, type_name
from lakebed.expr.values import null_of


@dataclass(frozen=True, slots=True)
class Side:
    """The columns of one table, its alias, and the prefix of its columns in evaluated batches."""

    alias: str
    schema: pa.Schema
    prefix: str

    def column(self, name: str) -> Column | None:
        """Return a column by its name in any case; None if there is not exactly one."""
        near = [known for known in self.schema.names if known.lower() == name.lower()]
        if name in near:
            near = [name]
        if len(near) != 1:
            return None
        return Column(self.prefix + near[0], self.schema.field(near[0]).type)


@dataclass(frozen=True, slots=True)
class Expression:
    """A bound expression, and the columns that it needs by their names in evaluated batches."""

    text: str
    bound: Bound
    columns: tuple[str, ...]

    @classmethod
    def of(cls, text: str, bound: Bound) -> "Expression":
        """Return a bound expression; evaluate it without rows, to detect incompatible types."""
        made = cls(text, bound, column_names(bound))
        made.values(_empty(bound))
        return made

    def values(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the value for each row of `batch`; raise InvalidError if evaluation fails."""
        try:
            found = evaluate(self.bound, batch)
        except pa.ArrowException as error:
            raise invalid(self.text, str(error)) from error
        if found.failed is not None and pc.any(found.failed).as_py():
            raise invalid(self.text, found.reason)
        data = found.data
        if isinstance(data, pa.Scalar):
            return pa.repeat(data, batch.num_rows)
        return data.combine_chunks() if isinstance(data, pa.ChunkedArray) else data

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return for each row of `batch` whether the condition is true."""
        return pc.fill_null(self.values(batch), False)


def bind_condition(text: str, sides: Sequence[Side]) -> Expression:
    """Parse and bind a condition; raise an error if it is not a valid boolean expression."""
    binder = _ScopedBinder(text, sides)
    return _bound(text, lambda: binder.condition(parse_syntax(text)))


def bind_value(text: str, sides: Sequence[Side], field: pa.Field) -> Expression:
    """Parse and bind the value of a column; it is cast to the column's type as by CAST.

    Raises SchemaError for a type that cannot be cast.
    """
    binder = _ScopedBinder(text, sides)

    def bind() -> Bound:
        bound = binder.bind(parse_syntax(text))
        return _assigned(binder, bound, field, text)

    return _bound(text, bind)


def bind_column(side: Side, name: str, field: pa.Field) -> Expression:
    """Return a column of `side` as the value of the column `field`."""
    binder = _ScopedBinder(name, (side,))
    column = side.column(name)
    if column is None:
        raise SchemaError(f"{side.alias}: {missing_column(name, side.schema.names)}")
    return _bound(name, lambda: _assigned(binder, column, field, name))


def bind_literal(value: object, field: pa.Field) -> Expression:
    """Return a Python value as the value of a column; raise SchemaError if it does not fit."""
    try:
        made = pa.scalar(value, field.type) if value is not None else null_of(field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaError(
            f"column {field.name!r}: expected a value of {type_name(field.type)}, found {value!r} "
            f"({error})"
        ) from error
    return Expression(repr(value), Constant(made, is_literal=True), ())


def qualified(text: str, sides: Sequence[Side]) -> str:
    """Return an expression with the alias of its table before each bare column name.

    Raises an error for an expression outside the grammar, and for a name that is not unique.
    """
    binder = _ScopedBinder(text, sides)
    found: list[tuple[int, str]] = []
    waiting = [parse_syntax(text)]
    while waiting:
        node = waiting.pop()
        inner = node.args[0] if node.kind == "field" else node
        if inner.kind == "column":
            if inner is node or binder.side_named(inner) is None:
                found.append((inner.start, binder.side_of(str(inner.value)).alias))
            continue
        waiting.extend(node.args)
    for start, alias in sorted(found, reverse=True):
        quoted = alias.replace("`", "``")
        text = f"{text[:start]}`{quoted}`.{text[start:]}"
    return text


def and_parts(bound: Bound) -> list[Bound]:
    """Return the operands of a conjunction, or the expression itself."""
    if isinstance(bound, (Column, Constant)) or bound.function != "and":
        return [bound]
    return [part for arg in bound.args for part in and_parts(arg)]


class ExpressionBinder(Binder):
    """Binds an expression that is not a predicate of a read."""

    what = "expression"

    def refuse(self, part: str) -> LakebedError:
        """Return the error for a part of the expression that is not supported."""
        return UnsupportedError(
            f"{self.what} {self._text[:200]!r}: {part[:200]} is not in Lakebed's grammar of "
            "expressions (docs/where.md lists what is)"
        )


class _ScopedBinder(ExpressionBinder):
    def __init__(self, text: str, sides: Sequence[Side]) -> None:
        super().__init__(text, pa.schema([]))
        self._sides = sides

    def side_named(self, node: Syntax) -> Side | None:
        """Return the table that a name stands for, or None."""
        name = str(node.value).lower()
        return next((side for side in self._sides if side.alias.lower() == name), None)

    def side_of(self, name: str) -> Side:
        """Return the only table that has a column of this name."""
        found = [side for side in self._sides if side.column(name)]
        if len(found) > 1:
            forms = " or ".join(f"{side.alias}.{name}" for side in found)
            raise SchemaError(f"expression {self._text[:200]!r}: write {forms}: both have {name}")
        if not found:
            known = [f"{side.alias}.{known}" for side in self._sides for known in side.schema.names]
            raise SchemaError(
                f"expression {self._text[:200]!r}: {missing_column(name, known, qualified=True)}"
            )
        return found[0]

    def _column(self, node: Syntax) -> Bound:
        column = self.side_of(str(node.value)).column(str(node.value))
        assert column is not None, node
        return column

    def _field(self, node: Syntax) -> Bound:
        whole, name = node.args[0], str(node.value)
        if whole.kind == "column":
            side = self.side_named(whole)
            if side is not None:
                return self._of_side(side, name)
            if not any(side.column(str(whole.value)) for side in self._sides):
                aliases = " and ".join(side.alias for side in self._sides)
                raise SchemaError(
                    f"expression {self._text[:200]!r}: {whole.value} is neither a table nor a "
                    f"column here; the tables are {aliases}"
                )
        return super()._field(node)

    def _of_side(self, side: Side, name: str) -> Bound:
        column = side.column(name)
        if column is None:
            raise SchemaError(
                f"expression {self._text[:200]!r}: {side.alias}: "
                f"{missing_column(name, side.schema.names)}"
            )
        return column


def _assigned(binder: Binder, bound: Bound, field: pa.Field, text: str) -> Bound:
    kind = field.type
    if bound.kind == kind or (not is_supported(kind) and isinstance(bound, Column)):
        # The rows of a nested column are fitted by the names of their fields when they are written.
        return bound
    if pa.types.is_null(bound.kind) and isinstance(bound, Constant):
        return Constant(null_of(kind))
    is_text = isinstance(bound, Constant) and bound.kind == pa.string()
    if not is_supported(kind) or not (is_text or is_castable(bound.kind, kind)):
        raise SchemaError(
            f"column {field.name!r}: expected {type_name(kind)}, found {text[:200]!r} of type "
            f"{type_name(bound.kind)}"
        )
    return binder.cast(bound, kind)


def _bound(text: str, bind: Callable[[], Bound]) -> Expression:
    try:
        return Expression.of(text, bind())
    except (pa.ArrowException, RecursionError) as error:
        raise invalid(text, str(error)) from error


def _empty(bound: Bound) -> pa.RecordBatch:
    kinds = {node.name: node.kind for node in walk(bound) if isinstance(node, Column)}
    empty = [pa.array([], kind) for kind in kinds.values()]
    return pa.RecordBatch.from_arrays(empty, schema=pa.schema(list(kinds.items())))
