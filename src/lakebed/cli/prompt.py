"""The prompt of `lakebed sql`: statements of several lines, with history and completion."""

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from lakebed.errors import LakebedError
from lakebed.sql.names import Names
from lakebed.sql.procedures import PROCEDURES
from lakebed.sql.statements import FIRST_WORDS
from lakebed.sql.syntax.hints import KEYWORDS

_readline: Any = None
with suppress(ImportError):  # a Python that was built without it
    import readline

    _readline = readline

HISTORY: Final = "~/.lakebed_history"
_ENDS: Final = ("quit", "exit")
_KEPT_LINES: Final = 1_000


def prompted(catalog: Names) -> Iterator[str]:
    """Yield each statement that is entered, up to its semicolon, until the end of the input."""
    _prepare(catalog)
    lines: list[str] = []
    while True:
        try:
            line = input("      ... " if lines else "lakebed> ")
        except EOFError:
            break
        except KeyboardInterrupt:
            lines = []
            print()  # noqa: T201 - the prompt continues on a line of its own
            continue
        if not lines and line.strip().rstrip(";").lower() in _ENDS:
            break
        lines.append(line)
        if line.rstrip().endswith(";") or not any(lines):
            if any(lines):
                yield "\n".join(lines)
            lines = []
    _save()


def completions(catalog: Names, start: str) -> list[str]:
    """Return the words that begin with `start`: keywords, procedures and names of tables."""
    folded = start.lower()
    words = [word for word in sorted({*KEYWORDS, *FIRST_WORDS}) if word.lower().startswith(folded)]
    words += [name for name in PROCEDURES if name.startswith(folded)]
    with suppress(LakebedError):
        if "." in start:
            database = start.partition(".")[0]
            words += [f"{database}.{name}" for name in catalog.tables(database)]
        else:
            words += catalog.tables()
    return [word for word in words if word.lower().startswith(folded)]


def _prepare(catalog: Names) -> None:
    if _readline is None:
        return
    with suppress(OSError):
        _readline.read_history_file(os.path.expanduser(HISTORY))
    _readline.set_history_length(_KEPT_LINES)
    _readline.set_completer_delims(" \t\n(),;='\"")

    def complete(start: str, number: int) -> str | None:
        found = completions(catalog, start)
        return found[number] if number < len(found) else None

    _readline.set_completer(complete)
    _readline.parse_and_bind("tab: complete")


def _save() -> None:
    if _readline is not None:
        with suppress(OSError):
            _readline.write_history_file(os.path.expanduser(HISTORY))
