"""Which version of a key survives, as the table's properties ask for it."""

from lakebed.errors import UnsupportedError
from lakebed.merge.rule import Merger, MergeRule
from lakebed.table.config import TableConfig
from lakebed.table.merge_mode import MergeMode

_PAYLOAD = "hoodie.compaction.payload.class"
_STRATEGY = "hoodie.record.merge.strategy.id"
_PARTIAL = "hoodie.table.partial.update.mode"


def merge_rule(config: TableConfig, merger: Merger | None = None) -> MergeRule:
    """Give the rule that the table's merge mode asks for.

    A `merger` of the caller's own is for tables of the mode CUSTOM, which are refused
    without one, by the names of what they want instead. Rows that need no merge need no rule.
    """
    if config.merge_mode is MergeMode.CUSTOM:
        if merger is None:
            raise UnsupportedError(
                f"table {config.name!r} merges rows by {_custom(config)}, which is not known here: "
                "give a merger of your own"
            )
        return MergeRule(config.ordering_fields, merger)
    if config.merge_mode is MergeMode.EVENT_TIME_ORDERING:
        return MergeRule(config.ordering_fields, merger)
    return MergeRule((), merger)


def _custom(config: TableConfig) -> str:
    named = [
        f"{key}={value}"
        for key in (_PARTIAL, _PAYLOAD, _STRATEGY)
        if (value := config.properties.get(key, "").strip())
    ]
    return " and ".join(named) or "hoodie.record.merge.mode=CUSTOM"
