"""Predicates on columns of one group, in reads that join several: the group is read first."""

import functools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakebed.api.table import Table
from lakebed.errors import InvalidError
from support.tables import make

MANY = [f"w{number}" for number in range(200)]
KEYS = 300
SCHEMA = pa.schema(
    [
        *((name, pa.int64()) for name in ("id", "ts", "n", "score", "grade")),
        *((name, pa.int64()) for name in MANY),
    ]
)
RETURNED = ["id", "n", "score", *MANY]


def rows(rng: np.random.Generator, keys: np.ndarray, at: int, names: list[str]) -> pa.Table:
    given = {"id": pa.array(keys), "ts": pa.array(np.full(len(keys), at))}
    for name in names:
        values = rng.integers(0, 50, len(keys))
        given[name] = pa.array(values, pa.int64(), mask=rng.random(len(keys)) < 0.1)
    return pa.table(given)


@pytest.fixture(scope="module", params=["bases", "logs", "wide", "wide and logs"])
def table(request) -> Table:
    """Return a table of three groups, of which one has many columns."""
    rng = np.random.default_rng(7)
    t = make(
        schema=SCHEMA,
        ordering=("ts",),
        partition_by=(),
        table_type="MERGE_ON_READ",
        table_version=None,
        column_groups={"risk": ["score", "grade"], "many": MANY},
    )
    t.bulk_insert(rows(rng, np.arange(KEYS), 1, [*SCHEMA.names[2:]]))
    t.delete([{"id": key} for key in range(0, KEYS, 17)])
    t.upsert(rows(rng, np.arange(KEYS, KEYS + 9), 2, ["score", "grade"]))
    t.compact(widen="wide" in request.param)
    if "logs" in request.param:
        t.update_columns(rows(rng, np.arange(0, KEYS, 3), 3, ["score"]))
        late = rows(rng, np.arange(1, KEYS, 40), 2, [])
        t.update_columns(late.append_column("_hoodie_is_deleted", pa.array([True] * len(late))))
    return t


@functools.cache
def every_row(t: Table) -> list[dict[str, Any]]:
    return t.read(columns=[*RETURNED, "grade", "ts"]).read_all().to_pylist()


def wanted(t: Table, test: Any) -> list[dict[str, Any]]:
    every = every_row(t)
    found = [{name: row[name] for name in RETURNED} for row in every if test(row)]
    return sorted(found, key=lambda row: row["id"])


def some(value: int | None, test: Any) -> bool:
    return value is not None and test(value)


TESTS = {
    "score < 3": lambda r: some(r["score"], lambda v: v < 3),
    "score < 40": lambda r: some(r["score"], lambda v: v < 40),
    "score IS NULL": lambda r: r["score"] is None,
    "score IS NOT NULL AND grade = 7": lambda r: r["score"] is not None and r["grade"] == 7,
    "score = 5 OR n = 5": lambda r: r["score"] == 5 or r["n"] == 5,
    "coalesce(score, 1) = 1": lambda r: r["score"] in (None, 1),
    "score < 3 AND n < 30": lambda r: (
        some(r["score"], lambda v: v < 3) and some(r["n"], lambda v: v < 30)
    ),
    "score < 3 AND id < 100": lambda r: some(r["score"], lambda v: v < 3) and r["id"] < 100,
    "score + n < 9": lambda r: some(r["score"], lambda v: some(r["n"], lambda n: v + n < 9)),
    "NOT (score >= 3)": lambda r: some(r["score"], lambda v: v < 3),
    "score > 100": lambda r: False,
    "ts = 1 AND grade = 3": lambda r: r["ts"] == 1 and r["grade"] == 3,
}


@pytest.mark.parametrize("where", TESTS)
def test_the_rows_are_those_that_fulfil_the_predicate(table: Table, where: str):
    found = table.read(columns=RETURNED, where=where).read_all().to_pylist()
    assert sorted(found, key=lambda row: row["id"]) == wanted(table, TESTS[where])


def test_an_error_in_rows_that_another_condition_excludes_is_none(table: Table):
    where = "n > 48 AND 100 / (n - 3) > 0 AND 100 / (score - 1000) < 0"
    expected = wanted(table, lambda r: some(r["n"], lambda n: n > 48) and r["score"] is not None)
    found = table.read(columns=RETURNED, where=where).read_all().to_pylist()
    assert sorted(found, key=lambda row: row["id"]) == expected
    with pytest.raises(InvalidError, match="zero"):
        table.read(columns=RETURNED, where="100 / (score - score) > 0").read_all()


def test_explain_names_the_group_that_is_read_first(table: Table):
    found = table.explain(RETURNED, where="score < 3 AND id < 5000")
    first = [note.name for note in found.groups if note.first_in]
    joined = sum(note.wide_in for note in found.groups) == 3 * found.file_groups.read
    assert first == ([] if joined and "L0" not in _levels(table) else ["risk"])
    assert not any(note.first_in for note in table.explain(RETURNED, where="id = 3").groups)
    assert not any(note.first_in for note in table.explain(["id", "n"], where="score < 9").groups)


def _levels(t: Table) -> list[str]:
    return t.files().column("level").to_pylist()
