"""Whatever a file holds and the predicate asks: skipping row groups and files by statistics loses no row.

Files of many writers: narrower types than the table's, columns that are missing, statistics of
some columns only, NaN, nulls, both zeros, timestamps of every unit.
"""

import datetime as dt
import decimal

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from lakebed.errors import LakebedError
from lakebed.expr.constraints import constraints_of
from lakebed.expr.predicate import Predicate
from lakebed.format.timeline.commit_metadata import CommitMetadata, WriteStat
from lakebed.scan.prune_files import file_condition
from lakebed.storage.objects import memory_storage
from lakebed.table.files.column_statistics import StatisticsRun, write_statistics
from lakebed.table.read.parquet_source import open_parquet
from lakebed.table.read.row_group_filter import RowGroupFilter
from lakebed.table.read.slice_reader import read_slice
from lakebed.table.store.file_statistics import read_statistics
from support.runs import Slice, config, parquet

UTC = pa.timestamp("us", "UTC")
NTZ = pa.timestamp("us")
SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("s", pa.string()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("d", pa.date32()),
        ("t", UTC),
        ("u", NTZ),
        ("c", pa.decimal128(14, 2)),
        ("b", pa.bool_()),
    ]
)
STORED = {
    "i": [pa.int64(), pa.int32(), pa.int8(), pa.uint32(), pa.uint64()],
    "s": [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.binary()],
    "f": [pa.float64(), pa.float32(), pa.int32()],
    "g": [pa.float32()],
    "d": [pa.date32()],
    "t": [UTC, NTZ, pa.timestamp("ms", "UTC"), pa.timestamp("ns", "UTC")],
    "u": [NTZ, pa.timestamp("ms"), pa.timestamp("ns")],
    "c": [pa.decimal128(14, 2), pa.decimal128(5, 1), pa.decimal128(9, 0), pa.int32()],
    "b": [pa.bool_()],
}
TIMES = [
    dt.datetime(2024, 1, 1),
    dt.datetime(2024, 1, 2),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999000),
    dt.datetime(2024, 1, 1, 0, 0, 0, 1000),
]
FLOATS = [-1.0, -0.0, 0.0, 0.5, 1.0, 3.0, float("nan"), float("inf"), float("-inf"), 0.1]
VALUES = {
    "i": [0, 1, 2, 3, 100, -1, -128],
    "s": [
        "",
        "a",
        "ab",
        "b",
        "é",
        "z\U0001f600",
        "2024-01-01",
        "é" * 17,
        "é" * 16 + "\U0010ffff" * 8,
    ],
    "f": FLOATS,
    "g": FLOATS,
    "d": [dt.date(2024, 1, 1), dt.date(2024, 1, 2), dt.date(1960, 1, 1), dt.date(9999, 12, 31)],
    "t": TIMES,
    "u": TIMES,
    "c": [decimal.Decimal(text) for text in ("0", "1", "1.5", "-2", "10.25", "100")],
    "b": [True, False],
}
NUMBERS = ["0", "1", "2L", "-1", "1.5", "1.0", "0.1", "1e0", "-0.0", "100", "99999999999", "'1'"]
NUMBERS += ["CAST('nan' AS DOUBLE)", "CAST('0.5' AS FLOAT)", "10.250", "'0.5'", "NULL", "-128"]
TIMES = ["'2024-01-01'", "DATE '2024-01-02'", "TIMESTAMP '2024-01-01 00:00:00.001'", "NULL"]
TIMES += ["'2024-01-01 00:00:00.0005'", "TIMESTAMP_NTZ '2024-01-02'", "'9999-12-31'", "'1960-1-1'"]
TIMES += ["TIMESTAMP '1970-01-01 00:00:00Z'"]
LITERALS = {
    **dict.fromkeys("ifgc", NUMBERS),
    **dict.fromkeys("dtu", TIMES),
    "s": ["''", "'a'", "'aa'", "'b'", "'é'", "'zz'", f"'{'é' * 16}'", f"'{'é' * 17}'", "NULL"],
    "b": ["true", "false", "NULL"],
}


@st.composite
def files(draw, names):
    """Draw a table of a writer's own types, and how it writes."""
    count = draw(st.integers(1, 8))
    arrays = {"id": pa.array([str(number) for number in range(count)])}
    for name in names:
        kind = draw(st.sampled_from([*STORED[name], None]))
        if kind is None:
            continue
        pool = [value for value in VALUES[name] if fits(value, kind)]
        values = draw(st.lists(st.none() | st.sampled_from(pool), min_size=count, max_size=count))
        arrays[name.upper() if draw(st.booleans()) else name] = typed(values, kind)
    options = {
        "row_group_rows": draw(st.integers(1, 3)),
        "write_statistics": draw(st.sampled_from([True, True, True, False, ["i", "F", "s"]])),
        "store_decimal_as_integer": draw(st.booleans()),
        "use_deprecated_int96_timestamps": draw(st.integers(0, 4)) == 0,
        "store_schema": draw(st.booleans()),
    }
    return pa.table(arrays), options


def typed(values, kind):
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode()
    if pa.types.is_binary(kind):
        return pa.array([None if v is None else v.encode() for v in values], kind)
    if pa.types.is_integer(kind):
        return pa.array([None if v is None else int(v) for v in values], kind)
    return pa.array(values, kind)


def fits(value, kind):
    try:
        made = typed([value], kind)
    except (pa.ArrowException, OverflowError, ValueError):
        return False
    if pa.types.is_integer(kind):
        return made[0].as_py() == value
    return True


@st.composite
def leaves(draw, names):
    name = draw(st.sampled_from(names))
    literal = st.sampled_from(LITERALS[name])
    sign = draw(st.sampled_from(["=", "<=>", "<>", "<", "<=", ">", ">="]))
    shape = draw(st.integers(0, 9))
    if shape <= 3:
        return f"{name} {sign} {draw(literal)}"
    if shape == 4:
        return f"{draw(literal)} {sign} {name}"
    if shape == 5:
        return f"{name} BETWEEN {draw(literal)} AND {draw(literal)}"
    if shape == 6:
        return draw(st.sampled_from([f"{name} IS NULL", f"{name} IS NOT NULL"]))
    if shape == 7:
        truths = (
            ["s LIKE 'a%'", "s LIKE 'é%'"] if name != "b" else ["b", "b IS TRUE", "b IS NOT FALSE"]
        )
        return draw(st.sampled_from([*truths, f"({name} {sign} {draw(literal)}) IS FALSE"]))
    items = draw(st.lists(literal, min_size=1, max_size=4))
    return f"{name} {draw(st.sampled_from(['IN', 'IN', 'NOT IN']))} ({', '.join(items)})"


@st.composite
def questions(draw):
    """Draw a file, and a predicate on the columns that it is about."""
    names = draw(st.lists(st.sampled_from(SCHEMA.names), min_size=1, max_size=2, unique=True))
    predicates = st.recursive(
        leaves(names),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda two: f"({two[0]}) AND ({two[1]})"),
            st.tuples(inner, inner).map(lambda two: f"({two[0]}) OR ({two[1]})"),
            inner.map(lambda one: f"NOT ({one})"),
        ),
        max_leaves=3,
    )
    return draw(files(names)), draw(predicates)


def read(slice_, predicate, row_groups):
    view = slice_.view(config(), pa.schema([("id", pa.string()), *SCHEMA]))
    columns = ["id", *SCHEMA.names]
    batches = read_slice(view, slice_.value, columns, row_groups=row_groups)
    return [key for batch in batches for key in predicate.filter(batch)["id"].to_pylist()]


@pytest.mark.timeout(120)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(questions())
def test_the_same_rows_are_found_with_and_without_statistics(question):
    (table, options), where = question
    full = pa.schema([("id", pa.string()), *SCHEMA])
    try:
        predicate = Predicate.parse(where, full)
    except LakebedError:
        assume(False)
    slice_ = Slice(memory_storage())
    path = slice_.base(1, parquet(table, **options))
    row_groups = RowGroupFilter(Predicate.parse(where, full).bound, full)
    try:
        wanted = read(slice_, predicate, None)
    except LakebedError:
        assume(False)
    assert read(slice_, predicate, row_groups) == wanted
    with open_parquet(slice_.storage, path, "file") as source:
        left = row_groups.row_groups(source)
        event("any" if left is None else f"left out {len(left) < source.num_row_groups}")
    stat = WriteStat(path=path, statistics=read_statistics(slice_.storage, path, full.names))
    write_statistics(slice_.storage, "statistics", CommitMetadata.of("", None, [stat]))
    held = StatisticsRun(slice_.storage, "statistics").read(predicate.columns)[path]
    kept = [keeps_file(held, predicate, full, exact=exact) for exact in (True, False)]
    event(f"file kept {kept[0]}")
    assert all(kept) or not wanted


def keeps_file(held, predicate, schema, *, exact):
    """Return whether the file is read, according to its column statistics in the file index."""
    constraints = constraints_of(predicate, schema, exact=exact)
    condition = file_condition(predicate, constraints, schema, exact=exact)
    if condition is None:
        return True
    [may_match] = RowGroupFilter(condition, schema).files([held])
    return may_match
