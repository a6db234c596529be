"""Draw bar charts as SVG, with nothing but text: light and dark pages both show them."""

import pathlib
from html import escape

WIDTH, LABEL, BAR, GAP, TOP = 720, 230, 20, 10, 34
OURS, THEIRS, TEXT = "#2a7f62", "#8a8f98", "#6b7280"


def bar_chart(title: str, bars: list[tuple[str, float]], unit: str, ours: int = 1) -> str:
    """Draw `bars` (name, value), longest to the right edge; the first `ours` of them stand out."""
    height = TOP + len(bars) * (BAR + GAP) + GAP
    room = WIDTH - LABEL - 110
    longest = max(value for _, value in bars) or 1
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="13" role="img">',
        f"<title>{escape(title)}</title>",
        f'<text x="0" y="18" font-weight="bold" fill="{TEXT}">{escape(title)}</text>',
    ]
    for number, (name, value) in enumerate(bars):
        top = TOP + number * (BAR + GAP)
        length = max(2.0, room * value / longest)
        middle = top + BAR - 5
        colour = OURS if number < ours else THEIRS
        parts += [
            f'<text x="{LABEL - 8}" y="{middle}" text-anchor="end" fill="{TEXT}">{escape(name)}</text>',
            f'<rect x="{LABEL}" y="{top}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>',
            f'<text x="{LABEL + length + 6:.1f}" y="{middle}" fill="{TEXT}">'
            f"{spelled(value)} {escape(unit)}</text>",
        ]
    return "\n".join([*parts, "</svg>", ""])


def spelled(value: float) -> str:
    """Spell a value with about three figures."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def save_chart(
    folder: pathlib.Path,
    name: str,
    title: str,
    bars: list[tuple[str, float]],
    unit: str,
    ours: int = 1,
) -> str:
    """Write `name`.svg and give the line of Markdown that shows it on a page beside the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.svg").write_text(bar_chart(title, bars, unit, ours))
    return f"![{title}]({folder.name}/{name}.svg)"
