"""Serve tables: compact, clean and archive them in a loop until stopped."""

import json
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from lakebed.api.table import Table
from lakebed.cli.answer import FINE, PROBLEM, Answer, answering
from lakebed.cli.arguments import Debug, Json, Settings, Spark, opened
from lakebed.errors import ConflictError, InvalidError
from lakebed.model.clock import Clock, SystemClock

_MAX_BACKOFF_MS: Final = 3_600_000

Work = Callable[[Table], Sequence[object]]
"""Does one turn's work on a table; returns a result for each service that ran."""


@dataclass(frozen=True, slots=True)
class Happened:
    """One line of output: an action on a table, or the reason why it failed."""

    at_ms: int
    table: str
    action: str
    message: str
    failed: bool = False

    def __str__(self) -> str:
        at = datetime.fromtimestamp(self.at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return f"{at} {self.table} {self.action}{' failed' if self.failed else ''}: {self.message}"


@dataclass(slots=True)
class _Served:
    """One served table: its consecutive failures, and the time of its next turn."""

    path: str
    failures: int = 0
    next_ms: int = 0


@dataclass(slots=True)
class Server:
    """Runs `steps` on each table in turn.

    If a table fails, the error is reported and the table is retried later; the others go on.
    """

    paths: Sequence[str]
    open_table: Callable[[str], Table]
    steps: Sequence[tuple[str, Work]]
    clock: Clock
    tell: Callable[[Happened], None]
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self, every_seconds: float, *, once: bool = False) -> int:
        """Run until `stop` is set, or one round with `once`; return the number of failed turns."""
        failed = 0
        tables = [_Served(path) for path in self.paths]
        while not self.stop.is_set():
            for table in tables:
                if table.next_ms <= self.clock.now_ms() and not self.stop.is_set():
                    failed += not self._turn(table, int(every_seconds * 1000))
            if once:
                break
            wait_ms = min(table.next_ms for table in tables) - self.clock.now_ms()
            self.stop.wait(max(0.0, wait_ms / 1000))
        return failed

    def _turn(self, table: _Served, every_ms: int) -> bool:
        action = "open"
        try:
            opened = self.open_table(table.path)
            for name, work in self.steps:
                action = name
                if self.stop.is_set():
                    break
                for done in work(opened):
                    self._say(table, type(done).__name__.lower(), str(done))
        except Exception as error:  # noqa: BLE001 - one table's error must not stop the others
            table.failures += 1
            wait_ms = min(every_ms * 2**table.failures, max(_MAX_BACKOFF_MS, every_ms))
            again = f"retrying in {wait_ms // 1000} s"
            kind = "" if isinstance(error, ConflictError) else f"{type(error).__name__}: "
            self._say(table, action, f"{kind}{error}; {again}", failed=True)
            table.next_ms = self.clock.now_ms() + wait_ms
            return False
        table.failures = 0
        table.next_ms = self.clock.now_ms() + every_ms
        return True

    def _say(self, table: _Served, action: str, message: str, *, failed: bool = False) -> None:
        self.tell(Happened(self.clock.now_ms(), table.path, action, message, failed))


def serve(
    paths: Annotated[list[str], typer.Argument(help="The tables, each a folder or a URL.")],
    every: Annotated[float, typer.Option(help="Seconds between two checks of a table.")] = 60.0,
    once: Annotated[bool, typer.Option("--once", help="Check each table once, then exit.")] = False,
    cluster: Annotated[bool, typer.Option("--cluster", help="Cluster too.")] = False,
    options: Settings = None,
    spark: Spark = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Compact, clean and archive tables by their options; with --json, one line of JSON each."""
    with answering(as_json=as_json, debug=debug) as answer:
        if every <= 0:
            raise InvalidError(f"--every {every:g}: expected a number of seconds above 0")
        server = Server(
            paths,
            lambda path: opened(path, options, spark=spark),
            _steps(cluster=cluster),
            SystemClock(),
            lambda happened: _tell(answer, happened),
        )
        with _stopping(server.stop):
            failed = server.run(every, once=once)
        raise typer.Exit(PROBLEM if once and failed else FINE)


def _steps(*, cluster: bool) -> list[tuple[str, Work]]:
    steps: list[tuple[str, Work]] = [("services", lambda table: table.run_services())]
    if cluster:
        steps.append(("cluster", _clustered))
    return steps


def _clustered(table: Table) -> Sequence[object]:
    if table.config.index is not None and table.config.index.hashes_keys:
        return ()  # buckets determine its file groups
    done = table.cluster()
    return () if done is None else (done,)


def _tell(answer: Answer, happened: Happened) -> None:
    if answer.as_json:
        typer.echo(json.dumps(asdict(happened), ensure_ascii=False))
    else:
        answer.out.print(str(happened))


@contextmanager
def _stopping(stop: threading.Event) -> Iterator[None]:
    """Let SIGINT and SIGTERM stop the server after the current step, and at once if repeated."""

    def ask(number: int, frame: object) -> None:
        del frame
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        typer.echo(f"lakebed: {signal.Signals(number).name}: ending after this step", err=True)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
