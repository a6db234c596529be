"""The timeline as a value: instants, their states, and the commits that are visible.

An instant has up to three files (requested, in-flight, completed) side by side; here they are one
TimelineInstant in the state of its newest file. A savepoint has the requested time of the commit
that it protects, and is a separate instant.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, Self, TypeAlias

from lakebed.errors import CorruptError
from lakebed.format.names.instant_name import LAYOUT_1, LAYOUT_2, Action, InstantName, State
from lakebed.model.instant import Instant

COMMIT_ACTIONS: Final = frozenset({Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT})
"""Actions that write data, by their completed names."""

PLANNED_ACTIONS: Final = frozenset({Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING})
"""Actions whose requested file is a plan: another attempt can execute it."""

WRITE_ACTIONS: Final = COMMIT_ACTIONS | PLANNED_ACTIONS
"""Actions that write data, by their names in all states (Hudi's write timeline)."""

_REPEATABLE: Final = frozenset({Action.CLEAN, Action.ROLLBACK, Action.RESTORE})
"""Actions that two engines may both complete, which is harmless."""

_Parsed: TypeAlias = tuple[Instant, Action, State, Instant | None]
"""The fields of an InstantName."""

# Constants, because accessing a member of an enum is slow.
_SAVEPOINT: Final = Action.SAVEPOINT
_REQUESTED: Final = State.REQUESTED
_COMPLETED: Final = State.COMPLETED

_PENDING_SUFFIXES: Final = {
    InstantName("0" * 17, action, state).encode()[17:]: (action, state)
    for action in Action
    for state in (State.REQUESTED, State.INFLIGHT)
}
_COMPLETED_SUFFIXES: Final = {f".{action}": action for action in {a.completed for a in Action}}


@dataclass(frozen=True, slots=True)
class TimelineInstant:
    """One instant in the state of its newest file.

    `action` is the name in that file, `plan_action` the name in its requested and in-flight files.
    They differ for a completed compaction, log compaction or clustering.
    """

    requested: Instant
    action: Action
    state: State
    completion: Instant | None
    plan_action: Action
    layout: int = LAYOUT_2

    @property
    def is_completed(self) -> bool:
        """Return whether the instant is completed, not pending."""
        return self.state is State.COMPLETED

    @property
    def file_name(self) -> str:
        """Return the name of the instant's newest file."""
        return self.name_of(self.state).encode()

    def name_of(self, state: State) -> InstantName:
        """Return the name of this instant's file for `state`, which may not exist."""
        if state is State.COMPLETED:
            action, completion = self.action.completed, self.completion
            return InstantName(self.requested, action, state, completion, self.layout)
        return InstantName(self.requested, self.plan_action, state, None, self.layout)


@dataclass(frozen=True, slots=True)
class Timeline:
    """All instants of the active timeline, ordered by requested time.

    With `until`, this is the timeline as of that instant: commits with a greater requested time are
    not visible. Pending instants remain pending, because they affect file slices.
    """

    instants: tuple[TimelineInstant, ...] = ()
    until: Instant | None = None
    commits: tuple[TimelineInstant, ...] = field(init=False, repr=False, compare=False)
    """The completed commits, deltacommits and replacecommits that are visible."""
    first_active: Instant | None = field(init=False, repr=False, compare=False)
    """The start of the active timeline: writes with smaller instants were archived.

    This is the smallest instant of a write in any state. Savepointed commits remain when later
    instants are archived, so they count only if there are no other writes.
    """
    _completed: dict[Instant, TimelineInstant] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        completed = {
            instant.requested: instant
            for instant in self.instants
            if instant.state is _COMPLETED and instant.action in COMMIT_ACTIONS
        }
        commits = tuple(completed.values())
        if self.until is not None:
            commits = tuple(commit for commit in commits if commit.requested <= self.until)
        object.__setattr__(self, "commits", commits)
        object.__setattr__(self, "first_active", _first_active(self.instants))
        object.__setattr__(self, "_completed", completed)

    @classmethod
    def parse(
        cls, names: Iterable[str], layout: int = LAYOUT_2, *, completed_by: Instant | None = None
    ) -> Self:
        """Return the timeline with the given file names, in any order.

        With `completed_by`, instants completed after that time are treated as pending. Names for
        which `InstantName.parse` returns None are ignored. If a clean, rollback or restore was
        completed twice, the first completion counts. Raises CorruptError, with both names, if two
        files contradict each other.
        """
        pending: dict[str, _Parsed] = {}
        completed: dict[str, _Parsed] = {}
        parse_name = _parse_name_1 if layout == LAYOUT_1 else _parse_name
        for name in names:
            parsed = parse_name(name)
            if parsed is None:
                continue
            if completed_by is not None and (parsed[3] or "") > completed_by:
                continue
            # This sorts a savepoint right after the commit that it protects.
            key = f"{parsed[0]}+" if parsed[1] is _SAVEPOINT else parsed[0]
            files = pending if parsed[3] is None else completed
            known = files.get(key)
            if known is not None and (known[1] is not parsed[1] or known[3] != parsed[3]):
                parsed = _first_of(known, parsed, layout)
            if known is None or parsed[2] is not _REQUESTED:
                files[key] = parsed
        keys = sorted(pending.keys() | completed.keys())
        return cls(tuple([_join(pending.get(key), completed.get(key), layout) for key in keys]))

    def completed(self, requested: Instant) -> TimelineInstant | None:
        """Return the visible commit with this requested time, or None."""
        return self._completed.get(requested) if self._is_seen(requested) else None

    def find(self, requested: Instant, plan_action: Action) -> TimelineInstant | None:
        """Return the instant with this requested time and plan action in any state, or None."""
        for instant in self.instants:
            if instant.requested == requested and instant.plan_action is plan_action:
                return instant
        return None

    def pending(self, *actions: Action) -> tuple[TimelineInstant, ...]:
        """Return the pending instants of `actions`, by default of any action."""
        return tuple(
            instant
            for instant in self.instants
            if not instant.is_completed and (not actions or instant.action in actions)
        )

    def ended(self, *actions: Action) -> tuple[TimelineInstant, ...]:
        """Return the completed instants of `actions`."""
        return tuple(instant for instant in self.select(*actions) if instant.is_completed)

    def select(self, *actions: Action) -> tuple[TimelineInstant, ...]:
        """Return the instants of `actions` in any state."""
        return tuple(instant for instant in self.instants if instant.action in actions)

    def is_archived(self, instant: Instant) -> bool:
        """Return whether a write with this `instant` was archived, and so is committed.

        This follows from the order, without reading the archive: an instant is archived only when
        it and all earlier instants are completed, and an instant that was rolled back has no files.
        """
        return (
            self.first_active is not None
            and instant < self.first_active
            and instant not in self._completed
        )

    def is_committed(self, instant: Instant) -> bool:
        """Return whether data files with `instant` in their names are committed."""
        return self._is_seen(instant) and (instant in self._completed or self.is_archived(instant))

    def is_write(self, instant: Instant) -> bool:
        """Return whether an instant is a visible commit of a write, not of a service."""
        commit = self.completed(instant)
        return commit is not None and commit.plan_action in COMMIT_ACTIONS

    def completion_of(self, instant: Instant) -> Instant | None:
        """Return the completion time of a visible commit on the active timeline, otherwise None.

        Completion times of archived commits are only in the archive (`archived.read_completions`).
        """
        commit = self.completed(instant)
        return None if commit is None else commit.completion

    def _is_seen(self, instant: Instant) -> bool:
        return self.until is None or instant <= self.until

    def as_of(self, instant: Instant) -> Self:
        """Return the timeline with only commits requested up to `instant` visible."""
        until = instant if self.until is None else min(instant, self.until)
        return replace(self, until=until)

    @property
    def last_completion(self) -> Instant:
        """Return the greatest completion time of any instant; '' if none is completed."""
        return max((instant.completion or "" for instant in self.instants), default="")

    @property
    def last_instant(self) -> Instant | None:
        """Return the greatest requested or completion time of any instant; None if there are none.

        A new instant must be greater, also than pending instants of other writers.
        """
        times = [instant.requested for instant in self.instants]
        times += [instant.completion for instant in self.instants if instant.completion]
        # An instant of 14 digits stands for the end of its second.
        return max(times, key=lambda time: time.ljust(17, "9"), default=None)


def _first_active(instants: tuple[TimelineInstant, ...]) -> Instant | None:
    """Return Hudi's first non-savepoint commit; `instants` must be sorted."""
    savepoints = {i.requested for i in instants if i.action is Action.SAVEPOINT}
    writes = [instant.requested for instant in instants if instant.action in WRITE_ACTIONS]
    unsaved = (requested for requested in writes if requested not in savepoints)
    return next(unsaved, writes[0] if writes else None)


def _parse_name(name: str) -> _Parsed | None:
    """Parse a name like `InstantName.parse`, but faster for instants of 17 digits.

    Opening a table parses thousands of names, and creating as many InstantNames would take longer
    than listing the folder.
    """
    requested, suffix = name[:17], name[17:]
    if requested.isdecimal() and requested.isascii():
        if (known := _PENDING_SUFFIXES.get(suffix)) is not None:
            return requested, *known, None
        completion, action = suffix[1:18], _COMPLETED_SUFFIXES.get(suffix[18:])
        if action and suffix[0] == "_" and completion.isdecimal() and completion.isascii():
            return requested, action, _COMPLETED, completion
    return _fields(InstantName.parse(name))


def _parse_name_1(name: str) -> _Parsed | None:
    """Parse a name of layout 1, like `_parse_name`."""
    requested, suffix = name[:17], name[17:]
    if requested.isdecimal() and requested.isascii():
        if (known := _PENDING_SUFFIXES.get(suffix)) is not None:
            return requested, *known, None
        if (action := _COMPLETED_SUFFIXES.get(suffix)) is not None:
            return requested, action, _COMPLETED, requested
    return _fields(InstantName.parse(name, LAYOUT_1))


def _fields(name: InstantName | None) -> _Parsed | None:
    return None if name is None else (name.requested, name.action, name.state, name.completion)


def _first_of(one: _Parsed, other: _Parsed, layout: int) -> _Parsed:
    """Return the earlier of two completions of the same repeatable instant.

    Processes that execute the same clean, rollback or restore delete the same files and record the
    same result. Raises CorruptError for any other two files that differ.
    """
    if one[1] is other[1] and one[1] in _REPEATABLE and one[3] and other[3]:
        return min(one, other, key=lambda parsed: parsed[3] or "")
    raise _contradiction(one, other, layout)


def _join(pending: _Parsed | None, completed: _Parsed | None, layout: int) -> TimelineInstant:
    """Combine an instant's newest pending file and its completed file."""
    newest = completed or pending
    assert newest is not None, "a key comes from one of the two"
    plan_action = (pending or newest)[1]
    if completed and pending and plan_action.completed is not completed[1]:
        raise _contradiction(pending, completed, layout)
    return TimelineInstant(*newest, plan_action, layout)


def _contradiction(one: _Parsed, other: _Parsed, layout: int) -> CorruptError:
    names = sorted(InstantName(*parsed, layout).encode() for parsed in (one, other))
    return CorruptError(
        f"timeline: expected one action and one completion time for an instant, "
        f"found {names[0]} and {names[1]}"
    )
