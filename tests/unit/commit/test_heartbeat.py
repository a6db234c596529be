"""The heartbeat of a writer goes on for as long as it is the writer's own."""

import threading
from typing import Any

from lakebed.commit.heartbeat import Heartbeat, read_beat
from lakebed.errors import UnavailableError
from lakebed.format.timeline.heartbeat import heartbeat_path
from lakebed.model.clock import ManualClock
from lakebed.model.options.writers import HeartbeatOptions
from lakebed.storage.objects import memory_storage
from support.faulty import FaultyStorage

INSTANT = "20261115150000000"
PATH = heartbeat_path(INSTANT)


class LosesAnswers(FaultyStorage):
    """Takes the first `lost` renewals and does not say so."""

    def __init__(self, lost: int) -> None:
        super().__init__(memory_storage())
        self.lost = lost
        self.renewed = threading.Event()
        self.refused = threading.Event()

    def put_if_unchanged(self, path: str, data: bytes, etag: str) -> str:
        try:
            tag = super().put_if_unchanged(path, data, etag)
        except Exception:
            self.refused.set()
            raise
        self.lost -= 1
        if self.lost >= 0:
            raise UnavailableError(f"{path}: no answer")
        self.renewed.set()
        return tag


def started(storage: Any, clock: ManualClock, owner: str = "me") -> Heartbeat:
    heartbeat = Heartbeat(storage, clock, INSTANT, owner)
    heartbeat.start(HeartbeatOptions(interval_ms=5), holds_lock=False)
    return heartbeat


def test_a_renewal_whose_answer_was_lost_does_not_end_the_heartbeat():
    storage, clock = LosesAnswers(lost=1), ManualClock(step_ms=1)
    heartbeat = started(storage, clock)
    try:
        assert storage.renewed.wait(10)
    finally:
        heartbeat.close()
    assert storage.refused.is_set()
    assert read_beat(storage, PATH) is None


def test_a_heartbeat_that_another_took_over_is_left_to_it():
    storage, clock = LosesAnswers(lost=0), ManualClock(step_ms=1)
    heartbeat = started(storage, clock)
    # Puts without a condition: whoever takes over holds the lock and has looked.
    Heartbeat(storage, clock, INSTANT, "other").start(HeartbeatOptions(), holds_lock=True)
    assert storage.refused.wait(10)
    heartbeat.close()
    found = read_beat(storage, PATH)
    assert found is not None
    assert found.owner == "other"
