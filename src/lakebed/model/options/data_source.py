"""Options of one read or write of `format("lakebed")`, by Hudi's names.

A job that is migrated from Hudi passes all the options that it passed to Hudi, often the same to
reads and writes. So reads ignore the options of writes, and vice versa.
"""

from typing import Final

from lakebed.model.options.option import (
    Fate,
    Option,
    Scope,
    Subject,
    flag,
    listed,
    names,
    text,
    word,
)

READ: Final = Subject('A read: `spark.read.format("lakebed")`', Scope.READ)
WRITE: Final = Subject('A write: `df.write.format("lakebed")`', Scope.WRITE)
EITHER: Final = Subject("Both reads and writes", Scope.READ | Scope.WRITE)

_WRITE: Final = "hoodie.datasource.write."
_READ: Final = "hoodie.datasource.read."

PATH: Final = Option(
    "path", EITHER, text(), "the table's folder or URL, as passed to load(path) and save(path)"
)
STORAGE: Final = Option(
    "lakebed.storage.<name>",
    EITHER,
    text(),
    "an option of the object store, such as `lakebed.storage.region`; docs/storage.md lists them",
)
QUERY: Final = Option(
    "hoodie.datasource.query.type",
    READ,
    word("snapshot", "read_optimized", "incremental", default="snapshot"),
    "all rows, those of base files, or those that changed",
)
VIEW: Final = Option(
    "hoodie.datasource.view.type",
    READ,
    word("realtime", "snapshot", "read_optimized", "incremental", same={"realtime": "snapshot"}),
    f"older name of {QUERY.name}",
)
AS_OF: Final = Option(
    "as.of.instant",
    READ,
    text(),
    "the table as it was: yyyyMMddHHmmss[SSS], yyyy-MM-dd, yyyy-MM-dd HH:mm:ss[.SSS] (or with a "
    "T), seconds or milliseconds since 1970, the number of a version, or the comment of a "
    "savepoint; rejected with a write",
    aliases=("versionasof", "timestampasof"),
)
BEGIN: Final = Option(
    _READ + "begin.instanttime",
    READ,
    text(),
    "incremental: changes completed after this time; 0, 000 and earliest mean all",
)
END: Final = Option(
    _READ + "end.instanttime", READ, text(), "incremental: changes completed up to this time"
)
FORMAT: Final = Option(
    "hoodie.datasource.query.incremental.format",
    READ,
    word("latest_state", "cdc", default="latest_state"),
    "incremental: changed rows as they are now, or every change",
)
WHERE: Final = Option(
    "lakebed.read.where",
    READ,
    text(),
    "a predicate in SQL, which also skips files; independent of session settings",
)
PUSHDOWN: Final = Option(
    "lakebed.read.filter.pushdown",
    READ,
    flag(default=False),
    "push down the filters of a query; only for a DataFrame used by one query: see datasource.md",
)

OPERATION: Final = Option(
    _WRITE + "operation",
    WRITE,
    word(
        "upsert",
        "insert",
        "bulk_insert",
        "delete",
        "insert_overwrite",
        "insert_overwrite_table",
        "delete_partition",
    ),
    "upsert; without a record key bulk_insert, unless the rows have _hoodie_record_key",
)
PARTITIONS_TO_DELETE: Final = Option(
    _WRITE + "partitions.to.delete",
    WRITE,
    names(),
    "delete_partition: paths; by default the partitions of the rows",
)
MERGE_SCHEMA: Final = Option(
    "mergeschema",
    WRITE,
    flag(default=True),
    "false rejects rows with new columns or wider types",
)
BLOOM_MOVES: Final = Option(
    "hoodie.bloom.index.update.partition.path",
    WRITE,
    flag(default=True),
    "hoodie.simple.index.update.partition.path, with GLOBAL_BLOOM",
)
RECORD_MOVES: Final = Option(
    "hoodie.record.index.update.partition.path",
    WRITE,
    flag(default=False),
    "hoodie.simple.index.update.partition.path, with RECORD_INDEX; false if a write creates the table",
)

_ONCE: Final = "rows of one key that meet in a file are merged, also those of an insert"
_READ_FALSE: Final = {
    "a range whose files were cleaned is rejected": (
        "hoodie.datasource.read.incr.fallback.fulltablescan.enable"
    ),
    "columns are those of the current table": "hoodie.datasource.read.schema.use.end.instanttime",
    "partition columns are in the files": (
        "hoodie.datasource.read.extract.partition.values.from.path"
    ),
    "call t.files()": "hoodie.datasource.read.create.filesystem.relation",
    "columns are matched by name": "hoodie.schema.on.read.enable",
}
_WRITE_FALSE: Final = {
    "call t.upgrade()": "hoodie.write.auto.upgrade",
    "use upsert": "hoodie.datasource.write.insert.drop.duplicates",
    "call t.update_columns for rows that lack columns": "hoodie.datasource.write.reconcile.schema",
    "write every column": "hoodie.write.set.null.for.missing.columns",
    "a column stays until mode overwrite": (
        "hoodie.datasource.write.schema.allow.auto.evolution.column.drop"
    ),
    "a timestamp in a key is formatted as a number": (
        "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"
    ),
    "keys and partition paths are formatted as Hudi does by default": """hoodie: write.complex.keygen.new.encoding
        datasource.write.slash.separated.date.partitioning""",
    "no catalogue is synced": "hoodie.datasource: hive_sync.enable meta.sync.enable",
    "call cluster": "hoodie.datasource.clustering.inline.enable",
    "services run in the writer": "hoodie.table.service.manager.enabled",
    "call back after save() returns": "hoodie.write.commit.callback.on",
    "an invalid row fails the write": "hoodie: errortable.enable write.ignore.failed",
    "no metrics are sent": "hoodie.metrics.on",
    "the timeline is in the table": "hoodie.metaserver.enabled",
    _ONCE: "hoodie.merge.allow.duplicate.on.inserts",
}
_WRITE_TRUE: Final = {
    "keys are unique within a file": "hoodie.combine.before.upsert",
    "hoodie.clean.automatic and others": "hoodie.table.services.enabled",
    _ONCE: "hoodie.combine.before.insert",
}
_WRITE_WORDS: Final = {
    "use upsert": ("hoodie.datasource.insert.dup.policy", "none"),
    "mode overwrite replaces all rows; operation insert_overwrite its partitions": (
        "hoodie.datasource.overwrite.mode",
        "static",
    ),
}
_READ_REFUSED: Final = {
    "filter by the partition columns instead": "hoodie.datasource.read: paths incr.path.glob",
    "filter the DataFrame": "hoodie.datasource.read.incr.filters",
    "stored in the table": "hoodie.datasource.read.incr.table.version",
    "streams: not in this release": (
        "hoodie.datasource: read.streaming.table.version streaming.start"
    ),
    "only complete commits are read": "hoodie.read.timeline.holes.resolution.policy",
}
_WRITE_REFUSED: Final = {
    "secondary indexes: later": "hoodie.datasource.write.secondarykey.column",
    "not in this release": "hoodie.datasource.write.commitmeta.key.prefix",
    "create_table(merger=...)": """hoodie: datasource.write.record.merger.impls
        write.record.merge.custom.implementation.classes""",
    "hoodie.record.merge.mode": """hoodie: datasource.write.record.merger.strategy
        write.record.merge.strategy.id""",
}
OTHERS: Final = (
    *listed(READ, Fate.FIXED, word("false"), _READ_FALSE),
    *listed(READ, Fate.REFUSED, text(), _READ_REFUSED),
    *listed(WRITE, Fate.FIXED, word("false"), _WRITE_FALSE),
    *listed(WRITE, Fate.FIXED, word("true"), _WRITE_TRUE),
    *listed(WRITE, Fate.REFUSED, text(), _WRITE_REFUSED),
    Option(
        "hoodie.datasource.merge.type",
        READ,
        word("payload_combine"),
        "a read that does not merge would show rows twice",
        fate=Fate.FIXED,
    ),
    *(
        Option(name, WRITE, word(value), effect, fate=Fate.FIXED)
        for effect, (name, value) in _WRITE_WORDS.items()
    ),
)
