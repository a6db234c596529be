"""Whatever the table and the predicate: no row that satisfies it is ever skipped.

Rows are placed as the writer places them and the predicate is evaluated on all of them; the
slices and keys that pruning leaves must hold every row found that way.
"""

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from lakebed.errors import InvalidError, KeyValueError, LakebedError
from lakebed.expr.constraints import Allowed, Limit
from lakebed.expr.predicate import Predicate
from lakebed.format.names.bucket_hash import key_buckets, new_bucket_file_id
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.format.names.partition_path import partition_paths
from lakebed.format.names.record_key import record_keys
from lakebed.scan.prune import prune_slices
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.file_group import FileGroupId, FileSlice

SCHEMA = pa.schema(
    [
        ("a", pa.string()),
        ("b", pa.string()),
        ("n", pa.int8()),
        ("d", pa.date32()),
        ("f", pa.bool_()),
    ]
)
FULL = pa.schema([pa.field(RECORD_KEY, pa.string()), *SCHEMA])
UUID = "01234567-ddab-4ae2-99e3-d6143d5759e1"
TEXTS = ["", "x", "y", "X", "x,", ",x", "x:y", "x,a:y", "x,n:1", "x,b:7", "a", "%2F", "x=y", "é"]
TEXTS += ["__null__", "__empty__", "__HIVE_DEFAULT_PARTITION__", "2024-01-01", "1", "x/y", "it's"]
DAYS = [dt.date(2024, 1, 1), dt.date(2024, 1, 2), dt.date(1, 1, 1), dt.date(9999, 12, 31)]
VALUES = {
    "a": st.sampled_from(TEXTS),
    "b": st.sampled_from(TEXTS),
    "n": st.integers(-3, 3) | st.sampled_from([-128, 127]),
    "d": st.sampled_from(DAYS),
    "f": st.booleans(),
}
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()}),
    min_size=3,
    max_size=12,
)


def spelled(text):
    return "'" + text.replace("'", "''") + "'"


LITERALS = {
    "a": st.sampled_from(TEXTS).map(spelled) | st.sampled_from(["NULL", "1"]),
    "b": st.sampled_from(TEXTS).map(spelled) | st.sampled_from(["NULL", "b"]),
    "n": st.integers(-4, 4).map(str)
    | st.sampled_from(["NULL", "127", "128", "99999999999", "1.0", "'1'", "2L", "a"]),
    "d": st.sampled_from(DAYS).flatmap(lambda day: st.sampled_from([f"'{day}'", f"DATE '{day}'"]))
    | st.sampled_from(["NULL", "'2024-1-1'", "'2023-12-31'"]),
    "f": st.sampled_from(["true", "false", "NULL"]),
}
SIGNS = st.sampled_from(["=", "=", "=", "<=>", "<>", "<", "<=", ">", ">="])


@st.composite
def leaves(draw):
    name = draw(st.sampled_from("bdanf"))
    literals = LITERALS[name]
    shape = draw(st.integers(0, 8))
    if shape <= 3:
        return f"{name} {draw(SIGNS)} {draw(literals)}"
    if shape == 4:
        return f"{draw(literals)} {draw(SIGNS)} {name}"
    if shape == 5:
        return f"{name} BETWEEN {draw(literals)} AND {draw(literals)}"
    if shape == 6:
        return draw(st.sampled_from([f"{name} IS NULL", f"{name} IS NOT NULL", "a LIKE 'x%'"]))
    items = draw(st.lists(literals, min_size=1, max_size=4))
    return f"{name} {draw(st.sampled_from(['IN', 'IN', 'NOT IN']))} ({', '.join(items)})"


PREDICATES = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: f"({two[0]}) AND ({two[1]})"),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}) OR ({two[1]})"),
        inner.map(lambda one: f"NOT ({one})"),
    ),
    max_leaves=6,
)


@st.composite
def tables(draw):
    keys = draw(st.permutations("bdan").flatmap(lambda p: st.integers(1, 3).map(lambda k: p[:k])))
    partitions = draw(st.lists(st.sampled_from("bdanf"), max_size=2, unique=True))
    generators = ["COMPLEX"] if len(keys) > 1 or len(partitions) > 1 else ["COMPLEX", "SIMPLE"]
    hashed = draw(st.lists(st.sampled_from(keys), unique=True))
    flags = st.sampled_from(["true", "false"])
    properties = {
        "hoodie.table.name": "t",
        "hoodie.table.version": "9",
        "hoodie.timeline.layout.version": "2",
        "hoodie.table.recordkey.fields": ",".join(keys),
        "hoodie.table.partition.fields": ",".join(partitions),
        "hoodie.table.keygenerator.type": draw(st.sampled_from(generators)),
        "hoodie.datasource.write.hive_style_partitioning": draw(flags),
        "hoodie.datasource.write.partitionpath.urlencode": draw(flags),
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": str(draw(st.sampled_from([2, 7, 64]))),
        "hoodie.bucket.index.hash.field": ",".join(hashed),
    }
    return TableConfig.parse(properties, "t")


def place(config, rows):
    """Return each row that the writer takes with its key and its file group."""
    placed = []
    for row in rows:
        batch = pa.RecordBatch.from_pylist([row], SCHEMA)
        columns = dict(zip(SCHEMA.names, batch.columns, strict=True))
        fields, style = config.record_key_fields, config.partition_style
        try:
            keys = record_keys(columns, fields, config.composite_key)
            (folder,) = partition_paths(columns, config.partition_fields, style).to_pylist()
        except KeyValueError:
            continue
        index = config.index
        (bucket,) = key_buckets(
            keys, fields, index.hash_fields, index.buckets, composite=config.composite_key
        ).tolist()
        group = FileGroupId(folder, new_bucket_file_id(bucket, UUID))
        placed.append(({RECORD_KEY: keys[0].as_py(), **row}, group))
    return placed


def matches(predicate, row):
    try:
        return predicate.filter(pa.RecordBatch.from_pylist([row], FULL)).num_rows == 1
    except InvalidError:
        return False  # a string that is not a number: reading the row would be an error


def check(config, rows, where):
    """Check one table against brute force; give how many slices there were and are left."""
    predicate = Predicate.parse(where, FULL)
    placed = place(config, rows)
    groups = dict.fromkeys(group for _, group in placed)
    slices = [FileSlice(group, "20240101000000000", None) for group in groups]
    pruned = prune_slices(config, SCHEMA, predicate, slices)
    left = {slice_.group for slice_ in pruned.slices}
    for row, group in placed:
        if not matches(predicate, row):
            continue
        assert group in left, (where, row, group)
        if pruned.key_filter is not None:
            wanted = pruned.key_filter.mask(pa.array([row[RECORD_KEY]]))
            assert wanted.to_pylist() == [True], (where, row, pruned.key_filter)
    return len(slices), len(left)


@settings(max_examples=400, suppress_health_check=[HealthCheck.filter_too_much])
@given(config=tables(), rows=ROWS, where=PREDICATES)
def test_no_row_that_satisfies_the_predicate_is_skipped(config, rows, where):
    try:
        Predicate.parse(where, FULL)
    except LakebedError:
        assume(False)
    before, after = check(config, rows, where)
    event("pruned" if after < before else "kept all")


@settings(max_examples=150)
@given(config=tables(), rows=ROWS, data=st.data())
def test_a_row_is_found_by_its_own_values(config, rows, data):
    row = data.draw(st.sampled_from(rows))
    names = data.draw(st.lists(st.sampled_from("bdan"), min_size=1, unique=True))
    tests = [
        f"{name} = {spelled(str(row[name])) if name != 'n' else row[name]}"
        for name in names
        if row[name] is not None
    ]
    assume(tests)
    check(config, rows, " AND ".join(tests))


@pytest.mark.parametrize("hashed", ["a", "a,b", "b"])
def test_each_way_of_pruning_is_taken_in_these_tables(hashed):
    """The tables above would prove nothing of a pruning that never prunes."""
    properties = {
        "hoodie.table.name": "t",
        "hoodie.table.version": "9",
        "hoodie.timeline.layout.version": "2",
        "hoodie.table.recordkey.fields": "a,b",
        "hoodie.table.partition.fields": "n",
        "hoodie.table.keygenerator.type": "COMPLEX",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "64",
        "hoodie.bucket.index.hash.field": hashed,
    }
    config = TableConfig.parse(properties, "t")
    rows = [
        {"a": a, "b": b, "n": n, "d": None, "f": None} for a in "xy" for b in "uv" for n in (1, 2)
    ]
    before, by_folder = check(config, rows, "n = 1")
    _, by_key = check(config, rows, "a = 'x' AND b = 'u'")
    _, by_both = check(config, rows, "a = 'x' AND b = 'u' AND n = 1")
    assert before == 2 * by_folder
    assert by_key == 2
    assert by_both == 1


def ranges(values):
    bounds = st.none() | st.builds(Limit, values, st.booleans())
    return st.builds(Allowed, st.just(None), bounds, bounds)


SMALL = st.integers(0, 6)
ALLOWED = st.builds(Allowed, st.frozensets(SMALL, max_size=4)) | ranges(SMALL)


@given(one=ALLOWED, other=ALLOWED, value=SMALL)
def test_both_is_what_both_hold_and_either_misses_nothing(one, other, value):
    assert one.both(other).holds(value) == (one.holds(value) and other.holds(value))
    assert one.either(other).holds(value) >= (one.holds(value) or other.holds(value))


@given(one=st.frozensets(SMALL), other=st.frozensets(SMALL))
def test_finite_values_unite_exactly(one, other):
    assert Allowed(one).either(Allowed(other)).values == one | other
