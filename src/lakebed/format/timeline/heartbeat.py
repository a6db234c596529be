"""The sign of life of a writer: `.hoodie/.heartbeat/<instant>`.

Hudi's is empty and tells its time by when it was last written. Ours says who writes, so that a
task can see whether its write is still under way, and a neighbour on the same machine whether
the writer has died.
"""

import json
from dataclasses import dataclass
from typing import Final, Self

HEARTBEAT_FOLDER: Final = ".hoodie/.heartbeat"
HEARTBEAT_MAX_BYTES: Final = 4096


def heartbeat_path(instant: str) -> str:
    """Name the heartbeat of an instant."""
    return f"{HEARTBEAT_FOLDER}/{instant}"


@dataclass(frozen=True, slots=True)
class Beat:
    """What our heartbeats say; `holds_lock` that the writer has the table's lock all along."""

    owner: str
    process: str
    at_ms: int
    holds_lock: bool

    def encode(self) -> bytes:
        """Write it as JSON."""
        content = {
            "owner": self.owner,
            "process": self.process,
            "at": self.at_ms,
            "holdsLock": self.holds_lock,
        }
        return json.dumps(content, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, data: bytes) -> Self | None:
        """Read one of ours; None for what another engine wrote."""
        try:
            content = json.loads(data)
            found = cls(content["owner"], content["process"], content["at"], content["holdsLock"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        kinds = (
            (found.owner, str),
            (found.process, str),
            (found.at_ms, int),
            (found.holds_lock, bool),
        )
        return found if all(isinstance(value, kind) for value, kind in kinds) else None
