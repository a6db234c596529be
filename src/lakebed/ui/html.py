"""The parts of pages: links, tables, sections, and those that are loaded later."""

from collections.abc import Iterable, Sequence
from urllib.parse import quote, urlencode

from lakebed.terminal.markup import Html, element, join


def link(label: object, /, *path: str, **query: object) -> Html:
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
