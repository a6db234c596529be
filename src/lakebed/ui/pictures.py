"""Pictures of tables as SVG: the runs of a file group, the timeline, shares of bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10

from lakebed.table.run_facts import FileGroupFacts, RunFacts
from lakebed.terminal.markup import Html, element, join
from lakebed.terminal.text import age_text, size_text

_WIDTH = 900
_LEFT = 46
_RIGHT = 300
_ROW = 22
_BAR = 14
_KEY_CHARACTERS = 28


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of the timeline: its size, its kind as a class of the style sheet, and its tooltip."""

    size: int
    kind: str
    title: str
    href: str


def draw_runs(group: FileGroupFacts) -> Html:
    """Draw the runs of a file group: a bar from the first to the last key of each, newest on top.

    Keys are placed by their rank among the first and last keys of all runs. A run without
    recorded keys gets a hatched bar over the whole width.
    """
    keys = sorted({key for run in group.runs for key in (run.min_key, run.max_key) if key})
    rank = {key: at / max(1, len(keys) - 1) for at, key in enumerate(keys)}
    named = any(run.column_group for run in group.runs)
    height = _ROW * len(group.runs) + 4
    rows = (_draw_run(run, rank, at * _ROW + 4, named=named) for at, run in enumerate(group.runs))
    return element(
        "svg",
        *rows,
        viewBox=f"0 0 {_WIDTH} {height}",
        width=_WIDTH,
        height=height,
        class_="runs",
        role="img",
        aria_label=f"{len(group.runs)} runs of file group {group.file_id}",
    )


def _draw_run(run: RunFacts, rank: dict[str, float], top: int, *, named: bool) -> Html:
    room = _WIDTH - _LEFT - _RIGHT
    if run.min_key is None or run.max_key is None:
        begin, end, kind = 0.0, 1.0, "unknown"
    else:
        begin, end = rank.get(run.min_key, 0.0), rank.get(run.max_key, 1.0)
        kind = "base" if run.level == "L1" else _kind(run)
    # The height of a bar grows with the logarithm of the run's size: 1 KiB is thin, 1 GiB full.
    thick = max(3, min(_BAR, round(_BAR * (log10(max(run.size_bytes, 1)) - 2) / 7)))
    rows = (
        "" if run.rows is None else f"{run.rows:,} {'keys' if run.kind == 'deletes' else 'rows'}, "
    )
    label = f"{rows}{size_text(run.size_bytes)}, {age_text(run.age_ms)}"
    if named:
        label = f"{run.column_group or '(default)'}: {label}"
    title = "\n".join(
        (
            run.path,
            f"{run.kind}, {label}",
            f"keys {_short(run.min_key)} … {_short(run.max_key)}",
            f"instant {run.instant}",
        )
    )
    return element(
        "g",
        element("title", title),
        element("text", run.level, x=0, y=top + _BAR - 2),
        element("line", x1=_LEFT, x2=_LEFT + room, y1=top + _BAR, y2=top + _BAR, class_="axis"),
        element(
            "rect",
            x=round(_LEFT + begin * room, 1),
            y=top + (_BAR - thick) // 2,
            width=max(3, round((end - begin) * room, 1)),
            height=thick,
            class_=kind,
        ),
        element("text", label, x=_LEFT + room + 12, y=top + _BAR - 2),
    )


def _kind(run: RunFacts) -> str:
    return {"deletes": "deletes", "unread": "unknown", "partial rows": "partial"}.get(
        run.kind, "log"
    )


def _short(key: str | None) -> str:
    if key is None:
        return "?"
    return key if len(key) <= _KEY_CHARACTERS else f"{key[:_KEY_CHARACTERS]}…"


def draw_timeline(bars: Sequence[Bar]) -> Html:
    """Draw instants from left to right, higher the more bytes they wrote."""
    width = 12
    drawn = []
    for at, bar in enumerate(bars):
        tall = max(4, min(70, round(10 * log10(max(bar.size, 1)))))
        rect = element(
            "rect", x=at * width, y=74 - tall, width=width - 3, height=tall, class_=bar.kind
        )
        drawn.append(element("a", element("title", bar.title), rect, href=bar.href))
    return element(
        "svg",
        *drawn,
        viewBox=f"0 0 {max(1, len(bars)) * width} 76",
        width=max(1, len(bars)) * width,
        height=76,
        class_="timeline",
        role="img",
        aria_label=f"{len(bars)} instants, the newest on the right",
    )


def draw_shares(parts: Sequence[tuple[str, int]], total: int) -> Html:
    """Draw a bar that is divided into parts, given as class of the style sheet and size."""
    room, at = 240, 0.0
    drawn = []
    for kind, size in parts:
        wide = room * size / max(total, 1)
        drawn.append(
            element("rect", x=round(at, 1), y=0, width=round(wide, 1), height=10, class_=kind)
        )
        at += wide
    return element(
        "svg", join(drawn), viewBox=f"0 0 {room} 10", width=room, height=10, class_="shares",
        aria_hidden="true",
    )  # fmt: skip
