"""Results as HTML for notebooks: plain tables without scripts, all text escaped."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

_MAX_ROWS = 200
_BAR_PX = 160


def facts_html(title: str, facts: Mapping[str, object]) -> str:
    """Return a title and a table of facts; facts that are None are left out.

    >>> facts_html("t", {"rows": 2, "note": None})
    '<div><b>t</b><table><tr><th>rows</th><td>2</td></tr></table></div>'
    """
    rows = [
        f"<tr><th>{escape(name)}</th><td>{_text(value)}</td></tr>"
        for name, value in facts.items()
        if value is not None
    ]
    return f"<div><b>{escape(title)}</b><table>{''.join(rows)}</table></div>"


def rows_html(title: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a title and a table with headers; only the first rows are shown.

    >>> rows_html("t", ["a"], [["<x>"]])
    '<div><b>t</b><table><tr><th>a</th></tr><tr><td>&lt;x&gt;</td></tr></table></div>'
    """
    held = list(rows)
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    lines = [
        f"<tr>{''.join(f'<td>{_text(value)}</td>' for value in row)}</tr>"
        for row in held[:_MAX_ROWS]
    ]
    left = len(held) - _MAX_ROWS
    more = f"<p>and {left:,} more</p>" if left > 0 else ""
    return f"<div><b>{escape(title)}</b><table><tr>{head}</tr>{''.join(lines)}</table>{more}</div>"


def text_html(text: str) -> str:
    """Return text in its own layout.

    >>> text_html("a < b")
    '<pre>a &lt; b</pre>'
    """
    return f"<pre>{escape(text)}</pre>"


class Bar:
    """A bar whose length shows a share of the widest bar."""

    __slots__ = ("share",)

    def __init__(self, size: float, widest: float) -> None:
        self.share = min(1.0, size / max(widest, 1))

    def __str__(self) -> str:
        width = max(1, round(_BAR_PX * self.share))
        style = f"display:inline-block;height:0.8em;width:{width}px;background:#4a7ebb"
        return f'<span style="{style}"></span>'


def _text(value: object) -> str:
    return str(value) if isinstance(value, Bar) else escape(str(value))
