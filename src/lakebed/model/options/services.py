"""Options of table services, which may change later; those passed to a call apply to that call."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar, Final, Self

from lakebed.errors import OptionError
from lakebed.model.options.option import (
    LARGE,
    Fate,
    Option,
    Scope,
    Settings,
    Subject,
    duration,
    flag,
    member,
    number,
    options_of,
    ratio,
    setting,
    word,
)
from lakebed.model.spelling import nearest

_SCOPE: Final = Scope.CREATE | Scope.LATER
UPKEEP: Final = Subject("Services after a write", _SCOPE)
COMPACTION: Final = Subject("Compaction", _SCOPE)
CLEANING: Final = Subject("Cleaning", _SCOPE)
SECONDARY: Final = Subject("Compaction of secondary indexes", _SCOPE)
ADVISOR: Final = Subject("Proposals of secondary indexes", _SCOPE)
ARCHIVING: Final = Subject("Archiving", _SCOPE)
CLUSTERING: Final = Subject("Clustering", _SCOPE)

_PLAN: Final = "hoodie.clustering.plan.strategy."


class CompactionMode(StrEnum):
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
            raise OptionError(
                f"compaction mode {text!r}{nearest(str(text), cls)}: expected {', '.join(cls)}"
            ) from None


class Trigger(StrEnum):
    """When a compaction is due: by the number of delta commits, by time, or by both."""

    NUM_COMMITS = "NUM_COMMITS"
    NUM_COMMITS_AFTER_LAST_REQUEST = "NUM_COMMITS_AFTER_LAST_REQUEST"
    TIME_ELAPSED = "TIME_ELAPSED"
    NUM_AND_TIME = "NUM_AND_TIME"
    NUM_OR_TIME = "NUM_OR_TIME"


class CleanPolicy(StrEnum):
    """How retention is measured. Stored on disk: do not change the values."""

    KEEP_LATEST_COMMITS = "KEEP_LATEST_COMMITS"
    KEEP_LATEST_BY_HOURS = "KEEP_LATEST_BY_HOURS"
    KEEP_LATEST_FILE_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"


@dataclass(frozen=True, slots=True)
class UpkeepOptions(Settings):
    """The table services that run automatically after a write.

    As in Hudi, cleaning and archiving are on by default and compaction is off. Cleaning is
    considered only after several commits, because it costs a listing.
    """

    subject: ClassVar = UPKEEP
    compact: bool = setting(
        "hoodie.compact.inline",
        flag(default=False),
        "compact after a write, when a compaction is due",
    )
    schedule: bool = setting(
        "hoodie.compact.schedule.inline",
        flag(default=False),
        "only schedule compactions after a write; `lakebed serve` executes them",
    )
    mode: CompactionMode = setting(
        "lakebed.compaction.mode",
        member(CompactionMode.HYBRID),
        "rewrite base files, merge logs only, or choose per file group",
    )
    clean: bool = setting(
        "hoodie.clean.automatic", flag(default=True), "clean after a write, when it is due"
    )
    clean_every: int = setting(
        "hoodie.clean.trigger.max.commits",
        number(5, 1),
        "cleaning is considered after this many commits",
    )
    archive: bool = setting(
        "hoodie.archive.automatic", flag(default=True), "archive after a write, when it is due"
    )


@dataclass(frozen=True, slots=True)
class IndexOptions(Settings):
    """When a secondary index is compacted after a write."""

    subject: ClassVar = SECONDARY
    inline: bool = setting(
        "lakebed.index.compact.inline",
        flag(default=True),
        "compact secondary indexes after a write, when it is due",
    )
    max_runs: int = setting(
        "lakebed.index.compact.max.runs",
        number(8, 1),
        "the runs of small commits are merged when an index has more of them",
    )
    changed_ratio: float = setting(
        "lakebed.index.compact.changed.ratio",
        ratio(1.0),
        "an index to which commits have added more entries than this share of its rows is compacted",
    )
    open_ratio: float = setting(
        "lakebed.index.compact.open.ratio",
        ratio(0.01),
        "an index with a greater share of open entries is compacted",
    )


@dataclass(frozen=True, slots=True)
class CompactionOptions(Settings):
    """When a compaction is due, and which file groups it includes."""

    subject: ClassVar = COMPACTION
    trigger: Trigger = setting(
        "hoodie.compact.inline.trigger.strategy",
        member(Trigger.NUM_COMMITS),
        "when a compaction is due",
    )
    max_delta_commits: int = setting(
        "hoodie.compact.inline.max.delta.commits", number(5, 1), "due after this many delta commits"
    )
    max_delta_seconds: int = setting(
        "hoodie.compact.inline.max.delta.seconds",
        number(3600, most=LARGE),
        "due after this many seconds",
    )
    log_size_threshold: int = setting(
        "hoodie.compaction.logfile.size.threshold",
        number(0, most=LARGE),
        "file groups with fewer bytes of logs are left out",
    )
    log_count_threshold: int = setting(
        "hoodie.compaction.logfile.num.threshold",
        number(0, most=LARGE),
        "file groups with fewer logs are left out",
    )
    blocks_threshold: int = setting(
        "hoodie.log.compaction.blocks.threshold",
        number(5, most=LARGE),
        "the logs of a file group are merged when there are this many",
    )
    target_io_mb: int = setting(
        "hoodie.compaction.target.io",
        number(500 * 1024, most=LARGE),
        "MB that one plan may read and write",
    )
    log_ratio: float = setting(
        "lakebed.compaction.log.ratio",
        ratio(0.25),
        "hybrid: a base file is rewritten when its logs have this share of its size",
    )


TOMBSTONE_RETENTION: Final = Option(
    "lakebed.tombstone.retention",
    COMPACTION,
    duration(7 * 24 * 3_600_000, "to drop deletes as soon as they are compacted"),
    "how long a delete with an ordering value is kept after full compaction and clustering",
)


@dataclass(frozen=True, slots=True)
class CleanOptions(Settings):
    """How much history stays readable.

    With any policy, a file is kept if it was the newest of its file group within the last
    `min_age_seconds`, so a query that started within that time never loses a file. A longer query
    is safe while the commit that it reads is retained. With None, running queries are not
    protected, and the machine's clock is not used.
    """

    subject: ClassVar = CLEANING
    policy: CleanPolicy = setting(
        "hoodie.clean.policy",
        member(CleanPolicy.KEEP_LATEST_COMMITS),
        "how retention is measured",
        ("hoodie.cleaner.policy",),
    )
    commits_retained: int = setting(
        "hoodie.clean.commits.retained",
        number(10, 1),
        "commits that stay readable",
        ("hoodie.cleaner.commits.retained",),
    )
    hours_retained: int = setting(
        "hoodie.clean.hours.retained",
        number(24, 1),
        "hours that stay readable",
        ("hoodie.cleaner.hours.retained",),
    )
    file_versions_retained: int = setting(
        "hoodie.clean.fileversions.retained",
        number(3, 1),
        "versions of each file group that are kept",
        ("hoodie.cleaner.fileversions.retained",),
    )
    min_age_seconds: int | None = setting(
        "lakebed.clean.min.age.seconds",
        number(300),
        "files that a query of this many seconds may read are kept",
    )


_DELTA_COMMITS: Final = options_of(CompactionOptions)["max_delta_commits"]


@dataclass(frozen=True, slots=True)
class ArchiveOptions(Settings):
    """How many commits stay on the active timeline.

    Archiving starts when there are more than `max_commits`, and leaves `min_commits` or, if more,
    as many as `clean` retains. On a merge-on-read table, the last `delta_commits` since a
    compaction stay, because their number triggers the next compaction. `merge_files` archived files
    of one level are merged into one file of the next level.
    """

    subject: ClassVar = ARCHIVING
    min_commits: int = setting(
        "hoodie.keep.min.commits", number(20, 1), "commits that stay on the active timeline"
    )
    max_commits: int = setting(
        "hoodie.keep.max.commits", number(30, 1), "archiving starts when there are more commits"
    )
    merge_files: int = setting(
        "hoodie.timeline.compaction.batch.size",
        number(10, 2),
        "this many archived files are merged into one",
    )
    delta_commits: int = _DELTA_COMMITS.kind.default
    clean: CleanOptions = field(default_factory=CleanOptions)

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        """Parse `properties`; raise OptionError for an invalid value."""
        found = super(ArchiveOptions, cls).of(properties)
        least, most = found.min_commits, found.max_commits
        if "hoodie.keep.max.commits" not in properties and most <= least:
            most = least + 10
        if most <= least:
            raise OptionError(
                f"option hoodie.keep.max.commits={most}: expected more than hoodie.keep.min.commits, "
                f"which is {least}"
            )
        deltas = _DELTA_COMMITS.value(properties)
        clean = CleanOptions.of(properties)
        return replace(found, max_commits=most, delta_commits=deltas, clean=clean)


@dataclass(frozen=True, slots=True)
class ClusteringOptions(Settings):
    """Which file groups are clustered, and the size of the resulting files.

    File groups with a base file below `small_limit` bytes are merged into files of `target_bytes`.
    One task rewrites up to `group_bytes` of base files, and one plan has up to `max_groups` tasks.
    """

    subject: ClassVar = CLUSTERING
    target_bytes: int = setting(
        _PLAN + "target.file.max.bytes",
        number(1 << 30, 1, LARGE),
        "maximum size of a new base file, in bytes",
    )
    small_limit: int = setting(
        _PLAN + "small.file.limit",
        number(300 << 20, most=LARGE),
        "base files smaller than this are merged, in bytes",
    )
    max_groups: int = setting(
        _PLAN + "max.num.groups", number(30, 1, LARGE), "maximum number of tasks of one plan"
    )
    group_bytes: int = setting(
        _PLAN + "max.bytes.per.group",
        number(2 << 30, 1, LARGE),
        "maximum input of one task, in bytes",
    )


CLUSTER_INLINE: Final = Option(
    "hoodie.clustering.inline",
    CLUSTERING,
    word("false"),
    "call cluster, or run `lakebed serve --cluster`",
    fate=Fate.FIXED,
)
INDEX_ADVISOR: Final = Option(
    "lakebed.index.advisor",
    ADVISOR,
    flag(default=False),
    "reads that scan record the columns of their predicates, without values, for `advise_indexes()`",
)
