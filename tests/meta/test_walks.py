"""The walks in ARCHITECTURE.md are what really happens: every hop, in this order."""

import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from support.tables import batch, make

PAGE = Path(__file__).parents[2] / "ARCHITECTURE.md"
HOP = re.compile(r"^\| (\d+) \| `(\S+)` `(\S+)` \|", re.MULTILINE)


def walks() -> list[list[tuple[str, str]]]:
    """Return the numbered hops of each table, as paths and functions."""
    found: list[list[tuple[str, str]]] = []
    for number, path, function in HOP.findall(PAGE.read_text()):
        if number == "1":
            found.append([])
        assert int(number) == len(found[-1]) + 1
        found[-1].append((path, function))
    return found


def traced(act: Callable[[], object]) -> list[tuple[str, str]]:
    """Do it; return every call of a function of ours, in order."""
    calls: list[tuple[str, str]] = []

    def note(frame, event, _):
        path = frame.f_code.co_filename
        if event == "call" and "/src/lakebed/" in path:
            calls.append((path.rpartition("/src/lakebed/")[2], frame.f_code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return calls


def follow(walk: list[tuple[str, str]], calls: list[tuple[str, str]]) -> None:
    at = 0
    for hop in walk:
        assert hop in calls[at:], f"{hop[0]} {hop[1]} is not called after the hop before it"
        at += calls[at:].index(hop) + 1


@pytest.fixture
def table():
    table = make(table_type="MERGE_ON_READ", buckets=2, layout="lsm_tree")
    for version in (1, 2):
        table.upsert(batch(*((f"k{i}", i, version, "p") for i in range(50))))
    return table


def test_an_upsert_takes_the_hops_that_the_page_lists(table):
    upsert, _, _ = walks()
    assert len(upsert) <= 30
    rows = pa.concat_tables(
        [batch(*((f"k{i}", i, 3, "p") for i in range(40))), batch(("x", 1, 1, "q"))]
    )
    follow(upsert, traced(lambda: table.upsert(rows)))


def test_a_read_takes_the_hops_that_the_page_lists(table):
    _, read, _ = walks()
    assert len(read) <= 25
    where = f"{table.config.record_key_fields[0]} = 'k7'"
    follow(read, traced(lambda: table.read(where=where).read_all()))


def test_an_update_by_sql_takes_the_hops_that_the_page_lists():
    _, _, update = walks()
    catalog = lakebed.catalog(None, "memory://walks/warehouse")
    catalog.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
    catalog.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    calls = traced(lambda: lakebed.sql(catalog, "UPDATE t SET v = upper(v) WHERE id = 2"))
    follow(update, calls)
