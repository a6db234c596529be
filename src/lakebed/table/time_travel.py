"""Points in a table's history as callers name them: times, versions and tags.

A version is the number of a commit in order of completion, counted from 0; archived commits count
too. A tag is the comment of a savepoint.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import cast

from lakebed.errors import InvalidError
from lakebed.format.names.instant_name import Action
from lakebed.format.timeline.plans import PlanKind, parse_plan
from lakebed.model.instant import Instant, resolve_as_of, resolve_since
from lakebed.storage.storage import Storage
from lakebed.table.config.table_config import TableConfig
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.archived import read_completions

PointInTime = str | date | datetime | int
"""A point in time, a version number, or a tag."""

_TAG, _VERSION = "tag:", "version:"
# Instants and counts of seconds have at least 10 digits.
_VERSION_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Version:
    """A commit and its number; `completion` is the requested time if it is not known."""

    number: int
    requested: Instant
    completion: Instant


@dataclass(frozen=True, slots=True)
class History:
    """The named points of a table's history, read when they are needed."""

    storage: Storage
    config: TableConfig
    active: ActiveTimeline

    def instant_of(self, value: PointInTime) -> Instant:
        """Return the instant as of which to read; only commits that had started by then count."""
        return self._resolved(
            value, lambda text: resolve_as_of(text, self.config.zone), lambda found: found.requested
        )

    def since(self, value: PointInTime) -> Instant | None:
        """Return the completion time after which a range starts; None for the first commit."""
        found = self._resolved(
            value,
            lambda text: resolve_since(text, self.config.zone) or "",
            lambda found: found.completion,
        )
        return found or None

    def until(self, value: PointInTime) -> Instant:
        """Return the completion time at which a range ends."""
        return self._resolved(
            value,
            lambda text: resolve_as_of(text, self.config.zone),
            lambda found: found.completion,
        )

    def versions(self) -> list[Version]:
        """Return all commits in order of completion."""
        found = dict(read_completions(self.storage, self.config.history_path))
        for commit in self.active.load().commits:
            found[commit.requested] = commit.completion or ""
        ends = sorted((done or requested, requested) for requested, done in found.items())
        return [Version(at, requested, done) for at, (done, requested) in enumerate(ends)]

    def tags(self) -> Iterator[tuple[str, Instant]]:
        """Yield the comment and the instant of each savepoint that has a comment."""
        for savepoint in self.active.load().ended(Action.SAVEPOINT):
            what = f"instant {savepoint.file_name}"
            values = parse_plan(PlanKind.SAVEPOINT, self.active.read(savepoint), what)
            comment = cast("str | None", values["comments"])
            if comment:
                yield comment, savepoint.requested

    def _resolved(
        self,
        value: PointInTime,
        parse: Callable[[str | date | datetime], Instant],
        pick: Callable[[Version], Instant],
    ) -> Instant:
        if isinstance(value, int) and not isinstance(value, bool):
            return pick(self._version(value))
        text = value if isinstance(value, str) else ""
        if text.startswith(_TAG):
            return pick(self._tagged(text.removeprefix(_TAG)))
        if text.startswith(_VERSION) and text.removeprefix(_VERSION).isdecimal():
            return pick(self._version(int(text.removeprefix(_VERSION))))
        try:
            return parse(cast("str | date | datetime", value))
        except InvalidError as error:
            if text.isdecimal() and len(text) <= _VERSION_DIGITS:
                return pick(self._version(int(text)))
            tags = [tag for tag, _ in self.tags()] if text else []
            if text in tags:
                return pick(self._tagged(text))
            known = ", ".join(map(repr, tags[:5])) or "there is none"
            raise InvalidError(
                f"{error}; or a version number, or the comment of a savepoint ({known})"
            ) from error

    def _version(self, number: int) -> Version:
        known = self.versions()
        if not 0 <= number < len(known):
            have = f"0 to {len(known) - 1}" if known else "none: nothing has been written"
            raise InvalidError(
                f"version {number} of table {self.config.name!r}: expected one of its versions, {have}"
            )
        return known[number]

    def _tagged(self, tag: str) -> Version:
        held = list(self.tags())
        found = [instant for comment, instant in held if comment == tag]
        if len(found) != 1:
            known = ", ".join(repr(comment) for comment, _ in held) or "none"
            count = f"{len(found)} savepoints have" if found else "no savepoint has"
            raise InvalidError(
                f"tag {tag!r}: {count} this comment; pass an instant, or one of the tags: {known}"
            )
        version = next((v for v in self.versions() if v.requested == found[0]), None)
        return version or Version(-1, found[0], found[0])
