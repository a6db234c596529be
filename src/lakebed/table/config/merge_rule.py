"""The merge rule of a table, from its properties."""

import json
from collections.abc import Iterator

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.merge.rule import Merger, MergeRule
from lakebed.table.config.merge_mode import (
    PARTIAL_UPDATE_MODE,
    PAYLOAD_CLASS,
    STRATEGY_ID,
    MergeMode,
)
from lakebed.table.config.table_config import TableConfig


def merge_rule(
    config: TableConfig, merger: Merger | None = None, *, schema_text: str | None = None
) -> MergeRule:
    """Return the rule for the table's merge mode.

    A custom `merger` is for tables of the mode CUSTOM. Raises UnsupportedError if such a table is
    read without one; rows that need no merge need no rule. `schema_text`, the table's Avro schema,
    is checked for column defaults other than null: in a mode where nulls yield, such defaults would
    yield too, and Hudi's behaviour in that case is unknown.
    """
    if merger is not None:
        ordered = config.merge_mode is not MergeMode.COMMIT_TIME_ORDERING
        return MergeRule(config.ordering_fields if ordered else (), merger)
    if config.merge_mode is MergeMode.CUSTOM:
        raise UnsupportedError(
            f"table {config.name!r} merges rows by {_custom(config)}, which is not available here: "
            "pass a custom merger"
        )
    if schema_text is not None and config.fill is not None and config.fill.marker is None:
        _check_defaults(config, schema_text)
    by_event_time = config.merge_mode is MergeMode.EVENT_TIME_ORDERING
    return MergeRule(
        config.ordering_fields if by_event_time else (),
        fill=config.fill,
        natural_deletes=config.natural_deletes,
        # Tables of the default layout follow Hudi's rules, and are read as Hudi reads them.
        logs_first=not config.is_lsm_tree,
    )


def _check_defaults(config: TableConfig, schema_text: str) -> None:
    for name, default in _defaults(schema_text, config.name):
        if default is not None:
            raise UnsupportedError(
                f"table {config.name!r} ignores defaults in a merge ({_custom(config)}), and "
                f"column {name!r} has the default {default!r}: only null is supported; pass a "
                "custom merger"
            )


def _defaults(schema_text: str, table: str) -> Iterator[tuple[object, object]]:
    try:
        parsed = json.loads(schema_text)
    except ValueError as error:
        raise CorruptError(f"table {table!r}: its Avro schema is not JSON: {error}") from error
    fields = parsed.get("fields") if isinstance(parsed, dict) else None
    for field in fields if isinstance(fields, list) else ():
        if isinstance(field, dict):
            yield field.get("name"), field.get("default")


def _custom(config: TableConfig) -> str:
    named = [
        f"{key}={value}"
        for key in (PARTIAL_UPDATE_MODE, PAYLOAD_CLASS, STRATEGY_ID)
        if (value := config.properties.get(key, "").strip())
    ]
    return " and ".join(named) or "hoodie.record.merge.mode=CUSTOM"
