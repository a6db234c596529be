"""The layers of a table as values, and as a drawing that fits the width of a terminal."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from lakebed.errors import InvalidError, LakebedError
from lakebed.format.files.footer import FOOTER_MAX_KEY, FOOTER_MIN_KEY
from lakebed.model.instant import parse_instant
from lakebed.table.files.damage import check_whole
from lakebed.table.files.file_group import BaseFile, FileSlice
from lakebed.table.read.log_reader import slice_sources
from lakebed.table.read.parquet_source import ParquetFooter, open_parquet
from lakebed.table.read.run_source import RunSource
from lakebed.table.snapshot import Snapshot
from lakebed.table.view import TableView
from lakebed.terminal.text import column_group_text, draw_bar, size_text

_LEAST_WIDTH = 60


@dataclass(frozen=True, slots=True)
class DrawnRun:
    """One run: level `L1` is a base file, level `L0` a log or a block of a log.

    `min_key` and `max_key` are None if the footer does not record them. `column_group` is empty for
    the default column group.
    """

    level: str
    kind: str
    path: str
    instant: str
    size_bytes: int
    rows: int | None
    min_key: str | None
    max_key: str | None
    age_ms: int | None
    column_group: str = ""


@dataclass(frozen=True, slots=True)
class DrawnGroup:
    """A file group with its runs, newest first; `problem` is the reason why they could not be read.

    In a table with column groups, each group has its own runs, the default group first.
    """

    partition: str
    file_id: str
    size_bytes: int
    runs: tuple[DrawnRun, ...]
    problem: str = ""


def read_groups(
    snapshot: Snapshot, slices: Sequence[FileSlice], now_ms: int
) -> tuple[DrawnGroup, ...]:
    """Return the runs of `slices`, described from headers and footers."""
    return tuple(_read_group(snapshot, slice_, now_ms) for slice_ in slices)


def draw_groups(groups: Iterable[DrawnGroup], width: int) -> list[str]:
    """Return a drawing of file groups, as lines of at most `width` characters (at least 60)."""
    groups = list(groups)
    width = max(width, _LEAST_WIDTH)
    bar_width = max(6, min(24, width // 5))
    widest = max((run.size_bytes for group in groups for run in group.runs), default=1)
    named = any(run.column_group for group in groups for run in group.runs)
    indent = " " * (6 if named else 4)
    lines: list[str] = []
    partition = None
    for group in groups:
        if group.partition != partition:
            partition = group.partition
            lines.append(cut(partition or "(not partitioned)", width))
        count = len(group.runs)
        head = f"  {group.file_id}  {size_text(group.size_bytes)} in {count} run{'s'[: count != 1]}"
        lines.append(cut(head, width))
        if group.problem:
            lines.append(cut(f"    ! {group.problem}", width))
        above = None
        for run in group.runs:
            if named and run.column_group != above:
                above = run.column_group
                lines.append(cut(f"    {column_group_text(above)}", width))
            bar = draw_bar(run.size_bytes, widest, bar_width)
            start = f"{indent}{run.level} {bar} {size_text(run.size_bytes):>9}  "
            end = f"  {age_text(run.age_ms):>8}"
            keys = set_cell_size(_keys(run), width - len(start) - len(end))
            lines.append(f"{start}{keys}{end}")
    return lines


def align(
    names: Sequence[str], rows: Sequence[Sequence[str]], *, right: Set[str] = frozenset()
) -> list[str]:
    """Format rows as aligned columns below headers; columns in `right` are right-aligned.

    >>> align(("a", "n"), [("x", "10"), ("yy", "9")], right={"n"})
    ['a    n', 'x   10', 'yy   9']
    """
    texts = [tuple(names), *map(tuple, rows)]
    widths = [max(len(row[at]) for row in texts) for at in range(len(names))]
    return [
        "  ".join(
            text.rjust(width) if name in right else text.ljust(width)
            for name, text, width in zip(names, row, widths, strict=True)
        ).rstrip()
        for row in texts
    ]


def age_text(age_ms: int | None) -> str:
    """Format an age in its largest unit; an unknown age is a question mark.

    >>> age_text(90_000), age_text(7_200_000), age_text(5 * 86_400_000), age_text(None)
    ('1 min', '2 h', '5 d', '?')
    """
    if age_ms is None:
        return "?"
    seconds = max(0, age_ms) // 1000
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def age_of(instant: str, zone: str, now_ms: int) -> int | None:
    """Return the age of an instant in milliseconds; None if its digits are not a valid time."""
    try:
        return now_ms - parse_instant(instant, zone)
    except InvalidError:
        return None


def _read_group(snapshot: Snapshot, slice_: FileSlice, now_ms: int) -> DrawnGroup:
    view, problem, runs = snapshot.view(), "", []
    parts = slice_.by_group
    try:
        check_whole([slice_])
        for name, part in parts.items():
            runs += _read_runs(snapshot, view.of_group(name), part, now_ms)
    except LakebedError as error:
        problem = str(error)
        runs = [
            DrawnRun(
                "L1" if isinstance(file, BaseFile) else "L0",
                "unread",
                file.path,
                file.name.instant,
                file.size_bytes,
                None,
                None,
                None,
                age_of(file.name.instant, snapshot.config.zone, now_ms),
                name,
            )
            for name, part in parts.items()
            for file in reversed(part.files)
        ]
    group = slice_.group
    total = sum(file.size_bytes for file in slice_.files)
    return DrawnGroup(group.partition, group.file_id, total, tuple(runs), problem)


def _read_runs(snapshot: Snapshot, view: TableView, part: FileSlice, now_ms: int) -> list[DrawnRun]:
    """Return the runs of one column group, newest first."""
    sizes = {file.path: file.size_bytes for file in part.files}
    runs = [
        _run(
            source,
            _footer(snapshot, source),
            sizes[source.path],
            age_of(source.instant, snapshot.config.zone, now_ms),
            part.group.column_group,
        )
        for source in slice_sources(view, part)
    ]
    return runs[::-1]


def _run(
    source: RunSource,
    footer: ParquetFooter | None,
    file_bytes: int,
    age_ms: int | None,
    column_group: str,
) -> DrawnRun:
    values = footer.key_values if footer is not None else {}
    return DrawnRun(
        "L1" if source.is_base else "L0",
        "partial rows" if source.partial else str(source.kind),
        source.path,
        source.instant,
        file_bytes if source.length is None else source.length,
        None if footer is None else int(footer.metadata.num_rows),
        values.get(FOOTER_MIN_KEY),
        values.get(FOOTER_MAX_KEY),
        age_ms,
        column_group,
    )


def _footer(snapshot: Snapshot, source: RunSource) -> ParquetFooter | None:
    if source.footer is not None or not source.is_parquet:
        return source.footer
    with open_parquet(
        snapshot.storage, source.path, source.name, offset=source.offset, length=source.length
    ) as file:
        return file.footer


def _keys(run: DrawnRun) -> str:
    what = "" if run.rows is None else f"{run.rows:,} "
    what += {"data": "rows", "deletes": "deletes"}.get(run.kind, run.kind)
    if run.min_key is None or run.max_key is None:
        return what
    return f"{what}  {_short(run.min_key)} … {_short(run.max_key)}"


def _short(key: str) -> str:
    return cut(key, 24)


def cut(text: str, width: int) -> str:
    """Shorten `text` to `width` terminal cells, and replace control characters.

    Some characters take two cells.
    """
    shown = "".join(c if c.isprintable() else "·" for c in text)
    if cell_len(shown) <= width:
        return shown
    return f"{set_cell_size(shown, max(0, width - 1)).rstrip()}…"
