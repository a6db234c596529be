"""Delete hidden files that dead writers left on local disk, which listings omit."""

import contextlib
import os

from lakebed.storage.paths import TEMPORARY_PREFIX
from lakebed.storage.storage import Storage


def delete_abandoned(storage: Storage, before_ms: int) -> int:
    """Delete hidden files last written before `before_ms`; return the number of files deleted.

    Object stores have none, because an incomplete upload is not an object.
    """
    inside = storage.local_path(".hoodie")
    if inside is None:
        return 0
    gone = 0
    for folder, _, names in os.walk(os.path.dirname(inside)):
        for name in names:
            if not name.startswith(TEMPORARY_PREFIX):
                continue
            path = os.path.join(folder, name)
            # Its owner may complete or drop the file at any time.
            with contextlib.suppress(OSError):
                if os.stat(path, follow_symlinks=False).st_mtime_ns < before_ms * 1_000_000:
                    os.unlink(path)
                    gone += 1
    return gone
