"""Draw the figures of docs/concepts.md, docs/tutorial.md and docs/debezium.md."""

from pathlib import Path
from xml.sax.saxutils import escape

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "figures"
INK, LINE, BASE, LOG, PALE = "#263238", "#607d8b", "#9fa8da", "#ffb74d", "#eceff1"


def text(x: float, y: float, words: str, size: int = 14, anchor: str = "middle") -> str:
    """Return a line of text around or from a point."""
    return f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" fill="{INK}">{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, words: str = "", fill: str = PALE) -> str:
    """Return a box with its words in the middle."""
    drawn = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="{fill}" stroke="{LINE}"/>'
    return drawn + (text(x + width / 2, y + height / 2 + 5, words) if words else "")


def arrow(x1: float, y1: float, x2: float, y2: float, words: str = "") -> str:
    """Return an arrow with its words above the middle."""
    drawn = f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{LINE}" stroke-width="1.5" marker-end="url(#head)"/>'
    return drawn + (text((x1 + x2) / 2, (y1 + y2) / 2 - 8, words, 12) if words else "")


def picture(width: int, height: int, title: str, *parts: str) -> str:
    """Return an SVG document on a white ground."""
    head = (
        '<defs><marker id="head" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto">'
        f'<path d="M0,0 L9,4 L0,8 z" fill="{LINE}"/></marker></defs>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" role="img">\n'
        f"<title>{escape(title)}</title>\n{head}\n"
        f'<rect width="{width}" height="{height}" fill="white"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def versions() -> str:
    """Return how a key's row changes as its versions arrive."""
    steps = [
        ("ts 10, 5.00", "5.00", ""),
        ("ts 30, 9.00", "9.00", "30 > 10"),
        ("ts 20, 8.00", "9.00", "late: 20 < 30"),
        ("delete by key", "no row", "always wins"),
    ]
    parts = [
        text(10, 40, "written, in this order", 13, "start"),
        text(10, 130, "what a read returns then", 13, "start"),
    ]
    for n, (written, read, why) in enumerate(steps):
        x = 190 + n * 145
        fill = "#ef9a9a" if n == 3 else LOG
        parts += [box(x, 18, 120, 34, written, fill), arrow(x + 60, 54, x + 60, 104)]
        parts += [text(x + 66, 84, why, 12, "start"), box(x, 108, 120, 34, read)]
    return picture(770, 160, "Versions of the row id=7, and the one that wins", *parts)


def commit() -> str:
    """Return a commit over time, and what reads see that begin before and after it."""
    parts = [
        text(10, 45, "writer", 13, "start"),
        box(90, 25, 110, 32, "requested"),
        box(220, 25, 110, 32, "in flight"),
        box(350, 25, 190, 32, "writes data files", LOG),
        box(560, 25, 130, 32, "completed", BASE),
        arrow(200, 41, 218, 41),
        arrow(330, 41, 348, 41),
        arrow(540, 41, 558, 41),
        f'<line x1="560" y1="8" x2="560" y2="150" stroke="{INK}" stroke-dasharray="4 4"/>',
        text(565, 80, "by one conditional put", 12, "start"),
        text(10, 125, "readers", 13, "start"),
        box(90, 102, 460, 34, "see nothing of it, not even its files"),
        box(570, 102, 190, 34, "see all of it", BASE),
    ]
    return picture(770, 155, "A commit becomes visible in one step", *parts)


def merge() -> str:
    """Return the runs of a file group, merged in key order."""
    parts = [text(100, 22, "keys a", 12, "start"), arrow(150, 18, 440, 18), text(455, 22, "z", 12)]
    runs = [
        ("L0 newest log", [(150, 110), (320, 80)], LOG),
        ("L0 older log", [(110, 200)], LOG),
        ("L1 base file", [(100, 360)], BASE),
    ]
    for n, (name, bars, fill) in enumerate(runs):
        y = 35 + n * 42
        parts.append(text(5, y + 18, name, 12, "start"))
        parts += [box(x, y, width, 26, "", fill) for x, width in bars]
        parts.append(arrow(465, y + 13, 538, 90))
    parts += [box(540, 68, 100, 44, "merge"), arrow(642, 90, 668, 90)]
    parts += [text(718, 84, "one row", 13), text(718, 104, "per key", 13)]
    return picture(770, 165, "A file group: sorted runs, merged as streams", *parts)


def pipeline() -> str:
    """Return the pipeline of the tutorial."""
    parts = [
        box(5, 40, 100, 40, "database"),
        arrow(107, 60, 213, 60, "Debezium"),
        box(215, 40, 130, 40, "landing folder"),
        arrow(347, 60, 453, 60, "records"),
        box(455, 40, 100, 40, "orders", BASE),
        arrow(557, 60, 653, 60, "changes"),
        box(655, 40, 110, 40, "totals by city", BASE),
        arrow(505, 82, 505, 118),
        text(505, 136, "lookups, SQL, the past", 13),
    ]
    return picture(770, 150, "From a database's log to a table of totals", *parts)


def debezium() -> str:
    """Return the way of a change record into a table."""
    parts = [
        box(5, 15, 90, 40, "topic"),
        arrow(97, 35, 173, 35, "JSON"),
        box(175, 15, 280, 40, "row, position, is it a delete?"),
        arrow(457, 35, 533, 35, "upsert"),
        box(535, 15, 230, 40, "table, ordered by position", BASE),
    ]
    return picture(770, 70, "Change records become rows", *parts)


FIGURES = {
    "versions.svg": versions,
    "commit.svg": commit,
    "merge.svg": merge,
    "pipeline.svg": pipeline,
    "debezium.svg": debezium,
}

if __name__ == "__main__":
    for name, draw in FIGURES.items():
        (FOLDER / name).write_text(draw(), "utf-8")
