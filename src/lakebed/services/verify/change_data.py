"""Checks change data against commits: `.cdc` logs that are missing, truncated, or in no commit.

No row depends on change data, but readers of a table's changes do.
"""

from collections.abc import Iterator

from lakebed.services.verify.findings import Code, Finding, Mend, Severity
from lakebed.services.verify.inventory import Inventory
from lakebed.table.files.file_group import LogFile

_ADVICE = "restore the file from a backup; queries of the changes of this instant fail without it"


def check_change_data(inventory: Inventory) -> Iterator[Finding]:
    """Find change data of commits that is missing or truncated, and change data in no commit.

    Change data is cleaned together with its base file.
    """
    for instant, metadata in inventory.metadata.items():
        for stat in metadata.write_stats():
            if (stat.path or "").lstrip("/") in inventory.sizes:
                for path, size_bytes in (stat.cdc_stats or {}).items():
                    yield from _check_log(inventory, instant, path.lstrip("/"), size_bytes)
    pending = {instant.requested for instant in inventory.timeline.pending()}
    for file in inventory.files:
        instant = file.name.instant
        is_cdc = isinstance(file, LogFile) and file.is_cdc
        over = instant not in pending and instant not in inventory.archived
        if is_cdc and over and not inventory.counts(file):
            yield Finding(
                Severity.NOTE,
                Code.FILE_LEFTOVER,
                f"{file.path}: change data of instant {instant} that no commit lists; "
                "it is not read",
                path=file.path,
                instant=instant,
                mend=Mend.DELETE_FILE,
            )


def _check_log(inventory: Inventory, instant: str, path: str, size_bytes: int) -> Iterator[Finding]:
    found = inventory.sizes.get(path)
    if found is None:
        yield Finding(
            Severity.WARNING,
            Code.FILE_MISSING,
            f"{path}: commit {instant} lists it, but it is missing; its changes are lost, but no "
            "rows are",
            path=path,
            instant=instant,
            advice=_ADVICE,
        )
    elif found != size_bytes:
        yield Finding(
            Severity.WARNING,
            Code.FILE_SIZE,
            f"{path}: its commit wrote {size_bytes} bytes of change data, found {found}",
            path=path,
            instant=instant,
            advice=_ADVICE,
        )
