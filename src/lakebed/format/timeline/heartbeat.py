"""The heartbeat of a writer: `.hoodie/.heartbeat/<instant>`.

Hudi's file is empty, and its modification time is the heartbeat. Ours names the writer, so that
tasks can check whether their write is still in progress, and other processes on the same machine
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

    `holds_lock` is true if the writer holds the table lock from its start to its end.
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
        """Parse a heartbeat of ours; return None if another engine wrote it."""
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
