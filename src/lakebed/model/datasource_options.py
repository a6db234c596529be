"""Options of `format("lakebed")`: Hudi's names for reads and writes, and what becomes of each.

A job that moves over brings everything that it gave Hudi. Beside what a table stores
(`model/options.py`) that is what steers one read or one write, and very much that only makes
Hudi faster. A job often gives the same options to reads and writes, so either takes the other's.
"""

from collections.abc import Mapping
from typing import Final

from lakebed.errors import OptionError
from lakebed.model.hudi_options import HUDI_OPTIONS
from lakebed.model.options import TABLE_OPTIONS, Fate, Option, check_options

STORAGE_PREFIX: Final = "lakebed.storage."
"""Options with this prefix go to the object store: `lakebed.storage.endpoint`, ..."""
AS_OF: Final = "as.of.instant"
"""The option that names a past of the table: of all options of reads the one that no write takes."""

_FLAG: Final = ("true", "false")
_ONCE: Final = "rows of one key that meet in a file are merged, also those of an insert"
_H, _I, _R = Fate.HONOURED, Fate.INFORMATION, Fate.REFUSED

READ_OPTIONS: Final[tuple[Option, ...]] = (
    Option("path", _H, note="the table's folder or URL; load(path) and save(path) give it"),
    Option("hoodie.datasource.query.type", _H, ("snapshot", "read_optimized", "incremental")),
    Option(
        "hoodie.datasource.view.type",
        _H,
        ("realtime", "snapshot", "read_optimized", "incremental"),
        "older name of hoodie.datasource.query.type",
    ),
    Option(
        AS_OF,
        _H,
        note="the table as it was: yyyyMMddHHmmss[SSS], yyyy-MM-dd, yyyy-MM-dd HH:mm:ss[.SSS] (or with a "
        "T), seconds or milliseconds since 1970; refused with a write",
    ),
    Option(
        "hoodie.datasource.read.begin.instanttime",
        _H,
        note="incremental: changes completed after this; 0, 000 and earliest mean all",
    ),
    Option(
        "hoodie.datasource.read.end.instanttime",
        _H,
        note="incremental: changes completed up to and with this",
    ),
    Option("hoodie.datasource.query.incremental.format", _H, ("latest_state", "cdc")),
    Option(
        "lakebed.read.where",
        _H,
        note="a predicate in SQL, by which files are skipped; the switch of the session does not matter",
    ),
    Option(
        "lakebed.read.filter.pushdown",
        _H,
        _FLAG,
        "take over the filters of a query; only for a DataFrame that one query uses once: see datasource.md",
    ),
    Option(
        "hoodie.datasource.merge.type",
        _H,
        ("payload_combine",),
        "a read that does not merge would show rows twice",
    ),
    Option("hoodie.datasource.read.paths", _R, note="filter by the partition columns instead"),
    Option("hoodie.datasource.read.incr.path.glob", _R, note="filter by the partition columns"),
    Option("hoodie.datasource.read.incr.filters", _R, note="filter the DataFrame"),
    Option("hoodie.datasource.read.incr.skip_compact", _I, _FLAG, "always skipped"),
    Option("hoodie.datasource.read.incr.skip_cluster", _I, _FLAG, "always skipped"),
    Option("hoodie.datasource.read.incr.table.version", _R, note="the table says it"),
    Option(
        "hoodie.datasource.read.incr.fallback.fulltablescan.enable",
        _H,
        ("false",),
        "a range of which files are cleaned away is refused",
    ),
    Option(
        "hoodie.datasource.read.schema.use.end.instanttime",
        _H,
        ("false",),
        "the columns are those of the table now",
    ),
    Option(
        "hoodie.datasource.read.extract.partition.values.from.path",
        _H,
        ("false",),
        "partition columns are in the files",
    ),
    Option("hoodie.datasource.read.create.filesystem.relation", _H, ("false",), "call t.files()"),
    Option(
        "hoodie.datasource.read.streaming.table.version", _R, note="streams: not in this release"
    ),
    Option("hoodie.datasource.streaming.start", _R, note="streams: not in this release"),
    Option("hoodie.read.timeline.holes.resolution.policy", _R, note="only whole commits are read"),
    Option("hoodie.schema.on.read.enable", _H, ("false",), "columns are matched by name"),
    Option("hoodie.file.index.enable", _I, _FLAG),
    Option("hoodie.enable.data.skipping", _I, _FLAG, "key ranges and partitions always skip"),
    Option("hoodie.file.group.reader.enabled", _I, _FLAG),
    Option("hoodie.datasource.read.file.index.listing.mode", _I, ("eager", "lazy")),
    Option("hoodie.datasource.read.file.index.list.partitions.from.catalog", _I, _FLAG),
    Option(
        "hoodie.datasource.read.file.index.listing.partition-path-prefix.analysis.enabled",
        _I,
        _FLAG,
    ),
    Option("hoodie.merge.use.record.positions", _I, _FLAG),
)

WRITE_OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        "hoodie.datasource.write.operation",
        _H,
        (
            "upsert",
            "insert",
            "bulk_insert",
            "delete",
            "insert_overwrite",
            "insert_overwrite_table",
            "delete_partition",
        ),
        "upsert; without a record key bulk_insert, unless the rows bring _hoodie_record_key",
    ),
    Option("hoodie.datasource.write.table.name", _H, note="hoodie.table.name"),
    Option("hoodie.datasource.write.table.type", _H, ("COPY_ON_WRITE", "MERGE_ON_READ")),
    Option(
        "hoodie.datasource.write.storage.type",
        _H,
        ("COPY_ON_WRITE", "MERGE_ON_READ"),
        "older name of hoodie.datasource.write.table.type",
    ),
    Option(
        "hoodie.datasource.write.recordkey.field",
        _H,
        note="without it the table makes its own keys, as Hudi's does",
    ),
    Option("hoodie.datasource.write.partitionpath.field", _H, note="instead of partitionBy"),
    Option("mergeschema", _H, _FLAG, "false refuses rows with new columns or wider types"),
    Option("hoodie.datasource.write.precombine.field", _H, note="the ordering field"),
    Option("hoodie.payload.ordering.field", _H, note="older name of the ordering field"),
    Option("hoodie.datasource.write.keygenerator.class", _H),
    Option("hoodie.datasource.write.keygenerator.type", _H),
    Option("hoodie.datasource.write.payload.class", _H),
    Option("hoodie.write.record.merge.mode", _H),
    Option("hoodie.datasource.write.record.merge.mode", _H),
    Option("hoodie.write.table.version", _H, ("8", "9", "10")),
    Option("hoodie.write.auto.upgrade", _H, ("false",), "call t.upgrade()"),
    Option(
        "hoodie.datasource.write.partitions.to.delete",
        _H,
        note="delete_partition: paths; without it the partitions of the rows",
    ),
    Option("hoodie.base.file.format", _H, ("PARQUET",)),
    Option(
        "hoodie.datasource.overwrite.mode",
        _H,
        ("static",),
        "mode overwrite replaces all rows; operation insert_overwrite its partitions",
    ),
    Option(
        "hoodie.index.type",
        _H,
        ("SIMPLE", "GLOBAL_SIMPLE", "BLOOM", "GLOBAL_BLOOM", "BUCKET"),
        "SIMPLE; a bloom index finds the same keys, so it becomes a simple one",
    ),
    Option("hoodie.bloom.index.update.partition.path", _H, _FLAG, "with GLOBAL_BLOOM"),
    Option("hoodie.combine.before.upsert", _H, ("true",), "a key comes once in a file"),
    Option("hoodie.combine.before.delete", _I, _FLAG),
    Option("hoodie.combine.before.insert", _H, ("true",), _ONCE),
    Option("hoodie.merge.allow.duplicate.on.inserts", _H, ("false",), _ONCE),
    Option("hoodie.datasource.write.insert.drop.duplicates", _H, ("false",), "use upsert"),
    Option("hoodie.datasource.insert.dup.policy", _H, ("none",), "use upsert"),
    Option(
        "hoodie.datasource.write.reconcile.schema",
        _H,
        ("false",),
        "call t.update_columns for rows that lack columns",
    ),
    Option("hoodie.write.set.null.for.missing.columns", _H, ("false",), "give every column"),
    Option(
        "hoodie.datasource.write.schema.allow.auto.evolution.column.drop",
        _H,
        ("false",),
        "a column stays until mode overwrite",
    ),
    Option(
        "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled",
        _H,
        ("false",),
        "a timestamp in a key is spelled as its number",
    ),
    Option("hoodie.write.complex.keygen.new.encoding", _H, ("false",)),
    Option("hoodie.datasource.write.slash.separated.date.partitioning", _H, ("false",)),
    Option("hoodie.datasource.write.secondarykey.column", _R, note="secondary indexes: later"),
    Option("hoodie.datasource.write.commitmeta.key.prefix", _R, note="not in this release"),
    Option("hoodie.datasource.write.record.merger.impls", _R, note="create_table(merger=...)"),
    Option(
        "hoodie.write.record.merge.custom.implementation.classes",
        _R,
        note="create_table(merger=...)",
    ),
    Option("hoodie.datasource.write.record.merger.strategy", _R, note="hoodie.record.merge.mode"),
    Option("hoodie.write.record.merge.strategy.id", _R, note="hoodie.record.merge.mode"),
    Option("hoodie.datasource.hive_sync.enable", _H, ("false",), "no catalogue is synced"),
    Option("hoodie.datasource.meta.sync.enable", _H, ("false",), "no catalogue is synced"),
    Option("hoodie.table.services.enabled", _H, ("true",), "hoodie.clean.automatic and others"),
)

STORED_NAMES: Final[Mapping[str, str]] = {
    "hoodie.datasource.write.table.name": "hoodie.table.name",
    "hoodie.datasource.write.table.type": "hoodie.table.type",
    "hoodie.datasource.write.storage.type": "hoodie.table.type",
    "hoodie.datasource.write.recordkey.field": "hoodie.table.recordkey.fields",
    "hoodie.datasource.write.partitionpath.field": "hoodie.table.partition.fields",
    "hoodie.datasource.write.precombine.field": "hoodie.table.ordering.fields",
    "hoodie.payload.ordering.field": "hoodie.table.ordering.fields",
    "hoodie.table.precombine.field": "hoodie.table.ordering.fields",
    "hoodie.datasource.write.keygenerator.class": "hoodie.table.keygenerator.class",
    "hoodie.datasource.write.keygenerator.type": "hoodie.table.keygenerator.type",
    "hoodie.datasource.write.payload.class": "hoodie.compaction.payload.class",
    "hoodie.write.record.merge.mode": "hoodie.record.merge.mode",
    "hoodie.datasource.write.record.merge.mode": "hoodie.record.merge.mode",
    "hoodie.write.table.version": "hoodie.table.version",
    "hoodie.base.file.format": "hoodie.table.base.file.format",
}
"""Options of a write, each with the property that it becomes."""

ALL_OPTIONS: Final[Mapping[str, Option]] = {
    option.name: option
    for options in (HUDI_OPTIONS, TABLE_OPTIONS, READ_OPTIONS, WRITE_OPTIONS)
    for option in options
}
"""Every option that we know, by its name."""


def split_storage(given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options, with names in lower case as Spark hands them, and those of the store."""
    options = {str(name).lower(): value for name, value in given.items()}
    storage = {
        name.removeprefix(STORAGE_PREFIX): options.pop(name)
        for name in list(options)
        if name.startswith(STORAGE_PREFIX)
    }
    return options, storage


def check_read(given: Mapping[str, str]) -> list[str]:
    """Reject what a read does not know or cannot honour; give a line for each without effect."""
    return _check(given, READ_OPTIONS)


def check_write(given: Mapping[str, str]) -> list[str]:
    """Reject what a write does not know or cannot honour; give a line for each without effect."""
    if AS_OF in given:
        raise OptionError(
            f"option {AS_OF} cannot be given with a write: it names the past that a read shows, and a "
            "write changes the table as it is now; to go back, call t.restore(savepoint)"
        )
    lines = _check(given, (*TABLE_OPTIONS, *WRITE_OPTIONS))
    for name, stored in STORED_NAMES.items():
        if name in given and stored in _TABLE and _TABLE[stored].fate is Fate.REFUSED:
            raise OptionError(f"option {name} cannot be given: {_TABLE[stored].note}")
        if name in given and stored in _TABLE:
            check_options({stored: given[name]})
    return lines


_TABLE: Final = {option.name: option for option in TABLE_OPTIONS}


def _check(given: Mapping[str, str], own: tuple[Option, ...]) -> list[str]:
    """Check options: those of the other side are known and have no effect."""
    names = {option.name for option in own}
    mine = {
        name: value
        for name, value in given.items()
        if name in names or name not in ALL_OPTIONS or _steers_nothing(ALL_OPTIONS[name])
    }
    return check_options(mine, {**ALL_OPTIONS, **{o.name: o for o in own}}.values())


def _steers_nothing(option: Option) -> bool:
    return option.fate is not Fate.HONOURED and option not in (*READ_OPTIONS, *WRITE_OPTIONS)
