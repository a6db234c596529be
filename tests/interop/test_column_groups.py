"""Other engines must not open a table with column groups: they would read its files wrongly."""

import pathlib

import pyarrow as pa
import pytest

import lakebed
from interop.clients import Hudi, HudiRs, PeerError

ROWS = pa.table({"id": [1, 2], "ts": [1, 1], "name": ["a", "b"], "score": [0.5, 1.5]})


@pytest.mark.parametrize("compacted", [False, True])
def test_hudi_and_hudi_rs_refuse_a_table_with_column_groups(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path, compacted: bool
) -> None:
    path = str(tmp_path / "grouped")
    table = lakebed.create_table(
        None, path, ROWS.schema, key="id", ordering="ts", column_groups={"risk": ["score"]}
    )
    table.bulk_insert(ROWS)
    table.update_columns(ROWS.select(["id", "ts", "score"]))
    if compacted:
        table.compact()
    for engine in (hudi, hudi_rs):
        with pytest.raises(PeerError):
            engine.read(path)
    assert table.count() == 2


def test_an_ordinary_table_of_the_same_rows_is_read_by_both(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path
) -> None:
    path = str(tmp_path / "ordinary")
    lakebed.create_table(None, path, ROWS.schema, key="id", ordering="ts").bulk_insert(ROWS)
    assert hudi.read(path).num_rows == hudi_rs.read(path).num_rows == 2


def test_both_read_a_table_that_was_widened_and_downgraded(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path
) -> None:
    path = str(tmp_path / "widened")
    table = lakebed.create_table(
        None,
        path,
        ROWS.schema,
        key="id",
        ordering="ts",
        buckets=2,
        column_groups={"risk": ["score"]},
    )
    table.bulk_insert(ROWS)
    table.upsert(pa.table({"id": [2, 3], "ts": [2, 2], "score": [2.5, 3.5]}))
    table.compact(widen=True)
    table.downgrade(9)
    wanted = [(1, 1, "a", 0.5), (2, 1, "b", 2.5), (3, None, None, 3.5)]
    for engine in (hudi, hudi_rs):
        found = engine.read(path)
        assert [name for name in found.schema.names if name.startswith("_lakebed")] == []
        rows = found.select(ROWS.schema.names).to_pylist()
        assert sorted(tuple(row.values()) for row in rows) == wanted
    lakebed.open_table(path).upsert(ROWS.slice(0, 1))
    assert hudi.read(path).num_rows == 3
