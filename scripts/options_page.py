"""Write docs/options.md from the options that the code knows.

python scripts/options_page.py
"""

from pathlib import Path

from lakebed.model.options import TABLE_OPTIONS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "options.md"


def text() -> str:
    """Spell the page."""
    lines = [
        "# Options",
        "",
        "`create_table(..., properties={...})` takes Hudi's own option names. One that nobody knows is refused with the nearest",
        "name; one that changes rows, keys, layout or guarantees is honoured or refused; one that changes only speed is accepted",
        "with a line of information. Written by `scripts/options_page.py`.",
        "",
        "| option | what becomes of it | values | note |",
        "|---|---|---|---|",
    ]
    for option in sorted(TABLE_OPTIONS, key=lambda option: option.name):
        values = ", ".join(f"`{value}`" for value in option.values)
        lines.append(f"| `{option.name}` | {option.fate.value} | {values} | {option.note} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text())
