"""No file of a write that was taken back may stay.

A base file of an instant that never completes would make Hudi lose later logs, so a task looks
before and after its file becomes visible whether the instant is still there.
"""

from collections.abc import Iterable

from lakebed.errors import ConflictError, NotFoundError
from lakebed.format.instant_name import Action, InstantName, State
from lakebed.write.spec import WriteSpec


def check_alive(spec: WriteSpec) -> None:
    """Stop if the write was taken back meanwhile."""
    name = InstantName(spec.instant, Action(spec.action), State.REQUESTED).encode()
    try:
        spec.storage.head(f"{spec.config.timeline_path}/{name}")
    except NotFoundError:
        raise ConflictError(f"instant {name} was rolled back while this task was writing") from None


def check_still_alive(spec: WriteSpec, written: Iterable[str]) -> None:
    """Delete what was written if the rollback came between the check and the close."""
    try:
        check_alive(spec)
    except ConflictError:
        for path in written:
            spec.storage.delete(path)
        raise
