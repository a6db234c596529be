"""Checks that secondary indexes can be used, and that they have entries for every row."""

import warnings
from collections.abc import Iterator

from lakebed.errors import DAMAGE_ERRORS, LakebedError
from lakebed.index.secondary.definition import index_names
from lakebed.index.secondary.entries import count_entries
from lakebed.index.secondary.open_index import OpenIndex, UnusableIndex, index_folder, open_indexes
from lakebed.merge.rule import Merger
from lakebed.model.executor import Executor
from lakebed.services.indexing.check import check_index
from lakebed.services.indexing.parts import EVERYTHING
from lakebed.services.verify.findings import Code, Finding, Mend, Severity
from lakebed.storage.storage import Storage
from lakebed.table.config.table_config import TableConfig
from lakebed.table.snapshot import Snapshot, load_snapshot


def check_indexes(
    storage: Storage,
    config: TableConfig,
    executor: Executor,
    *,
    quick: bool = False,
    merger: Merger | None = None,
) -> Iterator[Finding]:
    """Find indexes that no query can use; unless `quick`, also rows that an index does not find."""
    if not index_names(config.properties):
        return
    try:
        snapshot = load_snapshot(storage, config)
    except LakebedError:
        return  # another check reports the reason
    with warnings.catch_warnings():
        # A damaged manifest becomes a finding.
        warnings.simplefilter("ignore")
        indexes = open_indexes(snapshot)
    for index in indexes:
        folder = index_folder(config, index.definition)
        name = index.definition.name
        if isinstance(index, UnusableIndex):
            yield Finding(
                Severity.WARNING,
                Code.INDEX_UNUSABLE,
                f"index {name}: no query uses it: {index.reason}",
                path=folder,
                mend=Mend.BUILD_INDEX if index.can_be_built else None,
            )
        elif (problem := _damage(index)) is not None:
            yield Finding(
                Severity.WARNING,
                Code.INDEX_UNUSABLE,
                f"index {name}: a run is damaged, and queries do not use the index: {problem}",
                path=folder,
                mend=Mend.BUILD_INDEX,
            )
        elif not quick:
            yield from _compare(snapshot, index, executor, merger)


def _damage(index: OpenIndex) -> str | None:
    """Return the problem of the first run that cannot be read; None if all can be read."""
    manifest = index.manifest
    commits = [manifest.delta, *manifest.unsettled]
    for run in (*manifest.base, *(run for of in commits for run in of.files)):
        try:
            found = count_entries(index.storage, run.path, [EVERYTHING])
        except DAMAGE_ERRORS as error:
            return str(error)
        if found != run.entries:
            return f"{run.path}: expected {run.entries:,} entries, found {found:,}"
    return None


def _compare(
    snapshot: Snapshot, index: OpenIndex, executor: Executor, merger: Merger | None
) -> Iterator[Finding]:
    name, folder = index.definition.name, index_folder(snapshot.config, index.definition)
    try:
        found = check_index(snapshot, index, executor, merger)
    except LakebedError as error:
        note = f"index {name}: not compared with the rows: {error}"
        yield Finding(Severity.NOTE, Code.FILE_UNSUPPORTED, note, path=folder)
        return
    if found.missing:
        yield Finding(
            Severity.ERROR,
            Code.INDEX_INCOMPLETE,
            f"index {name} does not find {found.missing:,} rows, one of them {found.example}",
            path=folder,
            key=found.example,
            mend=Mend.BUILD_INDEX,
        )
    if found.superfluous:
        yield Finding(
            Severity.WARNING,
            Code.INDEX_SUPERFLUOUS,
            f"index {name}: {found.superfluous:,} entries belong to no row, and no write since they "
            f"were compacted explains it, one of them {found.superfluous_example}; they cost time, "
            "and queries ignore them (another engine may have deleted rows)",
            path=folder,
            key=found.superfluous_example,
            mend=Mend.BUILD_INDEX,
        )
    stale = index.num_entries - index.num_open - found.current - found.superfluous
    if not index.manifest.whole and stale > 0:
        share = stale / max(1, index.num_entries)
        yield Finding(
            Severity.NOTE,
            Code.INDEX_STALE,
            f"index {name}: {stale:,} of {index.num_entries:,} entries ({share:.1%}) are stale or "
            "repeated",
            path=folder,
            advice="compact_index removes them",
        )
