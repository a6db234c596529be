"""The output of a command: text or one JSON document, and an exit code."""

import dataclasses
import json
import logging
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from enum import Enum
from typing import Final, TypeVar

import pyarrow as pa
import typer
from rich.console import Console

from lakebed.errors import ConflictError, InvalidError, LakebedError, UnavailableError
from lakebed.terminal.progress import showing, without_progress
from lakebed.terminal.values import shown_rows

FINE: Final = 0
PROBLEM: Final = 1
USAGE: Final = 2
RETRY: Final = 3
"""Exit codes. 3 means that the same command may succeed if it is run again later."""

# JSON has no numbers for these; Spark writes and reads them so.
_NO_NUMBERS: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}

Result = TypeVar("Result")


class Answer:
    """The output of one command: results on stdout, everything else on stderr."""

    def __init__(self, *, as_json: bool, debug: bool) -> None:
        self.as_json = as_json
        self.debug = debug
        self.out = Console(soft_wrap=True, highlight=False, markup=False)
        self.err = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)

    def give(
        self, result: object, draw: Callable[[Console], None] | None = None, *, nothing: str = ""
    ) -> None:
        """Print a result: as JSON, with `draw`, or as a string.

        If the result is None, `nothing` is printed instead.
        """
        if self.as_json:
            typer.echo(to_json(result))
        elif draw is not None:
            draw(self.out)
        else:
            self.out.print(nothing if result is None else str(result))

    def working(self, what: str, work: Callable[[], Result]) -> Result:
        """Run a long-running `work`, showing progress on a terminal."""
        with showing(what):
            return work()

    def fail(self, error: BaseException, code: int) -> typer.Exit:
        """Print an error as one sentence; return the exit to raise with `code`."""
        if self.debug:
            self.err.print("".join(traceback.format_exception(error)).rstrip())
        if self.as_json:
            typer.echo(to_json({"error": type(error).__name__, "message": _sentence(error)}))
        else:
            self.err.print(f"lakebed: {_sentence(error)}")
            if code == PROBLEM and not isinstance(error, LakebedError) and not self.debug:
                self.err.print("lakebed: internal error; --debug shows the trace")
        return typer.Exit(code)


@contextmanager
def answering(*, as_json: bool, debug: bool) -> Iterator[Answer]:
    """Print errors as sentences and convert them to exit codes."""
    answer = Answer(as_json=as_json, debug=debug)
    quiet = without_progress() if as_json else nullcontext()
    with _logging_to_stderr(debug=debug), quiet:
        try:
            yield answer
        except (ConflictError, UnavailableError) as error:
            raise answer.fail(error, RETRY) from error
        except InvalidError as error:
            raise answer.fail(error, USAGE) from error
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except Exception as error:
            # Operators get a sentence, not a stack trace, unless they ask for it with --debug.
            raise answer.fail(error, PROBLEM) from error


@contextmanager
def _logging_to_stderr(*, debug: bool) -> Iterator[None]:
    """Log warnings of the package to stderr; with `debug`, all messages."""
    logger = logging.getLogger("lakebed")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("lakebed: %(message)s"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if debug else logging.WARNING)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def to_json(value: object) -> str:
    """Return a result as JSON: dataclasses as objects of their fields, Arrow tables as rows."""
    return json.dumps(_plain(value), ensure_ascii=False, indent=2)


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, pa.Table):
        return _plain(shown_rows(value, maps_as_pydicts="strict"))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(held) for key, held in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(held) for held in value]
    if isinstance(value, bytes):
        return value.hex()
    if value is None or isinstance(value, (str, int, float, bool)):
        return _NO_NUMBERS.get(str(value), value) if isinstance(value, float) else value
    return str(value)


def _sentence(error: BaseException) -> str:
    return str(error) or type(error).__name__
