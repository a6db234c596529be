"""Options of writers, which may change later: concurrency, the table's lock, file sizes."""

from dataclasses import dataclass
from typing import ClassVar, Final

from lakebed.model.options.option import (
    LARGE,
    Option,
    Scope,
    Settings,
    Subject,
    number,
    probability,
    setting,
    size,
    text,
    word,
)

_SCOPE: Final = Scope.CREATE | Scope.LATER
CONCURRENCY: Final = Subject("Several writers", _SCOPE)
LOCK: Final = Subject("The lock of a table", _SCOPE)
FILES: Final = Subject("Files and memory", _SCOPE)

_LOCK: Final = "hoodie.write.lock."
LOCK_PROVIDERS: Final = tuple(
    f"org.apache.hudi.client.transaction.lock.{kind}LockProvider"
    for kind in ("FileSystemBased", "StorageBased", "InProcess")
)

CONCURRENCY_MODE: Final = Option(
    "hoodie.write.concurrency.mode",
    CONCURRENCY,
    word(
        "SINGLE_WRITER",
        "OPTIMISTIC_CONCURRENCY_CONTROL",
        "NON_BLOCKING_CONCURRENCY_CONTROL",
        default="SINGLE_WRITER",
    ),
    "one writer at a time; several, which conflict by file group; several that never block each other "
    "(only MERGE_ON_READ with a bucket index)",
)
CONFLICT_RETRIES: Final = Option(
    "hoodie.write.num.retries.on.conflict.failures",
    CONCURRENCY,
    number(0, most=10**5 - 1),
    "how many times a write is retried after a conflict",
)
DISTRIBUTION: Final = Option(
    "write.distribution-mode",
    FILES,
    word("none", "hash"),
    "each task writes its own logs, or one log for each file group; by default chosen by size",
)
READ_BUFFER: Final = Option(
    "compaction_log_streaming_read_buffer",
    FILES,
    size(10 << 20),
    "memory that a merge uses for each run",
)
SPARSE_INDEX_ROWS: Final = Option(
    "lakebed.sparse.index.rows",
    FILES,
    number(4_096, least=1, most=16_384),
    "rows per entry of the sparse index, which a lookup decodes. Fewer make lookups faster, more "
    "make files smaller and scans faster",
)
DRIVER_MAX_BYTES: Final = Option(
    "lakebed.spark.driver.max.bytes",
    FILES,
    size(64 << 20, least=0),
    "up to this size, a Spark driver reads and merges by itself, without a job; 0: never. "
    "Set it for a session with `spark.conf.set`",
)
FILE_INDEX_MIN_FILES: Final = Option(
    "lakebed.file.index.min.files",
    FILES,
    number(128, 1),
    "a commit of at least this many files gets a run of the file index, so that reads and writes of a "
    "few partitions do not parse all of it, and the statistics of its columns, so that reads leave out "
    "files",
)


@dataclass(frozen=True, slots=True)
class BloomOptions(Settings):
    """The size of the Bloom filters of base files.

    Hudi's default is one false positive in 10⁹ keys. Such a filter is twice as large, and every
    lookup reads it, while a false positive costs only one row group of keys.
    """

    subject: ClassVar = FILES
    entries: int = setting(
        "hoodie.index.bloom.num_entries",
        number(60_000, 1, 10**7),
        "BLOOM: keys of the first part of a filter; a file with fewer keys has a smaller filter",
    )
    false_positives: float = setting(
        "hoodie.index.bloom.fpp",
        probability(0.0001),
        "BLOOM: the false positive rate of a filter",
    )


@dataclass(frozen=True, slots=True)
class HeartbeatOptions(Settings):
    """The heartbeat interval, and how many heartbeats a writer may miss."""

    subject: ClassVar = CONCURRENCY
    interval_ms: int = setting(
        "hoodie.client.heartbeat.interval_in_ms",
        number(60_000, 1),
        "milliseconds between the heartbeats of a writer",
    )
    misses: int = setting(
        "hoodie.client.heartbeat.tolerable.misses",
        number(2, 1),
        "a writer is dead after this many missing heartbeats",
    )

    @property
    def expiry_ms(self) -> int:
        """Return the age at which a heartbeat expires."""
        return self.interval_ms * self.misses


@dataclass(frozen=True, slots=True)
class LockOptions(Settings):
    """The options of the table's lock."""

    subject: ClassVar = LOCK
    provider: str = setting(
        _LOCK + "provider",
        word(*LOCK_PROVIDERS),
        "determined by the location of the table: local disk, object store, memory",
    )
    folder: str = setting(
        _LOCK + "filesystem.path", text(), "local disk: the folder of the lock file"
    )
    expire_minutes: int = setting(
        _LOCK + "filesystem.expire",
        number(0),
        "local disk: minutes until a lock of Hudi expires; 0: never",
    )
    validity_seconds: int = setting(
        _LOCK + "storage.validity.timeout.secs",
        number(300),
        "object stores: seconds until a lock expires that is not renewed",
    )
    renew_seconds: int = setting(
        _LOCK + "storage.renew.interval.secs", number(30), "object stores: seconds between renewals"
    )


@dataclass(frozen=True, slots=True)
class FileSizes(Settings):
    """The size up to which base files take new keys, and the maximum size, in bytes."""

    subject: ClassVar = FILES
    small_limit: int = setting(
        "hoodie.parquet.small.file.limit",
        number(104_857_600, most=LARGE),
        "base files smaller than this take new keys, in bytes; not with a bucket index",
    )
    max_size: int = setting(
        "hoodie.parquet.max.file.size",
        number(125_829_120, 1, LARGE),
        "maximum size of a base file, in bytes; a bucket is one file, however large",
    )
