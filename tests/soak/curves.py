"""Draw curves as SVG, one small plot above the other, with nothing but text."""

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, PLOT, LABEL, GAP, TOP = 720, 80, 150, 18, 34
LINE, TEXT, GRID = "#2a7f62", "#6b7280", "#d1d5db"


def draw_curves(title: str, curves: Mapping[str, Sequence[float]]) -> str:
    """Draw each of `curves`, from 0 to its greatest value; the first value is at the left."""
    height = TOP + len(curves) * (PLOT + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="13" role="img">',
        f"<title>{escape(title)}</title>",
        f'<text x="0" y="18" font-weight="bold" fill="{TEXT}">{escape(title)}</text>',
    ]
    for number, (name, values) in enumerate(curves.items()):
        top = TOP + number * (PLOT + GAP)
        bottom, most = top + PLOT, max(values) or 1
        across = (WIDTH - LABEL - 10) / max(1, len(values) - 1)
        points = " ".join(
            f"{LABEL + at * across:.1f},{bottom - PLOT * value / most:.1f}"
            for at, value in enumerate(values)
        )
        parts += [
            f'<text x="0" y="{top + 14}" fill="{TEXT}">{escape(name)}</text>',
            f'<text x="0" y="{top + 32}" fill="{TEXT}">at most {most:,.0f}</text>',
            f'<path d="M{LABEL} {top}V{bottom}H{WIDTH - 10}" fill="none" stroke="{GRID}"/>',
            f'<polyline points="{points}" fill="none" stroke="{LINE}" stroke-width="1.5"/>',
        ]
    return "\n".join([*parts, "</svg>", ""])
