"""Plans and results on the timeline other than commits, as dicts with Hudi's field names.

The file of a kind is a container (`ocf`) of one Avro record of `avro_models`. Fields that a plan
lacks take their defaults.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from lakebed.format.timeline import avro_models
from lakebed.format.timeline.ocf import Record, Schema, decode_record, encode_record


class PlanKind(StrEnum):
    """The kind of plan in a timeline file. Stored on disk: do not change the values."""

    REQUESTED_REPLACE = "HoodieRequestedReplaceMetadata"
    COMPACTION_PLAN = "HoodieCompactionPlan"
    CLEANER_PLAN = "HoodieCleanerPlan"
    CLEAN = "HoodieCleanMetadata"
    ROLLBACK_PLAN = "HoodieRollbackPlan"
    ROLLBACK = "HoodieRollbackMetadata"
    SAVEPOINT = "HoodieSavepointMetadata"
    RESTORE_PLAN = "HoodieRestorePlan"
    RESTORE = "HoodieRestoreMetadata"
    INDEX_PLAN = "HoodieIndexPlan"
    INDEX = "HoodieIndexCommitMetadata"


_SCHEMAS: Final[Mapping[PlanKind, Schema]] = {
    PlanKind.REQUESTED_REPLACE: avro_models.REQUESTED_REPLACE_METADATA,
    PlanKind.COMPACTION_PLAN: avro_models.COMPACTION_PLAN,
    PlanKind.CLEANER_PLAN: avro_models.CLEANER_PLAN,
    PlanKind.CLEAN: avro_models.CLEAN_METADATA,
    PlanKind.ROLLBACK_PLAN: avro_models.ROLLBACK_PLAN,
    PlanKind.ROLLBACK: avro_models.ROLLBACK_METADATA,
    PlanKind.SAVEPOINT: avro_models.SAVEPOINT_METADATA,
    PlanKind.RESTORE_PLAN: avro_models.RESTORE_PLAN,
    PlanKind.RESTORE: avro_models.RESTORE_METADATA,
    PlanKind.INDEX_PLAN: avro_models.INDEX_PLAN,
    PlanKind.INDEX: avro_models.INDEX_COMMIT_METADATA,
}


def encode_plan(kind: PlanKind, values: Mapping[str, object]) -> bytes:
    """Encode a plan; raise InvalidError for a field that is unknown, missing or of another type."""
    return encode_record(_SCHEMAS[kind], values)


def parse_plan(kind: PlanKind, data: bytes, what: str) -> Record:
    """Parse a plan of `kind`, with all fields; raise CorruptError, naming `what`, if invalid."""
    name = f"{avro_models.NAMESPACE}.{kind}"
    return decode_record(data, what, {name: _SCHEMAS[kind]})[1]
