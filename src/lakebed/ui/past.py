"""The instants of a table, and the changes of its schema."""

from collections.abc import Iterator, Mapping

import pyarrow as pa

from lakebed.format.avro.avro_schema import avro_to_arrow
from lakebed.table.config.ddl import type_text
from lakebed.table.history import active_rows
from lakebed.terminal.markup import Html, element, join
from lakebed.terminal.text import size_text
from lakebed.ui.html import legend, link, table
from lakebed.ui.overview import COLOURS, kind_of
from lakebed.ui.view import View

_PER_PAGE = 100
_COLUMNS = (
    "",
    "instant",
    "",
    "action",
    "state",
    "operation",
    "files",
    "rows",
    "deleted",
    "size",
    "",
)


def timeline_page(view: View) -> Html:
    """Return a page of instants, newest first; archived ones on request."""
    snapshot = view.table.snapshot()
    if view.given("archived"):
        rows = [row for row in view.table.history().to_pylist() if row["archived"]]
        total, other = len(rows), view.link("active instants", "timeline")
        first = (view.page() - 1) * _PER_PAGE
        rows = rows[first : first + _PER_PAGE]
    else:
        instants = snapshot.timeline.instants[::-1]
        total, other = len(instants), view.link("archived instants", "timeline", archived=1)
        first = (view.page() - 1) * _PER_PAGE
        rows = active_rows(snapshot, instants[first : first + _PER_PAGE])
    pages = view.pages("timeline", total, _PER_PAGE)
    body = table(_COLUMNS, (_row(view, row) for row in rows), numbers=(6, 7, 8, 9))
    return join(
        (element("p", f"{total:,} instants · ", other), legend(COLOURS), pages, body, pages)
    )


def _row(view: View, row: Mapping[str, object]) -> tuple[object, ...]:
    written = row.get("bytes_written")
    completion = row.get("completion_time")
    commit = completion is not None and row.get("files") is not None and not row["archived"]
    return (
        element("span", class_=f"key {kind_of(dict(row))}"),
        element("span", row["instant"], class_="id"),
        view.age(str(row["instant"])),
        row["action"],
        row["state"],
        str(row.get("operation") or "").lower(),
        _number(row.get("files")),
        _number(row.get("rows_written")),
        _number(row.get("rows_deleted")),
        "" if written is None else size_text(int(str(written))),
        view.link("rows then", "rows", as_of=row["instant"]) if commit else "",
    )


def _number(value: object) -> str:
    return "" if value is None else f"{value:,}"


def schema_page(view: View) -> Html:
    """Return the columns of the table, and how they changed."""
    snapshot = view.table.snapshot()
    config, groups = snapshot.config, snapshot.column_groups
    partition = {name.partition(":")[0] for name in config.partition_fields}

    def roles(name: str) -> str:
        held = (
            ("key", name in config.record_key_fields),
            ("ordering", name in config.ordering_fields),
            ("partition", name in partition),
        )
        return ", ".join(role for role, is_so in held if is_so)

    rows = [
        (
            field.name,
            type_text(field.type),
            "" if field.nullable else "not null",
            roles(field.name),
            (groups.owner(field.name) or "(default)") if groups else "",
        )
        for field in view.table.schema
    ]
    columns = table(("column", "type", "", "role", "column group" if groups else ""), rows)
    changes = list(_changes(view))
    told = (
        table(("instant", "", "change"), changes)
        if changes
        else element("p", "The schema has not changed on the active timeline.", class_="quiet")
    )
    return join((columns, element("h2", "Changes"), told))


def _changes(view: View) -> Iterator[tuple[object, ...]]:
    snapshot = view.table.snapshot()
    before: pa.Schema | None = None
    last = snapshot.config.create_schema
    if last is not None:
        before = avro_to_arrow(last)
    for commit in snapshot.timeline.commits:
        metadata = snapshot.commits.files(commit, frozenset())
        found = (metadata.extra_metadata or {}).get("schema")
        if not found or found == last:
            continue
        last, after = found, avro_to_arrow(found)
        if before is not None and (words := "; ".join(_differences(before, after))):
            yield (
                element("span", commit.requested, class_="id"),
                view.age(commit.requested),
                words,
            )
        before = after


def _differences(before: pa.Schema, after: pa.Schema) -> Iterator[str]:
    for field in after:
        at = before.get_field_index(field.name)
        if at < 0:
            yield f"added {field.name} {type_text(field.type)}"
        elif before.field(at).type != field.type:
            yield f"{field.name}: {type_text(before.field(at).type)} became {type_text(field.type)}"
    for name in before.names:
        if after.get_field_index(name) < 0:
            yield f"dropped {name}"


def home(names: list[str], url: str) -> Html:
    """Return the list of tables of a warehouse."""
    rows = ((link(name, "tables", name),) for name in names)
    return join((element("p", url, class_="quiet"), table(("table",), rows)))
