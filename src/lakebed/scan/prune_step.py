"""One step of planning: the conditions by which file groups were skipped, as text."""

import datetime as dt
from dataclasses import dataclass

from lakebed.expr.constraints import Allowed, Value

_MAX_VALUES = 3
_MAX_TEXT = 40


@dataclass(frozen=True, slots=True)
class PruneStep:
    """A step that skips file groups: the conditions it used, and how many file groups it left.

    The last step skips row groups instead; `noun` says which of the two `left` counts.
    """

    by: str
    conditions: tuple[str, ...]
    left: int
    noun: str = "file group"


def allowed_text(column: str, allowed: Allowed) -> str:
    """Return the constraint on a column as a condition.

    >>> allowed_text("n", Allowed(frozenset({2, 1})))
    'n IN (1, 2)'
    """
    parts = []
    if allowed.values is None:
        ends = ((allowed.lower, ">"), (allowed.upper, "<"))
        parts = [
            f"{column} {sign}{'=' if end.inclusive else ''} {_text(end.value)}"
            for end, sign in ends
            if end is not None
        ]
        text = " AND ".join(parts) or f"{column} IS NOT NULL"
    else:
        shown = sorted(map(_text, allowed.values))
        text = f"{column} IN ({', '.join(shown)})"
        if len(shown) == 1:
            text = f"{column} = {shown[0]}"
        elif len(shown) > _MAX_VALUES:
            text = f"{column} IN ({len(shown):,} values)"
        elif not shown:
            text = ""
    null = f"{column} IS NULL" if allowed.null else ""
    return " OR ".join(filter(None, (text, null)))


def _text(value: Value) -> str:
    if isinstance(value, (str, dt.date)):
        text = str(value)
        return repr(text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}...")
    return str(value)
