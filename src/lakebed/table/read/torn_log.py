"""Decides whether rows were lost if bytes of a log do not form a complete block.

A writer that dies or fails in the middle of a block leaves such bytes, and on a file system with
appends the next attempt continues after them. Hudi's readers skip them. So do we, but only if the
commits show that the complete blocks hold everything that was written: a file that was damaged
later looks the same, and its rows would be silently lost.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from lakebed.errors import CorruptError, LakebedError
from lakebed.format.logs.delete_columns import decode_deletes
from lakebed.format.logs.log_block import BlockType, CorruptSpan, HeaderKey
from lakebed.format.logs.log_scan import BlockSpan
from lakebed.format.names.instant_name import LAYOUT_1
from lakebed.storage.storage import Storage
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.commit_cache import CommitCache
from lakebed.table.files.file_group import LogFile
from lakebed.table.read.parquet_source import open_parquet
from lakebed.table.read.run_reader import MAX_DELETE_BYTES
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.timeline import Timeline

log = logging.getLogger(__name__)

_COUNT = slice(4, 8)


@dataclass(frozen=True, slots=True)
class TornLog:
    """A log file with bytes that do not form complete blocks, and its complete blocks."""

    file: LogFile
    spans: tuple[CorruptSpan, ...]
    blocks: tuple[BlockSpan, ...]

    @classmethod
    def of(cls, file: LogFile, places: Iterable[BlockSpan | CorruptSpan]) -> Self | None:
        """Return the torn log; None if the log is intact."""
        places = list(places)
        spans = tuple(place for place in places if isinstance(place, CorruptSpan))
        blocks = tuple(place for place in places if isinstance(place, BlockSpan))
        return cls(file, spans, blocks) if spans else None


def check_torn(storage: Storage, config: TableConfig, torn: TornLog) -> None:
    """Log a warning if the complete blocks hold all committed rows; otherwise raise an error."""
    span = torn.spans[0]
    where = (
        f"log file {torn.file.path!r}, block at byte {span.offset}: {span.size_bytes} bytes are "
        f"not a complete block ({span.reason})"
    )
    way_out = (
        f"restore the file from a backup, or roll back the instant {torn.file.name.instant} that "
        "wrote it"
    )
    # The current timeline is used even if an earlier one is read: a later rollback explains a torn
    # block.
    commits = CommitCache(ActiveTimeline(storage, config.timeline_path), config.history_path)
    timeline = commits.active.load()
    first = timeline.first_active if config.timeline_layout == LAYOUT_1 else None
    wanted = _written(commits, timeline, torn.file)
    if not wanted and _was_never_committed(torn.file, first):
        log.warning("%s; its writer never completed, so the file is skipped", where)
        return
    if not wanted:
        raise CorruptError(f"{where}, and no commit on the timeline records its content: {way_out}")
    if _is_older_than_timeline(torn.file, first):
        raise CorruptError(
            f"{where}, and commits that are archived may have written to the file too: {way_out}"
        )
    found = _whole(storage, torn)
    for instant, rows in wanted.items():
        if found[instant] < rows:
            raise CorruptError(
                f"{where}: the instant {instant} wrote {rows} rows and deletes, found "
                f"{found[instant]}: {way_out}"
            )
    log.warning("%s; the complete blocks hold all committed rows, so it is skipped", where)


def _was_never_committed(file: LogFile, first: str | None) -> bool:
    """Return whether a file that no commit on the timeline lists was never part of a commit.

    Up to table version 6 a log is named after its slice, so its name is visible even if its writer
    died. Everything that was ever written to a slice of the active timeline, which starts at
    `first`, is on the timeline too.
    """
    return first is not None and file.name.instant >= first


def _is_older_than_timeline(file: LogFile, first: str | None) -> bool:
    """Return whether a log of many commits, as in version 6, may hold blocks of archived commits."""
    return first is not None and file.name.instant < first


def _written(commits: CommitCache, timeline: Timeline, file: LogFile) -> Mapping[str, int]:
    """Return how many rows and deletes each commit recorded for the file."""
    written: Counter[str] = Counter()
    for instant in timeline.commits:
        for stat in commits.read(instant).write_stats():
            if (stat.path or "").lstrip("/") == file.path:
                written[instant.requested] += (stat.num_writes or 0) + (stat.num_deletes or 0)
    return written


def _whole(storage: Storage, torn: TornLog) -> Counter[str]:
    """Count the rows and deletes of the complete blocks, by the instant of their commit."""
    found: Counter[str] = Counter()
    for block in torn.blocks:
        instant = block.headers.get(HeaderKey.INSTANT_TIME)
        if instant is not None:
            found[instant] += _rows(storage, torn.file.path, block)
    return found


def _rows(storage: Storage, path: str, block: BlockSpan) -> int:
    what = f"log file {path!r}, block content at byte {block.content_offset}"
    start, length = block.content_offset, block.content_length
    try:
        if block.type is BlockType.PARQUET_DATA:
            with open_parquet(storage, path, what, offset=start, length=length) as file:
                return file.num_rows
        if block.type is BlockType.AVRO_DATA and length >= _COUNT.stop:
            return int.from_bytes(storage.read_range(path, start, _COUNT.stop)[_COUNT], "big")
        if block.type is BlockType.DELETE and length <= MAX_DELETE_BYTES:
            return len(decode_deletes(storage.read_range(path, start, length), [], what).keys)
    except LakebedError:
        return 0  # the reader of the block reports the problem
    return 0
