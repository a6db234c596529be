"""Where a table keeps its timeline and its archive, according to `hoodie.properties`.

Layout 1 has a fixed location for the instants, which no property changes: Hudi 1.x writes
`hoodie.timeline.path` into tables of version 6 too, and ignores it.
"""

from collections.abc import Mapping

from lakebed.errors import UnsupportedError
from lakebed.format.names.instant_name import LAYOUT_1
from lakebed.timeline.layout import METADATA_FOLDER, layout_of


def timeline_path(properties: Mapping[str, str], layout: int, where: str) -> str:
    """Return the folder of the instants, by which readers distinguish the layouts."""
    if layout == LAYOUT_1:
        return METADATA_FOLDER
    name = properties.get("hoodie.timeline.path", "timeline")
    path = _folder(METADATA_FOLDER, name)
    if path.endswith("/") or layout_of(path) == LAYOUT_1:
        raise UnsupportedError(
            f"{where}: hoodie.timeline.path={name!r}; expected a folder below {METADATA_FOLDER}, which "
            "itself is that of timeline layout 1"
        )
    return path


def history_path(properties: Mapping[str, str], layout: int, where: str) -> str:
    """Return the folder of the archived instants."""
    if layout == LAYOUT_1:
        return _folder(METADATA_FOLDER, properties.get("hoodie.archivelog.folder", "archived"))
    name = properties.get("hoodie.timeline.history.path", "history")
    return _folder(timeline_path(properties, layout, where), name)


def _folder(parent: str, name: str) -> str:
    return f"{parent}/{name.strip('/')}"
