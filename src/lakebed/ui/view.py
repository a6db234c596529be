"""What a section needs to be drawn: a table, the time, and the parameters of the address."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakebed.errors import InvalidError
from lakebed.table.run_facts import age_of
from lakebed.terminal.markup import Html, element, join
from lakebed.terminal.text import age_text
from lakebed.ui.html import address
from lakebed.ui.site import PageTable

_MAX_PAGE = 1_000_000


@dataclass(frozen=True, slots=True)
class View:
    """A table as one request sees it."""

    name: str
    table: PageTable
    now_ms: int
    query: Mapping[str, str] = field(default_factory=dict)

    def address(self, /, *path: str, **query: object) -> str:
        """Return the address of a page of this table."""
        return address("tables", self.name, *path, **query)

    def link(self, label: object, /, *path: str, **query: object) -> Html:
        """Return a link to a page of this table."""
        return element("a", label, href=self.address(*path, **query))

    def given(self, name: str) -> str | None:
        """Return a parameter of the address; None if it is missing or empty."""
        return self.query.get(name, "").strip() or None

    def number(self, name: str, default: int, most: int) -> int:
        """Return a parameter as a number from 1 to `most`; raise InvalidError if it is not one."""
        given = self.given(name)
        if given is None:
            return default
        is_number = given.isascii() and given.isdigit() and len(given) <= len(str(most))
        if not is_number or not 1 <= int(given) <= most:
            raise InvalidError(f"{name}={given!r}: expected a number from 1 to {most:,}")
        return int(given)

    def page(self) -> int:
        """Return the number of the page that is shown, from 1 on."""
        return self.number("page", 1, _MAX_PAGE)

    def pages(self, path: str, total: int, per_page: int) -> Html:
        """Return links to the previous and next page of a list of `total` items."""
        page, last = self.page(), max(1, -(-total // per_page))
        if last == 1:
            return Html("")
        kept = {key: value for key, value in self.query.items() if key != "page"}
        links = [
            self.link(label, path, **{**kept, "page": number})
            for label, number in (
                ("first", 1),
                ("previous", page - 1),
                ("next", page + 1),
                ("last", last),
            )
            if 1 <= number <= last and number != page
        ]
        return element("p", f"Page {page:,} of {last:,} · ", join(links, " · "), class_="quiet")

    def age(self, instant: str | None) -> str:
        """Return how long ago an instant was."""
        if instant is None:
            return "never"
        age_ms = age_of(instant, self.table.config.zone, self.now_ms)
        return f"{age_text(age_ms)} ago"
