"""The definitions of column groups as an instant leaves them when it is undone."""

from dataclasses import replace

from lakebed.groups.definition import INSTANTS_PROPERTY, encode_groups
from lakebed.model.instant import Instant
from lakebed.storage.storage import Storage
from lakebed.table.config.properties_file import load_config, update_properties


def forget_instant(storage: Storage, instant: Instant) -> None:
    """Undo what `instant` did to the definitions: groups that it added, and groups that it dropped.

    A definition counts only if its instant is committed, but once the timeline begins after an
    instant that was rolled back, such an instant looks archived.
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
