"""The consistent-hashing bucket index: the position of a record key on a ring of hashes.

    ring     := node*              by value; a node owns the hashes above the one before it, up to
                                   its own, and the first node those above the last
    hash     := XXH32(UTF-8 of the hashed values, concatenated, seed 0) & 0x7fffffff
    file id  := <fileIdPrefix>-0   one file group for each node

A partition keeps its ring as JSON in `<instant>.hashing_meta`, first under an instant of 14 zeros.
Its first nodes are derived from the partition's name and the number of buckets, so that two writers
that start at the same time create the same nodes. A null among several hashed values is hashed as
the string `null`, an empty string adds nothing. Agrees with `ConsistentBucketIdentifier` and
`HoodieConsistentHashingMetadata` of Hudi 1.2.0.
"""

import hashlib
import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError, InvalidError, UnsupportedError
from lakebed.format.names.bucket_hash import extract_key_values, split_composite_keys
from lakebed.format.names.record_key import EMPTY_PART, NULL_PART

FIRST_INSTANT = "00000000000000"
"""The instant of a partition's first ring."""
MAX_VALUE = 0x7FFFFFFF
MAX_NODES = 1 << 20
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VERSION = 0
_PIECE = 1 << 14

Values = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HashingNode:
    """One bucket: the greatest hash that it owns, and the prefix of its file id."""

    value: int
    file_id_prefix: str

    @property
    def file_id(self) -> str:
        """Return the id of the bucket's only file group."""
        return f"{self.file_id_prefix}-0"


@dataclass(frozen=True, slots=True)
class HashingMetadata:
    """The ring of one partition as of one instant.

    `num_buckets` is the initial number of buckets, even after the ring was resized.
    """

    partition: str
    instant: str
    num_buckets: int
    seq_no: int
    nodes: tuple[HashingNode, ...]

    @classmethod
    def first(cls, partition: str, buckets: int) -> Self:
        """Return the first ring of a partition with `buckets` buckets, the same for every writer.

        >>> HashingMetadata.first("p0", 4).nodes[0].file_id
        'a1ba364b-fbde-3906-b865-53e4c35f3556-0'
        """
        if not 1 <= buckets <= MAX_NODES:
            raise InvalidError(f"buckets={buckets!r}: expected a number from 1 to {MAX_NODES}")
        step = -(-MAX_VALUE // buckets)
        ends = [min(step * number, MAX_VALUE) for number in range(1, buckets + 1)]
        nodes = tuple(
            HashingNode(end, _first_prefix(start, end, partition))
            for start, end in zip([0, *ends], ends, strict=False)
        )
        return cls(partition, FIRST_INSTANT, buckets, 0, nodes)

    @classmethod
    def parse(cls, data: bytes, what: str) -> Self:
        """Parse a `.hashing_meta` file; raise CorruptError or UnsupportedError, naming `what`."""
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise CorruptError(f"{what}: expected JSON: {error}") from error
        if not isinstance(found, dict):
            raise CorruptError(f"{what}: expected a JSON object, found {type(found).__name__}")
        version = found.get("version")
        if version != _VERSION:
            raise UnsupportedError(f"{what}: version {version!r}; this release knows {_VERSION}")
        listed = found.get("nodes")
        if not isinstance(listed, list) or not 1 <= len(listed) <= MAX_NODES:
            raise CorruptError(f"{what}: expected 1 to {MAX_NODES} nodes")
        nodes = tuple(_parse_node(node, what) for node in listed)
        values = [node.value for node in nodes]
        if any(after <= before for before, after in pairwise(values)):
            raise CorruptError(f"{what}: the values of the nodes do not ascend")
        if len({node.file_id_prefix for node in nodes}) != len(nodes):
            raise CorruptError(f"{what}: two nodes have the same fileIdPrefix")
        return cls(
            _text(found, "partitionPath", what),
            _text(found, "instant", what),
            _number(found, "numBuckets", what),
            _number(found, "seqNo", what),
            nodes,
        )

    def encode(self) -> bytes:
        """Encode the ring as Hudi does."""
        nodes = [
            {"value": node.value, "fileIdPrefix": node.file_id_prefix, "tag": "NORMAL"}
            for node in self.nodes
        ]
        spelled = {
            "version": _VERSION,
            "partitionPath": self.partition,
            "instant": self.instant,
            "numBuckets": self.num_buckets,
            "seqNo": self.seq_no,
            "nodes": nodes,
        }
        return json.dumps(spelled, ensure_ascii=False, indent=2).encode()

    @property
    def values(self) -> Values:
        """Return the values of the nodes."""
        return np.array([node.value for node in self.nodes], dtype=np.int64)


def key_hashes(
    keys: pa.StringArray,
    fields: Sequence[str],
    hash_fields: Sequence[str],
    *,
    composite: bool,
    texts: Mapping[str, pa.StringArray] | None = None,
) -> npt.NDArray[np.int32]:
    """Return the ring position of every record key, as Hudi computes it from the key's string.

    `texts` are the key's parts by field; if None, they are extracted from the keys. Keys that Hudi
    may split in another place cost Python time per distinct key.
    """
    hashed, odd = _hashed_texts(keys, fields, hash_fields, composite, texts)
    hashes = xxh32(hashed)
    at = pc.indices_nonzero(odd)
    if len(at):
        encoded = pc.dictionary_encode(keys.take(at))
        exact = [
            "".join("null" if value is None else value for value in values)
            for key in encoded.dictionary.to_pylist()
            for values in [extract_key_values(key, hash_fields)]
        ]
        distinct = xxh32(pa.array(exact, pa.string()))
        hashes[np.asarray(at)] = distinct[np.asarray(encoded.indices)]
    return (hashes & np.uint32(MAX_VALUE)).astype(np.int32)


def xxh32(texts: pa.StringArray) -> npt.NDArray[np.uint32]:
    """Return XXH32, seed 0, of the UTF-8 of every string; a null hashes as an empty string.

    >>> f"{xxh32(pa.array(['']))[0]:08x}"
    '02cc5d05'
    """
    # A piece fits into the processor's cache.
    pieces = [_xxh32(texts.slice(at, _PIECE)) for at in range(0, len(texts), _PIECE)]
    return np.concatenate(pieces) if pieces else np.empty(0, np.uint32)


def _xxh32(texts: pa.StringArray) -> npt.NDArray[np.uint32]:
    """Hash all strings at once, position by position."""
    data, starts, sizes = _flatten(texts)
    words: npt.NDArray[np.uint32] = np.ndarray((len(data) - 3,), "<u4", data, strides=(1,))
    hashes = np.full(len(sizes), _P5, np.uint32)
    # Longest strings first: those with further stripes are then always in front.
    order = np.argsort(-sizes, kind="stable")
    stripes = sizes[order] >> 4
    longest = int(stripes[0])
    if longest:
        count = int(np.count_nonzero(stripes))
        at = starts[order[:count]]
        lanes = [np.full(count, seed, np.uint32) for seed in (_P1 + _P2, _P2, 0, -_P1)]
        left = stripes[:count]
        for step in range(longest):
            going = int(np.searchsorted(-left, -step, side="left"))
            for lane, held in enumerate(lanes):
                word = words[at[:going] + (16 * step + 4 * lane)]
                held[:going] = _rotated(held[:going] + word * _P2, 13) * _P1
        joined = sum(
            (_rotated(held, by) for held, by in zip(lanes, (1, 7, 12, 18), strict=True)),
            np.zeros(count, np.uint32),
        )
        hashes[order[:count]] = joined
    hashes += sizes.astype(np.uint32)
    at = starts + (sizes & ~np.int64(15))
    for step in range(3):
        rows = np.flatnonzero((sizes & 15) >> 2 > step)
        word = words[at[rows] + 4 * step]
        hashes[rows] = _rotated(hashes[rows] + word * _P3, 17) * _P4
    at = starts + (sizes & ~np.int64(3))
    for step in range(3):
        rows = np.flatnonzero(sizes & 3 > step)
        byte = data[at[rows] + step].astype(np.uint32)
        hashes[rows] = _rotated(hashes[rows] + byte * _P5, 11) * _P1
    hashes = (hashes ^ (hashes >> np.uint32(15))) * _P2
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _P3
    hashes ^= hashes >> np.uint32(16)
    return hashes


_PRIMES = np.array([0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1], np.uint32)
# Arrays of one element, because numpy warns when scalars overflow.
_P1, _P2, _P3, _P4, _P5 = _PRIMES[:1], _PRIMES[1:2], _PRIMES[2:3], _PRIMES[3:4], _PRIMES[4:]


def _rotated(values: npt.NDArray[np.uint32], by: int) -> npt.NDArray[np.uint32]:
    return (values << np.uint32(by)) | (values >> np.uint32(32 - by))


def _flatten(texts: pa.StringArray) -> tuple[npt.NDArray[np.uint8], Values, Values]:
    """Return the bytes, with padding for reads past the end, and each string's start and size."""
    text = texts.fill_null("").cast(pa.large_string())
    _, offset_bytes, data_bytes = text.buffers()
    offsets = np.frombuffer(offset_bytes, np.int64)[text.offset : text.offset + len(text) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.zeros(last - first + 4, np.uint8)
    data[: last - first] = np.frombuffer(data_bytes or b"", np.uint8)[first:last]
    return data, offsets[:-1] - first, np.diff(offsets)


def _hashed_texts(
    keys: pa.StringArray,
    fields: Sequence[str],
    hash_fields: Sequence[str],
    composite: bool,
    texts: Mapping[str, pa.StringArray] | None,
) -> tuple[pa.StringArray, pa.BooleanArray]:
    """Return the strings to hash, and whether Hudi may split a key in an unexpected place."""
    strange = any("," in field or ":" in field for field in fields)
    if strange or not composite or len(fields) == 1:
        cut = pc.match_substring(keys, ",")
        return keys, pc.and_(cut, pc.match_substring(keys, ":"))
    parts = split_composite_keys(keys, fields) if texts is None else texts
    every = list(hash_fields) in ([], [""])
    wanted = [field for field in fields if every or field in hash_fields]
    odd = pc.is_null(keys)
    for field in fields:
        # In extracted parts, a null means that the key has other fields.
        odd = pc.or_(
            odd, pc.fill_null(pc.match_substring_regex(parts[field], "(?s),.*:"), texts is None)
        )
    if not wanted:
        return keys, odd
    spelled = [_spelled(parts[field]) for field in wanted]
    return (spelled[0] if len(spelled) == 1 else pc.binary_join_element_wise(*spelled, "")), odd


def _spelled(part: pa.StringArray) -> pa.StringArray:
    filled = part.fill_null(NULL_PART)
    emptied = pc.if_else(pc.equal(filled, EMPTY_PART), "", filled)
    return pc.if_else(pc.equal(emptied, NULL_PART), "null", emptied)


def _first_prefix(start: int, end: int, partition: str) -> str:
    name = struct.pack(">qq", start, end) + partition.encode()
    return str(UUID(bytes=hashlib.md5(name, usedforsecurity=False).digest(), version=3))


def _parse_node(node: object, what: str) -> HashingNode:
    if not isinstance(node, dict):
        raise CorruptError(f"{what}: expected an object for each node")
    tag = node.get("tag", "NORMAL")
    if tag != "NORMAL":
        raise UnsupportedError(
            f"{what}: a node is tagged {tag!r}; expected NORMAL in a stored ring"
        )
    value = _number(node, "value", what)
    prefix = _text(node, "fileIdPrefix", what)
    if value > MAX_VALUE or _UUID.fullmatch(prefix) is None:
        raise CorruptError(f"{what}: node {value} with the fileIdPrefix {prefix[:40]!r}")
    return HashingNode(value, prefix)


def _number(found: Mapping[str, object], name: str, what: str) -> int:
    value = found.get(name)
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise CorruptError(f"{what}: expected a number for {name}, found {value!r:.80}")
    return value


def _text(found: Mapping[str, object], name: str, what: str) -> str:
    value = found.get(name)
    if not isinstance(value, str):
        raise CorruptError(f"{what}: expected a string for {name}, found {value!r:.80}")
    return value
