"""Bloom filters, Apache Hudi's and ours, hold the keys of their files, and few others."""

import base64
import contextlib
import io
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.format.index.bloom import (
    FOOTER_BLOOM,
    FOOTER_BLOOM_TYPE,
    BloomFilter,
    BloomWriter,
    KeyHashes,
    parse_bloom,
)
from support.fixtures import files

OTHERS = pa.array([f"nobody-{n}-{'é' * (n % 5)}" for n in range(200)])


def base_files(name):
    for path, data in files(name).items():
        if path.endswith(".parquet") and not path.startswith(".hoodie/"):
            yield path, data


def filter_of(data, what):
    file = pq.ParquetFile(io.BytesIO(data))
    marks = {k.decode(): v.decode() for k, v in file.metadata.metadata.items()}
    return parse_bloom(marks[FOOTER_BLOOM], marks.get(FOOTER_BLOOM_TYPE, ""), what), file


@pytest.mark.parametrize("name", ["cow9_services", "mor9_bucket8", "mor9_partial", "cow9_urlenc"])
def test_the_filters_of_hudi_hold_the_keys_of_their_files(name):
    kinds = set()
    for path, data in base_files(name):
        bloom, file = filter_of(data, path)
        keys = file.read(["_hoodie_record_key"]).column(0).combine_chunks()
        assert bloom.missing(keys).true_count == 0, path
        assert bloom.missing(OTHERS).true_count > 190
        kinds.add(bloom.hashes)
    assert kinds


def java_murmur(data: bytes, seed: int) -> int:
    """Hadoop's MurmurHash, byte by byte."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (seed ^ len(data)) & mask
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        k ^= k >> 24
        h = (h * m & mask) ^ (k * m & mask)
    tail = data[whole:]
    if tail:
        for place, byte in enumerate(reversed(tail)):
            signed = byte - 256 if byte > 127 else byte
            h ^= (signed << (8 * place)) & mask
        h = h * m & mask
    h ^= h >> 13
    h = h * m & mask
    return h ^ (h >> 15)


@given(st.binary(min_size=1, max_size=40), st.integers(0, 0xFFFFFFFF))
def test_columns_are_hashed_as_one_key_at_a_time(data, seed):
    # Among keys of other lengths.
    keys = pa.array([b"", data, b"x" * 41, data], pa.binary()).view(pa.string())
    hashed = KeyHashes(keys)
    found = hashed.next(np.full(4, seed, np.uint32))[hashed.places]
    assert found.tolist() == [java_murmur(key.as_buffer().to_pybytes(), seed) for key in keys]


@given(st.lists(st.text(max_size=12), max_size=30), st.integers(1, 5), st.integers(1, 400))
def test_a_filter_holds_what_was_put_in(keys, hashes, size):
    bits = np.zeros(size, dtype=bool)
    for key in keys:
        seed = 0
        for _ in range(hashes if key else 0):
            seed = java_murmur(key.encode(), seed)
            signed = seed - (1 << 32) if seed >> 31 else seed
            bits[abs(signed) % size] = True
    data = (
        struct.pack(">iibi", -1, hashes, 1, size) + np.packbits(bits, bitorder="little").tobytes()
    )
    bloom = parse_bloom(base64.b64encode(data).decode(), "SIMPLE", "it")
    assert bloom.missing(pa.array(keys, pa.string())).true_count == 0
    head = struct.pack(">iibiiii", -1, hashes, 1, size, 1000, 3, 2)
    empty = struct.pack(">iibi", -1, hashes, 1, size) + bytes((size + 7) // 8)
    both = base64.b64encode(head + empty + data).decode()
    assert (
        parse_bloom(both, "DYNAMIC_V0", "it").missing(pa.array(keys, pa.string())).true_count == 0
    )


def test_a_slice_of_keys_is_looked_up_by_its_own_values():
    bits = np.zeros(64, dtype=bool)
    bloom = BloomFilter(1, (bits,))
    assert bloom.missing(pa.array(["aa", "bb", "cc"]).slice(1)).to_pylist() == [True, True]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", CorruptError),
        (struct.pack(">iibi", -1, 7, 1, 1 << 30), CorruptError),
        (struct.pack(">iibi", -1, 0, 1, 8) + b"\0", CorruptError),
        (struct.pack(">iibi", -1, 7, 1, -8), CorruptError),
        (struct.pack(">iibi", -1, 7, 0, 8) + b"\0", UnsupportedError),
        (struct.pack(">iibi", 3, 7, 1, 8) + b"\0", UnsupportedError),
    ],
)
@pytest.mark.parametrize("kind", ["SIMPLE", "DYNAMIC_V0"])
def test_bytes_that_are_no_filter_are_refused_by_name(data, error, kind):
    with pytest.raises(error, match="the file"):
        parse_bloom(base64.b64encode(data).decode(), kind, "the file")


@given(st.binary(max_size=60), st.sampled_from(["SIMPLE", "DYNAMIC_V0"]))
def test_no_bytes_give_any_other_error(data, kind):
    with contextlib.suppress(CorruptError, UnsupportedError):
        parse_bloom(base64.b64encode(data).decode(), kind, "it")


def test_text_that_is_no_base64_is_refused():
    with pytest.raises(CorruptError, match="base64"):
        parse_bloom("§", "SIMPLE", "it")


def written(keys, entries, false_positives):
    writer = BloomWriter(entries, false_positives)
    for start in range(0, len(keys), 7):
        writer.add(keys.slice(start, 7))
    marks = writer.footer()
    return parse_bloom(marks[FOOTER_BLOOM], marks[FOOTER_BLOOM_TYPE], "it")


@given(
    st.lists(st.text(min_size=1, max_size=12), max_size=60),
    st.integers(1, 40),
    st.sampled_from([0.5, 0.01, 1e-9]),
)
def test_a_written_filter_holds_its_keys(keys, entries, false_positives):
    texts = pa.array(keys, pa.string())
    assert written(texts, entries, false_positives).missing(texts).true_count == 0


@pytest.mark.parametrize("entries", [100, 1_000, 60_000])
def test_a_written_filter_holds_few_other_keys(entries):
    keys = pa.array([f"key-{n}" for n in range(20_000)])
    others = pa.array([f"other-{n}" for n in range(20_000)])
    found = written(keys, entries, 0.001).missing(others)
    # One part after another, each twice as large, and each with its own false positives.
    assert 20_000 - found.true_count < 20_000 * 0.001 * 2 * (1 + 20_000 // entries).bit_length()


def test_a_filter_of_few_keys_is_small_and_one_of_many_grows_with_them():
    few = BloomWriter(60_000, 1e-9)
    few.add(pa.array(["a", "b"]))
    assert len(few.footer()[FOOTER_BLOOM]) < 60
    assert few.footer()[FOOTER_BLOOM_TYPE] == "SIMPLE"
    many = BloomWriter(10, 1e-9)
    many.add(pa.array([str(n) for n in range(71)]))
    marks = many.footer()
    rows = parse_bloom(marks[FOOTER_BLOOM], marks[FOOTER_BLOOM_TYPE], "it").rows
    assert [round(len(row) / len(rows[0])) for row in rows] == [1, 2, 4, 8]


def test_a_filter_has_the_bytes_that_hudi_writes_for_the_same_keys():
    """The fixtures' filters are of 100 entries, and as many bits as the option of Hudi's asks for."""
    checked = 0
    for path, data in base_files("mor9_bucket8"):
        bloom, file = filter_of(data, path)
        keys = file.read(["_hoodie_record_key"]).column(0).combine_chunks()
        for row in bloom.rows:
            ours = np.zeros(len(row), dtype=bool)
            for values in KeyHashes(keys).take(bloom.hashes):
                ours[np.abs(np.fmod(values.view(np.int32).astype(np.int64), len(row)))] = True
            if len(bloom.rows) == 1:
                assert (ours == row).all(), path
                checked += 1
    assert checked
