"""Write docs/options.md from the options that the code knows.

python scripts/options_page.py
"""

from collections.abc import Iterable
from pathlib import Path

from lakebed.model.datasource_options import READ_OPTIONS, STORED_NAMES, WRITE_OPTIONS
from lakebed.model.hudi_options import HUDI_OPTIONS
from lakebed.model.options import TABLE_OPTIONS, Option

PAGE = Path(__file__).resolve().parents[1] / "docs" / "options.md"

HEAD = """\
# Options

Every option of Apache Hudi that we know, and what becomes of it. An option that nobody knows is refused with the nearest name;
one that changes rows, keys, layout or guarantees is honoured or refused; one that changes only speed is accepted with a line of
information in the log of `lakebed`. Written by `scripts/options_page.py`.

Object stores take `lakebed.storage.<name>` in reads and writes of `format("lakebed")` (`lakebed.storage.endpoint`,
`lakebed.storage.region`, `lakebed.storage.access_key_id`, ...); without them the environment and the machine's role count.
"""
TABLE = """
## Of a table

`create_table(..., properties={...})` and the first write of `format("lakebed")` take these. What steers services, locks,
concurrency and file sizes may change later: by `t.set_properties`, or by a write that gives another value, which the table keeps.
All else is settled when the table is made; a write that says otherwise is refused.
"""
READ = """
## Of a read: `spark.read.format("lakebed")`
"""
WRITE = """
## Of a write: `df.write.format("lakebed")`

Beside these a write takes all options of a table. Where an option is another name of one of those, the note names it.
"""
OTHERS = """
## Everything else of Hudi
"""


def rows(options: Iterable[Option]) -> list[str]:
    """Spell options as rows of a table."""
    lines = ["", "| option | what becomes of it | values | note |", "|---|---|---|---|"]
    for option in sorted(options, key=lambda option: option.name):
        values = ", ".join(f"`{value}`" for value in option.values)
        stored = STORED_NAMES.get(option.name, "")
        alias = f"`{stored}`" if stored and stored not in option.note else ""
        note = "; ".join(part for part in (alias, option.note) if part)
        lines.append(f"| `{option.name}` | {option.fate.value} | {values} | {note} |")
    return lines


def text() -> str:
    """Spell the page."""
    named = {
        option.name for part in (TABLE_OPTIONS, READ_OPTIONS, WRITE_OPTIONS) for option in part
    }
    others = [option for option in HUDI_OPTIONS if option.name not in named]
    parts = (
        (TABLE, TABLE_OPTIONS),
        (READ, READ_OPTIONS),
        (WRITE, WRITE_OPTIONS),
        (OTHERS, others),
    )
    lines = [HEAD.rstrip("\n")]
    for head, options in parts:
        lines += [head.rstrip("\n"), *rows(options)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text())
