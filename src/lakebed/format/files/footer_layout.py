"""What a Parquet footer describes, and where; a description is parsed when it is asked for.

    FileMetaData:  schema elements, depth first; row groups, each a list of column chunks;
                   the orders of the columns' values

The chunks of a row group are in the order of the schema's leaves. Field numbers are those of
`parquet.thrift`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lakebed.errors import CorruptError
from lakebed.format.files.footer_walk import (
    CHILDREN,
    CHUNK,
    ELEMENT,
    END,
    NAME,
    ORDER,
    PLACE,
    REPETITION,
    ROW_GROUP,
    START,
    TYPE_ORDER,
    VALUE,
    Marks,
    walk_footer,
)
from lakebed.format.files.thrift import (
    MALFORMED,
    CompactReader,
    Struct,
    as_fields,
    as_list,
    as_text,
)

ReadAt = Callable[[int, int], bytes]
Span = tuple[int, int]
_REPEATED = 2


class Leaf(NamedTuple):
    """A leaf of the schema: a column, or a part of a nested one.

    `number` counts the leaves; `element` is where its description lies in the footer.
    """

    number: int
    path: str
    is_flat: bool
    element: Span


@dataclass(frozen=True, slots=True)
class FooterLayout:
    """A footer, the leaves of its columns, and where each row group's chunks are described.

    `ordered` says for each leaf whether its bounds have the order of its type.
    """

    footer: bytes
    columns: Mapping[str, Sequence[Leaf]]
    groups: Sequence[Sequence[Sequence[int]]]
    ordered: Sequence[bool]
    what: str

    def element(self, leaf: Leaf) -> bytes:
        """Return the element of the schema that describes a leaf."""
        return self.footer[slice(*leaf.element)]

    def flat(self, column: str) -> Leaf | None:
        """Return the leaf of a column that is not nested; None if there is no such column."""
        leaves = self.columns.get(column, ())
        return leaves[0] if len(leaves) == 1 and leaves[0].is_flat else None

    def chunk(self, group: int, leaf: Leaf) -> Struct:
        """Parse the description of a column chunk: its ColumnMetaData."""
        if group >= len(self.groups):
            raise CorruptError(f"{self.what}: no row group {group} in its footer")
        try:
            start, end = self.groups[group][leaf.number]
            held = as_fields(CompactReader(self.footer[start:end]).struct()[3])
            path = ".".join(as_text(name) for name in as_list(held[3]))
        except MALFORMED as error:
            raise malformed(self.what, repr(error)) from error
        if path != leaf.path:
            raise malformed(self.what, f"column chunk {path!r} in the place of {leaf.path!r}")
        return held


def read_footer_bytes(read_at: ReadAt, size: int, what: str) -> bytes:
    """Read the raw footer of a Parquet file of `size` bytes."""
    length = int.from_bytes(read_at(size - 8, 8)[:4], "little") if size > 8 else size
    if length > size - 8:
        raise CorruptError(f"{what}: a footer of {length} bytes in {size}")
    return read_at(size - 8 - length, length)


def malformed(what: str, found: str) -> CorruptError:
    """Return the error for a footer that is not valid."""
    return CorruptError(f"{what}: its footer is not valid Parquet metadata ({found})")


def parse_layout(footer: bytes, what: str) -> FooterLayout:
    """Find the parts of a footer; raise CorruptError if it is malformed."""
    marks = walk_footer(footer)
    if marks is None:
        raise malformed(what, "it ends early, or has values of unknown types")
    columns: dict[str, list[Leaf]] = {}
    try:
        for column, leaf in _leaves(_elements(footer, marks)):
            columns.setdefault(column, []).append(leaf)
    except MALFORMED as error:
        raise malformed(what, repr(error)) from error
    leaves = sum(map(len, columns.values()))
    starts = _at(marks, ROW_GROUP)[:, START]
    chunks = _at(marks, CHUNK)
    firsts = np.searchsorted(chunks[:, START], starts)
    counts = np.diff(np.append(firsts, len(chunks)))
    if (counts != leaves).any():
        raise malformed(what, f"row groups without a chunk for each of {leaves} columns")
    spans = chunks[:, START : END + 1].tolist()
    groups = [spans[first : first + leaves] for first in firsts.tolist()]
    orders = np.zeros(max(leaves, len(_at(marks, ORDER))), dtype=bool)
    orders[_owners(marks, ORDER, TYPE_ORDER)] = True
    return FooterLayout(footer, columns, groups, orders.tolist(), what)


class _Element(NamedTuple):
    span: Span
    name: str
    children: int
    is_repeated: bool


def _elements(footer: bytes, marks: Marks) -> Iterator[_Element]:
    """Yield the elements of the schema, depth first, from the root."""
    elements, names = _at(marks, ELEMENT), _at(marks, NAME)
    children = np.zeros(len(elements), dtype=np.int64)
    children[_owners(marks, ELEMENT, CHILDREN)] = _at(marks, CHILDREN)[:, VALUE]
    repeated = np.zeros(len(elements), dtype=bool)
    repetitions = _at(marks, REPETITION)[:, VALUE]
    repeated[_owners(marks, ELEMENT, REPETITION)] = repetitions == _REPEATED
    spans = zip(elements[:, START].tolist(), elements[:, END].tolist(), strict=True)
    texts = (footer[start:end].decode() for _, start, end, _ in names.tolist())
    for span, name, count, again in zip(
        spans, texts, children.tolist(), repeated.tolist(), strict=True
    ):
        yield _Element(span, name, count, again)


def _at(marks: Marks, place: int) -> Marks:
    found: Marks = marks[marks[:, PLACE] == place]
    return found


def _owners(marks: Marks, outer: int, inner: int) -> npt.NDArray[np.int64]:
    """Return for each mark of `inner` the number of the mark of `outer` that it is in."""
    starts = _at(marks, outer)[:, START]
    owners: npt.NDArray[np.int64] = (
        np.searchsorted(starts, _at(marks, inner)[:, START], "right") - 1
    )
    return owners


def _leaves(elements: Iterable[_Element]) -> Iterator[tuple[str, Leaf]]:
    """Yield the leaves of a schema with their columns; `elements` come depth first, from the root."""
    # The nodes above the current one: their names, and how many children are to come.
    above: list[tuple[str, int]] = []
    leaves = 0
    for number, element in enumerate(elements):
        while above and above[-1][1] == 0:
            above.pop()
        if number:
            name, left = above[-1]
            above[-1] = (name, left - 1)
        if element.children > 0 or not number:
            above.append((element.name, element.children))
            continue
        if len(above) == 1:
            yield element.name, Leaf(leaves, element.name, not element.is_repeated, element.span)
        else:
            names = [*(name for name, _ in above[1:]), element.name]
            yield names[0], Leaf(leaves, ".".join(names), False, element.span)
        leaves += 1
    if not above or any(left for _, left in above):
        raise ValueError("a schema without all of its elements")
