"""HTML as strings that are escaped once: where a value becomes part of a page."""

from collections.abc import Iterable, Sequence
from html import escape as _escape
from urllib.parse import quote, urlencode

_VOID = frozenset({"br", "img", "input", "link", "meta"})


class Html(str):
    """A string that is HTML already and is not escaped again."""

    __slots__ = ()


def text(value: object) -> Html:
    """Return a value as HTML; HTML stays as it is, None becomes nothing."""
    if isinstance(value, Html):
        return value
    return Html("" if value is None else _escape(str(value), quote=True))


def join(children: Iterable[object], between: str = "") -> Html:
    """Return the children one after the other."""
    return Html(_escape(between).join(map(text, children)))


def element(name: str, /, *children: object, **attributes: object) -> Html:
    """Return an element; attributes that are None or False are left out.

    An underscore at the end of an attribute's name is dropped, others become hyphens.

    >>> element("a", "x < y", href="/t?a=1&b=2", class_="wide", hidden=True, title=None)
    '<a href="/t?a=1&amp;b=2" class="wide" hidden>x &lt; y</a>'
    """
    parts = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        named = key.rstrip("_").replace("_", "-")
        parts.append(named if value is True else f'{named}="{text(value)}"')
    start = f"<{' '.join(parts)}>"
    return Html(start if name in _VOID else f"{start}{join(children)}</{name}>")


def link(label: object, *path: str, **query: object) -> Html:
    """Return a link to a page of this site, given by the parts of its path."""
    return element("a", label, href=address(*path, **query))


def address(*path: str, **query: object) -> str:
    """Return the address of a page of this site; parameters that are None are left out.

    >>> address("tables", "a/b", page=2, where=None)
    '/tables/a%2Fb?page=2'
    """
    given = {key: value for key, value in query.items() if value is not None}
    return (
        "/"
        + "/".join(quote(part, safe="") for part in path)
        + (f"?{urlencode(given)}" if given else "")
    )


def table(
    names: Sequence[object], rows: Iterable[Sequence[object]], *, numbers: Iterable[int] = ()
) -> Html:
    """Return a table; the cells of columns `numbers` are aligned to the right."""
    right = frozenset(numbers)

    def cells(kind: str, row: Sequence[object]) -> Html:
        return element(
            "tr",
            *(
                element(kind, cell, class_="n" if at in right else None)
                for at, cell in enumerate(row)
            ),
        )

    head = element("thead", cells("th", names))
    body = element("tbody", *(cells("td", row) for row in rows))
    return element("div", element("table", head, body), class_="scroll")


def facts(pairs: Iterable[tuple[object, object]]) -> Html:
    """Return a list of names and values."""
    items = (join((element("dt", name), element("dd", value))) for name, value in pairs)
    return element("dl", *items)


def section(title: object, *children: object) -> Html:
    """Return a section with a heading."""
    return element("section", element("h2", title), *children)


def later(title: str, source: str) -> Html:
    """Return a section whose content is loaded from `source` after the first paint."""
    waiting = element("p", "Loading …", class_="quiet")
    plain = element("noscript", element("a", f"Show {title.lower()}", href=source))
    return section(title, element("div", waiting, plain, data_load=source))


def legend(kinds: Iterable[tuple[str, str]], *before: object) -> Html:
    """Return the legend of a picture, from pairs of a class of the style sheet and a label."""
    marks = (element("span", element("span", class_=f"key {kind}"), label) for kind, label in kinds)
    return element("p", *before, *marks, class_="quiet legend")
