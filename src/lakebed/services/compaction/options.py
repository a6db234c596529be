"""The compaction options of a table."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Self

from lakebed.errors import OptionError
from lakebed.table.config.property_values import LARGE, option_number

_STRATEGY = "hoodie.compact.inline.trigger.strategy"
_COMMITS = "hoodie.compact.inline.max.delta.commits"
_SECONDS = "hoodie.compact.inline.max.delta.seconds"
_LOG_SIZE = "hoodie.compaction.logfile.size.threshold"
_LOG_COUNT = "hoodie.compaction.logfile.num.threshold"
_BLOCKS = "hoodie.log.compaction.blocks.threshold"
_TARGET_IO = "hoodie.compaction.target.io"
_RATIO = "lakebed.compaction.log.ratio"

_number = partial(option_number, most=LARGE)


class Trigger(StrEnum):
    """When a compaction is due: by the number of delta commits, by time, or by both."""

    NUM_COMMITS = "NUM_COMMITS"
    NUM_COMMITS_AFTER_LAST_REQUEST = "NUM_COMMITS_AFTER_LAST_REQUEST"
    TIME_ELAPSED = "TIME_ELAPSED"
    NUM_AND_TIME = "NUM_AND_TIME"
    NUM_OR_TIME = "NUM_OR_TIME"


class Mode(StrEnum):
    """What a compaction does: rewrite base files, merge logs only, or choose per file group."""

    FULL = "full"
    LOG = "log"
    HYBRID = "hybrid"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a mode; raise OptionError listing the valid ones."""
        try:
            return cls(text)
        except ValueError:
            raise OptionError(f"compaction mode {text!r}: want {' or '.join(cls)}") from None


@dataclass(frozen=True, slots=True)
class CompactionOptions:
    """Hudi's settings under short names, with Hudi's defaults; `log_ratio` is our own.

    Sizes are in bytes, except for `target_io_mb`, the most that one plan reads and writes.
    """

    trigger: Trigger = Trigger.NUM_COMMITS
    max_delta_commits: int = 5
    max_delta_seconds: int = 3600
    log_size_threshold: int = 0
    log_count_threshold: int = 0
    blocks_threshold: int = 5
    target_io_mb: int = 500 * 1024
    log_ratio: float = 0.25

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> Self:
        """Parse `properties`; raise OptionError for an invalid value."""
        return cls(
            _trigger(properties),
            _number(properties, _COMMITS, cls().max_delta_commits),
            _number(properties, _SECONDS, cls().max_delta_seconds),
            _number(properties, _LOG_SIZE, cls().log_size_threshold),
            _number(properties, _LOG_COUNT, cls().log_count_threshold),
            _number(properties, _BLOCKS, cls().blocks_threshold),
            _number(properties, _TARGET_IO, cls().target_io_mb),
            _ratio(properties, cls().log_ratio),
        )


def _trigger(properties: Mapping[str, str]) -> Trigger:
    text = properties.get(_STRATEGY, "").strip().upper()
    if text and text not in Trigger.__members__:
        raise OptionError(f"option {_STRATEGY}={text}: want {' or '.join(Trigger)}")
    return Trigger(text) if text else Trigger.NUM_COMMITS


def _ratio(properties: Mapping[str, str], default: float) -> float:
    text = properties.get(_RATIO, "").strip()
    if not text:
        return default
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise OptionError(f"option {_RATIO}={text}: want a number, 0 or greater")
    return found
