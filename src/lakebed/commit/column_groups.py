"""Revert the definitions of column groups when an instant is rolled back."""

from dataclasses import replace

from lakebed.groups.definition import INSTANTS_PROPERTY, encode_groups
from lakebed.model.instant import Instant
from lakebed.storage.storage import Storage
from lakebed.table.config.properties_file import load_config, update_properties


def forget_instant(storage: Storage, instant: Instant) -> None:
    """Remove the definitions of groups that `instant` added, and restore those that it dropped.

    A pending instant has no effect on definitions. But once the timeline starts after a rolled-back
    instant, that instant would look archived, and so committed.
    """
    groups = load_config(storage).column_groups
    if all(instant not in (group.since, group.until) for group in groups):
        return
    changes: dict[str, str | None] = {
        group.property_name: None for group in groups if group.since == instant
    }
    kept = [
        replace(group, until=None if group.until == instant else group.until)
        for group in groups
        if group.since != instant
    ]
    update_properties(storage, {**changes, INSTANTS_PROPERTY: None, **encode_groups(kept)})
