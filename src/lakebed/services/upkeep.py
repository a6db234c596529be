"""Runs services that are due: inline after a write, or in a loop.

A service that fails never undoes the write before it: it stays due, and the next caller runs it.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Protocol
from zlib import crc32

from lakebed.format.names.instant_name import Action
from lakebed.model.options.services import (
    ArchiveOptions,
    CleanOptions,
    IndexOptions,
    UpkeepOptions,
)
from lakebed.services.archive.execute import archive
from lakebed.services.clean.execute import clean
from lakebed.services.compaction.execute import execute_unless_done, pending_compactions
from lakebed.services.compaction.schedule import schedule_compaction
from lakebed.services.indexing.compact import compact_index, due_indexes
from lakebed.services.record_index import compact_record_index
from lakebed.table.config.table_config import TableType
from lakebed.table.snapshot import Snapshot, load_snapshot
from lakebed.timeline.timeline import Timeline
from lakebed.write.pipeline import WriteTarget

log = logging.getLogger(__name__)

_WHOLE_EVERY = 50
# A process that runs services beside the writers compacts indexes at this share of changed entries.
_SERVED_RATIO = 0.2


class Done(Protocol):
    """The result of a service; `str()` of it is a sentence."""

    def __str__(self) -> str: ...


def run_inline(target: WriteTarget) -> tuple[Done, ...]:
    """Run the services that the table's properties request after a write, if due; log failures.

    This includes failures to read properties and listings: the write is committed, and an error
    would suggest that it is not.
    """
    try:
        return _run(target, UpkeepOptions.of(target.config.properties), _logged)
    except Exception:
        log.warning("the services after a write failed; the write is committed", exc_info=True)
        return ()


def run_due(target: WriteTarget) -> tuple[Done, ...]:
    """Run everything that is due, including compaction and pending plans of other processes."""
    upkeep = UpkeepOptions.of(target.config.properties)
    wanted = UpkeepOptions(compact=True, mode=upkeep.mode, clean_every=1)
    return _run(target, wanted, _raised, whole=True)


Attempt = Callable[[str, Callable[[], Done | None]], Done | None]


def _run(
    target: WriteTarget, upkeep: UpkeepOptions, attempt: Attempt, *, whole: bool = False
) -> tuple[Done, ...]:
    """Run what is due; with `whole`, a clean lists the whole table, and indexes are compacted sooner."""
    done: list[Done | None] = []
    on_read = target.config.table_type is TableType.MERGE_ON_READ
    if on_read and (upkeep.compact or upkeep.schedule):
        done.append(attempt("compaction", lambda: schedule_compaction(target, None, upkeep.mode)))
    if on_read and upkeep.compact:
        snapshot = load_snapshot(target.storage, target.config, commits=target.commits)
        done += [
            attempt("compaction", partial(execute_unless_done, target, instant))
            for instant in pending_compactions(snapshot)
        ]
    done.append(attempt("the record index", lambda: compact_record_index(target)))
    timeline = target.commits.active.load()
    indexing = IndexOptions.of(target.config.properties)
    if indexing.inline:
        if whole:
            ratio = min(indexing.changed_ratio, _SERVED_RATIO)
            indexing = replace(indexing, changed_ratio=ratio)
        snapshot = Snapshot(target.storage, target.config, timeline, target.commits)
        done += [
            attempt("compacting an index", partial(compact_index, target, name, indexing))
            for name in due_indexes(snapshot, indexing)
        ]
    if upkeep.clean and _is_clean_due(timeline, target.config.properties, upkeep.clean_every):
        whole = whole or _is_whole_clean_due(timeline)
        done.append(attempt("cleaning", lambda: clean(target, incremental=not whole)))
    if upkeep.archive and _is_archive_due(timeline, target.config.properties):
        done.append(attempt("archiving", lambda: archive(target)))
    return tuple(result for result in done if result is not None)


def _logged(what: str, act: Callable[[], Done | None]) -> Done | None:
    try:
        return act()
    except Exception:
        # Errors of any kind are logged, as above; the service is still due at the next write.
        log.warning("%s failed and stays due; the write is committed", what, exc_info=True)
        return None


def _raised(what: str, act: Callable[[], Done | None]) -> Done | None:
    del what
    return act()


def _is_clean_due(timeline: Timeline, properties: Mapping[str, str], every: int) -> bool:
    """Return whether cleaning may find files to delete, judging by the timeline alone."""
    if timeline.pending(Action.CLEAN):
        return True
    since = _commits_since_clean(timeline)
    options = CleanOptions.of(properties)
    enough = len(timeline.commits) > min(options.commits_retained, options.file_versions_retained)
    # Due at every `every` commits, even if the last attempt found nothing to delete.
    return enough and since > 0 and since % every == 0


def _is_whole_clean_due(timeline: Timeline) -> bool:
    """Return whether the next clean lists the whole table: about one in fifty does.

    Archiving also deletes leftover files. It keeps the timeline too short to count that far, so the
    last instant decides.
    """
    last = timeline.last_instant or ""
    return crc32(last.encode()) % _WHOLE_EVERY == 0


def _commits_since_clean(timeline: Timeline) -> int:
    cleans = timeline.ended(Action.CLEAN)
    last = cleans[-1].requested if cleans else ""
    return sum(commit.requested > last for commit in timeline.commits)


def _is_archive_due(timeline: Timeline, properties: Mapping[str, str]) -> bool:
    return len(timeline.commits) > ArchiveOptions.of(properties).max_commits
