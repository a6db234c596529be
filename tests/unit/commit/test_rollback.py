"""Taking back an instant: everything of it, nothing of others, the instant last."""

from lakebed.commit.rollback import delete_temp, roll_back, temp_path
from lakebed.timeline.active import ActiveTimeline
from support.faulty import FaultyStorage
from support.tables import batch, contents, make

DEAD = "20300101000000000"
LEFT = (
    f"p/00000000-dead-0_0-0-0_{DEAD}.parquet",
    f"new/00000001-dead-0_1-0-0_{DEAD}.parquet",
    f"p/.00000000-dead-0_{DEAD}.log.1_0-0-0",
    f"p/00000000-dead-0_0-0-0_{DEAD}_1.log.parquet",
    temp_path(DEAD, "0-0-0-0"),
    f".hoodie/timeline/{DEAD}.commit.requested",
    f".hoodie/timeline/{DEAD}.inflight",
)


def filled():
    table = make()
    table.insert(batch(("a", 1, 1, "p")))
    before = contents(table._storage)
    for path in LEFT:
        table._storage.put(path, b"x")
    return table._storage, before


def test_everything_that_carries_the_instant_goes_and_nothing_else():
    storage, before = filled()
    storage.put(f"p/{DEAD}.txt", b"mine")
    active = ActiveTimeline(storage)
    [dead] = active.load().pending()
    roll_back(storage, active, dead)
    assert contents(storage) == {**before, f"p/{DEAD}.txt": b"mine"}
    roll_back(storage, active, dead)
    assert contents(storage) == {**before, f"p/{DEAD}.txt": b"mine"}


def test_the_requested_file_goes_last():
    storage, _ = filled()
    watched = FaultyStorage(storage)
    active = ActiveTimeline(watched)
    [dead] = active.load().pending()
    roll_back(watched, active, dead)
    deletes = [op for op in watched.ops if op.startswith("delete")]
    assert len(deletes) == len(LEFT) + 1  # and the heartbeat
    assert deletes[-1] == f"delete .hoodie/timeline/{DEAD}.commit.requested"


def test_temporary_runs_of_every_instant_are_swept():
    storage, _ = filled()
    other = temp_path("20200101000000000", "0-0-0-0")
    storage.put(other, b"x")
    delete_temp(storage)
    assert not [path for path in contents(storage) if "/.temp/" in path]
