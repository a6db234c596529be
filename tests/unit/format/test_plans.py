import pytest

from lakebed.errors import CorruptError, InvalidError
from lakebed.format.timeline.plans import PlanKind, encode_plan, parse_plan

INFO = {"commitTime": "20240101000000001", "action": "commit"}
ROLLBACK = {
    "startRollbackTime": "1", "timeTakenInMillis": 2, "totalFilesDeleted": 3,
    "commitsRollback": ["a"],
    "partitionMetadata": {"p": {
        "partitionPath": "p", "successDeleteFiles": ["x"], "failedDeleteFiles": [],
        "rollbackLogFiles": {"l": 1}, "logFilesFromFailedCommit": None}},
    "version": 1, "instantsRollback": [INFO],
}  # fmt: skip
CLEANED = {
    "partitionPath": "p", "policy": "KEEP", "deletePathPatterns": [], "successDeleteFiles": ["x"],
    "failedDeleteFiles": [], "isPartitionDeleted": True,
}  # fmt: skip
WHOLE = {
    PlanKind.COMPACTION_PLAN: {
        "operations": [{
            "baseInstantTime": "1", "deltaFilePaths": ["a"], "dataFilePath": None, "fileId": "f",
            "partitionPath": "", "metrics": {"m": 1.5}, "bootstrapFilePath": None}],
        "extraMetadata": None, "version": 2, "strategy": None, "preserveHoodieMetadata": True,
        "missingSchedulePartitions": None,
    },
    PlanKind.REQUESTED_REPLACE: {
        "operationType": "CLUSTER",
        "clusteringPlan": {
            "inputGroups": [{
                "slices": [{
                    "dataFilePath": "d", "deltaFilePaths": [], "fileId": "f", "partitionPath": "p",
                    "bootstrapFilePath": "", "version": 1}],
                "metrics": {}, "numOutputFileGroups": 2, "extraMetadata": {}, "version": 1}],
            "strategy": {"strategyClassName": "c", "strategyParams": {"k": "v"}, "version": 1},
            "extraMetadata": {}, "version": 1, "preserveHoodieMetadata": True,
            "missingSchedulePartitions": ["q"]},
        "extraMetadata": {}, "version": 1,
    },
    PlanKind.CLEANER_PLAN: {
        "earliestInstantToRetain": {"timestamp": "1", "action": "commit", "state": "COMPLETED"},
        "lastCompletedCommitTimestamp": "2", "policy": "KEEP_LATEST_COMMITS",
        "filesToBeDeletedPerPartition": {}, "version": 2,
        "filePathsToBeDeletedPerPartition": {
            "p": [{"filePath": "x", "isBootstrapBaseFile": False}]},
        "partitionsToBeDeleted": [], "extraMetadata": {"k": "v"},
    },
    PlanKind.CLEAN: {
        "startCleanTime": "1", "timeTakenInMillis": 1, "totalFilesDeleted": 1,
        "earliestCommitToRetain": "1", "lastCompletedCommitTimestamp": "", "version": 2,
        "partitionMetadata": {"p": CLEANED}, "bootstrapPartitionMetadata": {"q": CLEANED},
        "extraMetadata": None,
    },
    PlanKind.ROLLBACK_PLAN: {
        "instantToRollback": INFO, "version": 1,
        "RollbackRequests": [{
            "partitionPath": "p", "fileId": "f", "latestBaseInstant": None,
            "filesToBeDeleted": ["x"], "logBlocksToBeDeleted": {"l": 5}}],
    },
    PlanKind.ROLLBACK: ROLLBACK,
    PlanKind.SAVEPOINT: {
        "savepointedBy": "u", "savepointedAt": 1, "comments": "c", "version": 1,
        "partitionMetadata": {"p": {"partitionPath": "p", "savepointDataFile": ["x"]}},
    },
    PlanKind.RESTORE_PLAN: {
        "instantsToRollback": [INFO], "version": 2, "savepointToRestoreTimestamp": "1"},
    PlanKind.RESTORE: {
        "startRestoreTime": "1", "timeTakenInMillis": 1, "instantsToRollback": ["1"],
        "hoodieRestoreMetadata": {"1": [ROLLBACK, None]}, "version": 1,
        "restoreInstantInfo": [INFO],
    },
    PlanKind.INDEX_PLAN: {"version": 1, "indexPartitionInfos": [{
        "version": 1, "metadataPartitionPath": "files", "indexUptoInstant": "1",
        "extraMetadata": None}]},
    PlanKind.INDEX: {"version": 1, "operationType": "INDEX", "indexPartitionInfos": None},
}  # fmt: skip


@pytest.mark.parametrize("kind", PlanKind)
def test_plan_with_every_field_comes_back(kind):
    assert parse_plan(kind, encode_plan(kind, WHOLE[kind]), "f") == WHOLE[kind]


def test_plan_of_another_kind_is_corrupt():
    data = encode_plan(PlanKind.RESTORE_PLAN, {})
    with pytest.raises(
        CorruptError, match=r"T\.rollback\.requested: expected .*HoodieRollbackPlan"
    ):
        parse_plan(PlanKind.ROLLBACK_PLAN, data, "T.rollback.requested")


@pytest.mark.parametrize("values", [{}, {"policy": 3}, {"policy": "x", "polish": 1}])
def test_field_that_is_missing_wrong_or_unknown_is_refused(values):
    with pytest.raises(InvalidError, match="HoodieCleanerPlan"):
        encode_plan(PlanKind.CLEANER_PLAN, values)
