"""Names of the files of a timeline, layouts 1 and 2.

    requested   <T>.<action>.requested
    in flight   <T>.<action>.inflight, but <T>.inflight for the action commit
    completed   <T>_<C>.<action>, in layout 1 <T>.<action>

T is the time at which the action was requested, C the time at which it completed. Layout 1 (table
versions up to 6) does not store C; T is used instead. On completion, three actions change their
name: compaction becomes commit, logcompaction deltacommit, and clustering replacecommit. Agrees
with Hudi's InstantFileNameGeneratorV1 and V2.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from lakebed.errors import FileNameError, InvalidError, UnsupportedError

LAYOUT_1: Final = 1
"""`hoodie.timeline.layout.version` of tables up to version 6."""
LAYOUT_2: Final = 2
"""`hoodie.timeline.layout.version` of tables from version 8 on."""


class Action(StrEnum):
    """The action of an instant. Stored on disk: do not change the values."""

    COMMIT = "commit"
    DELTACOMMIT = "deltacommit"
    REPLACECOMMIT = "replacecommit"
    COMPACTION = "compaction"
    LOGCOMPACTION = "logcompaction"
    CLUSTERING = "clustering"
    CLEAN = "clean"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    RESTORE = "restore"
    INDEXING = "indexing"

    @property
    def completed(self) -> "Action":
        """Return the name of this action once it is completed."""
        return _COMPLETED_WORD.get(self, self)


class State(StrEnum):
    """The state of an instant. Stored in cleaner plans: do not change the values."""

    REQUESTED = "REQUESTED"
    INFLIGHT = "INFLIGHT"
    COMPLETED = "COMPLETED"


_COMPLETED_WORD: Final = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOGCOMPACTION: Action.DELTACOMMIT,
    Action.CLUSTERING: Action.REPLACECOMMIT,
}
_INSTANT: Final = re.compile(r"[0-9]{14,20}")
_LOOKS_LIKE: Final = re.compile(
    r"(?P<requested>[0-9]{14,20})(?:_(?P<completion>[^.]*))?\.(?P<rest>.*)"
)
# Hudi first writes an instant under its name and a random UUID, then renames it.
_UNFINISHED = re.compile(r".+\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TEMPORARY: Final = ".tmp"
_SHAPE: Final = "expected <T>.<action>.requested, <T>.<action>.inflight or "
_COMPLETED_SHAPE: Final = {LAYOUT_1: "<T>.<action>", LAYOUT_2: "<T>_<C>.<action>"}


@dataclass(frozen=True, slots=True)
class InstantName:
    """Name of one file of the timeline; `completion` is None unless the instant is completed.

    In layout 1, the completion time is the requested time.

    >>> InstantName.parse("20240101000000001.inflight")
    InstantName(requested='20240101000000001', action=<Action.COMMIT: 'commit'>, state=<State.INFLIGHT: 'INFLIGHT'>, completion=None, layout=2)
    """

    requested: str
    action: Action
    state: State
    completion: str | None = None
    layout: int = LAYOUT_2

    def __post_init__(self) -> None:
        for instant in (self.requested, self.completion):
            if instant is not None and not _INSTANT.fullmatch(instant):
                raise InvalidError(f"instant {instant!r}: expected 14 to 20 digits")
        if (self.state is State.COMPLETED) is not (self.completion is not None):
            raise InvalidError(f"{self}: expected a completion time exactly when completed")
        if self.state is State.COMPLETED and self.action in _COMPLETED_WORD:
            raise InvalidError(f"{self}: a completed {self.action} is {self.action.completed}")
        if self.layout == LAYOUT_1 and self.completion not in (None, self.requested):
            raise InvalidError(
                f"{self}: layout 1 knows no other completion time than {self.requested}"
            )

    @classmethod
    def parse(cls, name: str, layout: int = LAYOUT_2) -> Self | None:
        """Parse `name`.

        Returns None for a file that is not an instant (hidden, `history`, temporary).

        Raises FileNameError for a name that starts like that of an instant but is invalid: ignoring
        an instant could make reads return wrong rows.
        """
        match = _LOOKS_LIKE.fullmatch(name)
        if match is None or name.endswith(_TEMPORARY) or _UNFINISHED.fullmatch(name):
            return None
        if match["completion"] is not None:
            return cls._parse_completed(name, match, layout)
        word, _, suffix = match["rest"].rpartition(".")
        if suffix == "inflight":
            # Pending files of a commit have no action in their name.
            action = _parse_action(name, word, layout) if word else Action.COMMIT
            if word == Action.COMMIT:
                raise FileNameError(
                    f"instant {name!r}: the in-flight file of a commit is <T>.inflight"
                )
            return cls(match["requested"], action, State.INFLIGHT, None, layout)
        if suffix == "requested" and word:
            action = _parse_action(name, word, layout)
            return cls(match["requested"], action, State.REQUESTED, None, layout)
        if not word and (layout == LAYOUT_1 or suffix in {*map(str, Action)}):
            return cls._parse_completed(name, match, layout)
        _parse_action(name, suffix, layout)
        raise FileNameError(f"instant {name!r}: {_shape(layout)}")

    @classmethod
    def _parse_completed(cls, name: str, match: re.Match[str], layout: int) -> Self:
        requested, completion = match["requested"], match["completion"]
        if (completion is None) is not (layout == LAYOUT_1):
            raise UnsupportedError(
                f"instant {name!r}: expected {_COMPLETED_SHAPE[layout]} in a table of timeline layout "
                f"{layout}; it is of layout {LAYOUT_2 if layout == LAYOUT_1 else LAYOUT_1}"
            )
        action = _parse_action(name, match["rest"], layout)
        if completion is not None and not _INSTANT.fullmatch(completion):
            raise FileNameError(f"instant {name!r}: expected a completion time of 14 to 20 digits")
        if action in _COMPLETED_WORD:
            raise FileNameError(
                f"instant {name!r}: expected the word {action.completed} for a completed {action}"
            )
        return cls(requested, action, State.COMPLETED, completion or requested, layout)

    def encode(self) -> str:
        """Return the name as a string."""
        if self.state is State.COMPLETED and self.layout == LAYOUT_1:
            return f"{self.requested}.{self.action}"
        if self.state is State.COMPLETED:
            return f"{self.requested}_{self.completion}.{self.action}"
        if self.state is State.REQUESTED:
            return f"{self.requested}.{self.action}.requested"
        if self.action is Action.COMMIT:
            return f"{self.requested}.inflight"
        return f"{self.requested}.{self.action}.inflight"


def _shape(layout: int) -> str:
    return _SHAPE + _COMPLETED_SHAPE[layout]


def _parse_action(name: str, word: str, layout: int) -> Action:
    try:
        return Action(word)
    except ValueError:
        pass
    if "." in word or not word:
        raise FileNameError(f"instant {name!r}: {_shape(layout)}")
    raise UnsupportedError(
        f"instant {name!r}: unknown action {word!r}, expected one of {[*map(str, Action)]}"
    )
