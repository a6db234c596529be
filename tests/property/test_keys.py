"""Keys, buckets and folders for any text, against plain Python written from the definitions."""

import math
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.format.names import kernel
from lakebed.format.names.bucket_hash import extract_key_values, fold_numpy, key_buckets
from lakebed.format.names.consistent_hashing import key_hashes, xxh32
from lakebed.format.names.java_text import double_text, float_text
from lakebed.format.names.partition_path import (
    PartitionStyle,
    escape_path_name,
    parse_partition_path,
    partition_paths,
    unescape_path_name,
)
from lakebed.format.names.record_key import join_key_texts

# No lone surrogates: a Java string can hold them, UTF-8 and so a table cannot.
TEXT = st.text(st.characters(codec="utf-8"))
TRICKY = st.lists(
    st.sampled_from([*",:,:\n", "id", "n", "__null__", "__empty__", "é", "\U0001f600"]), max_size=8
).map("".join)


def java_hash(text):
    total = 0
    encoded = text.encode("utf-16-le")
    for (unit,) in struct.iter_unpack("<H", encoded):
        total = (31 * total + unit) % 2**32
    return total


def java_list_hash(values):
    total = 1
    for value in values:
        total = (31 * total + (0 if value is None else java_hash(value))) % 2**32
    return total


@pytest.mark.parametrize("fold", [fold_numpy, kernel.load_fold()], ids=["numpy", "kernel"])
@given(texts=st.lists(TEXT), start=st.integers(-(2**31), 2**31 - 1))
def test_any_texts_hash_as_java_strings(fold, texts, start):
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    hashes = np.full(len(texts), start, dtype=np.int32)
    fold(np.frombuffer(b"".join(encoded), np.uint8), offsets, hashes)
    want = [(31 * start + java_hash(text)) % 2**32 for text in texts]
    assert hashes.view(np.uint32).tolist() == want


@settings(max_examples=150)
@given(
    rows=st.lists(st.tuples(st.none() | TRICKY, st.none() | TRICKY), min_size=1),
    hash_fields=st.sampled_from([["id"], ["n"], ["id", "n"], ["n", "id"], ["zz"], [""], []]),
    buckets=st.integers(1, 10_000),
)
def test_buckets_of_composite_keys_are_those_of_their_text(rows, hash_fields, buckets):
    rows = [row for row in rows if any(row)]
    ids, names = [row[0] for row in rows], [row[1] for row in rows]
    texts = {"id": pa.array(ids, pa.string()), "n": pa.array(names, pa.string())}
    keys = join_key_texts(texts, True)
    want = [
        (java_list_hash(extract_key_values(key, hash_fields)) & 0x7FFFFFFF) % buckets
        for key in keys.to_pylist()
    ]
    for given_texts in (texts, None):
        found = key_buckets(
            keys, ["id", "n"], hash_fields, buckets, composite=True, texts=given_texts
        )
        assert found.tolist() == want


@settings(max_examples=150)
@given(
    rows=st.lists(st.tuples(st.none() | TRICKY, st.none() | TRICKY), min_size=1),
    fields=st.sampled_from([["id", "n"], ["id", "a:b"]]),
    hash_fields=st.sampled_from([["id"], ["n"], ["id", "n"], ["n", "id"], ["zz"], [""], []]),
)
def test_composite_keys_lie_on_a_ring_by_the_values_in_their_text(rows, fields, hash_fields):
    rows = [row for row in rows if any(row)]
    columns = zip(*rows, strict=True) if rows else ((), ())
    texts = {field: pa.array(of, pa.string()) for field, of in zip(fields, columns, strict=True)}
    keys = join_key_texts(texts, True)
    hashed = [
        "".join(
            "null" if value is None else value for value in extract_key_values(key, hash_fields)
        )
        for key in keys.to_pylist()
    ]
    want = (xxh32(pa.array(hashed, pa.string())) & 0x7FFFFFFF).tolist()
    for given_texts in (texts, None):
        found = key_hashes(keys, fields, hash_fields, composite=True, texts=given_texts)
        assert found.tolist() == want


@settings(max_examples=150)
@given(values=st.lists(TRICKY.filter(bool)), composite=st.booleans(), field=st.sampled_from("in"))
def test_buckets_of_single_keys_are_those_of_their_text(values, composite, field):
    keys = join_key_texts({field: pa.array(values, pa.string())}, composite)
    want = [
        (java_list_hash(extract_key_values(key, [field])) & 0x7FFFFFFF) % 997
        for key in keys.to_pylist()
    ]
    assert key_buckets(keys, [field], [field], 997, composite=composite).tolist() == want


@given(values=st.lists(st.tuples(st.none() | TEXT, st.none() | TEXT)))
def test_composite_keys_join_every_part(values):
    values = [row for row in values if any(row)]
    columns = list(zip(*values, strict=True)) or [(), ()]
    texts = {
        name: pa.array(column, pa.string()) for name, column in zip("ab", columns, strict=True)
    }
    spelled = [
        ",".join(
            f"{name}:{'__null__' if part is None else part or '__empty__'}"
            for name, part in zip("ab", row, strict=True)
        )
        for row in values
    ]
    assert join_key_texts(texts, True).to_pylist() == spelled


@given(TEXT)
def test_escaping_is_undone(text):
    escaped = escape_path_name(text)
    assert unescape_path_name(escaped) == text
    assert not set(escaped) & set("\"#'*/:=?[\\]^{\0\x1f\x7f")


@given(
    rows=st.lists(st.tuples(*[st.text(st.characters(codec="utf-8"), max_size=20)] * 2)),
    hive=st.booleans(),
)
def test_encoded_paths_parse_back_into_their_values(rows, hive):
    style = PartitionStyle(hive_style=hive, url_encode=True)
    fine = [row for row in rows if all(not part.startswith(".") for part in row)]
    columns = list(zip(*fine, strict=True)) or [(), ()]
    arrays = {
        name: pa.array(column, pa.string()) for name, column in zip("ab", columns, strict=True)
    }
    made = partition_paths(arrays, ["a", "b"], style).to_pylist()
    assert [parse_partition_path(path, ["a", "b"], style) for path in made] == [
        [part or None for part in row] for row in fine
    ]


@given(st.floats(allow_nan=False))
def test_the_text_of_a_double_reads_back(value):
    back = float(double_text(value).replace("Infinity", "inf"))
    assert back == value
    assert math.copysign(1, back) == math.copysign(1, value)


@given(st.floats(width=32, allow_nan=False))
def test_the_text_of_a_float_reads_back(value):
    assert np.float32(float(float_text(value).replace("Infinity", "inf"))) == np.float32(value)
