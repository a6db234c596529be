"""Previews: some rows of a table, and some of its changes between two instants."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa

from lakebed.errors import InvalidError, UnsupportedError
from lakebed.table.history import active_rows
from lakebed.terminal.markup import Html, element, join
from lakebed.terminal.values import shown_rows
from lakebed.ui.html import table
from lakebed.ui.overview import service_of
from lakebed.ui.view import View

_MOST_ROWS = 1_000
_ROWS = 50
_MOST_CHARACTERS = 200


def rows_page(view: View) -> Html:
    """Return the first rows of a read, and the plan of the read."""
    columns, where, as_of = _columns(view), view.given("where"), view.given("as_of")
    limit = view.number("limit", _ROWS, _MOST_ROWS)
    fields = (
        ("columns", "columns", "id, name; empty for all"),
        ("where", "where", "a SQL predicate"),
        ("as_of", "as of", "an instant or a timestamp"),
        ("limit", "rows", str(_ROWS)),
    )
    form = _form(view, "rows", fields)
    try:
        found = _first(view.table.read(columns, where, as_of), limit)
        plan = view.table.explain(columns, where, as_of)
    except (InvalidError, UnsupportedError) as error:
        return join((form, element("p", error, class_="problem")))
    body = table(found.column_names, _cells(found), numbers=_numeric(found.schema))
    details = element("details", element("summary", "Plan"), element("pre", plan))
    return join((form, details, body, _more(found, limit, "rows")))


def changes_page(view: View) -> Html:
    """Return the first changes of a range of commits, with changed values marked.

    Without a range, these are the changes of the latest write and of the services after it.
    """
    columns = _columns(view)
    since, until = view.given("since"), view.given("until")
    limit = view.number("limit", _ROWS, _MOST_ROWS)
    if since is None and until is None:
        since = _before_last(view)
    fields = (
        ("since", "after", since or "earliest"),
        ("until", "up to", "now"),
        ("columns", "columns", "empty for all"),
        ("limit", "rows", str(_ROWS)),
    )
    form = _form(view, "changes", fields)
    if not view.table.snapshot().timeline.commits:
        return join((form, element("p", "No commit yet.", class_="quiet")))
    try:
        reader = view.table.read(columns, since=since or "earliest", until=until, mode="cdc")
        found = _first(reader, limit)
    except (InvalidError, UnsupportedError) as error:
        return join((form, element("p", error, class_="problem")))
    names = columns or view.table.schema.names
    body = table(("", *names), (_change(row, names) for row in shown_rows(found)))
    note = element("p", f"Commits completed after {since or 'the beginning'}.", class_="quiet")
    return join((form, note, body, _more(found, limit, "changes")))


def _before_last(view: View) -> str | None:
    """Return the completion time of the commit before the latest write; None if there is none."""
    snapshot = view.table.snapshot()
    done = [c for c in snapshot.timeline.commits if c.completion]
    done.sort(key=lambda commit: str(commit.completion))
    while done:
        (row,) = active_rows(snapshot, [done.pop()])
        if service_of(row) is None:
            return str(done[-1].completion) if done else None
    return None


def _columns(view: View) -> list[str] | None:
    given = view.given("columns")
    return None if given is None else [name.strip() for name in given.split(",") if name.strip()]


def _first(reader: pa.RecordBatchReader, limit: int) -> pa.Table:
    """Return the first `limit` rows of a stream; the rest is not read."""
    batches, rows = [], 0
    with closing(reader):
        for batch in reader:
            batches.append(batch.slice(0, limit - rows))
            rows += batches[-1].num_rows
            if rows >= limit:
                break
    return pa.Table.from_batches(batches, reader.schema)


def _cells(found: pa.Table) -> Iterator[Sequence[object]]:
    for row in shown_rows(found):
        yield [_value(value) for value in row.values()]


def _value(value: object) -> object:
    if value is None:
        return element("span", "null", class_="quiet")
    shown = value.hex() if isinstance(value, bytes) else str(value)
    if len(shown) > _MOST_CHARACTERS:
        return element("span", f"{shown[:_MOST_CHARACTERS]}…", title=f"{len(shown):,} characters")
    return shown


def _numeric(schema: pa.Schema) -> list[int]:
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return [at for at, field in enumerate(schema) if any(kind(field.type) for kind in kinds)]


def _change(row: dict[str, Any], names: Sequence[str]) -> list[object]:
    before, after = row["before"] or {}, row["after"] or {}
    op = {"i": "insert", "u": "update", "d": "delete"}[row["op"]]
    cells: list[object] = [op]
    for name in names:
        old, new = before.get(name), after.get(name)
        if op == "update" and old != new:
            cells.append(element("span", _value(old), " → ", _value(new), class_="changed"))
        else:
            cells.append(_value(old if op == "delete" else new))
    return cells


def _form(view: View, page: str, fields: Sequence[tuple[str, str, str]]) -> Html:
    inputs = (
        element(
            "label",
            label,
            element("input", name=name, value=view.query.get(name) or None, placeholder=hint),
        )
        for name, label, hint in fields
    )
    return element("form", *inputs, element("button", "Show"), action=view.address(page))


def _more(found: pa.Table, limit: int, what: str) -> Html:
    if found.num_rows < limit:
        return element("p", f"{found.num_rows:,} {what}.", class_="quiet")
    return element("p", f"The first {limit:,} {what}; there may be more.", class_="quiet")
