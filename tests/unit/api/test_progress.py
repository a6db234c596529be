"""Progress bars: shown to people of long work only, and never in the way."""

import contextlib
import io
import os
import pty
import threading
from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pytest
from rich.console import Console
from typer.testing import CliRunner

import lakebed
from lakebed.api.progress import WatchedExecutor, watched
from lakebed.cli.main import app
from lakebed.errors import CorruptError
from lakebed.model.executor import LocalExecutor
from lakebed.terminal.progress import Display, showing, shown_after, without_progress

WAIT_SECONDS = 60
# The line is cleared and the cursor is there again.
WIPED = "\x1b[2K\x1b[?25h"


def console(*, terminal: bool = True) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, force_terminal=terminal, width=80), text


def until(told: Callable[[], bool]) -> None:
    """Wait for what a display shows from a thread of its own."""
    pause = threading.Event()
    for _ in range(WAIT_SECONDS * 50):
        if told():
            return
        pause.wait(0.02)
    pytest.fail("it was never shown")


class Watching:
    """An executor whose results wait until what was before is shown."""

    def __init__(self, text: io.StringIO) -> None:
        self._text = text

    def run(self, task, items, label, report=None):
        for number, item in enumerate(items):
            wanted = f"{number}/{len(items)}"
            until(partial(self._is_shown, wanted))
            yield task(item, None)

    def _is_shown(self, text: str) -> bool:
        return text in self._text.getvalue()


def double(item: int, task: object) -> int:
    return item * 2


def test_the_label_and_how_much_is_done_are_shown_as_it_goes():
    where, text = console()
    watching = WatchedExecutor(Watching(text), Display(where, 0))
    assert list(watching.run(double, [1, 2, 3], "fold")) == [2, 4, 6]
    shown = text.getvalue()
    assert all(part in shown for part in ("fold", "0/3", "1/3", "2/3", "0:00:0"))
    assert shown.rstrip().endswith(WIPED)


class AllAtOnce:
    """An executor whose results wait until what it reported is shown."""

    def __init__(self, text: io.StringIO) -> None:
        self._text = text

    def run(self, task, items, label, report=None):
        report(len(items) - 1)
        wanted = f"{len(items) - 1}/{len(items)}"
        until(lambda: wanted in self._text.getvalue())
        self._text.truncate(0)
        yield from [task(item, None) for item in items]


def test_what_is_done_shows_before_its_result_comes_and_never_goes_back():
    where, text = console()
    watching = WatchedExecutor(AllAtOnce(text), Display(where, 0))
    results = watching.run(double, [1, 2, 3], "fold")
    assert next(results) == 2
    until(lambda: "/3" in text.getvalue())
    assert list(results) == [4, 6]
    assert "1/3" not in text.getvalue()


def test_work_that_does_not_last_is_not_shown():
    where, text = console()
    display = Display(where, 600)
    assert list(watched(LocalExecutor(2), display).run(double, [1, 2], "fold"))
    assert text.getvalue() == ""


def test_nothing_is_shown_where_nobody_looks():
    where, text = console(terminal=False)
    with Display(where, 0).show("fold", 2) as report:
        assert report is None
    assert text.getvalue() == ""


def test_counted_work_takes_the_place_of_what_it_is_a_part_of():
    where, text = console()
    display = Display(where, 0)
    with display.show("whole"):
        until(lambda: "whole" in text.getvalue())
        with display.show("part", 2):
            until(lambda: "part" in text.getvalue())
            text.truncate(0)
            until(lambda: "part" in text.getvalue())
            assert "whole" not in text.getvalue()
        until(lambda: "whole" in text.getvalue())


def test_after_a_failure_the_bar_is_gone_and_the_next_is_shown():
    where, text = console()
    display = Display(where, 0)
    for _ in range(2):
        text.truncate(0)
        with pytest.raises(CorruptError), display.show("fold", 1):
            until(lambda: "fold" in text.getvalue())
            raise CorruptError("bad")
        assert text.getvalue().rstrip().endswith(WIPED)


@contextlib.contextmanager
def terminal(monkeypatch):
    """Make standard error a terminal, in a process that shows all at once; give what it shows.

    No fixture: pytest sets standard error anew after those.
    """
    ours, theirs = pty.openpty()
    seen = io.StringIO()

    def read() -> None:
        # It ends with an error once the other end is closed.
        with contextlib.suppress(OSError):
            while data := os.read(ours, 4096):
                seen.write(data.decode("utf-8", "replace"))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    with os.fdopen(theirs, "w") as stream, shown_after(0), monkeypatch.context() as patch:
        patch.setenv("TERM", "xterm")
        patch.setattr("sys.stderr", stream)
        yield seen
    reader.join(10)
    os.close(ours)


def loaded(path: str) -> lakebed.Table:
    schema = pa.schema([("id", pa.int64()), ("v", pa.int64())])
    table = lakebed.create_table(None, path, schema, key="id", buckets=2)
    for value in range(2):
        table.upsert(pa.table({"id": range(10), "v": [value] * 10}, schema))
    return table


class Slow(LocalExecutor):
    """Waits until its label is shown."""

    def __init__(self, seen: io.StringIO) -> None:
        super().__init__(1)
        self._seen = seen

    def run(self, task, items, label, report=None):
        until(lambda: label in self._seen.getvalue())
        yield from super().run(task, items, label)


def test_a_compaction_and_a_check_show_themselves_on_a_terminal(tmp_path, monkeypatch):
    table = loaded(str(tmp_path / "t"))
    with terminal(monkeypatch) as seen:
        table._engines.main.executor = Slow(seen)
        (done,) = table.compact()
        assert table.verify().is_sound
    assert done.full == 2
    assert "verify files" in seen.getvalue()


def test_switched_off_nothing_is_shown(tmp_path, monkeypatch):
    table = loaded(str(tmp_path / "t"))
    with terminal(monkeypatch) as seen:
        lakebed.set_progress(False)
        try:
            with showing("nothing"):
                assert table.compact()
        finally:
            lakebed.set_progress(True)
        with without_progress(), showing("nothing either"):
            assert table.verify().is_sound
        with showing("the end"):
            until(lambda: "the end" in seen.getvalue())
    assert "nothing" not in seen.getvalue()
    assert "compact" not in seen.getvalue()


def test_a_command_shows_progress_unless_it_answers_in_json(tmp_path, caplog):
    path = str(tmp_path / "t")
    loaded(path)
    caplog.set_level("DEBUG", "lakebed.terminal.progress")
    runner = CliRunner()
    assert runner.invoke(app, ["verify", path, "--json"]).exit_code == 0
    assert caplog.messages == []
    assert runner.invoke(app, ["verify", path]).exit_code == 0
    assert caplog.messages == ["verifying", "verify files", "verify keys"]
