"""Tables that Apache Hudi 1.2.0 wrote, read in process: the same rows, or a refusal by name."""

import json
from pathlib import Path

import pytest

from lakebed import open_table
from lakebed.api.table import Table
from lakebed.errors import InvalidError
from lakebed.format.names.meta_columns import META_COLUMNS
from lakebed.table.snapshot import load_snapshot
from support.fixtures import FOLDER, expected_rows, names, unpack
from support.rows import Row, spell_rows

# Hard-coded on purpose: a change of the snapshot's rules must not move a table silently.
WITHOUT_LOGS = {
    "cow9_archive",
    "cow9_cdc",
    "cow9_composite",
    "cow9_mdt",
    "cow9_nomdt",
    "cow9_nonpart_bulk",
    "cow9_restore",
    "cow9_services",
    "cow9_singlecomplex",
    "cow9_urlenc",
    "mini_cow_full",
    "mini_cow_minprops",
    "mini_cow_noreq",
    "mini_deflate",
    "mini_min_schema",
    "mini_nometa",
    "mor9_bucket8",
    "mor9_bucket8_hash",
    "mor9_compact",
}


@pytest.fixture
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return open_table(None, str(unpack(request.param, tmp_path)))


def read_all(table: Table, as_of: str | None = None) -> list[Row]:
    schema = load_snapshot(table._storage, table.config, as_of).schema
    columns = [*META_COLUMNS, *schema.names]
    return table.read(columns=columns, as_of=as_of).read_all().to_pylist()


def wanted_rows(name: str) -> list[Row]:
    if name == "cow9_composite":
        return json.loads((FOLDER / f"{name}.expected.json").read_text())["rows_by_hudi_rs_0_5_0"]
    return expected_rows(name)


def only(rows: list[Row], columns: list[str]) -> list[Row]:
    return [{column: row[column] for column in columns} for row in rows]


def _as_stored(name: str, row: Row) -> Row:
    """Undo that Hudi on Spark takes a partition value from the folder: '' is in the file."""
    if name == "cow9_urlenc" and row["id"] == "e":
        assert row["dt"] is None
        return {**row, "dt": ""}
    return row


def test_the_list_of_tables_is_complete():
    assert set(names()) > WITHOUT_LOGS
    assert len(names()) >= 42


@pytest.mark.parametrize(
    ("opened", "name"), [(name, name) for name in sorted(WITHOUT_LOGS)], indirect=["opened"]
)
def test_a_table_without_logs_gives_the_rows_that_hudi_gives(opened: Table, name: str):
    found, wanted = read_all(opened), wanted_rows(name)
    assert wanted, "an empty expectation proves nothing"
    columns = list(wanted[0])
    assert columns[-len(opened.schema) :] == opened.schema.names
    if not name.startswith("mini_") and name != "cow9_composite":
        assert columns[: len(META_COLUMNS)] == list(META_COLUMNS)
    assert spell_rows(only(found, columns)) == spell_rows([_as_stored(name, row) for row in wanted])


@pytest.mark.parametrize("opened", ["mini_nometa"], indirect=True)
def test_a_table_without_meta_columns_reads_them_as_null(opened: Table):
    assert {row["_hoodie_record_key"] for row in read_all(opened)} == {None}


@pytest.mark.parametrize("opened", names(), indirect=True)
def test_every_table_shows_its_history_and_layers(opened: Table):
    history = opened.history()
    assert history.num_rows > 0
    instants = history.column("instant").to_pylist()
    assert instants == sorted(instants, reverse=True)
    assert len(opened.layers()) == len({*opened.files().column("file_id").to_pylist()})
    assert "file group" in str(opened.layers())


TRAVEL = json.loads((FOLDER / "query_types.expected.json").read_text())
AS_OF = [
    (name, name, key)
    for name, results in TRAVEL["time_travel_and_incremental"].items()
    for key in results["as_of"]
]


@pytest.mark.parametrize(("opened", "name", "moment"), AS_OF, indirect=["opened"])
def test_a_read_as_of_an_instant_gives_what_hudi_gave(opened: Table, name: str, moment: str):
    wanted = TRAVEL["time_travel_and_incremental"][name]["as_of"][moment]
    assert spell_rows(read_all(opened, moment)) == spell_rows(wanted)


@pytest.mark.parametrize("opened", ["cow9_nomdt"], indirect=True)
def test_a_read_before_the_first_commit_names_the_first(opened: Table):
    first = min(opened.history().column("instant").to_pylist())
    with pytest.raises(InvalidError, match=f"the first commit of table .* is {first}"):
        opened.read(as_of="2000-01-01")
