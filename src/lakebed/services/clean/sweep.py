"""Finds heartbeats and temporary files of writes that are no longer in progress."""

import re
from collections.abc import Iterator
from typing import Final

from lakebed.format.timeline.heartbeat import HEARTBEAT_FOLDER
from lakebed.model.instant import Instant
from lakebed.storage.storage import Storage
from lakebed.timeline.timeline import Timeline

_MARKERS_FOLDER: Final = ".hoodie/.temp"
_INSTANT: Final = re.compile(r"[0-9]{14,20}")


def find_stale(storage: Storage, timeline: Timeline) -> list[str]:
    """List heartbeats, markers and temporary runs whose instant is completed or rolled back.

    The caller holds the table's lock and has read `timeline` under it. An instant newer than the
    timeline may belong to a writer that has just started.
    """
    pending = {instant.requested for instant in timeline.pending()}
    last = timeline.last_instant or ""

    def is_over(text: str) -> bool:
        found: Instant = text.partition("-")[0]
        return bool(_INSTANT.fullmatch(found)) and found <= last and found not in pending

    return sorted(path for path, name in _signs(storage) if is_over(name))


def _signs(storage: Storage) -> Iterator[tuple[str, str]]:
    """Yield the path of each heartbeat, marker and run, and a name that starts with its instant."""
    for name in storage.names(HEARTBEAT_FOLDER):
        yield f"{HEARTBEAT_FOLDER}/{name}", name
    for entry in storage.list(_MARKERS_FOLDER):
        # <instant>/<partition>/<file>.marker.CREATE by Hudi, lakebed/<instant>-<name>.arrow by
        # Lakebed.
        first, _, rest = entry.path[len(_MARKERS_FOLDER) + 1 :].partition("/")
        yield entry.path, rest if first == "lakebed" else first
