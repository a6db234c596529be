"""A compaction plan and its encoding: HoodieCompactionPlan on the timeline.

version 2   Hudi's. A plan of kind `compaction` holds FULL operations, one of kind
            `logcompaction` LOG operations over the logs that it lists.
version 3   the hybrid plan of RFC-103: each operation has a field `operationType`, FULL or
            LOG. A LOG operation lists all logs of its slice, and the metric
            `LOG_FILES_TAKEN` has how many of them, from the first on, are merged: a reader
            that does not know the field runs it as FULL, and loses nothing.
version 4   a plan that widens: all column groups of a file group into one base file with all
            columns. Each file group has an operation for each column group, which may have no
            files; the extra metadata `lakebed.widen` lists the groups, in the order of the
            operations.
"""

import copy
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import cycle
from typing import Final, Self, cast

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.format.names.data_names import BaseFileName, LogName, parse_data_name
from lakebed.format.names.instant_name import Action
from lakebed.format.timeline.avro_models import COMPACTION_PLAN, NAMESPACE
from lakebed.format.timeline.ocf import Record, Schema, decode_record, encode_record
from lakebed.format.timeline.plans import PlanKind, encode_plan
from lakebed.table.config.tombstone_retention import PLAN_CUTOFF
from lakebed.table.files.file_group import BaseFile, FileGroupId, FileSlice, LogFile, named_group
from lakebed.table.files.pending_plans import LOG_FILES_TAKEN as TAKEN
from lakebed.table.files.pending_plans import PLAN_WIDENS, widened_groups

HUDI_VERSION: Final = 2
HYBRID_VERSION: Final = 3
WIDE_VERSION: Final = 4
LOG_COMPACTOR: Final = "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper"
LOG_BYTES: Final = "TOTAL_LOG_FILES_SIZE"


class Kind(StrEnum):
    """The kind of compaction: FULL merges everything into a base file, LOG merges logs into one.

    WIDE merges a column group into a base file of all columns, together with the other groups. The
    values are stored on disk: do not change them.
    """

    FULL = "FULL"
    LOG = "LOG"
    WIDE = "WIDE"


@dataclass(frozen=True, slots=True)
class CompactionOperation:
    """The files to merge in one file group: a slice as it was when the plan was made.

    The first `taken` logs are merged, or all logs by a FULL operation; a LOG operation lists the
    logs to merge first, whatever their replay order. Sizes of a parsed plan are 0.
    """

    kind: Kind
    slice_: FileSlice
    taken: int
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def group(self) -> FileGroupId:
        """Return the file group."""
        return self.slice_.group

    @property
    def logs(self) -> tuple[LogFile, ...]:
        """Return the logs to merge."""
        return self.slice_.log_files[: self.taken]

    @property
    def log_bytes(self) -> int:
        """Return the size of the logs of the slice, as the planner saw it."""
        return int(self.metrics.get(LOG_BYTES, 0))


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """The operations of one compaction; `action` is that of its timeline file.

    Deletes of commits before `cutoff` are dropped; None if the plan does not have a cutoff, like
    Hudi's plans. `widens` are the column groups that a plan of kind WIDE merges.
    """

    action: Action
    operations: tuple[CompactionOperation, ...]
    version: int = HUDI_VERSION
    cutoff: str | None = None
    widens: tuple[str, ...] = ()

    @classmethod
    def parse(cls, data: bytes, action: Action, what: str) -> Self:
        """Parse a plan of Lakebed or of Hudi; CorruptError and UnsupportedError name `what`."""
        values = decode_record(data, what, {_NAME: _HYBRID_SCHEMA})[1]
        version = values["version"] or 1
        if version not in (1, HUDI_VERSION, HYBRID_VERSION, WIDE_VERSION):
            raise UnsupportedError(
                f"{what}: compaction plan of version {version}; expected up to 4"
            )
        found = cast("list[Record]", values["operations"] or [])
        extra = cast("dict[str, str]", values["extraMetadata"] or {})
        groups = widened_groups(extra, what)
        return cls(
            action,
            tuple(
                _parse_operation(operation, action, what, group)
                for operation, group in zip(found, cycle(groups or (None,)), strict=False)
            ),
            version,
            extra.get(PLAN_CUTOFF),
            groups,
        )

    def encode(self) -> bytes:
        """Encode the plan; a plan of version 2 has Hudi's own schema."""
        is_hybrid = self.version == HYBRID_VERSION
        is_log = self.action is Action.LOGCOMPACTION
        extra = {PLAN_CUTOFF: self.cutoff} if self.cutoff else {}
        if self.widens:
            extra[PLAN_WIDENS] = json.dumps(self.widens)
        strategy = {"compactorClassName": LOG_COMPACTOR, "strategyParams": {}, "version": 1}
        values: dict[str, object] = {
            "operations": [_encode_operation(o, is_hybrid) for o in self.operations],
            "extraMetadata": extra,
            "version": self.version,
            "strategy": strategy if is_log else None,
            "preserveHoodieMetadata": is_log,
            "missingSchedulePartitions": [],
        }
        if is_hybrid:
            return encode_record(_HYBRID_SCHEMA, values)
        return encode_plan(PlanKind.COMPACTION_PLAN, values)


def _hybrid_schema() -> Schema:
    """Return Hudi's schema of a plan with the field that distinguishes the two kinds."""
    schema = cast(
        "dict[str, list[dict[str, list[dict[str, object]]]]]", copy.deepcopy(COMPACTION_PLAN)
    )
    operations = next(f for f in schema["fields"] if cast("object", f["name"]) == "operations")
    items = cast("dict[str, list[dict[str, object]]]", operations["type"][1]["items"])
    kind: dict[str, object] = {"name": "operationType", "type": ["null", "string"], "default": None}
    items["fields"].append(kind)
    return cast("Schema", schema)


_NAME: Final = f"{NAMESPACE}.{PlanKind.COMPACTION_PLAN}"
_HYBRID_SCHEMA: Final = _hybrid_schema()


def _encode_operation(operation: CompactionOperation, is_hybrid: bool) -> dict[str, object]:
    slice_ = operation.slice_
    base = slice_.base_file
    # A reader of a log compaction of version 2 merges everything that it lists.
    logs = slice_.log_files if is_hybrid else operation.logs
    if operation.kind is not Kind.LOG:
        logs = (*slice_.tombstones, *logs)
    taken = {TAKEN: float(operation.taken)} if is_hybrid and operation.kind is Kind.LOG else {}
    values: dict[str, object] = {
        "baseInstantTime": slice_.instant,
        "deltaFilePaths": [log.name.encode() for log in logs],
        "dataFilePath": None if base is None else base.name.encode(),
        "fileId": slice_.group.file_id,
        "partitionPath": slice_.group.partition,
        "metrics": {**operation.metrics, **taken},
        "bootstrapFilePath": None,
    }
    return {**values, "operationType": str(operation.kind)} if is_hybrid else values


def _parse_operation(
    values: Record, action: Action, what: str, widened: str | None
) -> CompactionOperation:
    partition, file_id = values["partitionPath"] or "", values["fileId"]
    if not isinstance(file_id, str) or not file_id:
        raise CorruptError(f"{what}: an operation without a file id")
    if values["bootstrapFilePath"]:
        raise UnsupportedError(
            f"{what}: file group {file_id} is bootstrapped, which is not supported"
        )
    given = cast("dict[str, float]", values["metrics"] or {})
    metrics = {name: value for name, value in given.items() if math.isfinite(value)}
    named = cast("list[str]", values["deltaFilePaths"] or [])
    base_name = cast("str | None", values["dataFilePath"])
    names = [path.rpartition("/")[2] for path in (*named, base_name or "")]
    group = named_group(cast("str", partition), file_id, names)
    if widened is not None:
        group = replace(group, column_group=widened)
    logs = tuple(_parse_log(group, text, what) for text in named)
    kind = Kind.WIDE
    if widened is None:
        kind = _parse_kind(values["operationType"], action, what)
    taken = len(logs)
    if kind is Kind.LOG and TAKEN in metrics:
        taken = int(min(max(metrics[TAKEN], 0), taken))
    base = _parse_base(group, base_name, what)
    instant = values["baseInstantTime"] or (logs[0].name.instant if logs else "")
    slice_ = FileSlice(group, cast("str", instant), base, logs)
    metrics.pop(TAKEN, None)
    return CompactionOperation(kind, slice_, taken, metrics)


def _parse_kind(word: object, action: Action, what: str) -> Kind:
    if word is None:
        return Kind.LOG if action is Action.LOGCOMPACTION else Kind.FULL
    try:
        return Kind(cast("str", word))
    except ValueError:
        raise UnsupportedError(f"{what}: operation type {word!r}; expected FULL or LOG") from None


def _parse_log(group: FileGroupId, text: str, what: str) -> LogFile:
    # Plans of version 1 hold paths.
    name = parse_data_name(text.rpartition("/")[2])
    if name is None or isinstance(name, BaseFileName) or not _is_of(name, group):
        raise CorruptError(f"{what}: expected a log of file group {group.file_id}, found {text!r}")
    return LogFile(group.partition, name, 0)


def _parse_base(group: FileGroupId, text: str | None, what: str) -> BaseFile | None:
    if not text:
        return None
    name = parse_data_name(text.rpartition("/")[2])
    if not isinstance(name, BaseFileName) or not (name.is_wide or _is_of(name, group)):
        raise CorruptError(f"{what}: expected a base file of {group.file_id}, found {text!r}")
    return BaseFile(group.partition, name, 0)


def _is_of(name: BaseFileName | LogName, group: FileGroupId) -> bool:
    return (name.file_id, name.column_group) == (group.file_id, group.column_group)
