"""The nearest known name, for the errors of misspelled names."""

import difflib
from collections.abc import Iterable

# fmt: off
KEYWORDS = (
    "SELECT", "FROM", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "DISTINCT", "INSERT",
    "OVERWRITE", "INTO", "VALUES", "UPDATE", "SET", "DELETE", "MERGE", "USING", "MATCHED",
    "WHEN", "THEN", "CREATE", "TABLE", "INDEX", "PARTITIONED", "TBLPROPERTIES", "LOCATION",
    "ALTER", "COLUMN", "COLUMNS", "DROP", "SHOW", "DESCRIBE", "EXPLAIN", "CALL", "JOIN",
    "UNION", "BETWEEN", "EXISTS", "PRIMARY", "TRUNCATE", "INDEXES", "TABLES", "HISTORY",
    "DETAIL", "EXTENDED", "PARTITION", "UNSET", "RENAME",
)
# fmt: on


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return `; did you mean ...?` with the most similar known name, or an empty string.

    >>> nearest("amuont", ["id", "amount"])
    "; did you mean 'amount'?"
    """
    spelled = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), spelled, n=1, cutoff=cutoff)
    return f"; did you mean {spelled[near[0]]!r}?" if near else ""


def listed(names: Iterable[str], most: int = 20) -> str:
    """Return names as a list for an error message."""
    held = list(names)
    more = f" and {len(held) - most} more" if len(held) > most else ""
    return (", ".join(held[:most]) or "none") + more


def misspelled_keyword(words: Iterable[str]) -> str:
    """Return a hint that names a keyword which one of the words resembles, or an empty string.

    >>> misspelled_keyword(["SELECT", "a", "FORM", "t"])
    '; did you mean FROM instead of FORM?'
    """
    for word in words:
        if not word.isalpha() or len(word) < 3 or word.upper() in KEYWORDS:
            continue
        near = difflib.get_close_matches(word.upper(), KEYWORDS, n=1, cutoff=0.75)
        if near:
            return f"; did you mean {near[0]} instead of {word}?"
    return ""
