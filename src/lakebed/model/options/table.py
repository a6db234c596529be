"""Options that say what a table is: settled when it is made."""

from typing import Final

from lakebed.model.options.option import (
    Fate,
    Option,
    Scope,
    Subject,
    flag,
    no_number,
    text,
    word,
)

TABLE: Final = Subject("What a table is", Scope.CREATE)
KEYS: Final = Subject("Keys and partitions", Scope.CREATE)
MERGING: Final = Subject("How versions of a key are merged", Scope.CREATE)
INDEX: Final = Subject("The writer's index", Scope.CREATE)

_WRITE: Final = "hoodie.datasource.write."
_MERGE_PROPERTY: Final = "hoodie.record.merge.property."

DATABASE: Final = Option("hoodie.database.name", TABLE, text(), "the database")
NAME: Final = Option(
    "hoodie.table.name",
    TABLE,
    text(),
    "the name; that of the folder unless given",
    write_names=(_WRITE + "table.name",),
    keyword="name",
)
TYPE: Final = Option(
    "hoodie.table.type",
    TABLE,
    word("COPY_ON_WRITE", "MERGE_ON_READ"),
    "whether a write rewrites base files or adds logs; COPY_ON_WRITE for a write that makes a table",
    write_names=(_WRITE + "table.type", _WRITE + "storage.type"),
    keyword="table_type",
)
VERSION: Final = Option(
    "hoodie.table.version",
    TABLE,
    word("8", "9", "10", default="9"),
    "the table version",
    write_names=("hoodie.write.table.version",),
    keyword="table_version",
)
LAYOUT: Final = Option(
    "hoodie.table.storage.layout",
    TABLE,
    word("default", "lsm_tree"),
    "in which order files hold rows",
    keyword="layout",
)
TIMEZONE: Final = Option(
    "hoodie.table.timeline.timezone",
    TABLE,
    word("UTC", "LOCAL", default="UTC"),
    "the zone of instants",
)
CDC: Final = Option(
    "hoodie.table.cdc.enabled", TABLE, flag(default=False), "log change data of what is rewritten"
)
CDC_MODE: Final = Option(
    "hoodie.table.cdc.supplemental.logging.mode",
    TABLE,
    word("OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER", default="DATA_BEFORE_AFTER"),
    "how much change data says of a row",
)
BLOCK_FORMAT: Final = Option(
    "hoodie.logfile.data.block.format",
    TABLE,
    word("parquet", "avro"),
    "parquet unless given, avro where an ordering column is text; up to table version 9",
)
META_FIELDS: Final = Option(
    "hoodie.populate.meta.fields",
    TABLE,
    word("true"),
    "tables without meta columns: read only",
    fate=Fate.FIXED,
)
BASE_FORMAT: Final = Option(
    "hoodie.table.base.file.format",
    TABLE,
    word("PARQUET"),
    "base files are Parquet",
    write_names=("hoodie.base.file.format",),
    fate=Fate.FIXED,
)
DROP_PARTITION_COLUMNS: Final = Option(
    _WRITE + "drop.partition.columns",
    TABLE,
    word("false"),
    "columns stay in files",
    fate=Fate.FIXED,
)

RECORD_KEY: Final = Option(
    "hoodie.table.recordkey.fields",
    KEYS,
    text(),
    "the key columns; a write without them makes a table that makes its own keys, as Hudi's does",
    write_names=(_WRITE + "recordkey.field",),
    keyword="key",
)
PARTITION: Final = Option(
    "hoodie.table.partition.fields",
    KEYS,
    text(),
    "the partition columns; instead of partitionBy",
    write_names=(_WRITE + "partitionpath.field",),
    keyword="partition_by",
)
GENERATOR: Final = Option(
    "hoodie.table.keygenerator.type",
    KEYS,
    word("SIMPLE", "COMPLEX", "NON_PARTITION", "TIMESTAMP", "CUSTOM"),
    "CUSTOM with the kind beside each partition field: city:SIMPLE,at:TIMESTAMP",
    write_names=(_WRITE + "keygenerator.type",),
)
GENERATOR_CLASS: Final = Option(
    "hoodie.table.keygenerator.class",
    KEYS,
    text(),
    "the key generator by the name of Hudi's class",
    write_names=(_WRITE + "keygenerator.class",),
)
HIVE_STYLE: Final = Option(
    _WRITE + "hive_style_partitioning", KEYS, flag(default=False), "folders are named column=value"
)
URL_ENCODE: Final = Option(
    _WRITE + "partitionpath.urlencode", KEYS, flag(default=False), "names of folders are escaped"
)
TIMESTAMP_KEYS: Final = tuple(
    Option(f"hoodie.keygen.timebased.{end}", KEYS, text(), effect)
    for end, effect in (
        ("timestamp.type", "what the partition column of a TIMESTAMP generator holds"),
        ("output.dateformat", "how its folders are named, such as yyyy/MM/dd"),
        ("input.dateformat", "how its text is written; several are separated"),
        ("input.dateformat.list.delimiter.regex", "by this"),
        ("input.timezone", "the zone of its text"),
        ("output.timezone", "the zone of its folders"),
        ("timezone", "the zone of both"),
        ("timestamp.scalar.time.unit", "the unit of its numbers"),
    )
)

ORDERING: Final = Option(
    "hoodie.table.ordering.fields",
    MERGING,
    text(),
    "the ordering columns: of two versions of a key the greater one stays",
    aliases=("hoodie.table.precombine.field",),
    write_names=(_WRITE + "precombine.field", "hoodie.payload.ordering.field"),
    keyword="ordering",
)
MERGE_MODE: Final = Option(
    "hoodie.record.merge.mode",
    MERGING,
    word("COMMIT_TIME_ORDERING", "EVENT_TIME_ORDERING"),
    "the last version stays, or the greatest; the latter where there are ordering columns",
    write_names=("hoodie.write.record.merge.mode", _WRITE + "record.merge.mode"),
)
PAYLOAD_CLASS: Final = Option(
    "hoodie.compaction.payload.class",
    MERGING,
    text(),
    "a class of Hudi's own; docs/merging.md",
    write_names=(_WRITE + "payload.class",),
)
PARTIAL_UPDATE_MODE: Final = Option(
    "hoodie.table.partial.update.mode",
    MERGING,
    word("IGNORE_DEFAULTS", "FILL_UNAVAILABLE"),
    "from table version 9: which columns of a newer row keep the older value",
)
UNAVAILABLE: Final = Option(
    "hoodie.write.partial.update.unavailable.value",
    MERGING,
    text(),
    "the value of FILL_UNAVAILABLE",
    prefix=_MERGE_PROPERTY,
)
DELETE_FIELD: Final = Option(
    "hoodie.payload.delete.field",
    MERGING,
    text(),
    "a row with the marker in this column is a delete",
    prefix=_MERGE_PROPERTY,
)
DELETE_MARKER: Final = Option(
    "hoodie.payload.delete.marker", MERGING, text(), "the marker", prefix=_MERGE_PROPERTY
)

INDEX_TYPE: Final = Option(
    "hoodie.index.type",
    INDEX,
    word(
        "SIMPLE",
        "GLOBAL_SIMPLE",
        "BLOOM",
        "GLOBAL_BLOOM",
        "BUCKET",
        same={"BLOOM": "SIMPLE", "GLOBAL_BLOOM": "GLOBAL_SIMPLE"},
    ),
    "SIMPLE for a write that makes a table; a bloom index finds the same keys, so it becomes a simple one",
    keyword="index",
)
BUCKET_ENGINE: Final = Option(
    "hoodie.index.bucket.engine",
    INDEX,
    word("SIMPLE", "CONSISTENT_HASHING", default="SIMPLE"),
    "with BUCKET",
)
BUCKETS: Final = Option(
    "hoodie.bucket.index.num.buckets",
    INDEX,
    no_number(1, 10**8),
    "buckets of each partition",
    keyword="buckets",
)
HASH_FIELD: Final = Option(
    "hoodie.bucket.index.hash.field", INDEX, text(), "the key columns that are hashed to buckets"
)
UPDATE_PARTITION: Final = Option(
    "hoodie.simple.index.update.partition.path",
    INDEX,
    flag(default=True),
    "a row whose partition changed moves there; with GLOBAL_SIMPLE",
)
