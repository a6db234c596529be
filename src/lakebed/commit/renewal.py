"""A thread that renews a lock or a heartbeat while its owner works."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lakebed.errors import ConflictError, LakebedError

log = logging.getLogger(__name__)


@contextmanager
def renewing(kind: str, path: str, renew: Callable[[], None], seconds: float) -> Iterator[None]:
    """Call `renew` every `seconds` until the block ends, or until the file belongs to another."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(seconds):
            try:
                renew()
            except ConflictError:
                # The writer's own check fails before it completes.
                log.exception("%s: lost to another writer", path)
                return
            except LakebedError:
                log.warning("%s: not renewed, trying again", path, exc_info=True)

    thread = threading.Thread(target=run, name=f"lakebed-{kind}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
