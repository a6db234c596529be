"""What cleaning keeps, with Hudi's option names and defaults."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from lakebed.errors import OptionError
from lakebed.table.config.property_values import given, option_number

_POLICY: Final = ("hoodie.clean.policy", "hoodie.cleaner.policy")
_COMMITS: Final = ("hoodie.clean.commits.retained", "hoodie.cleaner.commits.retained")
_HOURS: Final = ("hoodie.clean.hours.retained", "hoodie.cleaner.hours.retained")
_VERSIONS: Final = ("hoodie.clean.fileversions.retained", "hoodie.cleaner.fileversions.retained")
_MIN_AGE: Final = ("lakebed.clean.min.age.seconds",)


class CleanPolicy(StrEnum):
    """How retention is measured. The values are on disk: do not change."""

    KEEP_LATEST_COMMITS = "KEEP_LATEST_COMMITS"
    KEEP_LATEST_BY_HOURS = "KEEP_LATEST_BY_HOURS"
    KEEP_LATEST_FILE_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"


@dataclass(frozen=True, slots=True)
class CleanOptions:
    """How much history stays readable.

    Whatever the policy, no file is deleted that was the newest of its file group within the last
    `min_age_seconds`: a query that started no longer ago than that never loses a file, however fast
    commits follow one another. A longer query is safe as long as the commit that it reads is
    retained. With None, no query is considered, and this machine's clock does not matter.
    """

    policy: CleanPolicy = CleanPolicy.KEEP_LATEST_COMMITS
    commits_retained: int = 10
    hours_retained: int = 24
    file_versions_retained: int = 3
    min_age_seconds: int | None = 300

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        """Parse a table's properties, possibly overlaid with options of a call.

        >>> CleanOptions.of({"hoodie.clean.commits.retained": "3"}).commits_retained
        3
        """
        text = given(properties, _POLICY)
        try:
            policy = CleanPolicy((text or CleanPolicy.KEEP_LATEST_COMMITS).upper())
        except ValueError:
            raise OptionError(
                f"option {_POLICY[0]}={text}: want {' or '.join(CleanPolicy)}"
            ) from None
        return cls(
            policy,
            option_number(properties, _COMMITS, 10, least=1),
            option_number(properties, _HOURS, 24, least=1),
            option_number(properties, _VERSIONS, 3, least=1),
            option_number(properties, _MIN_AGE, 300, least=0),
        )
