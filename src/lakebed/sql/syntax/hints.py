"""The nearest keyword, for the errors of misspelled ones."""

from collections.abc import Iterable

from lakebed.model.spelling import similar

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


def misspelled_keyword(words: Iterable[str]) -> str:
    """Return a hint that names a keyword which one of the words resembles, or an empty string.

    >>> misspelled_keyword(["SELECT", "a", "FORM", "t"])
    '; did you mean FROM instead of FORM?'
    """
    for word in words:
        if not word.isalpha() or len(word) < 3 or word.upper() in KEYWORDS:
            continue
        near = similar(word, KEYWORDS, cutoff=0.75)
        if near:
            return f"; did you mean {near} instead of {word}?"
    return ""
