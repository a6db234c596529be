"""The most similar known name, for the errors of misspelled names."""

import difflib
from collections.abc import Iterable


def similar(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the known name that is most similar to `name`, or an empty string.

    >>> similar("Amuont", ["id", "amount"])
    'amount'
    """
    spelled = {one.lower(): str(one) for one in known}
    near = difflib.get_close_matches(name.lower(), spelled, n=1, cutoff=cutoff)
    return spelled[near[0]] if near else ""


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return ` (did you mean ...?)` with the most similar known name, or an empty string.

    >>> nearest("amuont", ["id", "amount"])
    " (did you mean 'amount'?)"
    """
    near = similar(name, known, cutoff)
    return f" (did you mean {near!r}?)" if near else ""


def listed(names: Iterable[str], most: int = 20) -> str:
    """Return names as a list for an error message.

    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    held = list(names)
    more = f" and {len(held) - most} more" if len(held) > most else ""
    return (", ".join(held[:most]) or "none") + more
