"""Schemas survive Avro, and values survive widening, for every legal schema."""

import contextlib

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.errors import LakebedError
from lakebed.format.avro.avro_schema import arrow_to_avro, avro_to_arrow, with_meta_fields
from lakebed.format.names.meta_columns import META_COLUMNS
from lakebed.table.config.schema import evolve, normalise, storage_schema, widens
from lakebed.table.read.conform import conform

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: not name.lower().startswith("_hoodie_")
)
decimals = st.integers(1, 38).flatmap(
    lambda p: st.builds(pa.decimal128, st.just(p), st.integers(0, p))
)
numbers = st.one_of(
    st.sampled_from([pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()]),
    decimals,
)
scalars = st.one_of(
    numbers,
    st.sampled_from(
        [
            pa.bool_(),
            pa.string(),
            pa.binary(),
            pa.date32(),
            pa.timestamp("us", "UTC"),
            pa.timestamp("us"),
        ]
    ),
)


def fields_of(types):
    field = st.builds(pa.field, names, types, st.booleans())
    return st.lists(field, min_size=1, max_size=4, unique_by=lambda f: f.name.lower())


def nest(types):
    return st.one_of(
        st.builds(pa.struct, fields_of(types)),
        st.builds(lambda t, n: pa.list_(pa.field("element", t, n)), types, st.booleans()),
        st.builds(lambda t, n: pa.map_(pa.string(), pa.field("value", t, n)), types, st.booleans()),
    )


schemas = fields_of(st.recursive(scalars, nest, max_leaves=6)).map(pa.schema)


@given(schemas, st.text(min_size=1, max_size=12))
@settings(deadline=None)
def test_a_schema_comes_back_from_avro_as_it_was(schema, table_name):
    assert normalise(schema).equals(schema)
    text = arrow_to_avro(schema, table_name)
    assert avro_to_arrow(text).equals(schema)
    with_meta = avro_to_arrow(with_meta_fields(text))
    assert with_meta.names == [*META_COLUMNS, *schema.names]


@given(schemas)
@settings(deadline=None)
def test_a_schema_evolves_to_itself_and_storage_types_are_stable(schema):
    assert evolve(schema, schema).equals(schema)
    assert storage_schema(storage_schema(schema)).equals(storage_schema(schema))


@given(st.text(max_size=60))
def test_no_text_breaks_the_parser_otherwise_than_by_its_errors(text):
    for attempt in (text, '{"type":"record","name":"r","fields":[' + text):
        with contextlib.suppress(LakebedError):
            avro_to_arrow(attempt)


@given(numbers, numbers)
def test_widening_is_one_way_and_evolution_agrees_from_both_sides(a, b):
    if a == b or not (widens(a, b) or widens(b, a)):
        return
    assert widens(a, b) != widens(b, a)
    one, other = pa.schema([("c", a)]), pa.schema([("c", b)])
    assert evolve(one, other).equals(evolve(other, one))


@given(st.lists(st.one_of(st.none(), st.integers(-128, 127))), numbers, numbers)
@settings(deadline=None)
def test_a_widened_value_keeps_its_value(values, narrow, wide):
    if not widens(narrow, wide):
        return
    if pa.types.is_decimal(narrow) and narrow.precision - narrow.scale < 3:
        return
    batch = pa.record_batch([pa.array(values, pa.int8()).cast(narrow)], names=["c"])
    widened = conform(batch, pa.schema([("c", wide)]))
    assert [v if v is None else int(v) for v in widened.column(0).to_pylist()] == values
