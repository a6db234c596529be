"""The timeline and the files as tables to look at."""

from lakebed.table.history import FILES_SCHEMA, HISTORY_SCHEMA
from support.tables import batch, make, reopen


def test_history_counts_what_each_commit_did_newest_first():
    table = make(buckets=1)
    first = table.bulk_insert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    second = table.insert(batch(("a", 2, 2, "p"), ("c", 2, 2, "p")))
    history = table.history()
    assert history.schema == HISTORY_SCHEMA
    newest, oldest = history.to_pylist()
    assert (newest["instant"], oldest["instant"]) == (second.instant, first.instant)
    assert newest["completion_time"] == second.completion_time
    assert (oldest["operation"], newest["operation"]) == ("BULK_INSERT", "INSERT")
    assert (oldest["rows_written"], oldest["rows_inserted"], oldest["rows_updated"]) == (2, 2, 0)
    assert (newest["rows_written"], newest["rows_inserted"], newest["rows_updated"]) == (3, 1, 1)
    assert newest["files"] == 1
    assert newest["bytes_written"] == second.size_bytes > 0
    assert (newest["state"], newest["archived"]) == ("completed", False)


def test_a_pending_instant_is_shown_without_counts():
    table = make()
    table._storage.put(".hoodie/timeline/20991231235959999.commit.requested", b"")
    row = reopen(table._storage).history().to_pylist()[0]
    assert (row["state"], row["completion_time"], row["files"]) == ("requested", None, None)


def test_files_are_those_that_a_read_uses():
    table = make(buckets=1)
    first = table.insert(batch(("a", 1, 1, "p")))
    second = table.insert(batch(("b", 1, 1, "p")))
    files = table.files()
    assert files.schema == FILES_SCHEMA
    assert files.column("instant").to_pylist() == [second.instant]
    assert files.column("level").to_pylist() == ["L1"]
    earlier = table.files(as_of=first.instant).to_pylist()
    assert [row["instant"] for row in earlier] == [first.instant]
    assert earlier[0]["file_id"] == files.column("file_id")[0].as_py()
    path = files.column("path")[0].as_py()
    assert files.column("size_bytes")[0].as_py() == len(table._storage.read(path))


def test_an_empty_table_has_no_history_and_no_files():
    table = make()
    assert table.history().num_rows == 0
    assert table.files().num_rows == 0
