"""The only source of time, random ids and process identity.

All other code takes a Clock, so that a run can be repeated from a seed.
"""

import os
import time
import uuid
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol


class Clock(Protocol):
    """Provides the time, random ids and process identity."""

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970 UTC."""
        ...

    def new_uuid(self) -> str:
        """Return a random UUID as 36 characters."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""
        ...

    def process(self) -> str:
        """Return a name for this process, which `is_gone` recognizes on the same machine."""
        ...

    def is_gone(self, process: str) -> bool:
        """Return whether a process has ended; False if that cannot be determined here."""
        ...


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The machine's clock and random source."""

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970 UTC."""
        return time.time_ns() // 1_000_000

    def new_uuid(self) -> str:
        """Return a random UUID as 36 characters."""
        return str(uuid.uuid4())

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""
        time.sleep(seconds)

    def process(self) -> str:
        """Return a name for this process, which `is_gone` recognizes on the same machine."""
        return _process(os.getpid()) or ""

    def is_gone(self, process: str) -> bool:
        """Return whether a process has ended; False if it ran on another machine."""
        machine, _, rest = process.rpartition("/")
        pid = rest.partition(".")[0]
        if not machine or machine != _machine() or not (pid.isascii() and pid.isdigit()):
            return False
        return _process(int(pid)) != process


@dataclass(slots=True)
class ManualClock:
    """A clock that advances only by explicit calls, for tests and repeatable runs."""

    ms: int = 1_700_000_000_000
    step_ms: int = 0
    ended: frozenset[str] = frozenset()
    name: str = "manual"
    _count: int = field(default=0, init=False)

    def now_ms(self) -> int:
        """Return the clock's current time, then advance it by `step_ms`."""
        now = self.ms
        self.ms += self.step_ms
        return now

    def new_uuid(self) -> str:
        """Return the next of a fixed sequence of UUIDs."""
        self._count += 1
        return str(uuid.UUID(int=self._count << 64 | 0x8000_0000_0000_0000))

    def sleep(self, seconds: float) -> None:
        """Advance the clock instead of waiting."""
        self.ms += int(seconds * 1000)

    def process(self) -> str:
        """Return the name that was set for this process."""
        return self.name

    def is_gone(self, process: str) -> bool:
        """Return whether the process was marked as ended."""
        return process in self.ended


@cache
def _machine() -> str:
    """Return a name for this boot of the machine and its process namespace; '' if unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _process(pid: int) -> str | None:
    """Return a name for a live process; None if it has ended or is unknown.

    The name includes the start time, because process ids are reused.
    """
    if not _machine():
        return None
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    # A zombie process (Z) has ended, although its parent has not waited for it yet.
    return None if fields[0] in "ZX" else f"{_machine()}/{pid}.{fields[19]}"
