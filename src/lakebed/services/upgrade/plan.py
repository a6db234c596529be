"""The properties to change and the files to rewrite to move a table to a version or layout.

    8 -> 9    properties: the ordering fields under their new name. Old names may stay
    9 -> 10   properties: which meta columns there are. Inline logs stay readable; new logs are
              native
    10 -> 9   native logs must be removed, because readers of version 9 silently ignore them:
              every file group that has some is compacted, and old slices are deleted
    layout    a property; but logs are resolved by another rule, so file groups with logs are
              compacted first; and in version 10 `lsm_tree` promises that base files and native
              logs are sorted

Agrees with Hudi's EightToNineUpgradeHandler, NineToTenUpgradeHandler and TenToNineDowngradeHandler,
with two exceptions: `lsm_tree` is kept in version 9, where runs are individually marked as sorted,
and a property is never removed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from lakebed.errors import InvalidError, UnsupportedError
from lakebed.table.config.merge_mode import MergeMode
from lakebed.table.config.table_config import TABLE_VERSIONS, Layout, TableConfig
from lakebed.table.files.file_group import FileGroupId

NATIVE_VERSION: Final = 10
"""The first table version in which logs are native."""

_PAYLOAD: Final = "hoodie.compaction.payload.class"
# The other classes do more than keep one of two rows, and become properties of their own.
_PLAIN_PAYLOADS: Final = frozenset(
    {
        "",
        "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
        "org.apache.hudi.common.model.EventTimeAvroPayload",
        "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
    }
)


@dataclass(frozen=True, slots=True)
class SliceFacts:
    """The newest slice of a file group, as far as a conversion depends on it.

    `unsorted` are its base file and native logs that are not marked as sorted by record key.
    """

    group: FileGroupId
    logs: int
    native_logs: int
    unsorted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Conversion:
    """The old and new version and layout, the new properties, and the file groups to compact."""

    from_version: int
    to_version: int
    from_layout: Layout
    to_layout: Layout
    changes: Mapping[str, str]
    compact: tuple[FileGroupId, ...] = ()

    @property
    def drops_native_logs(self) -> bool:
        """Return whether no native log may remain, not even in an old slice."""
        return self.to_version < NATIVE_VERSION <= self.from_version

    @property
    def changes_layout(self) -> bool:
        """Return whether versions of a key will be resolved by another rule."""
        return self.from_layout is not self.to_layout

    @property
    def promises_order(self) -> bool:
        """Return whether readers will newly assume that base files and native logs are sorted."""
        return (
            self.to_version >= NATIVE_VERSION
            and self.to_layout is Layout.LSM_TREE
            and (self.from_version < NATIVE_VERSION or self.from_layout is not Layout.LSM_TREE)
        )


def plan_conversion(config: TableConfig, version: int | None, layout: str | None) -> Conversion:
    """Return the new properties; None keeps the present version or layout.

    Raises an error for a change that is not supported.
    """
    to_version = config.version if version is None else version
    if to_version not in TABLE_VERSIONS:
        known = ", ".join(map(str, TABLE_VERSIONS))
        raise UnsupportedError(f"table version {to_version!r}: expected one of {known}")
    if to_version < min(config.version, 9):
        raise UnsupportedError(
            f"table {config.name!r}: expected version 9 or 10, found {to_version}: tables cannot go "
            "below 9"
        )
    to_layout = _layout(config, layout)
    changes: dict[str, str] = {}
    if config.version < 9 <= to_version:
        changes |= _to_nine(config)
    if config.version < NATIVE_VERSION <= to_version:
        changes["hoodie.meta.fields.mode"] = "ALL"
    if to_version < NATIVE_VERSION <= config.version:
        # The equivalent of the mode; readers of version 9 know only this.
        changes["hoodie.populate.meta.fields"] = "true"
    if to_version != config.version:
        changes["hoodie.table.version"] = str(to_version)
    if to_layout is not config.layout:
        changes["hoodie.table.storage.layout"] = str(to_layout)
    return Conversion(config.version, to_version, config.layout, to_layout, changes)


def choose_groups(conversion: Conversion, facts: Iterable[SliceFacts]) -> tuple[FileGroupId, ...]:
    """Return the file groups to compact first; raise an error for an unsorted file without logs."""
    found = []
    for fact in sorted(facts, key=lambda fact: fact.group):
        if conversion.drops_native_logs and fact.native_logs:
            found.append(fact.group)
        elif conversion.changes_layout and fact.logs:
            # Logs are resolved by the rule under which they were written: the new rule may pick
            # another row.
            found.append(fact.group)
        elif conversion.promises_order and fact.unsorted:
            if not fact.logs:
                raise UnsupportedError(
                    f"{fact.unsorted[0]}: in version {conversion.to_version}, {Layout.LSM_TREE} "
                    "requires files sorted by record key, and this one is not marked as sorted; "
                    "rewrite its rows first, or keep the layout default"
                )
            found.append(fact.group)
    return tuple(found)


def _layout(config: TableConfig, layout: str | None) -> Layout:
    if layout is None:
        return config.layout
    try:
        return Layout(layout)
    except ValueError:
        raise InvalidError(f"layout {layout!r}: expected {' or '.join(Layout)}") from None


def _to_nine(config: TableConfig) -> dict[str, str]:
    payload = config.properties.get(_PAYLOAD, "").strip()
    if payload not in _PLAIN_PAYLOADS:
        raise UnsupportedError(
            f"table {config.name!r}: {_PAYLOAD}={payload} becomes merge properties in version 9, "
            "which only Hudi's own upgrade does"
        )
    changes = {}
    if config.ordering_fields:
        changes["hoodie.table.ordering.fields"] = ",".join(config.ordering_fields)
    if config.merge_mode is not MergeMode.CUSTOM:
        # In version 8 the class alone may determine it.
        changes["hoodie.record.merge.mode"] = str(config.merge_mode)
    return changes
