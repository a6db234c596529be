"""The tree of a predicate as it is written, before any column or type is known."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Syntax:
    """One node: what it is, its operands, and the part of the text that it stands for.

    `value` is what a node has besides operands: the name of a column or function, the literal's
    text, the type of a cast, whether a test is negated.
    """

    kind: str
    args: tuple["Syntax", ...] = ()
    value: object = None
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)
    depth: int = field(default=1, compare=False)
