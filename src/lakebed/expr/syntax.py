"""The syntax tree of a predicate, before columns and types are resolved."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Syntax:
    """One node: its kind, its operands, and the range of the text from which it was parsed.

    `value` depends on the kind: the name of a column or function, the text of a literal, the type
    of a cast, or a flag.
    """

    kind: str
    args: tuple["Syntax", ...] = ()
    value: object = None
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)
    depth: int = field(default=1, compare=False)
