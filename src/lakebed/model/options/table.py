"""Options that define a table and are fixed when it is created."""

from typing import Final

from lakebed.model.options.option import (
    Fate,
    Option,
    Scope,
    Subject,
    flag,
    folder,
    listed,
    names,
    number,
    text,
    word,
)

TABLE: Final = Subject("Tables", Scope.CREATE)
KEYS: Final = Subject("Keys and partitions", Scope.CREATE)
MERGING: Final = Subject("How versions of a key are merged", Scope.CREATE)
INDEX: Final = Subject("The writer's index", Scope.CREATE)

SECONDARY: Final = Subject("Secondary indexes", Scope.CREATE)

GROUPS: Final = Subject("Column groups", Scope.CREATE)

_WRITE: Final = "hoodie.datasource.write."
_MERGE_PROPERTY: Final = "hoodie.record.merge.property."

DATABASE: Final = Option("hoodie.database.name", TABLE, text(), "the name of the database")
NAME: Final = Option(
    "hoodie.table.name",
    TABLE,
    text(),
    "the name of the table; by default, that of its folder",
    write_names=(_WRITE + "table.name",),
    keyword="name",
)
TYPE: Final = Option(
    "hoodie.table.type",
    TABLE,
    word("COPY_ON_WRITE", "MERGE_ON_READ"),
    "a write replaces base files, or adds logs; COPY_ON_WRITE if a write creates the table",
    write_names=(_WRITE + "table.type", _WRITE + "storage.type"),
    keyword="table_type",
)
VERSION: Final = Option(
    "hoodie.table.version",
    TABLE,
    word("8", "9", "10", default="9"),
    "the version of the table format",
    write_names=("hoodie.write.table.version",),
    keyword="table_version",
)
LAYOUT: Final = Option(
    "hoodie.table.storage.layout",
    TABLE,
    word("default", "lsm_tree"),
    "rows of a file in any order, or sorted by key; default if a write creates the table",
    keyword="layout",
)
TIMEZONE: Final = Option(
    "hoodie.table.timeline.timezone",
    TABLE,
    word("UTC", "LOCAL", default="UTC"),
    "the time zone of instants",
)
CDC: Final = Option(
    "hoodie.table.cdc.enabled", TABLE, flag(default=False), "log the changes of rewritten files"
)
CDC_MODE: Final = Option(
    "hoodie.table.cdc.supplemental.logging.mode",
    TABLE,
    word("OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER", default="DATA_BEFORE_AFTER"),
    "what is logged of a change: its key, also the row before, also the row after",
)
BLOCK_FORMAT: Final = Option(
    "hoodie.logfile.data.block.format",
    TABLE,
    word("parquet", "avro"),
    "up to table version 9; by default parquet, or avro if an ordering column is a string",
)
FIXED: Final = (
    *listed(
        TABLE,
        Fate.FIXED,
        word("true"),
        {"tables without meta columns are read-only": "hoodie.populate.meta.fields"},
    ),
    *listed(
        TABLE,
        Fate.FIXED,
        word("false"),
        {"columns stay in files": _WRITE + "drop.partition.columns"},
    ),
    Option(
        "hoodie.table.base.file.format",
        TABLE,
        word("PARQUET"),
        "base files are Parquet",
        write_names=("hoodie.base.file.format",),
        fate=Fate.FIXED,
    ),
)

RECORD_KEY: Final = Option(
    "hoodie.table.recordkey.fields",
    KEYS,
    names(),
    "the key columns; without them, a write creates a table that generates its keys, as in Hudi",
    write_names=(_WRITE + "recordkey.field",),
    keyword="key",
)
PARTITION: Final = Option(
    "hoodie.table.partition.fields",
    KEYS,
    names(),
    "the partition columns; in a write, instead of partitionBy",
    write_names=(_WRITE + "partitionpath.field",),
    keyword="partition_by",
)
GENERATOR: Final = Option(
    "hoodie.table.keygenerator.type",
    KEYS,
    word("SIMPLE", "COMPLEX", "NON_PARTITION", "TIMESTAMP", "CUSTOM"),
    "CUSTOM needs the kind of each partition field: city:SIMPLE,at:TIMESTAMP",
    write_names=(_WRITE + "keygenerator.type",),
)
GENERATOR_CLASS: Final = Option(
    "hoodie.table.keygenerator.class",
    KEYS,
    text(),
    "the key generator, by its class name in Hudi",
    write_names=(_WRITE + "keygenerator.class",),
)
HIVE_STYLE: Final = Option(
    _WRITE + "hive_style_partitioning", KEYS, flag(default=False), "folders are named column=value"
)
URL_ENCODE: Final = Option(
    _WRITE + "partitionpath.urlencode", KEYS, flag(default=False), "names of folders are escaped"
)
TIMESTAMP_KEYS: Final = tuple(
    Option(f"hoodie.keygen.timebased.{end}", KEYS, text(), f"key generator TIMESTAMP: {effect}")
    for end, effect in {
        "timestamp.type": "what the partition column holds",
        "output.dateformat": "the pattern of folder names, such as yyyy/MM/dd",
        "input.dateformat": "the pattern of string values",
        "input.dateformat.list.delimiter.regex": "the separator of several such patterns",
        "input.timezone": "the time zone of string values",
        "output.timezone": "the time zone of folder names",
        "timezone": "the time zone of both",
        "timestamp.scalar.time.unit": "the unit of numeric values",
    }.items()
)

ORDERING: Final = Option(
    "hoodie.table.ordering.fields",
    MERGING,
    names(),
    "the ordering columns: the version of a key with the greatest value wins",
    aliases=("hoodie.table.precombine.field",),
    write_names=(_WRITE + "precombine.field", "hoodie.payload.ordering.field"),
    keyword="ordering",
)
MERGE_MODE: Final = Option(
    "hoodie.record.merge.mode",
    MERGING,
    word("COMMIT_TIME_ORDERING", "EVENT_TIME_ORDERING"),
    "the newest version wins, or the one with the greatest ordering value; by default the latter "
    "if there are ordering columns",
    write_names=("hoodie.write.record.merge.mode", _WRITE + "record.merge.mode"),
)
PAYLOAD_CLASS: Final = Option(
    "hoodie.compaction.payload.class",
    MERGING,
    text(),
    "a payload class of Hudi; docs/merging.md lists them",
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
    "FILL_UNAVAILABLE: a column with this value keeps the older one",
    prefix=_MERGE_PROPERTY,
)
DELETE_FIELD: Final = Option(
    "hoodie.payload.delete.field",
    MERGING,
    text(),
    "a row with the delete marker in this column is a delete",
    prefix=_MERGE_PROPERTY,
)
DELETE_MARKER: Final = Option(
    "hoodie.payload.delete.marker", MERGING, text(), "the delete marker", prefix=_MERGE_PROPERTY
)

INDEX_TYPE: Final = Option(
    "hoodie.index.type",
    INDEX,
    word(
        *("SIMPLE", "GLOBAL_SIMPLE", "BLOOM", "GLOBAL_BLOOM", "RECORD_LEVEL_INDEX"),
        *("RECORD_INDEX", "GLOBAL_RECORD_LEVEL_INDEX", "BUCKET"),
        same={"GLOBAL_RECORD_LEVEL_INDEX": "RECORD_INDEX"},
    ),
    "SIMPLE if a write creates the table; RECORD_INDEX and GLOBAL_RECORD_LEVEL_INDEX are the same",
    keyword="index",
)
BUCKET_ENGINE: Final = Option(
    "hoodie.index.bucket.engine",
    INDEX,
    word("SIMPLE", "CONSISTENT_HASHING", default="SIMPLE"),
    "BUCKET: a fixed number of buckets, or one that grows",
)
BUCKETS: Final = Option(
    "hoodie.bucket.index.num.buckets",
    INDEX,
    number(0, 1, 10**8),
    "BUCKET: buckets of each partition",
    keyword="buckets",
)
HASH_FIELD: Final = Option(
    "hoodie.bucket.index.hash.field", INDEX, names(), "BUCKET: the key columns that are hashed"
)
UPDATE_PARTITION: Final = Option(
    "hoodie.simple.index.update.partition.path",
    INDEX,
    flag(default=True),
    "a global index: a row whose partition changes moves there",
)
COLUMN_GROUP: Final = Option(
    "hoodie.columngroup.<name>",
    GROUPS,
    text(),
    "the columns of a column group, and its ordering column if it has one: `a,b;ordering`",
)
COLGROUP: Final = Option(
    "hoodie.colgroup.<name>", GROUPS, text(), "another name of `hoodie.columngroup.<name>`"
)
INDEX_PATH: Final = Option(
    "lakebed.index.path",
    SECONDARY,
    folder("index"),
    "the folder of the secondary indexes, below `.hoodie/lakebed`",
)
