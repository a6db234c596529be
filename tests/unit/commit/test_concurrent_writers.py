"""Several writers at once: who waits, who conflicts, who is tried again."""

from collections.abc import Callable
from typing import Any

import pytest

from lakebed.errors import ConflictError, LockedError
from lakebed.model.clock import ManualClock
from lakebed.storage.objects import memory_storage
from lakebed.storage.storage import Storage
from support.faulty import FaultyStorage, SimulatedCrash
from support.tables import batch, check_files, check_no_leftovers, contents, make, reopen, user_rows

OPTIMISTIC = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
NON_BLOCKING = {"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}
RETRIES = {"hoodie.write.num.retries.on.conflict.failures": "3"}
HEARTBEATS = ".hoodie/.heartbeat"


class Meanwhile(FaultyStorage):
    """Lets another writer work, once, when the first data file of ours is about to appear."""

    def __init__(self, inner: Storage, deed: Callable[[], None], before: str = "close") -> None:
        super().__init__(inner)
        self._deed: Callable[[], None] | None = deed
        self._before = before

    def run(self, op: str, act: Any) -> Any:
        if op.startswith(self._before) and self._deed is not None:
            deed, self._deed = self._deed, None
            deed()
        return super().run(op, act)


class Dies(FaultyStorage):
    """Dies when its first data file is about to appear."""

    def run(self, op: str, act: Any) -> Any:
        if op.startswith("close p/"):
            self.crashed = True
        return super().run(op, act)


def table_of(properties: dict[str, str], storage: Storage | None = None, **changes: Any) -> Any:
    kind = {"table_type": "MERGE_ON_READ", "ordering": ("ts",), **changes}
    return make(storage, ManualClock(step_ms=1), properties=properties, **kind)


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_two_optimistic_writers_of_different_file_groups_both_count(kind):
    storage = memory_storage()
    table_of(OPTIMISTIC, storage, table_type=kind).insert(batch(("a", 1, 1, "p"), ("b", 1, 1, "q")))
    other = reopen(storage)
    slow = reopen(Meanwhile(storage, lambda: other.upsert(batch(("b", 2, 2, "q")))))
    slow.upsert(batch(("a", 3, 3, "p")))
    rows = user_rows(reopen(storage))
    assert rows["p", "a"]["v"] == 3
    assert rows["q", "b"]["v"] == 2
    check_files(reopen(storage))
    assert not list(storage.list(HEARTBEATS))


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_of_two_optimistic_writers_of_one_file_group_the_later_to_end_is_refused(kind):
    storage = memory_storage()
    table_of(OPTIMISTIC, storage, table_type=kind).insert(batch(("a", 1, 1, "p")))
    slow = reopen(Meanwhile(storage, lambda: reopen(storage).upsert(batch(("a", 2, 2, "p")))))
    with pytest.raises(ConflictError, match=r"overtaken by another: .*file group.*retry"):
        slow.upsert(batch(("a", 3, 3, "p")))
    assert user_rows(reopen(storage))["p", "a"]["v"] == 2
    check_no_leftovers(storage)
    check_files(reopen(storage))


def test_two_writers_that_begin_the_same_bucket_do_not_split_its_keys():
    storage = memory_storage()
    table_of(OPTIMISTIC, storage)
    slow = reopen(Meanwhile(storage, lambda: reopen(storage).insert(batch(("a", 1, 1, "p")))))
    with pytest.raises(ConflictError, match="file group 0"):
        slow.insert(batch(("a", 2, 2, "p")))
    assert len(user_rows(reopen(storage))) == 1


def test_a_conflict_is_tried_again_on_request():
    storage = memory_storage()
    table_of({**OPTIMISTIC, **RETRIES}, storage).insert(batch(("a", 1, 1, "p")))
    slow = reopen(Meanwhile(storage, lambda: reopen(storage).upsert(batch(("a", 2, 2, "p")))))
    slow.upsert(batch(("a", 3, 3, "p")))
    assert user_rows(reopen(storage))["p", "a"]["v"] == 3
    check_no_leftovers(storage)


def test_a_stream_that_can_be_read_once_is_not_tried_again():
    storage = memory_storage()
    table_of({**OPTIMISTIC, **RETRIES}, storage).insert(batch(("a", 1, 1, "p")))
    slow = reopen(Meanwhile(storage, lambda: reopen(storage).upsert(batch(("a", 2, 2, "p")))))
    with pytest.raises(ConflictError):
        slow.upsert(batch(("a", 3, 3, "p")).to_reader())


@pytest.mark.parametrize("version", [9, 10])
def test_non_blocking_writers_of_one_file_group_both_count(version):
    storage = memory_storage()
    table_of(NON_BLOCKING, storage, table_version=version)
    other = reopen(storage)
    slow = reopen(
        Meanwhile(storage, lambda: other.upsert(batch(("a", 9, 9, "p"), ("c", 1, 1, "p"))))
    )
    slow.upsert(batch(("a", 3, 3, "p"), ("b", 3, 3, "p")))
    rows = user_rows(reopen(storage))
    assert {key: row["v"] for key, row in rows.items()} == {
        ("p", "a"): 9,
        ("p", "b"): 3,
        ("p", "c"): 1,
    }
    assert not [
        path
        for path in contents(storage)
        if path.endswith(".parquet") and "/." not in path and ".log." not in path
    ], "only services write base files"
    check_files(reopen(storage))


def test_the_commit_time_of_non_blocking_writers_is_when_they_began():
    storage = memory_storage()
    table_of(NON_BLOCKING, storage, ordering=())
    other = reopen(storage)
    # It begins later and ends earlier than ours.
    slow = reopen(Meanwhile(storage, lambda: other.upsert(batch(("a", 9, 9, "p")))))
    slow.upsert(batch(("a", 3, 3, "p")))
    assert user_rows(reopen(storage))["p", "a"]["v"] == 9


def test_an_overwrite_and_an_append_to_its_partition_do_not_both_count():
    storage = memory_storage()
    table_of(NON_BLOCKING, storage).upsert(batch(("a", 1, 1, "p")))
    slow = reopen(
        Meanwhile(storage, lambda: reopen(storage).insert_overwrite(batch(("z", 1, 1, "p"))))
    )
    with pytest.raises(ConflictError, match="partition 'p'"):
        slow.upsert(batch(("a", 3, 3, "p")))
    assert list(user_rows(reopen(storage))) == [("p", "z")]
    reopen(storage).upsert(batch(("a", 3, 3, "p")))
    assert sorted(user_rows(reopen(storage))) == [("p", "a"), ("p", "z")]
    check_files(reopen(storage))


def test_a_whole_table_is_not_overwritten_under_one_who_adds_a_partition():
    storage = memory_storage()
    table_of(OPTIMISTIC, storage).upsert(batch(("a", 1, 1, "p")))
    slow = reopen(Meanwhile(storage, lambda: reopen(storage).upsert(batch(("n", 1, 1, "new")))))
    with pytest.raises(ConflictError):
        slow.insert_overwrite(batch(("z", 1, 1, "p")), whole_table=True)
    assert sorted(user_rows(reopen(storage))) == [("new", "n"), ("p", "a")]


def test_a_writer_whose_process_ended_is_rolled_back_at_once():
    storage = memory_storage()
    table_of(OPTIMISTIC, storage).insert(batch(("a", 1, 1, "p")))
    before = contents(storage)
    dead = reopen(Dies(storage), ManualClock(name="dead"))
    with pytest.raises(SimulatedCrash):
        dead.upsert(batch(("a", 2, 2, "p")))
    assert contents(storage) != before, "it left things behind"
    alive = reopen(storage, ManualClock(step_ms=1, ended=frozenset({"dead"})))
    alive.upsert(batch(("b", 3, 3, "p")))
    check_no_leftovers(storage)
    assert sorted(user_rows(reopen(storage))) == [("p", "a"), ("p", "b")]


def test_a_writer_that_may_be_alive_is_left_alone_until_its_heartbeat_runs_out():
    storage = memory_storage()
    table_of(OPTIMISTIC, storage).insert(batch(("a", 1, 1, "p")))
    clock = ManualClock(step_ms=1)
    silent = reopen(Dies(storage), clock)
    with pytest.raises(SimulatedCrash):
        silent.upsert(batch(("a", 2, 2, "p")))
    reopen(storage, clock).upsert(batch(("b", 3, 3, "q")))
    assert list(storage.list(HEARTBEATS)), "not yet"
    clock.ms += 121_000
    reopen(storage, clock).upsert(batch(("c", 3, 3, "q")))
    check_no_leftovers(storage)


def test_a_writer_that_was_taken_for_dead_cannot_complete():
    storage = memory_storage()
    table_of(OPTIMISTIC, storage).insert(batch(("a", 1, 1, "p")))
    clock = ManualClock(step_ms=1)

    def overtake() -> None:
        later = ManualClock(ms=clock.ms + 200_000, step_ms=1)
        reopen(storage, later).upsert(batch(("b", 3, 3, "q")))

    with pytest.raises(ConflictError):
        reopen(Meanwhile(storage, overtake), clock).upsert(batch(("a", 2, 2, "p")))
    assert user_rows(reopen(storage))["p", "a"]["v"] == 1
    check_no_leftovers(storage)


def test_one_who_reads_what_it_changes_conflicts_also_where_writers_do_not_block():
    storage = memory_storage()
    table_of(NON_BLOCKING, storage).upsert(batch(("a", 1, 1, "p")))
    slow = reopen(Meanwhile(storage, lambda: reopen(storage).upsert(batch(("a", 2, 2, "p")))))
    with pytest.raises(ConflictError):
        slow.delete(where="v = 1")
    assert user_rows(reopen(storage))["p", "a"]["v"] == 2


@pytest.mark.parametrize("properties", [OPTIMISTIC, NON_BLOCKING])
@pytest.mark.parametrize(
    ("meanwhile", "where"),
    [
        (("b", 7, 2, "q"), "v = 7"),  # a row of another file group begins to match
        (("n", 7, 2, "new"), "v = 7"),  # in a partition that was not there
        (("b", 7, 2, "q"), "v = 7 AND dt > 'a'"),
    ],
)
def test_a_delete_by_predicate_conflicts_with_a_write_that_may_make_rows_match(
    properties, meanwhile, where
):
    storage = memory_storage()
    table_of(properties, storage).upsert(batch(("a", 7, 1, "p"), ("b", 1, 1, "q")))
    slow = reopen(Meanwhile(storage, lambda: reopen(storage).upsert(batch(meanwhile))))
    with pytest.raises(ConflictError, match=r"changed file group .*may match.*retry"):
        slow.delete(where=where)
    check_no_leftovers(storage)
    reopen(storage).delete(where=where)
    assert not [row for row in user_rows(reopen(storage)).values() if row["v"] == 7]


@pytest.mark.parametrize("properties", [OPTIMISTIC, NON_BLOCKING])
@pytest.mark.parametrize("where", ["v = 7 AND dt = 'p'", "v = 7 AND id = 'a'"])
def test_a_delete_by_predicate_goes_beside_writes_to_where_no_row_can_match(properties, where):
    storage = memory_storage()
    table_of(properties, storage, buckets=8).upsert(batch(("a", 7, 1, "p"), ("b", 1, 1, "q")))
    slow = reopen(Meanwhile(storage, lambda: reopen(storage).upsert(batch(("b", 7, 2, "q")))))
    slow.delete(where=where)
    assert list(user_rows(reopen(storage))) == [("q", "b")]


@pytest.mark.parametrize("properties", [OPTIMISTIC, NON_BLOCKING])
def test_a_delete_by_predicate_is_tried_again_on_request_and_sees_the_new_rows(properties):
    storage = memory_storage()
    table_of({**properties, **RETRIES}, storage).upsert(batch(("a", 7, 1, "p"), ("b", 1, 1, "q")))
    slow = reopen(Meanwhile(storage, lambda: reopen(storage).upsert(batch(("b", 7, 2, "q")))))
    slow.delete(where="v = 7")
    assert user_rows(reopen(storage)) == {}


def test_columns_that_another_writer_added_are_not_forgotten():
    storage = memory_storage()
    table_of(NON_BLOCKING, storage).upsert(batch(("a", 1, 1, "p")))
    wider = batch(("b", 1, 1, "p")).append_column("extra", [["x"]])
    slow = reopen(Meanwhile(storage, lambda: reopen(storage).upsert(wider, evolve=True)))
    with pytest.raises(ConflictError, match="columns changed"):
        slow.upsert(batch(("a", 3, 3, "p")))
    assert "extra" in reopen(storage).schema.names


def test_two_inserts_that_look_their_keys_up_do_not_double_a_key():
    storage = memory_storage()
    table_of(OPTIMISTIC, storage, index="simple").insert(batch(("a", 1, 1, "p")))
    slow = reopen(Meanwhile(storage, lambda: reopen(storage).upsert(batch(("new", 1, 1, "p")))))
    with pytest.raises(ConflictError):
        slow.upsert(batch(("new", 2, 2, "p")))
    assert len(user_rows(reopen(storage))) == 2


def test_a_single_writer_that_waits_says_who_has_the_table():
    storage = memory_storage()
    table_of({}, storage).insert(batch(("a", 1, 1, "p")))

    def barge_in() -> None:
        with pytest.raises(LockedError, match="another writer has held the table"):
            reopen(storage, ManualClock()).upsert(batch(("a", 9, 9, "p")))

    reopen(Meanwhile(storage, barge_in)).upsert(batch(("a", 2, 2, "p")))
    assert user_rows(reopen(storage))["p", "a"]["v"] == 2


def test_a_key_without_its_partition_conflicts_with_a_row_that_comes_elsewhere_meanwhile():
    table = table_of(OPTIMISTIC)
    table.insert(batch(("a", 1, 1, "p"), ("a", 2, 1, "q"), ("b", 3, 1, "p")))
    storage = table._storage
    slow = reopen(Meanwhile(storage, lambda: reopen(storage).insert(batch(("a", 9, 9, "new")))))
    with pytest.raises(ConflictError, match="overtaken"):
        slow.delete([{"id": "a"}])
    reopen(storage).delete([{"id": "a"}])
    assert set(user_rows(table)) == {("p", "b")}
