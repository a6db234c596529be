"""Deletes as a first-time user calls them, and what a commit says of its rows."""

import re

import pytest

from lakebed.api.table import Table
from lakebed.errors import InvalidError, NotFoundError
from support.tables import batch, make, user_rows

ROWS = batch(("a", 1, 1, "p"), ("a", 2, 1, "q"), ("b", 3, 1, "p"))
MOR, COW = "MERGE_ON_READ", "COPY_ON_WRITE"


@pytest.fixture(params=[COW, MOR])
def table(request: pytest.FixtureRequest) -> Table:
    made = make(table_type=request.param, ordering=("ts",))
    made.insert(ROWS)
    return made


def keys(table: Table) -> set[tuple[str, str]]:
    return set(user_rows(table))


def test_a_key_without_its_partition_deletes_its_rows_in_all_of_them(table: Table):
    commit = table.delete([{"id": "a"}])
    assert keys(table) == {("p", "b")}
    assert (commit.inserted, commit.updated, commit.deleted) == (0, 0, 2)


def test_keys_with_and_without_partitions_come_together_and_count_once(table: Table):
    commit = table.delete([{"id": "a", "dt": "p"}, {"id": "a"}, "b", {"id": "b", "dt": "q"}])
    assert keys(table) == set()
    assert commit.deleted == 3


@pytest.mark.parametrize("index", ["simple", "global_simple"])
def test_another_index_deletes_by_bare_keys_too(index: str):
    made = make(table_type=MOR, ordering=("ts",), index=index, buckets=None)
    made.insert(batch(("a", 1, 1, "p"), ("b", 3, 1, "q")))
    assert made.delete([{"id": "b"}, {"id": "x"}]).deleted == 1
    assert keys(made) == {("p", "a")}


def test_a_key_that_is_not_there_counts_nothing(table: Table):
    for absent in ([{"id": "x"}], [{"id": "x", "dt": "p"}], [{"id": "b", "dt": "q"}]):
        assert table.delete(absent).deleted == 0
    assert table.delete([{"id": "b", "dt": "p"}]).deleted == 1
    assert table.delete([{"id": "b", "dt": "p"}]).deleted == 0
    assert table.delete(where="v = 9").deleted == 0
    assert table.delete(where="v > 0").deleted == 2


def test_an_unknown_partition_is_refused_by_name_and_nothing_is_committed(table: Table):
    commits = len(table.history())
    for given in ("x", ["p", "x"], [{"dt": "x"}]):
        with pytest.raises(NotFoundError, match="no partition 'x'; it has 'p', 'q'"):
            table.delete_partitions(given)
    assert len(table.history()) == commits
    assert len(keys(table)) == 3
    table.delete_partitions(["p"])
    assert keys(table) == {("q", "a")}


def test_a_commit_counts_what_came_changed_and_went():
    made = make(table_type=COW, ordering=("ts",), partition_by=(), buckets=1)
    first = made.insert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    assert (first.inserted, first.updated, first.deleted) == (2, 0, 0)
    late_and_new = batch(("a", 2, 2, "p"), ("b", 2, 0, "p"), ("c", 2, 2, "p"), ("c", 2, 1, "p"))
    second = made.upsert(late_and_new)
    assert (second.inserted, second.updated, second.deleted) == (1, 1, 0)
    assert re.fullmatch(
        rf"upsert {second.instant}: 1 row inserted, 1 updated, 0 deleted; 1 file \([0-9,]+ bytes\)",
        str(second),
    )


def test_a_log_does_not_claim_to_know_what_it_changes():
    made = make(table_type=MOR, ordering=("ts",), partition_by=(), buckets=1)
    assert made.insert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p"))).inserted == 2
    commit = made.upsert(batch(("a", 2, 2, "p"), ("c", 2, 2, "p")))
    assert (commit.rows, commit.inserted, commit.updated, commit.deleted) == (2, None, None, 0)
    assert "2 rows written as inserts or updates, 0 deleted; 1 file" in str(commit)
    assert "1 deleted" in str(made.delete(["a"]))


def test_a_time_before_the_first_commit_is_refused_with_the_first(table: Table):
    first = min(table.history().column("instant").to_pylist())
    with pytest.raises(InvalidError, match=rf"first commit of table 't' is {first}"):
        table.read(as_of="1999-01-01")
    assert make().read(as_of="1999-01-01").read_all().num_rows == 0
