"""Small tables with a history, and what rollback and restore must leave of them."""

from collections.abc import Iterable
from typing import Any

from lakebed.api.table import Table
from lakebed.format.names.data_names import parse_data_name
from lakebed.format.names.instant_name import Action, InstantName, State
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.model.clock import Clock, ManualClock
from lakebed.storage.storage import Storage
from lakebed.table.files.retention import named_files
from lakebed.timeline.active import load_timeline
from lakebed.timeline.timeline import COMMIT_ACTIONS, Timeline
from lakebed.write.pipeline import WriteTarget
from support.tables import batch, make, reopen

KINDS: dict[str, dict[str, Any]] = {
    "COPY_ON_WRITE": {"table_type": "COPY_ON_WRITE"},
    "MERGE_ON_READ, inline logs": {"table_type": "MERGE_ON_READ"},
    "MERGE_ON_READ, native logs": {"table_type": "MERGE_ON_READ", "table_version": 10},
    "MERGE_ON_READ, not sorted": {"table_type": "MERGE_ON_READ", "layout": "default"},
}
START = 1_700_000_000_000
FIRST = batch(("a", 1, 1, "p"), ("b", 1, 1, "p"), ("c", 1, 1, "p"), ("d", 1, 1, "q"))
SECOND = batch(("a", 2, 2, "p"), ("e", 2, 2, "p"), ("d", 2, 0, "q"))
THIRD = batch(("b", 3, 3, "p"), ("f", 3, 3, "r"))
FOURTH = batch(("g", 4, 4, "q"), ("a", 4, 4, "p"))


def clock() -> ManualClock:
    return ManualClock(ms=START, step_ms=1)


def filled(storage: Storage | None = None, kind: str = "COPY_ON_WRITE", **changes: Any) -> Table:
    """Make a table with one commit: FIRST."""
    table = make(storage, clock(), **{"ordering": ("ts",), **KINDS[kind], **changes})
    table.bulk_insert(FIRST)
    return table


def target_of(table: Table) -> WriteTarget:
    """Return what a service works on."""
    return table._target()


def target_on(storage: Storage, at: Clock | None = None) -> WriteTarget:
    """Return what a service works on in a process that just opened the table."""
    return target_of(reopen(storage, at or clock()))


def timeline_of(table: Table) -> Timeline:
    return load_timeline(table._storage)


def data_files(storage: Storage) -> list[str]:
    """Return the paths of all data files."""
    return [
        entry.path
        for entry in storage.list()
        if not entry.path.startswith(".hoodie/") and parse_data_name(entry.path.rpartition("/")[2])
    ]


def check_whole(storage: Storage, kept_plans: Iterable[str] = (), *, cleaned: bool = False) -> None:
    """Assert that no file lacks a commit, no commit a file, and nothing else is pending."""
    timeline = load_timeline(storage)
    pending = {i.requested for i in timeline.pending()}
    assert pending == set(kept_plans)
    named: set[str] = set()
    for path in (entry.path for entry in storage.list(".hoodie/timeline")):
        name = InstantName.parse(path.rpartition("/")[2])
        if name and name.state is State.COMPLETED and name.action in COMMIT_ACTIONS:
            named.update(named_files(CommitMetadata.parse(storage.read(path), path)))
    there = set(data_files(storage))
    assert there <= named if cleaned else there == named
    paths = [entry.path for entry in storage.list()]
    assert not [path for path in paths if path.startswith((".hoodie/.temp", ".hoodie/.heartbeat"))]


def actions(table: Table, *wanted: Action) -> list[str]:
    """Return the completed instants of `wanted` actions."""
    return [i.requested for i in timeline_of(table).select(*wanted) if i.is_completed]
