"""The layout of a timeline, which is derived from its folder.

Layout 1 (table versions up to 6) keeps its instants in `.hoodie` itself, whatever
`hoodie.timeline.path` is; layout 2 in a folder below it. Table properties that would make the
layouts indistinguishable are rejected when they are read.
"""

import re
from typing import Final

from lakebed.format.names.instant_name import LAYOUT_1, LAYOUT_2
from lakebed.storage.storage import Storage

METADATA_FOLDER: Final = ".hoodie"

_ARCHIVE_NAME: Final = re.compile(r"\.commits_\.archive\.[0-9]+(?:_.*)?")


def layout_of(folder: str) -> int:
    """Return the layout of the timeline in `folder`, a path relative to the table.

    >>> layout_of(".hoodie"), layout_of(".hoodie/timeline")
    (1, 2)
    """
    return LAYOUT_1 if folder.rpartition("/")[2] == METADATA_FOLDER else LAYOUT_2


def has_archive(storage: Storage, folder: str) -> bool:
    """Return whether `folder` contains archived instants of a timeline of layout 1.

    They are in inline logs, `.commits_.archive.<n>_<token>`. Readers do not need them, because they
    do not affect a snapshot.
    """
    return any(_ARCHIVE_NAME.fullmatch(name) for name in storage.names(folder))
