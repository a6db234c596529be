"""Results as HTML for notebooks: plain tables without scripts."""

from collections.abc import Iterable, Mapping, Sequence

from lakebed.terminal.markup import Html, element, join

_MAX_ROWS = 200
_BAR_PX = 160


def facts_html(title: str, facts: Mapping[str, object]) -> str:
    """Return a title and a table of facts; facts that are None are left out.

    >>> facts_html("t", {"rows": 2, "note": None})
    '<div><b>t</b><table><tr><th>rows</th><td>2</td></tr></table></div>'
    """
    rows = (
        element("tr", element("th", name), element("td", value))
        for name, value in facts.items()
        if value is not None
    )
    return element("div", element("b", title), element("table", *rows))


def rows_html(title: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a title and a table with headers; only the first rows are shown.

    >>> rows_html("t", ["a"], [["<x>"]])
    '<div><b>t</b><table><tr><th>a</th></tr><tr><td>&lt;x&gt;</td></tr></table></div>'
    """
    held = list(rows)
    head = element("tr", *(element("th", name) for name in names))
    lines = (element("tr", *(element("td", value) for value in row)) for row in held[:_MAX_ROWS])
    left = len(held) - _MAX_ROWS
    more = element("p", f"and {left:,} more") if left > 0 else ""
    return element("div", element("b", title), element("table", head, join(lines)), more)


def text_html(text: str) -> str:
    """Return text in its own layout.

    >>> text_html("a < b")
    '<pre>a &lt; b</pre>'
    """
    return element("pre", text)


def bar_html(size: float, widest: float) -> Html:
    """Return a bar whose length shows a size as a share of the widest bar."""
    width = max(1, round(_BAR_PX * min(1.0, size / max(widest, 1))))
    style = f"display:inline-block;height:0.8em;width:{width}px;background:#4a7ebb"
    return element("span", style=style)
