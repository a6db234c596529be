"""A clean on the timeline: its plan (HoodieCleanerPlan) and its result (HoodieCleanMetadata).

Both are of version 2, in which a plan holds full paths and a result holds names. Agrees with Hudi's
CleanPlanV2MigrationHandler and CleanerUtils.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, cast

from lakebed.commit.hold import OUR_PLAN
from lakebed.errors import CorruptError, UnsupportedError
from lakebed.format.names.data_names import parse_data_name
from lakebed.format.names.instant_name import State
from lakebed.format.timeline.plans import PlanKind, encode_plan, parse_plan
from lakebed.model.options.services import CleanPolicy
from lakebed.services.clean.plan import CleanPlan
from lakebed.table.files.file_group import join_path

_VERSION: Final = 2
_SAVEPOINTS: Final = "savepointed_timestamps"


def encode_clean_plan(plan: CleanPlan, root_url: str) -> bytes:
    """Encode the requested file of a clean on the table at `root_url`."""
    earliest = {
        "timestamp": plan.earliest,
        "action": plan.earliest_action,
        "state": str(State.COMPLETED),
    }
    paths = {
        partition: [
            {"filePath": f"{root_url}/{join_path(partition, name)}", "isBootstrapBaseFile": False}
            for name in names
        ]
        for partition, names in plan.files.items()
    }
    values: dict[str, object] = {
        "earliestInstantToRetain": earliest if plan.earliest else None,
        "lastCompletedCommitTimestamp": plan.last_completed,
        "policy": str(plan.policy),
        "filesToBeDeletedPerPartition": {},
        "version": _VERSION,
        "filePathsToBeDeletedPerPartition": paths,
        # Hudi would delete these folders with everything that they contain by then.
        "partitionsToBeDeleted": [],
        "extraMetadata": dict([OUR_PLAN] if plan.ours else []) | _extra(plan),
    }
    return encode_plan(PlanKind.CLEANER_PLAN, values)


def parse_clean_plan(data: bytes, what: str) -> CleanPlan:
    """Parse a plan of Lakebed or of Hudi.

    Raises CorruptError if the plan lists something other than data files. Folders that Hudi would
    delete are kept: only files are deleted, one by one.
    """
    found = parse_plan(PlanKind.CLEANER_PLAN, data, what)
    files: dict[str, set[str]] = defaultdict(set)
    names = cast("Mapping[str, list[str]]", found["filesToBeDeletedPerPartition"] or {})
    for partition, listed in names.items():
        files[partition].update(_checked(name, what) for name in listed)
    infos = cast(
        "Mapping[str, list[dict[str, object]]]", found["filePathsToBeDeletedPerPartition"] or {}
    )
    for partition, of in infos.items():
        for info in of:
            path = cast("str", info["filePath"] or "")
            if info["isBootstrapBaseFile"]:
                raise UnsupportedError(f"{what}: {path} is a bootstrap file, unsupported here")
            files[partition].add(_checked(path.rpartition("/")[2], what))
    retained = cast("Mapping[str, str]", found["earliestInstantToRetain"] or {})
    extra = cast("Mapping[str, str]", found["extraMetadata"] or {})
    try:
        policy = CleanPolicy(cast("str", found["policy"]))
    except ValueError:
        raise UnsupportedError(
            f"{what}: expected a policy of {[*CleanPolicy]}, found {found['policy']!r}"
        ) from None
    return CleanPlan(
        policy,
        retained.get("timestamp", ""),
        cast("str", found["lastCompletedCommitTimestamp"]),
        {partition: tuple(sorted(of)) for partition, of in sorted(files.items())},
        tuple(filter(None, extra.get(_SAVEPOINTS, "").split(","))),
        retained.get("action", "commit"),
        OUR_PLAN in extra.items(),
    )


def encode_clean(plan: CleanPlan, instant: str, taken_ms: int, emptied: Iterable[str]) -> bytes:
    """Encode the completed file of a clean that deleted everything in its plan.

    `emptied` are folders that are no longer partitions.
    """
    gone = frozenset(emptied)
    partitions = {
        partition: {
            "partitionPath": partition,
            "policy": str(plan.policy),
            "deletePathPatterns": list(names),
            "successDeleteFiles": list(names),
            "failedDeleteFiles": [],
            "isPartitionDeleted": partition in gone,
        }
        for partition, names in plan.files.items()
    }
    values = {
        "startCleanTime": instant,
        "timeTakenInMillis": taken_ms,
        "totalFilesDeleted": sum(map(len, plan.files.values())),
        "earliestCommitToRetain": plan.earliest,
        "lastCompletedCommitTimestamp": plan.last_completed,
        "partitionMetadata": partitions,
        "version": _VERSION,
        "bootstrapPartitionMetadata": {},
        "extraMetadata": _extra(plan),
    }
    return encode_plan(PlanKind.CLEAN, values)


def _extra(plan: CleanPlan) -> dict[str, str]:
    """Return the extra metadata: for later cleans, the savepoints that kept files, as in Hudi."""
    return {_SAVEPOINTS: ",".join(plan.savepoints)} if plan.savepoints else {}


def _checked(name: str, what: str) -> str:
    """Return `name`; raise CorruptError if it is not the name of a data file."""
    if parse_data_name(name) is None:
        raise CorruptError(f"{what}: expected names of data files to delete, found {name!r}")
    return name
