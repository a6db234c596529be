"""The point in time, or the range of commits, that the options of a read select."""

import logging
from collections.abc import Mapping, Sequence

from lakebed.model.options.read import ReadOptions
from lakebed.table.changes.commit_range import RangeCommit, commits_between
from lakebed.table.location import TableFolder, find_table
from lakebed.table.snapshot import Snapshot, load_snapshot
from lakebed.table.time_travel import History
from lakebed.timeline.active import ActiveTimeline

log = logging.getLogger(__name__)


def wants_changes(given: Mapping[str, str]) -> bool:
    """Return whether a read or a stream asks for change rows."""
    return ReadOptions.parse(given, needs_begin=False)[0].mode == "cdc"


def parsed(given: Mapping[str, str], *, needs_begin: bool = True) -> ReadOptions:
    """Parse the options of a read, and log options that have no effect."""
    options, lines = ReadOptions.parse(given, needs_begin=needs_begin)
    for line in lines:
        log.info(line)
    return options


def snapshot_of(options: ReadOptions) -> tuple[Snapshot, TableFolder]:
    """Return the snapshot that the options select: the latest, or as of a time.

    If the path is that of a partition, the rows of that partition are selected, as in Hudi.
    """
    place = find_table(options.path, options.storage_options)
    config = place.config
    active = ActiveTimeline(place.root, config.timeline_path)
    history = History(place.root, config, active)
    as_of = None if options.as_of is None else history.instant_of(options.as_of)
    snapshot = load_snapshot(place.root, config, as_of)
    if place.folder:
        place.check_partition(snapshot.slices)
    return snapshot, place


def commits_of(options: ReadOptions, snapshot: Snapshot) -> Sequence[RangeCommit]:
    """Return the commits of the range that the options select."""
    history = History(snapshot.storage, snapshot.config, snapshot.commits.active)
    since = None if options.since is None else history.since(options.since)
    until = None if options.until is None else history.until(options.until)
    return commits_between(snapshot, since, until)
