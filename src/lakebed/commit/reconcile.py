"""Delete files that the commit of their instant does not list, left by failed task attempts."""

import logging
from collections.abc import Iterable, Set

from lakebed.format.names.data_names import parse_data_name
from lakebed.storage.storage import Storage
from lakebed.table.files.file_group import join_path

log = logging.getLogger(__name__)


def delete_unnamed(
    storage: Storage, instant: str, named: Set[str], partitions: Iterable[str]
) -> list[str]:
    """Delete the files of `instant` in `partitions` that are not `named`; return their paths.

    This runs right before the instant completes, because Hudi's readers use every file whose name
    has a completed instant.
    """
    gone = []
    for partition in sorted(set(partitions)):
        for text in storage.names(partition):
            name = parse_data_name(text)
            path = join_path(partition, text)
            if name is None or name.instant != instant or path in named:
                continue
            log.warning("%s: deleting a file that a superseded task attempt left", path)
            storage.delete(path)
            gone.append(path)
    return gone
