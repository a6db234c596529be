"""Checks which tables may have column groups."""

from lakebed.errors import UnsupportedError
from lakebed.model.options import table
from lakebed.table.config.merge_mode import MergeMode
from lakebed.table.config.table_config import (
    GROUPS_VERSION,
    Layout,
    TableConfig,
    TableType,
)


def check_groups_version(config: TableConfig) -> None:
    """Raise UnsupportedError if the table's version is too old for column groups."""
    if config.version < GROUPS_VERSION:
        raise UnsupportedError(
            f"table {config.name!r} has version {config.version}: column groups need version "
            f"{GROUPS_VERSION}, because engines that do not know them would read the files wrongly; "
            "call upgrade() first"
        )


def check_grouped(config: TableConfig, *, custom_merger: bool = False) -> None:
    """Raise UnsupportedError if the table has column groups and a setting that rules them out."""
    if not config.column_groups:
        return
    index = config.index
    refused = {
        "table_type='COPY_ON_WRITE'": config.table_type is not TableType.MERGE_ON_READ,
        "layout='default'": config.layout is not Layout.LSM_TREE,
        "an index other than index='bucket'": index is None or not index.allows_column_groups,
        "a custom merger": custom_merger or config.merge_mode is MergeMode.CUSTOM,
        f"{table.MERGE_MODE.name}=COMMIT_TIME_ORDERING with ordering columns, or a payload class "
        "that ignores them": config.merge_mode is MergeMode.COMMIT_TIME_ORDERING
        and bool(config.ordering_fields),
        "a partial update mode or a payload class that merges columns": config.fill is not None,
        "a payload class that ignores the ordering of deletes": config.natural_deletes,
        "change data (hoodie.table.cdc.enabled=true)": table.CDC.value(config.properties),
        "a table without key columns": not config.record_key_fields,
    }
    for what, found in refused.items():
        if found:
            raise UnsupportedError(
                f"table {config.name!r}: column groups cannot be combined with {what}; they need a "
                "MERGE_ON_READ table of layout 'lsm_tree' with index='bucket', merged by ordering or "
                "by commit"
            )
