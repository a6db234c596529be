"""Which version of a key survives, as `hoodie.properties` says it: merge mode or payload class."""

from collections.abc import Mapping
from enum import StrEnum

from lakebed.errors import UnsupportedError


class MergeMode(StrEnum):
    """Which version of a key survives. On-disk words of Hudi; do not change."""

    COMMIT_TIME_ORDERING = "COMMIT_TIME_ORDERING"
    EVENT_TIME_ORDERING = "EVENT_TIME_ORDERING"
    # A merger or payload class of somebody's own: rows that need no merge are still read.
    CUSTOM = "CUSTOM"


_PAYLOAD_MODES = {
    "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload": MergeMode.COMMIT_TIME_ORDERING,
    "org.apache.hudi.common.model.DefaultHoodieRecordPayload": MergeMode.EVENT_TIME_ORDERING,
    "org.apache.hudi.common.model.EventTimeAvroPayload": MergeMode.EVENT_TIME_ORDERING,
}


def parse_merge_mode(
    properties: Mapping[str, str], ordering: tuple[str, ...], where: str
) -> MergeMode:
    """Give the merge mode; CUSTOM for a payload class that is not known here."""
    text = properties.get("hoodie.record.merge.mode", "").strip().upper()
    payload = properties.get("hoodie.compaction.payload.class", "").strip()
    if properties.get("hoodie.table.partial.update.mode"):
        return MergeMode.CUSTOM
    if text in MergeMode.__members__:
        mode = MergeMode(text)
        if mode is MergeMode.EVENT_TIME_ORDERING and not ordering:
            mode = MergeMode.COMMIT_TIME_ORDERING
        return mode
    if text:
        raise UnsupportedError(f"{where}: hoodie.record.merge.mode={text} is not understood")
    if payload:
        return _PAYLOAD_MODES.get(payload, MergeMode.CUSTOM)
    return MergeMode.EVENT_TIME_ORDERING if ordering else MergeMode.COMMIT_TIME_ORDERING
