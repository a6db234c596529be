"""The code blocks of the documentation: found, run, and compared with the output that a page shows.

A page runs from top to bottom in one folder and one namespace. `python` is executed, `console` holds commands
after `$ ` with their output, `sql` is given to the page's own function. A `text` block after `python` shows
what that block printed. A block that no test can run says so in its title: ```sh title="Not run by the tests: why".
"""

import contextlib
import io
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from lakebed.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
RUN = ("python", "console", "sql")
# Output and drawings (no language, text), and files that other tests read (yaml).
SHOWN = ("", "text", "yaml")
# Pages whose blocks need a Spark session; all others run in process.
ON_SPARK = frozenset(
    {
        "README.md",
        "docs/changes.md",
        "docs/datasource.md",
        "docs/debezium.md",
        "docs/guest.md",
        "docs/quickstart-delta.md",
        "docs/sql.md",
        "docs/streaming.md",
        "docs/quickstart.md",
        "docs/tour.md",
        "docs/tutorial.md",
    }
)
FENCE = re.compile(
    r'^([ ]*)```(\w*)(?: title="([^"\n]*)")?[^\n]*\n(.*?)^\1```$', re.MULTILINE | re.DOTALL
)
NOT_RUN = "Not run by the tests: "
# Folders that pages name; each is below the folder of the test.
FOLDERS = re.compile(r"/(?:tmp/(?=lakebed-)|data/|srv/lake/)")
MASKS = [
    (re.compile(r"file://\S*/(?=[\w-])"), "file://…/"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+"), "<file group>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "<time>"),
    (re.compile(r"(?<=_)\d+-\d+-\d+(?=_)"), "<token>"),
    (re.compile(r"(?<!\d)\d{17}(?!\d)"), "<instant>"),
    (re.compile(r"[\d,.]+ (?:bytes|[KMG]iB|[KMG]?B)\b"), "<size>"),
    (re.compile(r"\d+(?:\.\d+)?%"), "<share>"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:ms|s|min|h)\b"), "<age>"),
    (re.compile(r"(?<=\.[01]:)\d+(?=/)"), "<port>"),
    (re.compile(r"token=\S+"), "token=…"),
    (re.compile(r"█+"), "█"),
    (re.compile(r"\s+"), " "),
]
INSTANT = re.compile(r"(?<!\d)\d{17}(?!\d)")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of a page: its language, its title, its text and the line where it begins."""

    kind: str
    title: str
    body: str
    line: int

    @property
    def is_run(self) -> bool:
        """Return whether a test runs the block."""
        return self.kind in RUN and not self.title.startswith(NOT_RUN)


def blocks_of(page: str) -> list[Block]:
    """Return the fenced blocks of a page of the repository, in order."""
    text = (ROOT / page).read_text("utf-8")
    found = FENCE.finditer(text)
    return [
        Block(
            one[2],
            one[3] or "",
            one[4].replace(f"\n{one[1]}", "\n").removeprefix(one[1]),
            text.count("\n", 0, one.start()),
        )
        for one in found
    ]


def all_pages() -> list[str]:
    """Return the README and every page of docs/, as paths from the root."""
    return ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]


def run_pages(*, spark: bool) -> list[str]:
    """Return the pages with blocks to run, of those with Spark or of the others."""
    pages = (page for page in all_pages() if (page in ON_SPARK) is spark)
    return [page for page in pages if any(block.is_run for block in blocks_of(page))]


def masked(line: str) -> str:
    """Return a line without what differs at every run: times, instants, sizes, ids, folders."""
    for pattern, name in MASKS:
        line = pattern.sub(name, line)
    return line.strip()


def matched(wanted: str, found: str) -> list[tuple[str, str]] | None:
    """Return the pairs of equal lines, or None; a line `...` of what is wanted stands for any lines."""
    lines, pairs, free = found.rstrip().splitlines(), [], False
    for line in wanted.rstrip().splitlines():
        if line.strip() == "...":
            free = True
            continue
        while free and lines and masked(lines[0]) != masked(line):
            lines.pop(0)
        if not lines or masked(lines[0]) != masked(line):
            return None
        pairs.append((line, lines.pop(0)))
        free = False
    return pairs if free or not lines else None


@dataclass(slots=True)
class Run:
    """A page on its way: its folder, its names, and which instants stand for those that it shows."""

    page: str
    folder: Path
    names: dict[str, Any] = field(default_factory=dict)
    sql: Callable[[str, dict[str, Any]], None] | None = None
    instants: dict[str, str] = field(default_factory=dict)
    printed: str = ""
    outputs: str = ""
    code: int = 0

    def placed(self, text: str) -> str:
        """Return `text` with the folders of this run, and its instants."""
        text = FOLDERS.sub(f"{self.folder}/", text)
        return INSTANT.sub(lambda found: self.instants.get(found[0], found[0]), text)

    def all(self) -> Self:
        """Run every block and compare every output."""
        last = ""
        for block in blocks_of(self.page):
            where = f"{self.page}:{block.line + 1}"
            if block.kind == "text" and last == "python" and not block.title:
                self.compare(block.body, self.printed, where)
            elif block.is_run:
                getattr(self, f"run_{block.kind}")(block.body, where)
            last = block.kind if block.is_run else ""
        return self

    def compare(self, wanted: str, found: str, where: str, after: str = "```text") -> None:
        """Fail unless the output is the one on the page; learn which instants are meant."""
        pairs = matched(wanted, found)
        if pairs is None and os.environ.get("LAKEBED_WRITE_PAGES"):
            self.rewrite(wanted, found, after)
            return
        assert pairs is not None, f"{where} shows\n{wanted}\nand this was printed:\n{found}"
        for shown, printed in pairs:
            both = zip(INSTANT.findall(shown), INSTANT.findall(printed), strict=True)
            for instant, real in both:
                assert self.instants.setdefault(instant, real) == real, f"{where}: {instant}"

    def rewrite(self, wanted: str, found: str, after: str) -> None:
        """Put what was printed into the page, in place of the output after a line."""
        path, shown = ROOT / self.page, found.replace(str(self.folder), "/srv/lake").rstrip()
        lines = [line.rstrip() for line in shown.splitlines()]
        if wanted.rstrip().endswith("\n..."):
            lines = [*lines[: len(wanted.splitlines()) - 1], "..."]
        old, new = f"{after}\n{wanted.rstrip()}\n", "\n".join([after, *lines, ""])
        text = path.read_text("utf-8")
        assert old in text, old
        path.write_text(text.replace(old, new, 1), "utf-8")

    def run_python(self, body: str, where: str) -> None:
        """Execute a block, and look for what its comments after three spaces say is printed."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(self.placed(body), where, "exec"), self.names)
        self.printed = out.getvalue()
        self.outputs += self.printed
        lines = [masked(line) for line in self.printed.splitlines()]
        for said in re.findall(r"# {3,}(\S.*)$", body, re.MULTILINE):
            start = masked(said).removesuffix("...").strip()
            assert any(line.startswith(start) for line in lines), (where, said, self.printed)

    def run_sql(self, body: str, where: str) -> None:
        """Pass a block to the page's own function."""
        assert self.sql is not None, f"{where}: what runs SQL on this page?"
        self.sql(self.placed(body), self.names)

    def run_console(self, body: str, where: str) -> None:
        """Run each command, and compare what it prints with the lines below it."""
        for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            command, _, wanted = part.partition("\n")
            while command.endswith("\\"):
                more, _, wanted = wanted.partition("\n")
                command = f"{command[:-1]} {more.removeprefix('>').strip()}"
            found = self.command(self.placed(command), wanted)
            if wanted.strip():
                self.compare(wanted, found, where, f"$ {command}")
            else:
                assert not self.code, f"{where}: {command}\n{found}"

    def command(self, line: str, wanted: str) -> str:
        """Return what a command prints: `lakebed` in this process, others by the shell."""
        if line.startswith("lakebed ui"):
            return self.serve(line)
        if line == "echo $?":
            return f"{self.code}\n"
        if line.startswith("lakebed "):
            return self.lakebed(shlex.split(line))
        ran = subprocess.run(
            ["bash", "-c", line], cwd=self.folder, capture_output=True, text=True, check=False
        )
        self.code = ran.returncode
        return ran.stdout + ran.stderr

    def lakebed(self, words: list[str]) -> str:
        """Return what the command prints, and remember its exit code."""
        out = io.StringIO()
        given, sys.argv = sys.argv, words
        try:
            with (
                contextlib.chdir(self.folder),
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(out),
            ):
                main()
        except SystemExit as ended:
            self.code = int(ended.code or 0)
        finally:
            sys.argv = given
        return out.getvalue()

    def serve(self, line: str) -> str:
        """Return the first line of a server in a process of its own, on a free port, and end it."""
        words = [sys.executable, "-c", "from lakebed.cli.main import main; main()"]
        words += [*shlex.split(line)[1:], "--port", "0"]
        with subprocess.Popen(
            words,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        ) as server:
            assert server.stdout is not None
            first = server.stdout.readline()
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=30)
            self.code = server.returncode
        return first


def marked_blocks() -> Iterator[tuple[str, Block]]:
    """Yield the blocks that no test runs, with their page."""
    for page in all_pages():
        for block in blocks_of(page):
            if block.title.startswith(NOT_RUN):
                yield page, block
