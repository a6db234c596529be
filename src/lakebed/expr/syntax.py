"""The syntax tree of a predicate, before any column or type is known."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Syntax:
    """One node: its kind, its operands, and the part of the text that it was parsed from.

    `value` holds the rest of the node: the name of a column or function, the text of a literal, the
    type of a cast, or whether a test is negated.
    """

    kind: str
    args: tuple["Syntax", ...] = ()
    value: object = None
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)
    depth: int = field(default=1, compare=False)
