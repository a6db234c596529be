"""Checks the files beside the data: locks, heartbeats, temporary files, a metadata table."""

import re
from collections.abc import Iterator
from typing import Final

from lakebed.errors import LakebedError, NotFoundError
from lakebed.format.names.instant_name import LAYOUT_1, LAYOUT_2
from lakebed.format.timeline.heartbeat import HEARTBEAT_FOLDER
from lakebed.format.timeline.lock_file import (
    DISK_LOCK_PATH,
    LOCK_FILE_MAX_BYTES,
    LOCK_FILE_PATH,
    DiskLockFile,
    LockFile,
)
from lakebed.model.clock import Clock
from lakebed.services.verify.findings import Code, Finding, Mend, Severity
from lakebed.services.verify.inventory import Inventory
from lakebed.timeline.active import load_timeline

_DAY_MS: Final = 86_400_000
_METADATA_TIMELINES: Final = {
    LAYOUT_1: ".hoodie/metadata/.hoodie",
    LAYOUT_2: ".hoodie/metadata/.hoodie/timeline",
}
_METADATA_PARTITIONS: Final = "hoodie.table.metadata.partitions"
_TEMP_FOLDER: Final = ".hoodie/.temp/"
_INSTANT: Final = re.compile(r"[0-9]{14,20}")


def check_lock(inventory: Inventory, now_ms: int) -> Iterator[Finding]:
    """Check the lock file of object stores, which Apache Hudi's writers share with Lakebed's."""
    if LOCK_FILE_PATH not in inventory.hidden:
        return
    data = inventory.storage.read_range(LOCK_FILE_PATH, 0, LOCK_FILE_MAX_BYTES)
    try:
        lock = LockFile.parse(data, LOCK_FILE_PATH)
    except LakebedError as error:
        yield Finding(
            Severity.ERROR,
            Code.LOCK,
            f"{error}; no writer can start",
            path=LOCK_FILE_PATH,
            mend=Mend.DELETE_LOCK,
        )
        return
    if lock.is_held(now_ms):
        seconds = (lock.valid_until_ms - now_ms) // 1000
        yield Finding(
            Severity.NOTE,
            Code.LOCK,
            f"{LOCK_FILE_PATH}: writer {lock.owner} holds the table's lock, for another "
            f"{seconds} s unless it renews it",
            path=LOCK_FILE_PATH,
        )
    elif not lock.expired:
        yield Finding(
            Severity.NOTE,
            Code.LOCK,
            f"{LOCK_FILE_PATH}: writer {lock.owner} died while it held the table's lock; the lock "
            "has expired, and the next writer takes it over",
            path=LOCK_FILE_PATH,
        )


def check_disk_lock(inventory: Inventory, clock: Clock) -> Iterator[Finding]:
    """Check the lock file on local disk, whose mere existence blocks the writers of Apache Hudi."""
    if DISK_LOCK_PATH not in inventory.hidden:
        return
    try:
        modified_ms = inventory.storage.head(DISK_LOCK_PATH).modified_ms
        data = inventory.storage.read_range(DISK_LOCK_PATH, 0, LOCK_FILE_MAX_BYTES)
    except NotFoundError:
        return  # released since it was listed
    now_ms = clock.now_ms()
    lock = DiskLockFile.parse(data)
    if lock is None:
        age_ms = now_ms - modified_ms
        old = age_ms > _DAY_MS
        yield Finding(
            Severity.WARNING if old else Severity.NOTE,
            Code.LOCK,
            f"{DISK_LOCK_PATH}: another engine has held the table for {age_ms // 60_000} min; "
            "no writer can start",
            path=DISK_LOCK_PATH,
            advice="if none of its writers is active, delete the file" if old else "",
        )
        return
    dead = clock.is_gone(lock.process) or not lock.is_held(now_ms)
    yield Finding(
        Severity.NOTE,
        Code.LOCK,
        f"{DISK_LOCK_PATH}: a writer of Lakebed ({lock.process}) "
        + (
            "died while it held the lock; the next one takes it over, but writers of Apache Hudi wait"
            if dead
            else "holds the lock"
        ),
        path=DISK_LOCK_PATH,
        # The next process that locks the table, such as a repair, removes the file.
        mend=Mend.RELEASE_LOCK if dead else None,
    )


def check_remains(inventory: Inventory) -> Iterator[Finding]:
    """Find heartbeats and temporary files of instants that are not pending."""
    pending = {instant.requested for instant in inventory.timeline.pending()}
    temporary: dict[str, list[str]] = {}
    for path in inventory.hidden:
        if path.startswith(f"{HEARTBEAT_FOLDER}/"):
            instant = path.rpartition("/")[2]
            if instant not in pending and _INSTANT.fullmatch(instant):
                yield Finding(
                    Severity.NOTE,
                    Code.HEARTBEAT_STALE,
                    f"{path}: a heartbeat of an instant that is not pending",
                    path=path,
                    instant=instant,
                    mend=Mend.DELETE_HEARTBEAT,
                )
        elif path.startswith(_TEMP_FOLDER):
            found = _INSTANT.search(path[len(_TEMP_FOLDER) :])
            if found is not None and found[0] not in pending:
                temporary.setdefault(found[0], []).append(path)
    for instant, paths in sorted(temporary.items()):
        yield Finding(
            Severity.NOTE,
            Code.TEMP_STALE,
            f"{paths[0]} and {len(paths) - 1} more: temporary files of {instant}, which is not "
            "pending; they only take up space",
            path=paths[0],
            instant=instant,
            mend=Mend.DELETE_TEMP,
        )


def check_metadata_table(inventory: Inventory) -> Iterator[Finding]:
    """Find commits missing from Apache Hudi's metadata table, which would not list their files."""
    live = inventory.config.properties.get(_METADATA_PARTITIONS, "").strip()
    if not live:
        return
    folder = _METADATA_TIMELINES[inventory.config.timeline_layout]
    try:
        known = {
            instant.requested: instant.completion or ""
            for instant in load_timeline(inventory.storage, folder).instants
            if instant.is_completed
        }
    except LakebedError as error:
        yield Finding(
            Severity.ERROR,
            Code.METADATA_TABLE,
            f"Apache Hudi's metadata table ({live}): {error}",
            path=folder,
        )
        return
    if not known:
        yield Finding(
            Severity.ERROR,
            Code.METADATA_TABLE,
            f"{_METADATA_PARTITIONS}={live}, but there is no metadata table: Apache Hudi finds no "
            "files",
            path=folder,
            advice="let Apache Hudi build it again, or write to the table with Lakebed, which retires it",
        )
        return
    # Commits up to that time were in the table when the metadata table was built, or it has
    # archived them.
    begin = min(known.values())
    missed = [
        commit.requested
        for commit in inventory.timeline.commits
        if commit.requested not in known and (commit.completion or "") > begin
    ]
    if missed:
        yield Finding(
            Severity.ERROR,
            Code.METADATA_TABLE,
            f"Apache Hudi's metadata table ({live}) lacks {len(missed)} commits, the first is "
            f"{missed[0]}: Hudi does not see what they wrote",
            path=folder,
            instant=missed[0],
            advice="let Apache Hudi build it again (delete .hoodie/metadata and the property), or write "
            "to the table with Lakebed, which retires it",
        )
