"""Write docs/options.md from the registry of options.

python scripts/options_page.py
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lakebed.model.options.data_source import EITHER, READ, WRITE
from lakebed.model.options.hudi import HUDI
from lakebed.model.options.option import Fate, Option, Subject
from lakebed.model.options.registry import OPTIONS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "options.md"

HEAD = """\
# Options

Every known option, and its effect. The names are Apache Hudi's; those that start with `lakebed.` are Lakebed's own. An unknown name is
rejected, and the error names the closest known one. An option that changes rows, keys, layout or guarantees is supported or rejected; one
that only affects speed is accepted, with a line in the log of `lakebed`. Written by `scripts/options_page.py`.

`create_table(..., properties={...})` and the first write of `format("lakebed")` take the options of a table. Some may change
later: by `t.set_properties`, or by a write with another value, which is stored in the table. A call of a service
(`t.clean(options={...})`, `lakebed clean --set KEY=VALUE`) uses them for that call only. Everything else is fixed when the table is created,
and a write with another value is rejected.
"""
SETTLED = "Fixed when a table is created."
LATER = "May change later."
OTHERS = {
    Fate.IGNORED: "A line in the log of `lakebed` says so.",
    Fate.REFUSED: "They would change rows or guarantees, or need Java.",
}
NOTES = {WRITE: "Beside these a write takes all options of a table."}


def text() -> str:
    """Return the page."""
    subjects: dict[Subject, list[Option[Any]]] = {}
    for option in OPTIONS.values():
        is_other = option.fate in (Fate.IGNORED, Fate.REFUSED)
        subjects.setdefault(HUDI if is_other else option.subject, []).append(option)
    of_a_table = [subject for subject in subjects if subject not in (EITHER, READ, WRITE, HUDI)]
    lines = [HEAD.rstrip("\n")]
    for subject in (*of_a_table, EITHER, READ, WRITE):
        note = NOTES.get(subject, "")
        if subject in of_a_table:
            note = LATER if subjects[subject][0].is_changeable else SETTLED
        lines += ["", f"## {subject.title}", *(["", note] if note else [])]
        lines += _rows(subjects[subject])
    lines += ["", f"## {HUDI.title}"]
    for fate, note in OTHERS.items():
        lines += ["", f"### {fate.value[0].upper()}{fate.value[1:]}", "", note, ""]
        lines += ["| why | options |", "|---|---|"]
        reasons: dict[str, list[str]] = {}
        for option in subjects[HUDI]:
            if option.fate is fate:
                reasons.setdefault(option.effect, []).append(f"`{option.name}`")
        lines += [f"| {why} | {', '.join(sorted(names))} |" for why, names in reasons.items()]
    return "\n".join(lines) + "\n"


def _rows(options: Iterable[Option[Any]]) -> list[str]:
    lines = ["", "| option | values | default | what it does |", "|---|---|---|---|"]
    for option in options:
        values = ", ".join(f"`{value}`" for value in option.kind.words)
        only = option.fate is Fate.FIXED
        lines.append(
            f"| `{option.name}` | {'only ' * only}{values or _wanted(option)} | "
            f"{'' if only else _default(option)} | {_effect(option)} |"
        )
    return lines


def _wanted(option: Option[Any]) -> str:
    return re.sub(r"^a whole (number from \d+) to 9+$", r"a \1 on", option.kind.wanted)


def _default(option: Option[Any]) -> str:
    default = option.kind.default
    if default in ("", ()) or (type(default) is int and option.kind.parse(str(default)) is None):
        return ""
    if isinstance(default, bool):
        default = str(default).lower()
    if option.kind.wanted.startswith("a number and a unit"):
        default = f"{default // 86_400_000} days"
    if isinstance(default, int) and default >= 1 << 20:
        mib = default >> 20
        default = f"{default} ({f'{mib >> 10} GiB' if mib % 1024 == 0 else f'{mib} MiB'})"
    return f"`{default}`" if option.kind.words else str(default)


def _effect(option: Option[Any]) -> str:
    parts = [option.effect]
    if option.keyword:
        parts.append(f"the keyword `{option.keyword}=`")
    others = [
        ("also named", option.aliases),
        ("in a write also", option.write_names),
    ]
    parts += [f"{what} {', '.join(f'`{n}`' for n in names)}" for what, names in others if names]
    return "; ".join(part for part in parts if part)


if __name__ == "__main__":
    PAGE.write_text(text())
