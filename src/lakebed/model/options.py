"""Hudi's option names that we know, and what becomes of each.

An option that changes rows, keys, layout or guarantees is honoured or refused; one that
changes only speed is accepted with a line of information; an unknown one is
refused with the nearest name, because a typing error must not pass for a setting.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from lakebed.errors import OptionError


class Fate(Enum):
    """What becomes of an option."""

    HONOURED = "honoured"
    INFORMATION = "accepted, changes nothing here"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name, its fate, the values it takes (none listed: any), and a note."""

    name: str
    fate: Fate
    values: tuple[str, ...] = ()
    note: str = ""


_FLAG = ("true", "false")
_H, _I, _R = Fate.HONOURED, Fate.INFORMATION, Fate.REFUSED

TABLE_OPTIONS: tuple[Option, ...] = (
    Option("hoodie.database.name", _H),
    Option("hoodie.table.name", _H, note="the keyword name="),
    Option("hoodie.table.type", _H, ("COPY_ON_WRITE", "MERGE_ON_READ"), "the keyword table_type="),
    Option("hoodie.table.version", _H, ("8", "9", "10"), "the keyword table_version="),
    Option("hoodie.table.recordkey.fields", _H, note="the keyword key="),
    Option("hoodie.table.partition.fields", _H, note="the keyword partition_by="),
    Option("hoodie.table.ordering.fields", _H, note="the keyword ordering="),
    Option("hoodie.table.precombine.field", _H, note="older name of hoodie.table.ordering.fields"),
    Option("hoodie.table.storage.layout", _H, ("default", "lsm_tree"), "the keyword layout="),
    Option("hoodie.record.merge.mode", _H, ("COMMIT_TIME_ORDERING", "EVENT_TIME_ORDERING")),
    Option(
        "hoodie.table.keygenerator.type",
        _H,
        ("SIMPLE", "COMPLEX", "NON_PARTITION", "TIMESTAMP", "CUSTOM"),
        "CUSTOM with the kind beside each partition field: city:SIMPLE,at:TIMESTAMP",
    ),
    Option("hoodie.table.keygenerator.class", _H),
    Option("hoodie.datasource.write.hive_style_partitioning", _H, _FLAG),
    Option("hoodie.datasource.write.partitionpath.urlencode", _H, _FLAG),
    Option("hoodie.table.timeline.timezone", _H, ("UTC", "LOCAL")),
    Option("hoodie.index.type", _H, ("BUCKET", "SIMPLE", "GLOBAL_SIMPLE"), "the keyword index="),
    Option("hoodie.index.bucket.engine", _H, ("SIMPLE", "CONSISTENT_HASHING"), "with BUCKET"),
    Option("hoodie.bucket.index.num.buckets", _H, note="the keyword buckets="),
    Option("hoodie.bucket.index.hash.field", _H),
    Option("hoodie.keygen.timebased.timestamp.type", _H),
    Option("hoodie.keygen.timebased.output.dateformat", _H),
    Option("hoodie.keygen.timebased.input.dateformat", _H),
    Option("hoodie.keygen.timebased.input.dateformat.list.delimiter.regex", _H),
    Option("hoodie.keygen.timebased.input.timezone", _H),
    Option("hoodie.keygen.timebased.output.timezone", _H),
    Option("hoodie.keygen.timebased.timezone", _H),
    Option("hoodie.keygen.timebased.timestamp.scalar.time.unit", _H),
    Option("hoodie.populate.meta.fields", _H, ("true",), "tables without meta columns: read only"),
    Option("hoodie.table.base.file.format", _H, ("PARQUET",)),
    Option("hoodie.table.cdc.enabled", _H, _FLAG, "change data of what is rewritten; false"),
    Option(
        "hoodie.table.cdc.supplemental.logging.mode",
        _H,
        ("OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER"),
        "the last unless given",
    ),
    Option(
        "hoodie.datasource.write.drop.partition.columns", _H, ("false",), "columns stay in files"
    ),
    Option(
        "hoodie.write.concurrency.mode",
        _H,
        (
            "SINGLE_WRITER",
            "OPTIMISTIC_CONCURRENCY_CONTROL",
            "NON_BLOCKING_CONCURRENCY_CONTROL",
        ),
        "the last with MERGE_ON_READ and a bucket index only",
    ),
    Option("hoodie.write.num.retries.on.conflict.failures", _H, note="0 unless given"),
    Option("hoodie.client.heartbeat.interval_in_ms", _H),
    Option("hoodie.client.heartbeat.tolerable.misses", _H),
    Option("hoodie.compact.inline", _H, _FLAG, "compact after a write, when it is due; false"),
    Option("hoodie.compact.schedule.inline", _H, _FLAG, "only plan it, for `lakebed serve`"),
    Option("lakebed.compaction.mode", _H, ("full", "log", "hybrid"), "hybrid"),
    Option("hoodie.clean.automatic", _H, _FLAG, "clean after a write, when it is due; true"),
    Option("hoodie.clean.trigger.max.commits", _H, note="look every so many commits; 5"),
    Option("hoodie.archive.automatic", _H, _FLAG, "archive after a write, when it is due; true"),
    Option("hoodie.table.create.schema", _R, note="follows from the schema argument"),
    Option("hoodie.table.checksum", _R, note="follows from the table's name"),
    Option("hoodie.timeline.layout.version", _R, note="always 2"),
    Option("hoodie.table.metadata.partitions", _R, note="Hudi's metadata table is not written"),
    Option("hoodie.compaction.payload.class", _H, note="a class of Hudi's own; docs/merging.md"),
    Option(
        "hoodie.table.partial.update.mode",
        _H,
        ("IGNORE_DEFAULTS", "FILL_UNAVAILABLE"),
        "from table version 9: which columns of a newer row keep the older value",
    ),
    Option("hoodie.write.partial.update.unavailable.value", _H, note="with FILL_UNAVAILABLE"),
    Option(
        "hoodie.metadata.enable",
        _I,
        _FLAG,
        "we write no metadata table; false to open_table gives up an index in Hudi's",
    ),
    Option("hoodie.bulkinsert.shuffle.parallelism", _I),
    Option("hoodie.insert.shuffle.parallelism", _I),
    Option("hoodie.upsert.shuffle.parallelism", _I),
    Option("hoodie.delete.shuffle.parallelism", _I),
    Option("hoodie.datasource.write.row.writer.enable", _I, _FLAG, "rows never leave Arrow"),
    Option("hoodie.parquet.small.file.limit", _H, note="bytes; not with a bucket index"),
    Option("hoodie.parquet.max.file.size", _H, note="bytes; a bucket is one file, however large"),
    Option("hoodie.simple.index.update.partition.path", _H, _FLAG, "with index=global_simple"),
    Option("hoodie.payload.delete.field", _H, note="a row with the marker there is a delete"),
    Option("hoodie.payload.delete.marker", _H),
    Option(
        "hoodie.logfile.data.block.format",
        _H,
        ("parquet", "avro"),
        "parquet unless given, avro where an ordering column is text; up to table version 9",
    ),
    Option("write.distribution-mode", _H, ("none", "hash"), "without it chosen by size"),
    Option(
        "compaction_log_streaming_read_buffer",
        _H,
        note="what a merge holds of each run: bytes, or 512KB, 10MB (the default), 1GB",
    ),
    Option(
        "compaction_with_merge_sort_enable",
        _I,
        _FLAG,
        "runs are always sorted and merged; the rows are the same",
    ),
    Option("hoodie.embed.timeline.server", _I, _FLAG),
    Option(
        "lakebed.spark.driver.max.bytes",
        _H,
        note="how much a Spark driver reads and merges by itself, without a job: bytes, or 512KB, "
        "64MB (the default); 0: nothing. `spark.conf.set` says it for one session",
    ),
    # Cleaning and archiving: services/clean/options.py and services/archive/options.py.
    Option(
        "hoodie.clean.policy",
        _H,
        ("KEEP_LATEST_COMMITS", "KEEP_LATEST_BY_HOURS", "KEEP_LATEST_FILE_VERSIONS"),
    ),
    Option("hoodie.clean.commits.retained", _H, note="10 unless given"),
    Option("hoodie.clean.hours.retained", _H, note="24 unless given"),
    Option("hoodie.clean.fileversions.retained", _H, note="3 unless given"),
    Option(
        "hoodie.cleaner.policy",
        _H,
        ("KEEP_LATEST_COMMITS", "KEEP_LATEST_BY_HOURS", "KEEP_LATEST_FILE_VERSIONS"),
        "older name of hoodie.clean.policy",
    ),
    Option(
        "hoodie.cleaner.commits.retained", _H, note="older name of hoodie.clean.commits.retained"
    ),
    Option("hoodie.cleaner.hours.retained", _H, note="older name of hoodie.clean.hours.retained"),
    Option(
        "hoodie.cleaner.fileversions.retained",
        _H,
        note="older name of hoodie.clean.fileversions.retained",
    ),
    Option(
        "lakebed.clean.min.age.seconds", _H, note="300 unless given: queries up to that are safe"
    ),
    Option(
        "lakebed.tombstone.retention",
        _H,
        note="how long ordered deletes survive full compaction and clustering, such as 12 hours; 7 days unless "
        "given, 0 forgets them",
    ),
    Option("hoodie.keep.min.commits", _H, note="20 unless given"),
    Option("hoodie.keep.max.commits", _H, note="30 unless given"),
    Option("hoodie.timeline.compaction.batch.size", _H, note="10 unless given"),
    Option(
        "hoodie.write.lock.provider",
        _H,
        (
            "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
            "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider",
            "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
        ),
        "follows from where the table lies: on local disk, on an object store, in memory",
    ),
    Option("hoodie.write.lock.filesystem.path", _H, note="folder of the file lock, on local disk"),
    Option(
        "hoodie.write.lock.filesystem.expire", _H, note="minutes, for a lock of Hudi's; 0: never"
    ),
    Option("hoodie.write.lock.storage.validity.timeout.secs", _H, note="on object stores; 300"),
    Option("hoodie.write.lock.storage.renew.interval.secs", _H, note="on object stores; 30"),
    Option("hoodie.write.lock.wait_time_ms", _I, note="a write waits for 60 s"),
    Option("hoodie.write.lock.num_retries", _I),
    Option("hoodie.write.lock.wait_time_ms_between_retry", _I),
    Option("hoodie.write.lock.max_wait_time_ms_between_retry", _I),
    Option("hoodie.write.lock.client.num_retries", _I),
    Option("hoodie.write.lock.client.wait_time_ms_between_retry", _I),
    Option(
        "hoodie.compact.inline.trigger.strategy",
        _H,
        (
            "NUM_COMMITS",
            "NUM_COMMITS_AFTER_LAST_REQUEST",
            "TIME_ELAPSED",
            "NUM_AND_TIME",
            "NUM_OR_TIME",
        ),
        "when a compaction is due",
    ),
    Option("hoodie.compact.inline.max.delta.commits", _H, note="5"),
    Option("hoodie.compact.inline.max.delta.seconds", _H, note="3600"),
    Option("hoodie.compaction.logfile.size.threshold", _H, note="bytes of logs in a file group; 0"),
    Option("hoodie.compaction.logfile.num.threshold", _H, note="logs in a file group; 0"),
    Option("hoodie.compaction.target.io", _H, note="MB that one compaction reads and writes"),
    Option("hoodie.log.compaction.blocks.threshold", _H, note="logs that are worth joining; 5"),
    Option(
        "lakebed.compaction.log.ratio",
        _H,
        note="hybrid: logs of this share of their base file are merged into it; 0.25",
    ),
    # Clustering: services/clustering/options.py.
    Option("hoodie.clustering.plan.strategy.target.file.max.bytes", _H, note="1 GiB unless given"),
    Option(
        "hoodie.clustering.plan.strategy.small.file.limit",
        _H,
        note="bytes; base files below it are clustered; 300 MiB unless given",
    ),
    Option("hoodie.clustering.plan.strategy.max.num.groups", _H, note="30 unless given"),
    Option("hoodie.clustering.plan.strategy.max.bytes.per.group", _H, note="2 GiB unless given"),
    Option(
        "hoodie.clustering.plan.strategy.sort.columns",
        _R,
        note="rows are always clustered by record key",
    ),
    Option(
        "hoodie.clustering.inline", _H, ("false",), "call cluster, or run `lakebed serve --cluster`"
    ),
)


def check_options(given: Mapping[str, str], known: Iterable[Option] = TABLE_OPTIONS) -> list[str]:
    """Reject what we do not know or cannot honour; give a line for each that changes nothing."""
    by_name = {option.name: option for option in known}
    lines = []
    for name, value in given.items():
        if not isinstance(name, str):
            raise OptionError(f"option {name!r}: want a name as text")
        option = by_name.get(name)
        if option is None:
            raise OptionError(_unknown(name, by_name))
        if option.fate is Fate.REFUSED:
            raise OptionError(f"option {name} cannot be given: {option.note}")
        _check_value(option, value)
        if option.fate is Fate.INFORMATION:
            lines.append(f"option {name}={value} changes nothing here" + _tail(option))
    return lines


def stored_name(name: str) -> str:
    """Return the property that an option becomes: Hudi keeps what steers a merge under a prefix."""
    steers_merge = ("hoodie.payload.delete.", "hoodie.write.partial.update.")
    prefixed = name.startswith(steers_merge)
    return f"hoodie.record.merge.property.{name}" if prefixed else name


def is_stored(name: str) -> bool:
    """Return whether an option becomes a property of the table; one that changes nothing does not."""
    return any(option.name == name and option.fate is Fate.HONOURED for option in TABLE_OPTIONS)


def canonical(name: str, value: str, known: Iterable[Option] = TABLE_OPTIONS) -> str:
    """Spell `value` as Hudi does, where the values of an option are words.

    >>> canonical("hoodie.table.timeline.timezone", "utc")
    'UTC'
    """
    values = next((option.values for option in known if option.name == name), ())
    return next((word for word in values if word.lower() == value.lower()), value)


def _check_value(option: Option, value: str) -> None:
    if not isinstance(value, str):
        raise OptionError(
            f"option {option.name}: want text, found {type(value).__name__} {value!r}"
        )
    if option.values and value.lower() not in {known.lower() for known in option.values}:
        raise OptionError(
            f"option {option.name}={value}: want {' or '.join(option.values)}{_tail(option)}"
        )


def _tail(option: Option) -> str:
    return f" ({option.note})" if option.note else ""


def _unknown(name: str, known: Mapping[str, Option]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else "; docs/options.md lists those we know"
    return f"unknown option {name!r}{hint}"
