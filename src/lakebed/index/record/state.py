"""The record index of a table at a snapshot: its runs, and the file groups that they do not cover.

A commit lists the runs that it wrote in its metadata, under `lakebed.record_index`. A commit that
lists none, such as one of Hudi's or a clustering, leaves its file groups uncovered: their keys are
looked up in the files. No file group is covered, until the index is rebuilt, if the manifest is
missing or if a commit whose entries were compacted has been rolled back.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from lakebed.errors import DAMAGE_ERRORS
from lakebed.index.record.entries import check_entries
from lakebed.index.secondary.manifest import CommitRuns, Manifest, RunFile, read_manifest
from lakebed.table.files.file_group import FileGroupId
from lakebed.table.snapshot import Snapshot

log = logging.getLogger(__name__)

RECORD_INDEX: Final = "record_index"
"""The name of the folder below `.hoodie/lakebed`."""
RECORD_INDEX_FOLDER: Final = f".hoodie/lakebed/{RECORD_INDEX}"
COMMIT_ENTRIES: Final = "lakebed.record_index"
"""The key under which a commit's extra metadata lists its runs."""


@dataclass(frozen=True, slots=True)
class RecordIndexState:
    """The runs of the index, and the file groups `whole` whose keys they may lack (None: all).

    `manifest` accounts for every commit of the snapshot; None if the index must be rebuilt.
    """

    manifest: Manifest | None
    runs: tuple[RunFile, ...] = ()
    whole: frozenset[FileGroupId] | None = None
    # Whether the stored manifest lacks commits that may only be in the archive.
    is_stale: bool = False


def open_record_index(snapshot: Snapshot) -> RecordIndexState:
    """Return the record index of a table at its latest snapshot."""
    try:
        manifest = read_manifest(snapshot.storage, RECORD_INDEX_FOLDER)
        if manifest is None or manifest.broken(snapshot) is not None:
            return RecordIndexState(None)
        current = manifest.account_for(snapshot, RECORD_INDEX, key=COMMIT_ENTRIES, moves_rows=True)
        listed = [run for runs in current.commits.values() for run in runs.files]
        for run in (*current.base, *listed):
            check_entries(snapshot.storage, run)
    except DAMAGE_ERRORS as error:
        log.warning("%s; keys are looked up in the files instead", error)
        return RecordIndexState(None)
    runs = (*current.base, *listed)
    return RecordIndexState(current, runs, current.whole, manifest.lags(snapshot))


def list_entries(runs: tuple[RunFile, ...]) -> Mapping[str, str]:
    """Return extra metadata for a commit that wrote these runs."""
    return {COMMIT_ENTRIES: json.dumps({RECORD_INDEX: asdict(CommitRuns(entries=runs))})}
