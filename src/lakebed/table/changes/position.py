"""Positions on a timeline: how far a stream has read a table.

A position is the completion time of the last commit that was read, and which of the commits that
completed at that time were read: clocks of other engines can complete two in one millisecond.
Commits are read in order of completion, so one that started early and completed late is not
missed. Table services change no rows and never end a range.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

from lakebed.errors import InvalidError, UnsupportedError
from lakebed.format.names.instant_name import LAYOUT_1
from lakebed.model.instant import Instant
from lakebed.model.options.stream import Limits
from lakebed.table.changes.commit_range import (
    RangeCommit,
    archived_commits,
    check_range,
    range_commit,
)
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.retention import rewrites
from lakebed.table.snapshot import Snapshot
from lakebed.timeline.archived import read_archived, read_version
from lakebed.timeline.timeline import COMMIT_ACTIONS


@dataclass(frozen=True, slots=True)
class Position:
    """How far a stream has read: all that completed before `completion`, and `instants` at it."""

    completion: Instant = ""
    instants: tuple[Instant, ...] = ()

    def precedes(self, completion: Instant, requested: Instant) -> bool:
        """Return whether a commit is after this position."""
        if completion == self.completion:
            return requested not in self.instants
        return completion > self.completion

    def plus(self, commit: RangeCommit) -> "Position":
        """Return the position after another commit was read."""
        same = self.instants if commit.completion == self.completion else ()
        return Position(commit.completion, tuple(sorted({*same, commit.requested})))

    def to_json(self) -> dict[str, object]:
        """Return the position as a value for JSON."""
        return {"completion": self.completion, "instants": list(self.instants)}

    @classmethod
    def parse(cls, value: object) -> Self:
        """Parse what `to_json` returned; raise InvalidError for anything else."""
        if isinstance(value, dict):
            completion, instants = value.get("completion"), value.get("instants", [])
            texts = isinstance(instants, list) and all(isinstance(i, str) for i in instants)
            if isinstance(completion, str) and texts:
                return cls(completion, tuple(sorted(instants)))
        raise InvalidError(
            f"stream offset {value!r}: expected {{'completion': ..., 'instants': [...]}}; the "
            "checkpoint belongs to another source"
        )


def check_stream(config: TableConfig) -> None:
    """Raise UnsupportedError if the commits of a table cannot be read in order of completion."""
    check_range(config, None, None)
    if config.timeline_layout == LAYOUT_1:
        raise UnsupportedError(
            f"table {config.name!r} has version {config.version}: its timeline does not say when "
            "commits completed, so a stream could miss one that took long; upgrade the table with "
            "Hudi, or read ranges of time"
        )


@dataclass
class CommitFeed:
    """The commits of a table after a position; keeps what it knows of the archive between calls."""

    _archive: int | None = field(default=None, init=False)
    _archived: tuple[tuple[Instant, Instant], ...] = field(default=(), init=False)

    def after(
        self, snapshot: Snapshot, start: Position, end: Position | None = None
    ) -> list[RangeCommit]:
        """Return the commits after `start` and up to `end`, in order of completion."""

        def is_due(completion: Instant, requested: Instant) -> bool:
            passed = end is not None and end.precedes(completion, requested)
            return start.precedes(completion, requested) and not passed

        found = [
            range_commit(snapshot, commit)
            for commit in snapshot.timeline.commits
            if commit.completion is not None and is_due(commit.completion, commit.requested)
        ]
        wanted = {
            requested
            for requested, completion in self._archived_times(snapshot)
            if is_due(completion, requested) and snapshot.timeline.completed(requested) is None
        }
        if wanted:
            found += [
                RangeCommit(requested, completion, metadata, rewrites(metadata))
                for requested, completion, metadata in archived_commits(snapshot, min(wanted))
                if requested in wanted
            ]
        return sorted(found, key=lambda commit: (commit.completion, commit.requested))

    def at(self, snapshot: Snapshot, completion: Instant) -> Position:
        """Return the position of all commits that completed up to a time."""
        commits = [c for c in self._times(snapshot) if c[1] == completion]
        return Position(completion, tuple(sorted(requested for requested, _ in commits)))

    def latest(self, snapshot: Snapshot) -> Position:
        """Return the position after the last write."""
        active = [commit for commit in snapshot.timeline.commits if commit.completion is not None]
        for commit in sorted(active, key=lambda one: one.completion or "", reverse=True):
            found = range_commit(snapshot, commit)
            if not found.is_service:
                return self.at(snapshot, found.completion)
        last = max((completion for _, completion in self._times(snapshot)), default="")
        return self.at(snapshot, last)

    def missing(self, snapshot: Snapshot, position: Position) -> list[Instant]:
        """Return the commits of a position that are neither active nor archived any more."""
        if not position.instants:
            return []
        there = {r for r, completion in self._times(snapshot) if completion == position.completion}
        return sorted(set(position.instants) - there)

    def _times(self, snapshot: Snapshot) -> Iterator[tuple[Instant, Instant]]:
        for commit in snapshot.timeline.commits:
            if commit.completion is not None:
                yield commit.requested, commit.completion
        yield from self._archived_times(snapshot)

    def _archived_times(self, snapshot: Snapshot) -> tuple[tuple[Instant, Instant], ...]:
        """Return requested and completion time of the archived commits."""
        storage, folder = snapshot.storage, snapshot.config.history_path
        version = read_version(storage, folder)
        if version is None:
            return ()
        if version != self._archive:
            self._archived = tuple(
                (row.requested, row.completion)
                for row in read_archived(storage, folder, columns=())
                if row.action in COMMIT_ACTIONS
            )
            self._archive = version
        return self._archived


def advance(start: Position, commits: Sequence[RangeCommit], limits: Limits | None) -> Position:
    """Return the position after as many of `commits` as the limits allow, at least one.

    Table services count for nothing, and do not move the position on their own.
    """
    found = start
    for commit in _within(commits, limits or Limits()):
        found = found.plus(commit)
    return found


def _within(commits: Iterable[RangeCommit], limits: Limits) -> Iterator[RangeCommit]:
    taken = rows = size_bytes = 0
    for commit in commits:
        if commit.is_service:
            continue
        stats = list(commit.metadata.write_stats())
        taken += 1
        rows += sum((stat.num_writes or 0) + (stat.num_deletes or 0) for stat in stats)
        size_bytes += sum(stat.total_write_bytes or stat.file_size_in_bytes or 0 for stat in stats)
        over = (
            (limits.commits and taken > limits.commits)
            or (limits.rows and rows > limits.rows)
            or (limits.size_bytes and size_bytes > limits.size_bytes)
        )
        if over and taken > 1:
            return
        yield commit
