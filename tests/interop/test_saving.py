"""Tables that writes of `format("lakebed")` made, and Apache Hudi in turns: same options, same rows."""

import datetime as dt
import pathlib
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakebed
from interop.clients import Hudi, PeerError
from lakebed.api.saving import begin_saving
from lakebed.errors import InvalidError
from lakebed.model.executor import TaskId
from lakebed.spark.data_source.reader import make_reader, table_schema

NAMES = ["id", "ts", "city", "fare"]
FIRST = [("a", 1, "oslo", 1.0), ("b", 1, "oslo", 2.0), ("c", 1, "kyiv", 3.0)]
SECOND = [("b", 2, "oslo", 20.0), ("d", 2, "kyiv", 4.0)]
KEYLESS = {"hoodie.table.name": "trips", "hoodie.datasource.write.partitionpath.field": "city"}
KEYED = KEYLESS | {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
}
OPERATION = "hoodie.datasource.write.operation"
TYPE = "hoodie.datasource.write.table.type"
Rows = list[tuple[Any, ...]]


def table_of(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(NAMES, row, strict=True)) for row in rows])


def save(path: str, rows: pa.Table, options: dict[str, str], overwrite: bool = False) -> None:
    saving = begin_saving({"path": path, **options}, rows.schema, overwrite)
    saving.finish([saving.stage(rows.to_batches(), TaskId(0, 3, 4))])


def sorted_rows(table: pa.Table) -> Rows:
    return sorted(tuple(row[name] for name in NAMES) for row in table.to_pylist())


def both(hudi: Hudi, path: str) -> Rows:
    """Return the rows on which Hudi and we agree."""
    ours = sorted_rows(lakebed.open_table(None, path).read().read_all())
    assert sorted_rows(hudi.read(path)) == ours
    return ours


def with_fare(rows: pa.Table, key: str, fare: float) -> pa.Table:
    """Return the one row of a read, meta columns included, with another fare."""
    found = rows.filter(pc.equal(rows["id"], key))
    return found.set_column(found.schema.get_field_index("fare"), "fare", pa.array([fare]))


@pytest.mark.parametrize("maker", ["hudi", "lakebed"])
def test_a_table_that_makes_its_own_keys_is_written_in_turns(hudi, tmp_path, maker):
    path = str(tmp_path / "trips")
    if maker == "hudi":
        hudi.write(path, table_of(FIRST), KEYLESS, mode="overwrite")
    else:
        save(path, table_of(FIRST), KEYLESS, overwrite=True)
    assert both(hudi, path) == sorted(FIRST)
    # Without an operation Hudi upserts rows that bring their key, and so do we.
    hudi.write(path, with_fare(hudi.read(path), "b", 22.0), KEYLESS)
    names = ["_hoodie_record_key", *NAMES]
    ours = lakebed.open_table(None, path).read(columns=names).read_all()
    save(path, with_fare(ours, "a", 11.0), KEYLESS)
    save(path, ours.filter(pc.equal(ours["id"], "c")), {**KEYLESS, OPERATION: "delete"})
    save(path, table_of(SECOND), KEYLESS)
    expected = [("a", 1, "oslo", 11.0), ("b", 1, "oslo", 22.0), *SECOND]
    assert both(hudi, path) == sorted(expected)


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_hudi_goes_on_after_upserts_and_overwrites_of_ours(
    hudi: Hudi, tmp_path: pathlib.Path, kind: str
):
    path = str(tmp_path / "trips")
    save(path, table_of(FIRST), {**KEYED, TYPE: kind})
    save(path, table_of(SECOND), KEYED)
    assert both(hudi, path) == sorted([FIRST[0], FIRST[2], *SECOND])
    save(path, table_of(SECOND), KEYED, overwrite=True)
    assert both(hudi, path) == sorted(SECOND)
    other = {"hoodie.table.name": "rides", "hoodie.datasource.write.recordkey.field": "id"}
    save(path, table_of(FIRST), other, overwrite=True)
    assert both(hudi, path) == sorted(FIRST)
    hudi.write(path, table_of([("a", 5, "oslo", 5.0)]), other)
    assert both(hudi, path) == sorted([("a", 5, "oslo", 5.0), *FIRST[1:]])


def test_a_custom_key_generator_of_ours_is_gone_on_with_by_hudi(
    hudi: Hudi, tmp_path: pathlib.Path
) -> None:
    path = str(tmp_path / "trips")
    options = {
        **KEYED,
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.CustomKeyGenerator",
        "hoodie.datasource.write.partitionpath.field": "city:SIMPLE",
    }
    save(path, table_of(FIRST), options)
    hudi.write(path, table_of(SECOND), options)
    save(path, table_of([("c", 3, "kyiv", 30.0)]), options)
    rows = [FIRST[0], ("c", 3, "kyiv", 30.0), *SECOND]
    assert both(hudi, path) == sorted(rows)
    assert hudi.properties(path)["hoodie.table.partition.fields"] == "city:SIMPLE"


def test_a_moment_and_the_folder_of_a_partition_mean_what_they_mean_in_hudi(
    hudi: Hudi, tmp_path: pathlib.Path
) -> None:
    path = str(tmp_path / "trips")
    hudi.write(path, table_of(FIRST), KEYED, mode="overwrite")
    hudi.write(path, table_of(SECOND), KEYED)
    table = lakebed.open_table(None, path)
    newest, first = table.history().column("instant").to_pylist()
    # The zone of this process and of Hudi's is UTC, which the table calls LOCAL.
    second = dt.datetime.strptime(first[:14], "%Y%m%d%H%M%S").replace(tzinfo=dt.UTC)
    seconds = int(second.timestamp())
    moments = {
        first: 3,
        first[:14]: 0,
        f"{second:%Y-%m-%d %H:%M:%S}": 3,
        f"{second:%Y-%m-%dT%H:%M:%S}": 3,
        f"{second:%Y-%m-%d %H:%M:%S}.{first[14:]}": 3,
        f"{second:%Y-%m-%d}": 0,
        str(seconds): 0,
        str(seconds + 1): 3,
        f"{seconds}{first[14:]}": 3,
        newest: 4,
    }
    for moment, count in moments.items():
        if count:
            ours = sorted_rows(table.read(as_of=moment).read_all())
        else:
            # Hudi shows nothing there; we say when the table began.
            ours = []
            with pytest.raises(InvalidError, match=f"the first commit of table 'trips' is {first}"):
                table.read(as_of=moment)
        theirs = sorted_rows(hudi.read(path, **{"as.of.instant": moment}))
        assert (ours, len(ours)) == (theirs, count), moment
    for wrong in ("2024/01/02", "20240102", "2024-01-02 03:04", "now"):
        with pytest.raises(PeerError):
            hudi.read(path, **{"as.of.instant": wrong})
        with pytest.raises(InvalidError, match=r"expected one of its versions|point in time"):
            table.read(as_of=wrong)
    options = {"path": f"{path}/kyiv"}
    reader = make_reader(options, table_schema(options))
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    kyiv = sorted_rows(hudi.read(f"{path}/kyiv"))
    assert kyiv == [("c", 1, "kyiv", 3.0), ("d", 2, "kyiv", 4.0)]
    assert sorted_rows(pa.Table.from_batches(batches)) == kyiv
