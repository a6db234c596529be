"""The result of a verification: its findings, and counts of the checked items."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lakebed.terminal.text import plural

ADVICE_LOST = (
    "restore the file from a backup, restore a savepoint (lakebed restore), write the partition "
    "again (insert_overwrite), or remove the damaged slice: lakebed repair --drop-lost"
)
ADVICE_UNKNOWN = f"if a newer release writes to the table, use that one; if not, {ADVICE_LOST}"
ADVICE_REWRITE = (
    "read the rows and write them again (insert_overwrite of the partition), or remove the slice: "
    "lakebed repair --drop-lost"
)


class Severity(StrEnum):
    """How serious a finding is."""

    ERROR = "error"
    """Rows are wrong, lost or cannot be read, by Lakebed or by Apache Hudi."""
    WARNING = "warning"
    """No reader is affected yet, but the problem needs attention."""
    NOTE = "note"
    """The finding is for information only."""


class Code(StrEnum):
    """The kinds of findings: stable names, for scripts."""

    PROPERTIES_BAD = "properties-bad"
    PROPERTIES_CHECKSUM = "properties-checksum"
    PROPERTIES_BACKUP = "properties-backup"
    TIMELINE_BAD = "timeline-bad"
    INSTANT_STATES = "instant-states"
    INSTANT_UNREADABLE = "instant-unreadable"
    INSTANT_PENDING = "instant-pending"
    ARCHIVE_BAD = "archive-bad"
    FILE_MISSING = "file-missing"
    FILE_SIZE = "file-size"
    FILE_LEFTOVER = "file-leftover"
    UNCOMMITTED_BASE = "uncommitted-base"
    FILE_UNREADABLE = "file-unreadable"
    FILE_UNSUPPORTED = "file-unsupported"
    FILE_SCHEMA = "file-schema"
    ROW_COUNT = "row-count"
    TWO_BASE_FILES = "two-base-files"
    LOG_WITHOUT_BASE = "log-without-base"
    COLUMN_GROUP = "column-group"
    GROUP_KEYS = "group-keys"
    BUCKET_WRONG = "bucket-wrong"
    KEY_MISSING = "key-missing"
    KEY_ORDER = "key-order"
    KEY_TWICE = "key-twice"
    KEY_IN_SEVERAL_GROUPS = "key-in-several-groups"
    KEY_RANGE = "key-range"
    BLOOM_FILTER = "bloom-filter"
    META_COLUMN = "meta-column"
    PARTITION_METADATA = "partition-metadata"
    LOCK = "lock"
    HEARTBEAT_STALE = "heartbeat-stale"
    TEMP_STALE = "temp-stale"
    METADATA_TABLE = "metadata-table"
    FILE_INDEX = "file-index"
    INDEX_UNUSABLE = "index-unusable"
    INDEX_INCOMPLETE = "index-incomplete"
    INDEX_SUPERFLUOUS = "index-superfluous"
    INDEX_STALE = "index-stale"
    TABLE_CHANGED = "table-changed"


class Mend(StrEnum):
    """The action with which `repair` can resolve a finding."""

    WRITE_CHECKSUM = "write-checksum"
    RESTORE_PROPERTIES = "restore-properties"
    DELETE_BACKUP = "delete-backup"
    DELETE_LOCK = "delete-lock"
    RELEASE_LOCK = "release-lock"
    ROLL_BACK = "roll-back"
    DELETE_FILE = "delete-file"
    DELETE_HEARTBEAT = "delete-heartbeat"
    DELETE_TEMP = "delete-temp"
    WRITE_PARTITION_METADATA = "write-partition-metadata"
    WRITE_FILE_RUN = "write-file-run"
    WRITE_STATISTICS = "write-statistics"
    DROP_LOST = "drop-lost"
    KEEP_READABLE = "keep-readable"
    COMPLETE_KEYS = "complete-keys"
    BUILD_INDEX = "build-index"


DAMAGE = frozenset(
    {
        Code.FILE_MISSING,
        Code.FILE_SIZE,
        Code.FILE_UNREADABLE,
        Code.TWO_BASE_FILES,
        Code.ROW_COUNT,
        Code.KEY_ORDER,
        Code.KEY_MISSING,
    }
)
"""Errors that make a file slice unreadable, and that `repair(drop_lost=True)` resolves."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem of a table, described in a sentence.

    `mend` is the action that `repair` would take; `advice` is what else can be done.
    """

    severity: Severity
    code: Code
    message: str
    path: str | None = None
    instant: str | None = None
    key: str | None = None
    mend: Mend | None = None
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.severity}: {self.message}"


@dataclass(slots=True)
class Coverage:
    """Counts of the checked items, by their name in the singular.

    The counts show what a report without findings covered.
    """

    counts: Counter[str] = field(default_factory=Counter)

    def add(self, what: str, number: int = 1) -> None:
        """Add `number` to the count of `what`."""
        self.counts[what] += number


@dataclass(frozen=True, slots=True)
class Report:
    """All findings, most severe first, and how much was checked."""

    url: str
    level: str
    findings: tuple[Finding, ...]
    checked: Mapping[str, int]

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    @property
    def errors(self) -> int:
        """Count the findings that make rows wrong."""
        return self._count(Severity.ERROR)

    @property
    def warnings(self) -> int:
        """Count the findings that need attention."""
        return self._count(Severity.WARNING)

    @property
    def notes(self) -> int:
        """Count the findings that are for information only."""
        return self._count(Severity.NOTE)

    @property
    def is_sound(self) -> bool:
        """Return whether there is no error and no warning."""
        return not (self.errors or self.warnings)

    @property
    def mendable(self) -> int:
        """Count the findings that `repair` can resolve."""
        return sum(finding.mend is not None for finding in self.findings)

    def __str__(self) -> str:
        looked = ", ".join(plural(number, what) for what, number in self.checked.items())
        if not self.findings:
            return f"{self.url}: nothing is wrong ({self.level}; checked {looked})"
        return (
            f"{self.url}: {plural(self.errors, 'error')}, {plural(self.warnings, 'warning')}, "
            f"{plural(self.notes, 'note')}; repair can fix {self.mendable} "
            f"({self.level}; checked {looked})"
        )

    def _count(self, severity: Severity) -> int:
        return sum(finding.severity is severity for finding in self.findings)


_ORDER = {severity: at for at, severity in enumerate(Severity)}


def make_report(url: str, level: str, findings: Iterable[Finding], coverage: Coverage) -> Report:
    """Sort the findings, most severe first, and remove duplicates."""
    found = sorted(
        dict.fromkeys(findings),
        key=lambda f: (_ORDER[f.severity], f.code, f.path or "", f.instant or "", f.message),
    )
    return Report(url, level, tuple(found), dict(sorted(coverage.counts.items())))
