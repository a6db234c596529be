"""Merges the runs of several commits of a secondary index, without looking up any row."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakebed.commit.hold import TableHold
from lakebed.index.secondary.entries import write_entries
from lakebed.index.secondary.manifest import (
    CommitRuns,
    Manifest,
    MergedRuns,
    RunFile,
    put_manifest,
    read_manifest,
)
from lakebed.model.instant import Instant
from lakebed.services.indexing.parts import merge_entries
from lakebed.storage.storage import Storage


def merge_commits(
    storage: Storage,
    manifest: Manifest,
    commits: Sequence[Instant],
    merged: Sequence[MergedRuns],
    prefix: str,
) -> MergedRuns:
    """Merge the runs of commits with runs that were merged before, by kind; return the result."""
    of = [*(manifest.commits[at] for at in commits), *(one.runs for one in merged)]
    kinds: Mapping[str, list[RunFile]] = {
        "entries": [run for runs in of for run in runs.entries],
        "open": [run for runs in of for run in runs.open],
        "deleted": [run for runs in of for run in runs.deleted],
    }
    return MergedRuns(
        frozenset(commits).union(*(one.commits for one in merged)),
        CommitRuns(
            **{kind: _merged(storage, runs, f"{prefix}-{kind}") for kind, runs in kinds.items()}
        ),
    )


def _merged(storage: Storage, runs: Sequence[RunFile], path: str) -> tuple[RunFile, ...]:
    if len(runs) <= 1:
        return tuple(runs)
    batches = merge_entries(storage, f"{path}.parquet", runs)
    return (write_entries(storage, f"{path}.parquet", batches, compress=False),)


def put_merged(
    hold: TableHold,
    folder: str,
    manifest: Manifest,
    replaced: Sequence[MergedRuns],
    new: MergedRuns,
) -> bool:
    """Publish merged runs; return False if their sources have changed since.

    `manifest` is the one that was merged. Files that the new manifest no longer lists are deleted by
    the next compaction, because readers may still use them.
    """
    now = read_manifest(hold.storage, folder)
    if now is None or now.token != manifest.token or now.broken(hold.snapshot) is not None:
        return False
    now = now.account_for(hold.snapshot, folder.rpartition("/")[2])
    taken = new.commits.difference(*(one.commits for one in replaced))
    if not taken <= now.commits.keys() or any(one not in now.merged for one in replaced):
        return False
    if any(now.commits[at] != manifest.commits[at] for at in taken):
        return False
    changed = replace(
        now,
        commits={at: runs for at, runs in now.commits.items() if at not in taken},
        merged=(*(one for one in now.merged if one not in replaced), new),
    )
    retired = now.files - changed.files
    hold.lock.check()
    put_manifest(hold.storage, folder, replace(changed, retired=tuple(sorted(retired))))
    for path in now.retired:
        if path not in changed.files:
            hold.storage.delete(path)
    return True
