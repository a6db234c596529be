"""The only source of time, random ids and process identity.

A run must be repeatable from a seed, so all other code takes a Clock.
"""

import time
import uuid
from dataclasses import dataclass, field
from typing import Protocol


class Clock(Protocol):
    """What the rest of the code may ask of the outside world."""

    def now_ms(self) -> int:
        """Give the time in milliseconds since 1970 UTC."""
        ...

    def new_uuid(self) -> str:
        """Give a random UUID as 36 characters."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The machine's clock and random source."""

    def now_ms(self) -> int:
        """Give the time in milliseconds since 1970 UTC."""
        return time.time_ns() // 1_000_000

    def new_uuid(self) -> str:
        """Give a random UUID as 36 characters."""
        return str(uuid.uuid4())

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


@dataclass(slots=True)
class ManualClock:
    """A clock that stands still until told: for tests and repeatable runs."""

    ms: int = 1_700_000_000_000
    step_ms: int = 0
    _count: int = field(default=0, init=False)

    def now_ms(self) -> int:
        """Give the set time, then move on by `step_ms`."""
        now = self.ms
        self.ms += self.step_ms
        return now

    def new_uuid(self) -> str:
        """Give the next of a fixed sequence of UUIDs."""
        self._count += 1
        return str(uuid.UUID(int=self._count << 64 | 0x8000_0000_0000_0000))

    def sleep(self, seconds: float) -> None:
        """Move the clock on instead of waiting."""
        self.ms += int(seconds * 1000)
