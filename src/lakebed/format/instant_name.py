"""Names of the files of a timeline, layout 2.

    requested   <T>.<action>.requested
    in flight   <T>.<action>.inflight, but <T>.inflight for the action commit
    completed   <T>_<C>.<action>

T is the instant at which the action was requested, C that at which it completed. Three
actions change their word when they complete: compaction becomes commit, logcompaction
deltacommit, and clustering replacecommit. Agrees with Hudi's InstantFileNameGeneratorV2.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from lakebed.errors import FileNameError, InvalidError, UnsupportedError


class Action(StrEnum):
    """What an instant does. The values are on disk: do not change."""

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
        """The word that this action has once it is completed."""
        return _COMPLETED_WORD.get(self, self)


class State(StrEnum):
    """How far an instant is. The values are on disk, in cleaner plans: do not change."""

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
# Hudi writes an instant under its name and a random UUID first, and renames it.
_UNFINISHED = re.compile(r".+\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TEMPORARY: Final = ".tmp"
_SHAPE: Final = "want <T>.<action>.requested, <T>.<action>.inflight or <T>_<C>.<action>"


@dataclass(frozen=True, slots=True)
class InstantName:
    """Name of one file of the timeline; `completion` is there exactly when it is completed.

    >>> InstantName.parse("20240101000000001.inflight")
    InstantName(requested='20240101000000001', action=<Action.COMMIT: 'commit'>, \
state=<State.INFLIGHT: 'INFLIGHT'>, completion=None)
    """

    requested: str
    action: Action
    state: State
    completion: str | None = None

    def __post_init__(self) -> None:
        for instant in (self.requested, self.completion):
            if instant is not None and not _INSTANT.fullmatch(instant):
                raise InvalidError(f"instant {instant!r}: want 14 to 20 digits")
        if (self.state is State.COMPLETED) is not (self.completion is not None):
            raise InvalidError(f"{self}: want a completion time exactly when completed")
        if self.state is State.COMPLETED and self.action in _COMPLETED_WORD:
            raise InvalidError(f"{self}: a completed {self.action} is {self.action.completed}")

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Parse `name`; None for a file that is no instant (hidden, `history`, temporary).

        A name that begins as an instant does but goes on otherwise is refused: a timeline
        that is read without it could show rows that are not there, or hide some.
        """
        match = _LOOKS_LIKE.fullmatch(name)
        if match is None or name.endswith(_TEMPORARY) or _UNFINISHED.fullmatch(name):
            return None
        if match["completion"] is not None:
            return cls._parse_completed(name, match)
        word, _, suffix = match["rest"].rpartition(".")
        if suffix == "inflight":
            # Hudi's oldest pending files had no action word, and commit kept that.
            action = _parse_action(name, word) if word else Action.COMMIT
            if word == Action.COMMIT:
                raise FileNameError(
                    f"instant {name!r}: the in-flight file of a commit is <T>.inflight"
                )
            return cls(match["requested"], action, State.INFLIGHT)
        if suffix == "requested" and word:
            return cls(match["requested"], _parse_action(name, word), State.REQUESTED)
        if not word and suffix in {*map(str, Action)}:
            raise UnsupportedError(
                f"instant {name!r}: want <T>_<C>.<action>; without a completion time it is of "
                "timeline layout 1, which we do not read"
            )
        _parse_action(name, suffix)
        raise FileNameError(f"instant {name!r}: {_SHAPE}")

    @classmethod
    def _parse_completed(cls, name: str, match: re.Match[str]) -> Self:
        action = _parse_action(name, match["rest"])
        if not _INSTANT.fullmatch(match["completion"]):
            raise FileNameError(f"instant {name!r}: want a completion time of 14 to 20 digits")
        if action in _COMPLETED_WORD:
            raise FileNameError(
                f"instant {name!r}: want the word {action.completed} for a completed {action}"
            )
        return cls(match["requested"], action, State.COMPLETED, match["completion"])

    def encode(self) -> str:
        """Write the name."""
        if self.state is State.COMPLETED:
            return f"{self.requested}_{self.completion}.{self.action}"
        if self.state is State.REQUESTED:
            return f"{self.requested}.{self.action}.requested"
        if self.action is Action.COMMIT:
            return f"{self.requested}.inflight"
        return f"{self.requested}.{self.action}.inflight"


def _parse_action(name: str, word: str) -> Action:
    try:
        return Action(word)
    except ValueError:
        pass
    if "." in word or not word:
        raise FileNameError(f"instant {name!r}: {_SHAPE}")
    raise UnsupportedError(
        f"instant {name!r}: unknown action {word!r}, want one of {[*map(str, Action)]}"
    )
