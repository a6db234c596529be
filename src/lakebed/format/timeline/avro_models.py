"""Avro schemas of the files of a timeline, with Hudi's names, order and defaults.

Each schema has the fields of Hudi 1.2's `org.apache.hudi.avro.model.<name>`. Files store fields and
union branches in this order: do not change it. Hudi's `doc` strings, and its defaults inside map
and array types, which Avro ignores, are left out.
"""

from typing import Final

from lakebed.format.timeline.ocf import Schema

NAMESPACE: Final = "org.apache.hudi.avro.model"

# Hudi's schemas have this property because they come from Java's code generator.
_JAVA: Final[dict[str, object]] = {"avro.java.string": "String"}
_STRING: Final[Schema] = {"type": "string", **_JAVA}


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _map(values: Schema) -> Schema:
    return {"type": "map", "values": values, **_JAVA}


def _field(name: str, kind: Schema) -> dict[str, object]:
    return {"name": name, "type": kind}


def _optional(name: str, kind: Schema) -> dict[str, object]:
    return {"name": name, "type": ["null", kind], "default": None}


def _list(name: str, items: Schema) -> dict[str, object]:
    return {"name": name, "type": _array(items), "default": []}


def _version(default: int = 1) -> dict[str, object]:
    return {"name": "version", "type": ["int", "null"], "default": default}


def _nested(name: str, *fields: dict[str, object]) -> Schema:
    return {"type": "record", "name": name, "fields": list(fields)}


def _model(name: str, *fields: dict[str, object]) -> dict[str, object]:
    return {"type": "record", "name": name, "namespace": NAMESPACE, "fields": list(fields)}


_EXTRA: Final = _optional("extraMetadata", _map(_STRING))

_RUNTIME_STATS: Final = _nested(
    "HoodieRuntimeStats",
    _optional("totalScanTime", "long"),
    _optional("totalCreateTime", "long"),
    _optional("totalUpsertTime", "long"),
)

WRITE_STAT: Final = _nested(
    "HoodieWriteStat",
    _optional("fileId", _STRING),
    _optional("path", _STRING),
    _optional("prevCommit", _STRING),
    _optional("numWrites", "long"),
    _optional("numDeletes", "long"),
    _optional("numUpdateWrites", "long"),
    _optional("totalWriteBytes", "long"),
    _optional("totalWriteErrors", "long"),
    _optional("partitionPath", _STRING),
    _optional("totalLogRecords", "long"),
    _optional("totalLogFiles", "long"),
    _optional("totalUpdatedRecordsCompacted", "long"),
    _optional("numInserts", "long"),
    _optional("totalLogBlocks", "long"),
    _optional("totalCorruptLogBlock", "long"),
    _optional("totalRollbackBlocks", "long"),
    _optional("fileSizeInBytes", "long"),
    _optional("logVersion", "int"),
    _optional("logOffset", "long"),
    _optional("baseFile", _STRING),
    _optional("logFiles", _array(_STRING)),
    _optional("cdcStats", _map("long")),
    _optional("prevBaseFile", _STRING),
    _optional("minEventTime", "long"),
    _optional("maxEventTime", "long"),
    _optional("runtimeStats", _RUNTIME_STATS),
    _optional("totalLogFilesCompacted", "long"),
    _optional("totalLogReadTimeMs", "long"),
    _optional("totalLogSizeCompacted", "long"),
    _optional("tempPath", _STRING),
    _optional("numUpdates", "long"),
)

_COMMIT_FIELDS: Final = (
    _optional("partitionToWriteStats", _map(_array(WRITE_STAT))),
    _optional("compacted", "boolean"),
    _EXTRA,
    _version(),
    _optional("operationType", _STRING),
)

COMMIT_METADATA: Final = _model("HoodieCommitMetadata", *_COMMIT_FIELDS)
REPLACE_COMMIT_METADATA: Final = _model(
    "HoodieReplaceCommitMetadata",
    *_COMMIT_FIELDS,
    _optional("partitionToReplaceFileIds", _map(_array(_STRING))),
)

_SLICE_INFO: Final = _nested(
    "HoodieSliceInfo",
    _optional("dataFilePath", _STRING),
    _optional("deltaFilePaths", _array(_STRING)),
    _field("fileId", ["null", _STRING]),
    _optional("partitionPath", _STRING),
    _optional("bootstrapFilePath", _STRING),
    _version(),
)
_CLUSTERING_GROUP: Final = _nested(
    "HoodieClusteringGroup",
    _optional("slices", _array(_SLICE_INFO)),
    _optional("metrics", _map("double")),
    {"name": "numOutputFileGroups", "type": ["int", "null"], "default": 1},
    _EXTRA,
    _version(),
)
_CLUSTERING_STRATEGY: Final = _nested(
    "HoodieClusteringStrategy",
    _optional("strategyClassName", _STRING),
    _optional("strategyParams", _map(_STRING)),
    _version(),
)
_CLUSTERING_PLAN: Final = _nested(
    "HoodieClusteringPlan",
    _optional("inputGroups", _array(_CLUSTERING_GROUP)),
    _optional("strategy", _CLUSTERING_STRATEGY),
    _EXTRA,
    _version(),
    _optional("preserveHoodieMetadata", "boolean"),
    _optional("missingSchedulePartitions", _array(_STRING)),
)
REQUESTED_REPLACE_METADATA: Final = _model(
    "HoodieRequestedReplaceMetadata",
    _optional("operationType", _STRING),
    _optional("clusteringPlan", _CLUSTERING_PLAN),
    _EXTRA,
    _version(),
)

_COMPACTION_OPERATION: Final = _nested(
    "HoodieCompactionOperation",
    _field("baseInstantTime", ["null", _STRING]),
    _optional("deltaFilePaths", _array(_STRING)),
    _optional("dataFilePath", _STRING),
    _field("fileId", ["null", _STRING]),
    _optional("partitionPath", _STRING),
    _optional("metrics", _map("double")),
    _optional("bootstrapFilePath", _STRING),
)
_COMPACTION_STRATEGY: Final = _nested(
    "HoodieCompactionStrategy",
    _optional("compactorClassName", _STRING),
    _optional("strategyParams", _map(_STRING)),
    _version(),
)
COMPACTION_PLAN: Final = _model(
    "HoodieCompactionPlan",
    _optional("operations", _array(_COMPACTION_OPERATION)),
    _EXTRA,
    _version(),
    _optional("strategy", _COMPACTION_STRATEGY),
    {"name": "preserveHoodieMetadata", "type": ["boolean", "null"], "default": False},
    _optional("missingSchedulePartitions", _array(_STRING)),
)

_ACTION_INSTANT: Final = _nested(
    "HoodieActionInstant",
    _field("timestamp", _STRING),
    _field("action", _STRING),
    _field("state", _STRING),
)
_CLEAN_FILE_INFO: Final = _nested(
    "HoodieCleanFileInfo",
    _optional("filePath", _STRING),
    _optional("isBootstrapBaseFile", "boolean"),
)
_LAST_COMPLETED: Final[dict[str, object]] = {
    "name": "lastCompletedCommitTimestamp",
    "type": _STRING,
    "default": "",
}
CLEANER_PLAN: Final = _model(
    "HoodieCleanerPlan",
    _optional("earliestInstantToRetain", _ACTION_INSTANT),
    _LAST_COMPLETED,
    _field("policy", _STRING),
    _optional("filesToBeDeletedPerPartition", _map(_array(_STRING))),
    _version(),
    _optional("filePathsToBeDeletedPerPartition", _map(_array(_CLEAN_FILE_INFO))),
    _optional("partitionsToBeDeleted", _array(_STRING)),
    _EXTRA,
)
_CLEAN_PARTITION: Final = _nested(
    "HoodieCleanPartitionMetadata",
    _field("partitionPath", _STRING),
    _field("policy", _STRING),
    _field("deletePathPatterns", _array(_STRING)),
    _field("successDeleteFiles", _array(_STRING)),
    _field("failedDeleteFiles", _array(_STRING)),
    _optional("isPartitionDeleted", "boolean"),
)
CLEAN_METADATA: Final = _model(
    "HoodieCleanMetadata",
    _field("startCleanTime", _STRING),
    _field("timeTakenInMillis", "long"),
    _field("totalFilesDeleted", "int"),
    _field("earliestCommitToRetain", _STRING),
    _LAST_COMPLETED,
    _field("partitionMetadata", _map(_CLEAN_PARTITION)),
    _version(),
    _optional("bootstrapPartitionMetadata", _map("HoodieCleanPartitionMetadata")),
    _EXTRA,
)

_INSTANT_INFO: Final = _nested(
    "HoodieInstantInfo", _field("commitTime", _STRING), _field("action", _STRING)
)
_ROLLBACK_REQUEST: Final = _nested(
    "HoodieRollbackRequest",
    _field("partitionPath", _STRING),
    _optional("fileId", _STRING),
    _optional("latestBaseInstant", _STRING),
    _list("filesToBeDeleted", _STRING),
    _optional("logBlocksToBeDeleted", _map("long")),
)
ROLLBACK_PLAN: Final = _model(
    "HoodieRollbackPlan",
    _optional("instantToRollback", _INSTANT_INFO),
    _optional("RollbackRequests", _array(_ROLLBACK_REQUEST)),
    _version(),
)
_ROLLBACK_PARTITION: Final = _nested(
    "HoodieRollbackPartitionMetadata",
    _field("partitionPath", _STRING),
    _field("successDeleteFiles", _array(_STRING)),
    _field("failedDeleteFiles", _array(_STRING)),
    _optional("rollbackLogFiles", _map("long")),
    _optional("logFilesFromFailedCommit", _map("long")),
)
_ROLLBACK_FIELDS: Final = (
    _field("startRollbackTime", _STRING),
    _field("timeTakenInMillis", "long"),
    _field("totalFilesDeleted", "int"),
    _field("commitsRollback", _array(_STRING)),
    _field("partitionMetadata", _map(_ROLLBACK_PARTITION)),
    _version(),
    _list("instantsRollback", _INSTANT_INFO),
)
ROLLBACK_METADATA: Final = _model("HoodieRollbackMetadata", *_ROLLBACK_FIELDS)

_SAVEPOINT_PARTITION: Final = _nested(
    "HoodieSavepointPartitionMetadata",
    _field("partitionPath", _STRING),
    _field("savepointDataFile", _array(_STRING)),
)
SAVEPOINT_METADATA: Final = _model(
    "HoodieSavepointMetadata",
    _field("savepointedBy", _STRING),
    _field("savepointedAt", "long"),
    _field("comments", _STRING),
    _field("partitionMetadata", _map(_SAVEPOINT_PARTITION)),
    _version(),
)

RESTORE_PLAN: Final = _model(
    "HoodieRestorePlan",
    _list("instantsToRollback", _INSTANT_INFO),
    _version(2),
    _optional("savepointToRestoreTimestamp", _STRING),
)
RESTORE_METADATA: Final = _model(
    "HoodieRestoreMetadata",
    _field("startRestoreTime", _STRING),
    _field("timeTakenInMillis", "long"),
    _field("instantsToRollback", _array(_STRING)),
    _field(
        "hoodieRestoreMetadata",
        _map(_array(["null", _nested("HoodieRollbackMetadata", *_ROLLBACK_FIELDS)])),
    ),
    _version(),
    _list("restoreInstantInfo", "HoodieInstantInfo"),
)

_INDEX_PARTITION_INFO: Final = _nested(
    "HoodieIndexPartitionInfo",
    _version(),
    _optional("metadataPartitionPath", _STRING),
    _optional("indexUptoInstant", _STRING),
    _EXTRA,
)
INDEX_PLAN: Final = _model(
    "HoodieIndexPlan",
    _version(),
    _optional("indexPartitionInfos", _array(_INDEX_PARTITION_INFO)),
)
INDEX_COMMIT_METADATA: Final = _model(
    "HoodieIndexCommitMetadata",
    _version(),
    _optional("operationType", _STRING),
    _optional("indexPartitionInfos", _array(_INDEX_PARTITION_INFO)),
)
