"""The file groups of a table as pictures, and its partitions with their sizes."""

from collections import defaultdict
from collections.abc import Sequence

from lakebed.errors import NotFoundError
from lakebed.table.files.file_group import FileSlice
from lakebed.table.run_facts import FileGroupFacts, read_groups
from lakebed.terminal.markup import Html, element, join
from lakebed.terminal.text import plural, size_text
from lakebed.ui.html import legend, table
from lakebed.ui.overview import base_bytes, log_bytes
from lakebed.ui.pictures import draw_runs, draw_shares
from lakebed.ui.view import View

_GROUPS_PER_PAGE = 12
_PARTITIONS_PER_PAGE = 100
_COLOURS = (
    ("base", "base file (L1)"),
    ("log", "log of rows (L0)"),
    ("partial", "log of some columns"),
    ("deletes", "log of deletes"),
    ("unknown", "keys not recorded"),
)


def layers_page(view: View) -> Html:
    """Return the page of the layers; `layers_part` then fills in one partition or all."""
    partition = view.query.get("partition")
    where = "All partitions" if partition is None else _shown(partition)
    back = view.link("choose a partition", "partitions")
    shown = element(
        "div",
        element("p", "Loading …", class_="quiet"),
        element("noscript", view.link("Show the layers", "parts", "layers", **view.query)),
        data_load=view.address("parts", "layers", **view.query),
    )
    return join(
        (
            element("p", where, " · ", back),
            legend(_COLOURS, "Newest run on top, first to last key from left to right. "),
            shown,
        )
    )


def layers_part(view: View) -> Html:
    """Return a page of file groups, each with a picture of its runs."""
    snapshot = view.table.snapshot()
    partition = view.query.get("partition")
    if partition is not None:
        snapshot = snapshot.within([partition])
    slices = [s for s in snapshot.slices if partition in (None, s.group.partition)]
    if not slices:
        if partition is not None:
            raise NotFoundError(f"partition {partition!r} of table {view.name!r} has no files")
        return element("p", "No files yet.", class_="quiet")
    first = (view.page() - 1) * _GROUPS_PER_PAGE
    groups = read_groups(snapshot, slices[first : first + _GROUPS_PER_PAGE], view.now_ms)
    pages = view.pages("layers", len(slices), _GROUPS_PER_PAGE)
    count = element("p", plural(len(slices), "file group"), class_="quiet")
    return join((count, pages, *map(_draw_group, groups), pages))


def _draw_group(group: FileGroupFacts) -> Html:
    title = element(
        "p",
        f"{_shown(group.partition)} · ",
        element("span", group.file_id, class_="id"),
        f" · {size_text(group.size_bytes)} in {plural(len(group.runs), 'run')}",
    )
    problem = element("p", group.problem, class_="problem") if group.problem else ""
    return element("div", title, problem, draw_runs(group), class_="group")


def _shown(partition: str) -> str:
    return partition or "(not partitioned)"


def partitions_page(view: View) -> Html:
    """Return the page of the partitions; `partitions_part` then fills in the list."""
    source = view.address("parts", "partitions", **view.query)
    return element("div", element("p", "Loading …", class_="quiet"), data_load=source)


def partitions_part(view: View) -> Html:
    """Return a page of partitions, those with the most bytes in logs first."""
    held: dict[str, list[FileSlice]] = defaultdict(list)
    for slice_ in view.table.snapshot().slices:
        held[slice_.group.partition] += slice_.by_group.values()
    sizes = {name: (base_bytes(slices), log_bytes(slices)) for name, slices in held.items()}
    names = sorted(held, key=lambda name: (-sizes[name][1], name))
    widest = max((sum(pair) for pair in sizes.values()), default=1)
    first = (view.page() - 1) * _PARTITIONS_PER_PAGE
    rows = [
        _partition_row(view, name, held[name], sizes[name], widest)
        for name in names[first : first + _PARTITIONS_PER_PAGE]
    ]
    pages = view.pages("partitions", len(names), _PARTITIONS_PER_PAGE)
    columns = ("partition", "file groups", "base files", "logs", "bytes in logs", "size", "")
    return join((pages, table(columns, rows, numbers=(1, 2, 3, 4, 5)), pages))


def _partition_row(
    view: View, name: str, slices: Sequence[FileSlice], sizes: tuple[int, int], widest: int
) -> tuple[object, ...]:
    base, logs = sizes
    return (
        view.link(_shown(name), "layers", partition=name),
        f"{len({slice_.group.file_id for slice_ in slices}):,}",
        f"{sum(slice_.base_file is not None for slice_ in slices):,}",
        f"{sum(len(slice_.log_files) for slice_ in slices):,}",
        size_text(logs),
        size_text(base + logs),
        draw_shares([("base", base), ("log", logs)], widest),
    )
