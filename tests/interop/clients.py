"""Talk to the other engines: Apache Hudi and hudi-rs, each in a process of its own."""

import json
import os
import pathlib
import queue
import re
import subprocess
import threading
from collections.abc import Mapping
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

REPO = pathlib.Path(__file__).resolve().parents[2]
PEER_SCRIPTS = pathlib.Path(__file__).resolve().parent / "peer"
STDERR_TAIL_BYTES = 4000
# The first line of a Java stack trace, and of each cause in it.
TROUBLE = re.compile(r"^(?:[\w.$]+(?:Exception|Error)\b.*|Caused by: .*)$", re.MULTILINE)


class PeerError(Exception):
    """The other engine refused; the text is its own, root cause last."""


def peer_python() -> str:
    """Find the peer environment's Python, or raise with what to run."""
    python = os.environ.get("LAKEBED_HUDI_PYTHON", str(REPO / ".venv-hudi" / "bin" / "python"))
    if not os.access(python, os.X_OK):
        raise PeerError(f"no Python of the Hudi peer at {python}: run make interop")
    return python


def read_whole(path: pathlib.Path) -> pa.Table:
    """Read the Parquet file at `path` and remove it; no part of its path is a partition column."""
    table = pq.ParquetFile(path).read()
    path.unlink()
    return table


class Server:
    """A process that answers one line of JSON with one; not thread-safe.

    `name` names it in errors; its standard error goes to a file in `scratch`.
    """

    def __init__(
        self, name: str, scratch: pathlib.Path, arguments: list[str], *, timeout_s: float
    ) -> None:
        self._name = name
        self._timeout_s = timeout_s
        self._log = scratch / f"{name}-stderr.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [peer_python(), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=scratch,
                env=os.environ | {"RUST_BACKTRACE": "0"},
                text=True,
                encoding="utf-8",
            )
        self._answers: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def has_ended(self) -> bool:
        """Return whether the process is over."""
        return self._process.poll() is not None

    def ask(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to `command`; one that is no success raises PeerError."""
        logged = self._log.stat().st_size
        try:
            self._send(command)
            line = self._answers.get(timeout=self._timeout_s)
        except queue.Empty:
            # A late answer would be taken for the next command's, so the server is of no more use.
            self._end()
            raise self._silent(f"no answer in {self._timeout_s:.0f} s") from None
        except (BrokenPipeError, ValueError):
            raise self._silent("the server has ended") from None
        if line is None:
            self._end()
            raise self._silent("the server ended before it answered")
        answer: dict[str, Any] = json.loads(line)
        if not answer.pop("ok"):
            raise PeerError(f"{answer['error']}\n{self._trouble_since(logged)}".strip())
        return answer

    def close(self) -> None:
        """Stop the server; one that does not stop in time is killed, and its JVM with it."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            if not self.has_ended:
                self._send({"do": "shutdown"})
            stdin.close()
            self._process.wait(timeout=30)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self._end()
        stdout.close()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def _send(self, command: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def _trouble_since(self, offset: int) -> str:
        """Return the errors logged after `offset`: Hudi logs why a record failed, but does not throw it."""
        text = self._log.read_bytes()[offset:].decode("utf-8", "replace")
        lines = [line[:300] for line in TROUBLE.findall(text) if not line.startswith("py4j.")]
        return "\n".join(list(dict.fromkeys(lines))[:10])

    def _silent(self, what: str) -> PeerError:
        tail = self._log.read_bytes()[-STDERR_TAIL_BYTES:].decode("utf-8", "replace")
        return PeerError(f"{self._name}: {what}; the end of its standard error:\n{tail}")


class Hudi:
    """Apache Hudi 1.2.0 on Spark 3.5: one JVM for many reads and writes; not thread-safe.

    `config` adds to the session's settings: those of Hadoop cannot be set later.
    """

    def __init__(
        self,
        scratch: pathlib.Path,
        *,
        config: Mapping[str, str] | None = None,
        timeout_s: float = 240,
    ) -> None:
        self._scratch = scratch
        self._count = 0
        script = [str(PEER_SCRIPTS / "hudi_server.py"), json.dumps(config or {})]
        self._server = Server("Hudi peer", scratch, script, timeout_s=timeout_s)

    def read(self, path: object, **options: str) -> pa.Table:
        """Read the table at `path` by format("hudi"), meta columns too, types as Spark has them."""
        into = self._new_file("read")
        self._server.ask({"do": "read", "path": str(path), "options": options, "into": str(into)})
        return read_whole(into)

    def read_typed(self, path: object, **options: str) -> dict[str, Any]:
        """Read a small table as typed JSON (hudi_server.py says how) and its Spark schema."""
        return self._server.ask({"do": "read", "path": str(path), "options": options})

    def write(
        self,
        path: object,
        rows: pa.Table,
        options: Mapping[str, str],
        mode: Literal["append", "overwrite"] = "append",
    ) -> None:
        """Write `rows` to the table at `path` by format("hudi")."""
        file = self._new_file("write")
        # The key tells Spark that old dates in this file need no change of calendar.
        pq.write_table(rows.replace_schema_metadata({"org.apache.spark.version": "3.5.9"}), file)
        command = {"do": "write", "path": str(path), "rows": str(file), "options": dict(options)}
        try:
            self._server.ask(command | {"mode": mode})
        finally:
            file.unlink()

    def sql(self, text: str) -> dict[str, Any]:
        """Run a statement; give its columns and typed rows."""
        return self._server.ask({"do": "sql", "text": text})

    def properties(self, path: object) -> dict[str, str]:
        """Read the table's properties as Hudi loads them."""
        answer = self._server.ask({"do": "properties", "path": str(path)})
        properties: dict[str, str] = answer["properties"]
        return properties

    def close(self) -> None:
        """Stop the JVM."""
        self._server.close()

    def _new_file(self, kind: str) -> pathlib.Path:
        self._count += 1
        return self._scratch / f"{kind}-{self._count}.parquet"


class HudiRs:
    """hudi-rs 0.5.0: reads only; not thread-safe. A process that its Rust code ended is replaced."""

    def __init__(self, scratch: pathlib.Path, *, timeout_s: float = 60) -> None:
        self._scratch = scratch
        self._timeout_s = timeout_s
        self._server = self._start()

    def read(self, path: object) -> pa.Table:
        """Read the latest snapshot of the table at `path`, meta columns too."""
        if self._server.has_ended:
            self._server.close()
            self._server = self._start()
        into = self._scratch / "rows.parquet"
        self._server.ask({"do": "read", "path": str(path), "into": str(into)})
        return read_whole(into)

    def close(self) -> None:
        """Stop the process."""
        self._server.close()

    def _start(self) -> Server:
        script = [str(PEER_SCRIPTS / "hudi_rs_server.py")]
        return Server("hudi-rs peer", self._scratch, script, timeout_s=self._timeout_s)
