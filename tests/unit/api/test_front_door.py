"""What a first-time user calls first, and what the front door keeps to itself."""

import inspect
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import InvalidError

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
