"""The table that a path means: itself, a folder inside of it, or none, with a word on where to look."""

import pathlib

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import InvalidError, NotFoundError
from lakebed.table.location import find_above, find_table
from lakebed.table.snapshot import load_snapshot

ROWS = pa.table({"id": ["a", "b", "c"], "city": ["oslo", "oslo", "kyiv"], "day": [1, 2, 1]})


@pytest.fixture
def root(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "trips"
    table = lakebed.create_table(
        None, str(path), ROWS.schema, key="id", partition_by=["city", "day"]
    )
    table.insert(ROWS)
    return str(path)


def partitions(path: str) -> list[str]:
    """Return the partitions of which a read of `path` takes slices."""
    place = find_table(path)
    slices = load_snapshot(place.root, place.config).slices
    place.check_partition(slices)
    return sorted({slice_.group.partition for slice_ in place.within(slices)})


@pytest.mark.parametrize(
    ("below", "found"),
    [
        ("", ["kyiv/1", "oslo/1", "oslo/2"]),
        ("/", ["kyiv/1", "oslo/1", "oslo/2"]),
        ("/oslo", ["oslo/1", "oslo/2"]),
        ("/oslo/2", ["oslo/2"]),
        ("/oslo/2/", ["oslo/2"]),
    ],
)
def test_a_folder_of_partitions_means_what_lies_in_it(root, below, found):
    # As Hudi 1.2.0, which gives the rows of these partitions.
    assert partitions(root + below) == found


@pytest.mark.parametrize("below", ["/os", "/rome", "/oslo/3", "/oslo/2/x.parquet"])
def test_a_folder_that_is_none_of_the_tables_is_refused_with_the_tables_own(root, below):
    advice = rf'not a partition .*use load\("file://{root}"\), with .where\("city = ...'
    with pytest.raises(NotFoundError, match=advice):
        partitions(root + below)


def test_a_partition_without_rows_is_empty(root):
    lakebed.open_table(None, root).delete_partitions(["kyiv/1"])
    assert partitions(f"{root}/kyiv/1") == []


def test_the_folder_of_the_timeline_is_no_partition(root):
    with pytest.raises(NotFoundError, match="use load"):
        find_table(f"{root}/.hoodie/timeline")


@pytest.mark.parametrize("glob", ["/*", "/*/*", "/{oslo,kyiv}/*", "/os?o", "/[ok]*/1"])
def test_a_glob_is_refused_with_the_folder_of_the_table(root, glob):
    # Hudi 1.2.0: "Glob paths are not supported for read paths".
    with pytest.raises(InvalidError, match=rf'without a glob; use load\("file://{root}"\), with'):
        find_table(root + glob)
    with pytest.raises(InvalidError, match="the folder of the table"):
        find_table(f"{root}-no{glob}")


def test_a_folder_with_a_glob_in_its_name_is_a_table_like_others(tmp_path):
    path = str(tmp_path / "a[1]")
    lakebed.create_table(None, path, ROWS.schema, key="id")
    assert find_table(path).folder == ""


def test_a_typing_error_is_told_the_table_beside_it(root):
    with pytest.raises(NotFoundError, match=f"no table here .*did you mean file://{root}[?]"):
        find_table(f"{root[:-1]}")
    with pytest.raises(NotFoundError, match="no table here") as caught:
        find_table(f"{root}/../elsewhere")
    assert "did you mean" not in str(caught.value)


def test_a_folder_of_tables_is_told_its_tables(tmp_path):
    for name in ("orders", "trips"):
        lakebed.create_table(None, str(tmp_path / name), ROWS.schema, key="id")
    with pytest.raises(NotFoundError, match="the tables in this folder are orders, trips"):
        find_table(str(tmp_path))


def test_tables_in_object_stores_are_found_from_below_too():
    url = "memory://place/lake/trips"
    lakebed.create_table(None, url, ROWS.schema, key="id", partition_by="city").insert(ROWS)
    assert partitions(f"{url}/oslo") == ["oslo"]
    assert find_above("memory://place/lake") is None
    assert find_above("memory://place") is None
