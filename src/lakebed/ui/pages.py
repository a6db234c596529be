"""From an address to a page: which section answers it, and the frame around the section."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

import lakebed
from lakebed.errors import InvalidError, LakebedError, NotFoundError
from lakebed.model.clock import Clock
from lakebed.terminal.markup import Html, element, join
from lakebed.ui.html import address, link
from lakebed.ui.layers import layers_page, layers_part, partitions_page, partitions_part
from lakebed.ui.overview import PARTS, overview
from lakebed.ui.past import home, schema_page, timeline_page
from lakebed.ui.rows import changes_page, rows_page
from lakebed.ui.site import Site
from lakebed.ui.view import View

Section = Callable[[View], Html]

_PAGES: Final[Mapping[str, Section]] = {
    "": overview,
    "layers": layers_page,
    "partitions": partitions_page,
    "timeline": timeline_page,
    "schema": schema_page,
    "rows": rows_page,
    "changes": changes_page,
}
_PARTS: Final[Mapping[str, Section]] = {
    **PARTS,
    "layers": layers_part,
    "partitions": partitions_part,
}
_LABELS: Final = {"": "overview"}


@dataclass(frozen=True, slots=True)
class Page:
    """An answer: a status and HTML, or the address to go to instead."""

    status: int
    body: str = ""
    location: str | None = None


def answer(site: Site, clock: Clock, target: str) -> Page:
    """Return the page at an address of the site."""
    split = urlsplit(target)
    parts = [unquote(part) for part in split.path.split("/") if part]
    try:
        if not parts and site.single is not None:
            return Page(302, location=address("tables", site.single))
        if not parts:
            return Page(200, _frame("Tables", (), home(site.tables(), site.url)))
        if parts[0] != "tables" or len(parts) == 1:
            raise NotFoundError("there is no such page")
        query = dict(parse_qsl(split.query, keep_blank_values=True))
        view = View(parts[1], site.table(parts[1]), clock.now_ms(), query)
    except LakebedError as error:
        return Page(_status(error), _frame("Lakebed", (), _problem(error)))
    return _table_page(view, parts[2:])


def _table_page(view: View, path: list[str]) -> Page:
    """Return a page of a table, or the part of one that is loaded later."""
    is_part = path[:1] == ["parts"]
    sections, name = (_PARTS, path[1:]) if is_part else (_PAGES, path)
    section = sections.get("/".join(name))
    status = 200
    try:
        if section is None:
            raise NotFoundError("there is no such page")
        body = section(view)
    except LakebedError as error:
        status, body = _status(error), _problem(error)
    return Page(status, body if is_part else _frame(view.name, _links(view, path), body))


def _status(error: LakebedError) -> int:
    if isinstance(error, NotFoundError):
        return 404
    return 400 if isinstance(error, InvalidError) else 500


def _problem(error: LakebedError) -> Html:
    return element("p", error, class_="problem")


def _links(view: View, here: list[str]) -> tuple[Html, ...]:
    current = here[0] if here else ""
    return tuple(
        element(
            "a",
            _LABELS.get(name, name),
            href=view.address(*([name] if name else [])),
            aria_current="page" if name == current else None,
        )
        for name in _PAGES
    )


def _frame(title: str, links: tuple[Html, ...], body: Html) -> str:
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{title} · Lakebed"),
        element("link", rel="stylesheet", href="/static/style.css"),
        element("script", src="/static/script.js", defer=True),
    )
    top = element("header", element("h1", title), element("nav", link("home"), *links))
    foot = element(
        "footer", f"Lakebed {lakebed.__version__}, read-only. ", element("a", "Reload", href="")
    )
    page = element("html", head, element("body", top, element("main", body), foot), lang="en")
    return join((Html("<!doctype html>"), page))
