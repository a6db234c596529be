"""The layers of a table, drawn to fit the width of a terminal."""

from collections.abc import Iterable, Sequence, Set

from rich.cells import cell_len, set_cell_size

from lakebed.table.run_facts import FileGroupFacts, RunFacts
from lakebed.terminal.text import age_text, column_group_text, draw_bar, size_text

_LEAST_WIDTH = 60


def draw_groups(groups: Iterable[FileGroupFacts], width: int) -> list[str]:
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
    widths = [max(cell_len(row[at]) for row in texts) for at in range(len(names))]
    return [
        "  ".join(
            f"{' ' * (width - cell_len(text))}{text}"
            if name in right
            else f"{text}{' ' * (width - cell_len(text))}"
            for name, text, width in zip(names, row, widths, strict=True)
        ).rstrip()
        for row in texts
    ]


def _keys(run: RunFacts) -> str:
    what = "" if run.rows is None else f"{run.rows:,} "
    what += {"data": "row" if run.rows == 1 else "rows"}.get(run.kind, run.kind)
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
