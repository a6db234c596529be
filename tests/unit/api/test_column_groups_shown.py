"""How `files`, `layers`, `describe` and `explain` show the column groups of a table."""

from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.api.description import DescribedGroup
from lakebed.api.table import Table
from lakebed.format.names.data_names import BaseFileName, parse_data_name
from lakebed.storage.storage import Storage
from lakebed.table.history import FILES_SCHEMA
from support.tables import batch, make, reopen

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.int64()),
        ("name", pa.string()),
        ("score", pa.float64()),
        ("scored_at", pa.int64()),
        ("a", pa.int64()),
        ("b", pa.int64()),
    ]
)
GROUPS = {"risk": "score;scored_at", "ab": ["a", "b"]}


class Watched:
    """A storage that records which files are opened."""

    def __init__(self, inner: Storage) -> None:
        self.inner = inner
        self.opened: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def open_read(self, path: str) -> pa.NativeFile:
        self.opened.add(path)
        return self.inner.open_read(path)


@pytest.fixture
def table() -> Table:
    """A table with one file group: a base file of each column group."""
    table = make(
        schema=SCHEMA,
        key=("id",),
        ordering=("ts",),
        partition_by=(),
        table_type="MERGE_ON_READ",
        table_version=None,
        buckets=1,
        column_groups=GROUPS,
    )
    n = 100
    values = list(range(n))
    table.bulk_insert(
        pa.table(
            {
                "id": values,
                "ts": [1] * n,
                "name": [f"n{i}" for i in values],
                "score": [i / 2 for i in values],
                "scored_at": [1] * n,
                "a": values,
                "b": values,
            }
        )
    )
    return table


def rescore(table: Table, *keys: int) -> None:
    n = len(keys)
    table.upsert(pa.table({"id": list(keys), "score": [9.0] * n, "scored_at": [2] * n}))


def test_files_have_the_group_only_in_a_table_with_groups(table: Table):
    rescore(table, 1)
    files = table.files()
    assert files.schema == FILES_SCHEMA.insert(2, pa.field("column_group", pa.string()))
    found = [(row["column_group"], row["level"]) for row in files.to_pylist()]
    assert found == [("", "L1"), ("ab", "L1"), ("risk", "L1"), ("risk", "L0")]
    first = table.history().column("instant").to_pylist()[-1]
    assert [row["column_group"] for row in table.files(as_of=first).to_pylist()] == [
        "",
        "ab",
        "risk",
    ]
    ordinary = make()
    ordinary.insert(batch(("a", 1, 1, "p")))
    assert ordinary.files().schema == FILES_SCHEMA


def test_an_empty_table_with_groups_has_the_column_too():
    table = lakebed.create_table(
        None, "memory://shown/empty", SCHEMA, key="id", buckets=1, column_groups=GROUPS
    )
    assert "column_group" in table.files().column_names
    assert str(table.layers()) == "(no files)"


def test_layers_draw_each_group_below_its_name(table: Table):
    rescore(table, 1)
    layers = table.layers()
    [group] = layers
    assert [(layer.column_group, layer.level) for layer in group.layers] == [
        ("", "L1"),
        ("ab", "L1"),
        ("risk", "L0"),
        ("risk", "L1"),
    ]
    assert group.size_bytes == sum(table.files().column("size_bytes").to_pylist())
    lines = str(layers).splitlines()
    assert lines[0] == "(not partitioned)"
    assert lines[1].startswith("  file group 00000000-")
    assert [line.split("   ")[-2].strip() for line in lines if "column group" in line] == [
        "default column group",
        "column group ab",
        "column group risk",
    ]
    assert [line[:8] for line in lines[2:]] == [
        "    defa",
        "      L1",
        "    colu",
        "      L1",
        "    colu",
        "      L0",
        "      L1",
    ]


def test_a_file_group_without_files_of_the_default_group_is_drawn():
    table = lakebed.create_table(
        None, "memory://shown/late", SCHEMA, key="id", buckets=1, column_groups=GROUPS
    )
    table.upsert(pa.table({"id": [1], "score": [1.0], "scored_at": [1]}))
    lines = str(table.layers()).splitlines()
    assert [line.split()[:3] for line in lines if "column group" in line] == [
        ["column", "group", "risk"]
    ]


def test_describe_lists_the_groups_with_columns_and_ordering(table: Table):
    said = table.describe()
    assert said.column_groups == (
        DescribedGroup("", ("ts", "name"), ("ts",)),
        DescribedGroup("ab", ("a", "b"), ("ts",)),
        DescribedGroup("risk", ("score", "scored_at"), ("scored_at",)),
    )
    assert str(said).splitlines()[-4:] == [
        "  column groups",
        "    (default)  ts, name; ordered by ts",
        "    ab         a, b; ordered by ts",
        "    risk       score, scored_at; ordered by scored_at",
    ]
    ordinary = make().describe()
    assert ordinary.column_groups == ()
    assert "column groups" not in str(ordinary)


def test_a_group_that_is_ordered_by_commit_says_so():
    table = lakebed.create_table(
        None, "memory://shown/arrival", SCHEMA, key="id", buckets=1, column_groups={"ab": "a,b"}
    )
    assert str(table.describe()).endswith("    ab         a, b; the later write wins")


def test_one_group_answers_alone(table: Table):
    found = table.explain(["score"])
    assert [(note.name, note.columns, note.columns_in, note.keys_in) for note in found.groups] == [
        ("", (), 0, 0),
        ("ab", (), 0, 0),
        ("risk", ("score",), 1, 0),
    ]
    assert (found.row_groups.read, found.row_groups.total) == (1, 3)
    sizes = {row["column_group"]: row["size_bytes"] for row in table.files().to_pylist()}
    assert 0 < found.size_bytes.read < sizes["risk"]
    assert found.size_bytes.total == sum(sizes.values())
    assert (
        "  groups      (default) not read\n"
        "              ab not read\n"
        "              risk read for score (1 file group)\n"
    ) in str(found)
    assert found.to_dict()["groups"][2] == {
        "name": "risk",
        "columns": ("score",),
        "columns_in": 1,
        "keys_in": 0,
        "wide_in": 0,
        "first_in": 0,
        "looked_in": 0,
    }


def test_another_group_is_read_for_its_keys_where_it_may_have_more(table: Table):
    rescore(table, 500)
    found = table.explain(["name"])
    assert [(note.name, note.columns, note.keys_in) for note in found.groups] == [
        ("", ("name",), 0),
        ("ab", (), 0),
        ("risk", (), 1),
    ]
    # The log of the group, and not its base file.
    assert (found.row_groups.read, found.row_groups.total) == (2, 4)
    assert "risk read for its keys only (1 file group)" in str(found)
    table.delete([{"id": 1}])
    assert [note.keys_in for note in table.explain(["name"]).groups] == [0, 1, 1]


def test_a_read_of_the_key_alone_opens_one_group(table: Table):
    notes = table.explain(["id"]).groups
    assert sum(note.keys_in for note in notes) == 1
    assert sum(note.columns_in for note in notes) == 0


def test_a_commit_time_comes_from_every_group(table: Table):
    notes = table.explain(["_hoodie_commit_time"]).groups
    assert {note.columns for note in notes} == {("_hoodie_commit_time",)}
    assert [note.columns_in for note in notes] == [1, 1, 1]


def test_footers_prune_the_row_groups_of_a_group_that_answers_alone(table: Table):
    assert table.explain(["score"], "scored_at > 0").pruned_by == ()
    none = table.explain(["score"], "scored_at > 1000")
    assert (none.row_groups.read, none.row_groups.total) == (0, 3)
    assert none.size_bytes.read == 0
    assert [step.by for step in none.pruned_by] == ["footers"]
    # The rows of several groups are joined before they are filtered.
    both = table.explain(["name"], "scored_at > 1000")
    assert (both.row_groups.read, both.row_groups.total) == (2, 3)
    assert both.pruned_by == ()


def test_a_table_without_groups_has_no_such_line():
    table = make()
    table.insert(batch(("a", 1, 1, "p")))
    assert table.explain().groups == ()
    assert "groups  " not in str(table.explain())


@pytest.mark.parametrize(
    ("columns", "where"),
    [
        (["score"], None),
        (["name"], None),
        (["a"], "score > 3"),
        (["id"], None),
        (["name"], "id = 7"),
        (["_hoodie_commit_time"], None),
        (None, None),
    ],
)
@pytest.mark.parametrize("change", ["none", "log", "delete", "compacted"])
def test_the_base_files_of_the_groups_that_are_named_are_opened(
    columns: list[str] | None, where: str | None, change: str, table: Table
):
    if change in ("log", "compacted"):
        rescore(table, 1, 500)
    if change == "compacted":
        table.compact(mode="full")
    if change == "delete":
        table.delete([{"id": 1}])
    watched = Watched(table._storage)
    again = reopen(watched)
    notes = again.explain(columns, where).groups
    watched.opened.clear()
    again.read(columns, where).read_all()
    names = [parse_data_name(path.rpartition("/")[2]) for path in watched.opened]
    opened = {name.column_group for name in names if isinstance(name, BaseFileName)}
    read = {note.name for note in notes if note.columns_in or note.keys_in}
    assert opened <= read
    # A group whose keys are in its logs only is read without its base file.
    assert read - opened <= {note.name for note in notes if note.keys_in}
    assert {note.name for note in notes if note.columns_in} <= opened
