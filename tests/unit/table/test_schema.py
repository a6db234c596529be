"""Legal schemas, evolution, and fitting a batch to a schema."""

from decimal import Decimal

import pyarrow as pa
import pytest

from lakebed.errors import SchemaError
from lakebed.table.config.schema import evolve, normalise, storage_schema, storage_type, widens
from lakebed.table.read.conform import conform

STRUCT = pa.struct([("x", pa.int32()), ("y", pa.string())])


def schema_of(**types):
    return pa.schema(list(types.items()))


def one_column(values, t, name="c"):
    return pa.record_batch([pa.array(values, t)], names=[name])


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.binary_view(), pa.binary()),
        (pa.dictionary(pa.int32(), pa.large_string()), pa.string()),
        (pa.timestamp("ms", "Europe/Berlin"), pa.timestamp("us", "UTC")),
        (pa.timestamp("s"), pa.timestamp("us")),
        (pa.decimal256(20, 3), pa.decimal128(20, 3)),
        (pa.large_list(pa.large_string()), pa.list_(pa.field("element", pa.string()))),
        (pa.list_(pa.int8(), 3), pa.list_(pa.field("element", pa.int8()))),
        (pa.map_(pa.large_string(), pa.int8()), pa.map_(pa.string(), pa.int8())),
        (pa.struct([("x", pa.large_string())]), pa.struct([("x", pa.string())])),
    ],
    ids=str,
)
def test_the_spellings_of_a_type_become_one(given, wanted):
    normal = normalise(schema_of(c=given))
    assert normal.field("c").type == wanted
    assert normalise(normal).equals(normal)


@pytest.mark.parametrize(
    "t",
    [
        pa.null(),
        pa.uint8(),
        pa.uint64(),
        pa.float16(),
        pa.time32("ms"),
        pa.time64("us"),
        pa.duration("us"),
        pa.month_day_nano_interval(),
        pa.binary(4),
        pa.date64(),
        pa.dense_union([pa.field("a", pa.int32())]),
        pa.decimal256(39, 0),
        pa.decimal128(5, -2),
        pa.map_(pa.int32(), pa.int32()),
        pa.struct([]),
    ],
    ids=str,
)
def test_a_type_that_no_table_can_hold_is_refused_with_its_path(t):
    with pytest.raises(SchemaError, match=r"'c\.element\.x'"):
        normalise(schema_of(c=pa.list_(pa.struct([("x", t)]))))


@pytest.mark.parametrize(
    "names",
    [
        ["a", "a"],
        ["a", "A"],
        [""],
        ["_hoodie_commit_time"],
        ["_hoodie_x"],
        ["a b"],
        ["日"],
        ["a.b"],
    ],
    ids=str,
)
def test_a_name_that_no_table_can_have_is_refused(names):
    with pytest.raises(SchemaError, match="column"):
        normalise(pa.schema([(name, pa.int32()) for name in names]))
    nested = pa.struct([(name, pa.int32()) for name in names])
    if not names[0].startswith("_hoodie_"):
        with pytest.raises(SchemaError, match=r"'s\."):
            normalise(schema_of(s=nested))


def test_words_of_sql_and_hudis_delete_marker_are_legal_names():
    schema = pa.schema([("select", pa.int32()), ("_hoodie_is_deleted", pa.bool_())])
    assert normalise(schema).equals(schema)


def test_a_schema_without_columns_is_refused():
    with pytest.raises(SchemaError, match="at least one column"):
        normalise(pa.schema([]))


def test_files_hold_narrow_integers_as_int32_at_any_depth():
    deep = pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.field("value", pa.int8(), False)))]))
    wide = pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.field("value", pa.int32(), False)))]))
    assert storage_type(deep) == wide
    assert storage_schema(schema_of(a=pa.int16(), b=pa.int64())).types == [pa.int32(), pa.int64()]


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (pa.int8(), pa.int16()),
        (pa.int8(), pa.int64()),
        (pa.int32(), pa.int64()),
        (pa.int16(), pa.float64()),
        (pa.float32(), pa.float64()),
        (pa.int32(), pa.decimal128(10, 0)),
        (pa.int64(), pa.decimal128(22, 2)),
        (pa.decimal128(10, 2), pa.decimal128(12, 2)),
        (pa.decimal128(10, 2), pa.decimal128(12, 4)),
    ],
    ids=str,
)
def test_a_lossless_widening_changes_the_table_and_a_narrower_batch_does_not(narrow, wide):
    old, new = schema_of(c=narrow), schema_of(c=wide)
    assert evolve(old, new).equals(new)
    assert evolve(new, old).equals(new)


@pytest.mark.parametrize(
    ("current", "incoming"),
    [
        (pa.int64(), pa.float64()),
        (pa.int32(), pa.float32()),
        (pa.int32(), pa.decimal128(11, 2)),
        (pa.int64(), pa.decimal128(19, 0)),
        (pa.decimal128(10, 2), pa.decimal128(11, 4)),
        (pa.date32(), pa.timestamp("us")),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.string(), pa.binary()),
        (pa.int32(), pa.string()),
        (pa.list_(pa.int32()), pa.int32()),
        (STRUCT, pa.list_(STRUCT)),
    ],
    ids=str,
)
def test_any_other_change_of_type_is_refused_naming_both(current, incoming):
    for a, b in ((current, incoming), (incoming, current)):
        assert not widens(a, b)
        with pytest.raises(SchemaError, match=r"'s\.c'.*expected .* found "):
            evolve(schema_of(s=pa.struct([("c", a)])), schema_of(s=pa.struct([("c", b)])))


def test_new_columns_go_to_the_end_as_nullable_in_structs_too():
    current = schema_of(a=pa.int32(), s=pa.list_(STRUCT))
    bigger = pa.struct([pa.field("z", pa.int8(), nullable=False), *STRUCT])
    incoming = pa.schema(
        [pa.field("n", pa.int32(), nullable=False), ("s", pa.list_(bigger)), ("a", pa.int64())]
    )
    evolved = evolve(current, incoming)
    assert evolved.names == ["a", "s", "n"]
    assert evolved.field("n").nullable
    assert evolved.field("a").type == pa.int64()
    inner = evolved.field("s").type.value_type
    assert [(f.name, f.nullable) for f in inner] == [("x", True), ("y", True), ("z", True)]


def test_missing_columns_stay_if_they_may_be_null():
    current = pa.schema([pa.field("k", pa.int32(), nullable=False), ("a", pa.int32())])
    assert evolve(current, schema_of(k=pa.int32())).equals(current)
    with pytest.raises(SchemaError, match="'k'"):
        evolve(current, schema_of(a=pa.int32()))


def test_a_column_without_any_value_takes_the_tables_type():
    current = schema_of(a=pa.int32(), l=pa.list_(pa.string()), s=STRUCT)
    incoming = schema_of(
        a=pa.null(), l=pa.list_(pa.null()), s=pa.struct([("x", pa.null()), ("y", pa.string())])
    )
    assert normalise(evolve(current, incoming)).equals(normalise(current))
    with pytest.raises(SchemaError, match="'new'"):
        evolve(current, schema_of(a=pa.int32(), new=pa.null()))


def test_a_column_that_differs_only_by_case_is_the_same_column():
    assert evolve(schema_of(Name=pa.int32()), schema_of(name=pa.int64())).names == ["Name"]
    batch = conform(one_column([1], pa.int32(), "NAME"), schema_of(Name=pa.int32()))
    assert batch.schema.names == ["Name"]


def test_a_required_column_stays_required_and_takes_nullable_batches_without_nulls():
    required = pa.schema([pa.field("c", pa.int32(), nullable=False)])
    assert evolve(required, schema_of(c=pa.int32())).equals(required)
    assert conform(one_column([1], pa.int32()), required).schema.equals(required)
    with pytest.raises(SchemaError, match=r"'c'.*1 nulls"):
        conform(one_column([1, None], pa.int32()), required)


def test_a_null_deep_inside_is_found():
    inner = pa.struct([pa.field("x", pa.int32(), nullable=False)])
    for t, bad, good in (
        (inner, {"x": None}, None),
        (pa.list_(inner), [{"x": None}], [None, {"x": 1}]),
        (pa.map_(pa.string(), pa.field("value", inner)), [("a", {"x": None})], [("a", None)]),
        (pa.map_(pa.string(), pa.field("value", pa.int8(), False)), [("a", None)], [("a", 1)]),
        (pa.list_(pa.field("element", pa.int8(), False)), [None], []),
    ):
        schema = schema_of(c=t)
        assert conform(one_column([good, None], t), schema).num_rows == 2
        with pytest.raises(SchemaError, match=r"'c.*nulls"):
            conform(one_column([good, bad], t), schema)


@pytest.mark.parametrize(
    ("values", "given", "target", "wanted"),
    [
        ([1, None], pa.int32(), pa.int64(), [1, None]),
        ([1], pa.int64(), pa.int8(), [1]),
        ([1], pa.uint8(), pa.int8(), [1]),
        ([7], pa.int64(), pa.float64(), [7.0]),
        ([1.5], pa.float32(), pa.float64(), [1.5]),
        ([3], pa.int32(), pa.decimal128(12, 2), [Decimal("3.00")]),
        ([Decimal("1.5")], pa.decimal128(3, 1), pa.decimal128(9, 3), [Decimal("1.500")]),
        (["a", "a"], pa.dictionary(pa.int8(), pa.large_string()), pa.string(), ["a", "a"]),
        (["a"], pa.large_string(), pa.string(), ["a"]),
        ([None], pa.null(), STRUCT, [None]),
        (
            [[1, None], None, []],
            pa.large_list(pa.int8()),
            pa.list_(pa.int64()),
            [[1, None], None, []],
        ),
        ([[], None], pa.list_(pa.null()), pa.list_(STRUCT), [[], None]),
        (
            [{"Y": "q"}, None],
            pa.struct([("Y", pa.large_string())]),
            STRUCT,
            [{"x": None, "y": "q"}, None],
        ),
        (
            [[("a", 1), ("b", None)], None, []],
            pa.map_(pa.large_string(), pa.int8()),
            pa.map_(pa.string(), pa.int32()),
            [[("a", 1), ("b", None)], None, []],
        ),
    ],
    ids=str,
)
def test_a_batch_is_cast_to_the_tables_types(values, given, target, wanted):
    schema = schema_of(c=target)
    batch = conform(one_column(values, given), schema)
    assert batch.schema.equals(schema)
    batch.validate(full=True)
    assert batch.column(0).to_pylist() == wanted


def test_slices_of_nested_columns_keep_their_rows():
    values = [[{"x": i, "y": str(i)}] * (i % 3) or None for i in range(20)]
    given = pa.list_(pa.struct([("y", pa.large_string()), ("x", pa.int8())]))
    batch = one_column(values, given).slice(5, 9)
    result = conform(batch, schema_of(c=pa.list_(STRUCT)))
    result.validate(full=True)
    assert result.column(0).to_pylist() == values[5:14]


@pytest.mark.parametrize(
    ("values", "given", "target"),
    [
        ([300], pa.int64(), pa.int8()),
        ([2**63], pa.uint64(), pa.int64()),
        ([2**53 + 1], pa.int64(), pa.float64()),
        ([Decimal("1.25")], pa.decimal128(3, 2), pa.decimal128(3, 1)),
        ([1_001], pa.timestamp("ns"), pa.timestamp("us")),
        ([1], pa.timestamp("us"), pa.timestamp("us", "UTC")),
        ([1.5], pa.float64(), pa.float32()),
        (["1"], pa.string(), pa.int32()),
        ([1], pa.int32(), pa.string()),
        ([b"x"], pa.binary(), pa.string()),
        ([{"x": 1, "extra": 2}], pa.struct([("x", pa.int32()), ("extra", pa.int32())]), STRUCT),
    ],
    ids=str,
)
def test_a_value_or_type_that_does_not_fit_is_refused_naming_the_column(values, given, target):
    with pytest.raises(SchemaError, match=r"'c[.']"):
        conform(one_column(values, given), schema_of(c=target))


def test_nanoseconds_that_are_zero_are_taken_and_others_refused_with_what_to_do():
    given = pa.timestamp("ns", "Europe/Oslo")
    target = schema_of(c=normalise(schema_of(c=given)).field("c").type)
    assert target.field("c").type == pa.timestamp("us", "UTC")
    assert conform(one_column([1_000, None], given), target).column(0).cast(
        pa.int64()
    ).to_pylist() == [1, None]
    with pytest.raises(SchemaError) as caught:
        conform(one_column([1_001], given), target)
    assert 'df["c"] = df["c"].astype("datetime64[us, Europe/Oslo]")' in str(caught.value)


def test_columns_are_put_in_order_filled_and_unknown_ones_refused():
    schema = schema_of(a=pa.int32(), b=pa.string(), c=pa.list_(pa.int8()))
    batch = pa.record_batch([pa.array(["x"]), pa.array([1], pa.int32())], names=["b", "a"])
    assert conform(batch, schema).to_pylist() == [{"a": 1, "b": "x", "c": None}]
    with pytest.raises(SchemaError, match=r"'zz'.*no such column"):
        conform(one_column([1], pa.int32(), "zz"), schema)
