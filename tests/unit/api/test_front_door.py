"""What a first-time user calls first, and what the front door keeps to itself."""

import inspect
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import InvalidError, SchemaError

PEOPLE = pa.table({"id": [1, 2, 3], "city": ["Oslo", "Kyiv", "Lima"], "ts": [5, 5, 5]})


@pytest.fixture
def people(tmp_path: Path) -> lakebed.Table:
    table = lakebed.create_table(
        None, str(tmp_path / "people"), PEOPLE.schema, key="id", ordering="ts"
    )
    table.insert(PEOPLE)
    return table


def test_a_table_is_opened_by_its_path_alone(people: lakebed.Table):
    by_path = lakebed.open_table(people.path)
    assert by_path.read().read_all().num_rows == 3
    assert lakebed.open_table(Path(people.path)).name == "people"
    assert lakebed.open_table(path=people.path).name == "people"
    assert lakebed.open_table(None, people.path).name == "people"
    with pytest.raises(InvalidError, match=r"call open_table\(path\)"):
        lakebed.open_table()


def test_the_machinery_of_a_write_is_not_public():
    public = {name for name in dir(lakebed.Table) if not name.startswith("_")}
    assert not {"defer_write", "write_deferred"} & public
    for call in (lakebed.create_table, lakebed.open_table):
        assert "clock" not in inspect.signature(call).parameters


def test_rows_come_as_a_number_an_arrow_table_or_a_pandas_frame(people: lakebed.Table):
    commit = people.upsert(pa.table({"id": [4], "city": ["Rome"], "ts": [6]}))
    assert people.count() == 4
    assert people.count(where="city = 'Rome'") == 1
    first = people.history().to_pylist()[1]
    assert people.count(as_of=first["instant"]) == 3
    assert people.to_arrow(columns=["city"], where="id > 2").to_pydict() == {
        "city": ["Lima", "Rome"]
    }
    assert people.to_arrow(since=first["completion_time"]).num_rows == 1
    assert people.to_pandas(as_of=commit.instant).sort_values("id").city.tolist() == [
        "Oslo",
        "Kyiv",
        "Lima",
        "Rome",
    ]


def test_a_table_without_columns_to_spare_is_counted():
    table = lakebed.create_table(None, "memory://front/one", "id BIGINT", key="id")
    assert table.count() == 0
    table.insert(pa.table({"id": [1, 2]}))
    assert table.count() == 2


def test_a_table_describes_itself(people: lakebed.Table):
    said = people.describe()
    assert said.key == ("id",)
    assert said.columns == (("id", "bigint"), ("city", "string"), ("ts", "bigint"))
    assert (said.commits, said.partitions) == (1, 1)
    text = str(said)
    for words in (
        "people",
        people.path,
        "MERGE_ON_READ",
        "bigint",
        "1 partition",
        said.last_instant,
    ):
        assert str(words) in text


def test_the_package_says_its_version():
    assert lakebed.__version__[0].isdigit()


@pytest.mark.parametrize(
    "schema",
    [
        PEOPLE,
        PEOPLE.to_batches()[0],
        PEOPLE.to_pandas(),
        PEOPLE.to_pandas()[lambda frame: frame.id > 1],
        PEOPLE.to_reader(),
        "id BIGINT, city STRING, ts: bigint",
    ],
    ids=["table", "batch", "pandas", "pandas selection", "reader", "ddl"],
)
def test_a_schema_comes_from_rows_or_a_ddl_string_without_a_session(schema: object, tmp_path: Path):
    table = lakebed.create_table(None, str(tmp_path / "t"), schema, key="id")
    assert table.schema.equals(PEOPLE.schema)


def test_what_is_no_schema_is_refused_with_what_would_be(tmp_path: Path):
    with pytest.raises(SchemaError, match=r"expected a pyarrow Schema, a DDL string.*found int"):
        lakebed.create_table(None, str(tmp_path / "t"), 7, key="id")


def test_the_index_that_pandas_adds_is_no_column(people: lakebed.Table):
    frame = PEOPLE.to_pandas()
    people.upsert(frame[frame.id > 1])
    people.insert(pa.Table.from_pandas(frame[frame.id > 1]))
    assert people.schema.names == ["id", "city", "ts"]
    # An index with a name is a column that the user named.
    people.upsert(frame.assign(city="Bern").set_index("id"))
    assert people.to_pandas().city.tolist() == ["Bern"] * 3
