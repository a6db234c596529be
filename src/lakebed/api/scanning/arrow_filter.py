"""Reads an expression of pyarrow, which has no interface for that, from its serialized form.

Arrow serializes an expression as a record batch: constants and options are columns of one row, and
the metadata of the schema names the nodes in order, `call` and `end` around the arguments. If a
release of pyarrow changes this, `parse_filter` returns None, and nothing is pushed down.
"""

import ctypes
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.api.scanning.terms import Terms
from lakebed.scan.spelling import column_text

_SIGNS = {
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_MAX_NODES = 20_000


Node: TypeAlias = "Call | Field | pa.Scalar"


@dataclass(frozen=True, slots=True)
class Call:
    """A function, its arguments, and its options as a struct; None if it has none."""

    function: str
    args: "tuple[Node, ...]"
    options: pa.Scalar | None


@dataclass(frozen=True, slots=True)
class Field:
    """A column, or a field of a struct in it."""

    path: tuple[str, ...]


def parse_filter(expression: pc.Expression) -> "Node | None":
    """Return the tree of an expression; None if it cannot be read."""
    try:
        (buffer,) = expression.__reduce__()[1]
        batch = pa.ipc.open_file(buffer).get_batch(0)
        return _parse(list(_metadata(batch.schema)), batch)
    except (pa.ArrowException, ValueError, LookupError, TypeError, struct.error):
        return None


def columns_of(node: Node) -> list[str]:
    """Return the columns that an expression needs."""
    waiting = [node]
    found: list[str] = []
    while waiting:
        one = waiting.pop()
        if isinstance(one, Field):
            found.append(one.path[0])
        elif isinstance(one, Call):
            waiting.extend(one.args)
    return list(dict.fromkeys(found))


def filter_texts(node: Node, schema: pa.Schema) -> list[str | None]:
    """Return predicates that are all true where the expression is; None for parts left out."""
    terms = Terms(schema)
    return [_implied(part, terms) for part in _operands(node, "and_kleene")]


def _operands(node: Node, function: str) -> list[Node]:
    """Return the operands of a chain of one function, however deeply it is nested."""
    waiting = [node]
    found: list[Node] = []
    while waiting:
        one = waiting.pop()
        if isinstance(one, Call) and one.function == function:
            waiting.extend(reversed(one.args))
        else:
            found.append(one)
    return found


def _implied(node: Node, terms: Terms) -> str | None:
    """Return a predicate that is true wherever `node` is; None if there is none to write."""
    match node:
        case Call("or_kleene"):
            parts = [_implied(part, terms) for part in _operands(node, "or_kleene")]
            return _joined(parts, " OR ")
        case Call("and_kleene"):
            parts = [_implied(part, terms) for part in _operands(node, "and_kleene")]
            return _joined([part for part in parts if part is not None], " AND ")
        case Call("is_in", (Field(path),), options) if options is not None:
            values = options["value_set"].values
            return None if values.null_count else terms.listed(path, values)
        # Null for a null: where it is true, the second argument is.
        case Call("if_else", (_, then, pa.Scalar() as other)) if not other.is_valid:
            return _implied(then, terms)
        case Call("invert", (inner,)):
            exact = _exact(inner, terms)
            return None if exact is None else f"NOT ({exact})"
    return _exact(node, terms)


def _exact(node: Node, terms: Terms) -> str | None:
    """Return a predicate that is true, false and null where `node` is; None if there is none."""
    match node:
        case Call(function, (Field(path), pa.Scalar() as value)) if function in _SIGNS:
            return terms.compared(path, _SIGNS[function], value)
        case Call("is_null", (Field((name,)),), options):
            nan_is_null = options is not None and options["nan_is_null"].as_py()
            return None if nan_is_null else f"{column_text(name)} IS NULL"
        case Call("is_valid", (Field((name,)),)):
            return f"{column_text(name)} IS NOT NULL"
        case Field(path) if terms.is_boolean(path):
            return column_text(*path)
    return None


def _joined(parts: list[str | None], word: str) -> str | None:
    """Return parts in parentheses, joined by a word; None if one is missing or there are none."""
    known = [f"({part})" for part in parts if part is not None]
    return word.join(known) if known and len(known) == len(parts) else None


def _parse(entries: list[tuple[str, str]], batch: pa.RecordBatch) -> Node:
    """Return the tree that the metadata of the schema names, with constants from the batch."""
    if len(entries) > _MAX_NODES:
        raise ValueError("too long")
    # Calls that have not ended, outermost first: the arguments so far, and the options.
    open_: list[tuple[list[Node], list[pa.Scalar]]] = [([], [])]
    at = 0
    while at < len(entries):
        word, value = entries[at]
        at += 1
        if word == "call":
            open_.append(([], []))
        elif word == "end":
            args, options = open_.pop()
            open_[-1][0].append(Call(value, tuple(args), options[0] if options else None))
        elif word == "literal":
            open_[-1][0].append(batch.column(int(value))[0])
        elif word == "options":
            open_[-1][1].append(batch.column(int(value))[0])
        elif word == "field_ref":
            open_[-1][0].append(Field((value,)))
        elif word == "nested_field_ref":
            path = entries[at : at + int(value)]
            at += int(value)
            if not path or any(part != "field_ref" for part, _ in path):
                raise ValueError(word)
            open_[-1][0].append(Field(tuple(name for _, name in path)))
        else:
            raise ValueError(word)
    (((root,), _),) = open_
    return root


class _ArrowSchema(ctypes.Structure):
    """The beginning of the C structure by which Arrow libraries exchange a schema."""

    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
    )


def _metadata(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """Yield the metadata of a schema in order; `schema.metadata` drops all but one of equal keys.

    The layout is that of Arrow's C data interface: 32-bit counts and lengths in the byte order of
    the machine, before each key and each value.
    """
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    at = _ArrowSchema.from_address(pointer(capsule, b"arrow_schema")).metadata
    if at is None:
        return

    def number() -> int:
        nonlocal at
        (found,) = struct.unpack("=i", ctypes.string_at(at, 4))
        at += 4
        return int(found)

    def text() -> str:
        nonlocal at
        length = number()
        found = ctypes.string_at(at, length)
        at += length
        return found.decode()

    for _ in range(number()):
        yield text(), text()
