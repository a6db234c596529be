"""Rings of consistent hashing, against values that Apache Hudi 1.2.0 wrote."""

import json

import numpy as np
import pyarrow as pa
import pytest

from lakebed.errors import CorruptError, InvalidError, LakebedError, UnsupportedError
from lakebed.format.names.consistent_hashing import (
    MAX_NODES,
    MAX_VALUE,
    HashingMetadata,
    key_hashes,
    xxh32,
)


def slow_xxh32(data: bytes) -> int:
    """Do it byte by byte, as the specification says it."""
    p1, p2, p3, p4, p5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
    mask = 0xFFFFFFFF

    def turn(value, by):
        value &= mask
        return (value << by | value >> (32 - by)) & mask

    at, total = 0, p5
    if len(data) >= 16:
        lanes = [p1 + p2, p2, 0, -p1]
        while at + 16 <= len(data):
            for lane in range(4):
                word = int.from_bytes(data[at : at + 4], "little")
                lanes[lane] = turn(lanes[lane] + word * p2, 13) * p1
                at += 4
        total = sum(turn(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
    total += len(data)
    while at + 4 <= len(data):
        total = turn(total + int.from_bytes(data[at : at + 4], "little") * p3, 17) * p4
        at += 4
    for byte in data[at:]:
        total = turn(total + byte * p5, 11) * p1
    total &= mask
    total = (total ^ total >> 15) * p2 & mask
    total = (total ^ total >> 13) * p3 & mask
    return total ^ total >> 16


def test_texts_of_every_length_hash_as_the_specification_says():
    texts = ["a中😀z"[n % 4] * n for n in range(70)] + ["y" * 1000, "", None]
    for order in (texts, texts[::-1]):
        want = [slow_xxh32((text or "").encode()) for text in order]
        assert xxh32(pa.array(order, pa.string())).tolist() == want


def test_many_texts_and_parts_of_an_array_hash_like_few():
    texts = pa.array([f"user_{n}" * (n % 5) for n in range(40_000)])
    whole = xxh32(texts)
    assert np.array_equal(xxh32(texts.slice(20_001, 300)), whole[20_001:20_301])
    assert whole[39_999] == slow_xxh32(texts[39_999].as_py().encode())
    assert xxh32(texts.slice(0, 0)).tolist() == []


def test_keys_lie_on_the_ring_where_hudi_put_them():
    keys = ["user_0", "user_10", "user_12", "user_14", "user_1", "user_11", "user_13"]
    want = [1993956838, 120726852, 197584447, 1433436719, 505854663, 1391919033, 2016557922]
    found = key_hashes(pa.array(keys), ["id"], ["id"], composite=False)
    assert found.tolist() == want


@pytest.mark.parametrize(
    ("key", "hashed", "text"),
    [
        ("id:a,n:1", ["id", "n"], "a1"),
        ("id:b,n:__null__", ["id", "n"], "bnull"),
        ("id:c,n:__empty__", ["id", "n"], "c"),
        ("id:__null__,n:v", ["id", "n"], "nullv"),
        ("id:e,f,n:x", ["id", "n"], "e,fx"),
        ("id:g:h,n:y,z", ["id", "n"], "g:hy,z"),
        # The value of id ends at the comma before the next colon, as Hudi cuts it.
        ("id:i,j:k,n:w", ["id", "n"], "iw"),
        ("id:a,n:中😀", ["n"], "中😀"),
        ("id:a,n:__null__", ["n"], "null"),
    ],
)
def test_the_values_of_a_composite_key_are_hashed_as_one_text(key, hashed, text):
    want = [slow_xxh32(text.encode()) & MAX_VALUE]
    fields = ["id", "n"]
    assert key_hashes(pa.array([key]), fields, hashed, composite=True).tolist() == want
    head, _, tail = key.partition(",n:")
    texts = {"id": pa.array([head.removeprefix("id:")]), "n": pa.array([tail])}
    texts = {name: pa.array([_value(of[0].as_py())], pa.string()) for name, of in texts.items()}
    found = key_hashes(pa.array([key]), fields, hashed, composite=True, texts=texts)
    assert found.tolist() == want


def _value(part):
    return {"__null__": None, "__empty__": ""}.get(part, part)


def test_a_plain_key_and_a_composite_one_of_one_field_are_hashed_whole():
    for key in ("a", "a,b", "a:b", "中"):
        want = [slow_xxh32(key.encode()) & MAX_VALUE]
        assert key_hashes(pa.array([key]), ["id"], ["id"], composite=False).tolist() == want
    want = [slow_xxh32(b"id:a") & MAX_VALUE]
    assert key_hashes(pa.array(["id:a"]), ["id"], ["id"], composite=True).tolist() == want


def test_the_first_nodes_are_those_that_hudi_makes():
    nodes = HashingMetadata.first("p0", 4).nodes
    assert [(node.value, node.file_id_prefix[:8]) for node in nodes] == [
        (536870912, "a1ba364b"),
        (1073741824, "29428436"),
        (1610612736, "28f89699"),
        (2147483647, "ddd512a0"),
    ]
    ids = {node.file_id for node in HashingMetadata.first("p", 4).nodes}
    assert "ea616160-4899-3cfc-9660-101fe3738372-0" in ids


@pytest.mark.parametrize("buckets", [1, 2, 3, 7, 256, 1000])
def test_first_nodes_ascend_to_the_last_hash(buckets):
    ring = HashingMetadata.first("é/中", buckets)
    assert len(ring.nodes) == buckets
    assert ring.nodes[-1].value == MAX_VALUE
    assert HashingMetadata.parse(ring.encode(), "x") == ring


@pytest.mark.parametrize("buckets", [0, -1, MAX_NODES + 1])
def test_a_number_of_buckets_that_no_ring_has_is_refused(buckets):
    with pytest.raises(InvalidError, match="buckets"):
        HashingMetadata.first("p", buckets)


def ring(**changes):
    return {**json.loads(HashingMetadata.first("p", 2).encode()), **changes}


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"version": 1}, UnsupportedError),
        ({"nodes": []}, CorruptError),
        ({"nodes": [7]}, CorruptError),
        ({"nodes": ring()["nodes"][::-1]}, CorruptError),
        ({"nodes": [dict(ring()["nodes"][0], value=n) for n in (1, 2)]}, CorruptError),
        ({"nodes": [dict(ring()["nodes"][0], value=-1)]}, CorruptError),
        ({"nodes": [dict(ring()["nodes"][0], value=2**31)]}, CorruptError),
        ({"nodes": [dict(ring()["nodes"][0], value=True)]}, CorruptError),
        ({"nodes": [dict(ring()["nodes"][0], tag="REPLACE")]}, UnsupportedError),
        ({"nodes": [dict(ring()["nodes"][0], fileIdPrefix=None)]}, CorruptError),
        ({"nodes": [dict(ring()["nodes"][0], fileIdPrefix="../../x")]}, CorruptError),
        ({"partitionPath": None}, CorruptError),
        ({"seqNo": "0"}, CorruptError),
    ],
)
def test_a_ring_that_is_none_is_named(changed, error):
    with pytest.raises(error, match="the file"):
        HashingMetadata.parse(json.dumps(ring(**changed)).encode(), "the file")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b"null"])
def test_bytes_that_are_no_ring_are_corrupt(data):
    with pytest.raises(CorruptError, match="the file"):
        HashingMetadata.parse(data, "the file")


def test_a_ring_cut_anywhere_is_never_taken_for_another():
    whole = HashingMetadata.first("p", 3).encode()
    for size in range(len(whole)):
        with pytest.raises(LakebedError):
            HashingMetadata.parse(whole[:size], "the file")
