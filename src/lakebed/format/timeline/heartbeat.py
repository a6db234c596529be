"""The heartbeat of a writer: `.hoodie/.heartbeat/<instant>`.

Hudi's file is empty, and its modification time is the heartbeat. Ours names the writer, so that a
task can determine whether its write is still in progress, and another process on the same machine
whether the writer has died.
"""

import json
from dataclasses import dataclass
from typing import Final, Self

HEARTBEAT_FOLDER: Final = ".hoodie/.heartbeat"
HEARTBEAT_MAX_BYTES: Final = 4096


def heartbeat_path(instant: str) -> str:
    """Return the path of the heartbeat of an instant."""
    return f"{HEARTBEAT_FOLDER}/{instant}"


@dataclass(frozen=True, slots=True)
class Beat:
    """The content of our heartbeats.

    `holds_lock` tells whether the writer holds the table lock from its start to its end.
    """

    owner: str
    process: str
    at_ms: int
    holds_lock: bool

    def encode(self) -> bytes:
        """Encode the heartbeat as JSON."""
        content = {
            "owner": self.owner,
            "process": self.process,
            "at": self.at_ms,
            "holdsLock": self.holds_lock,
        }
        return json.dumps(content, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, data: bytes) -> Self | None:
        """Parse one of our heartbeats; return None for a heartbeat that another engine wrote."""
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
