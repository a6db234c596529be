"""When instants leave the active timeline, with Hudi's option names and defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from lakebed.errors import OptionError
from lakebed.services.clean.options import CleanOptions
from lakebed.table.config.property_values import option_number

_MIN: Final = ("hoodie.keep.min.commits",)
_MAX: Final = ("hoodie.keep.max.commits",)
_MERGE: Final = ("hoodie.timeline.compaction.batch.size",)
_DELTAS: Final = ("hoodie.compact.inline.max.delta.commits",)


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """How many commits stay on the active timeline.

    Archiving starts when there are more than `max_commits` and leaves `min_commits`, or as many as
    `clean` retains if that is more. On a merge-on-read table the last `delta_commits` since a
    compaction stay, because their number triggers the next one. `merge_files` archived files of one
    level are merged into one of the next.
    """

    min_commits: int = 20
    max_commits: int = 30
    merge_files: int = 10
    delta_commits: int = 5
    clean: CleanOptions = field(default_factory=CleanOptions)

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        """Parse a table's properties, possibly overlaid with options of a call."""
        least = option_number(properties, _MIN, 20, least=1)
        most = option_number(properties, _MAX, 30 if least < 30 else least + 10, least=1)
        if most <= least:
            raise OptionError(
                f"option {_MAX[0]}={most}: want more than {_MIN[0]}, which is {least}"
            )
        return cls(
            least,
            most,
            option_number(properties, _MERGE, 10, least=2),
            option_number(properties, _DELTAS, 5, least=1),
            CleanOptions.of(properties),
        )
