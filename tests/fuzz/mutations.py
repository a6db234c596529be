"""Ways to damage a file, each a pure function of bytes and a random source.

One gives None where the file has nothing for it.
"""

import json
import random
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass

MAGIC = b"#HUDI#"
_PARQUET = b"PAR1"
Mutate = Callable[[bytes, random.Random], bytes | None]


@dataclass(frozen=True, slots=True)
class Mutation:
    """A way to damage a file.

    A `structural` one takes bytes away or breaks a frame: a read must refuse it, or give the rows
    that were there before. Others may change values, which no checksum of the format protects.
    """

    name: str
    mutate: Mutate
    structural: bool


def cut(data: bytes, rng: random.Random) -> bytes:
    """Cut the file somewhere."""
    return _fill_up(data[: rng.randrange(len(data))], data, rng)


def cut_last_block(data: bytes, rng: random.Random) -> bytes:
    """Cut a log inside its last block, or another file in its last bytes."""
    start = data.rfind(MAGIC) if data.startswith(MAGIC) else max(0, len(data) - 64)
    return _fill_up(data[: rng.randrange(max(0, start), len(data))], data, rng)


def _fill_up(kept: bytes, data: bytes, rng: random.Random) -> bytes:
    """Leave a file short, or as long as it was: a commit tells of one that is too short."""
    left = len(data) - len(kept)
    return kept + rng.choice([b"", bytes(left), b"\xff" * left])


def flip_bits(data: bytes, rng: random.Random) -> bytes:
    """Flip a few bits anywhere."""
    return _flip(data, 0, len(data), rng)


def flip_footer(data: bytes, rng: random.Random) -> bytes | None:
    """Flip a few bits in the footer of a Parquet file or of the last Parquet block."""
    end = data.rfind(_PARQUET)
    if end < 12:
        return None
    length = int.from_bytes(data[end - 4 : end], "little")
    return _flip(data, end - 4 - length, end, rng) if 0 < length <= end - 8 else None


def flip_headers(data: bytes, rng: random.Random) -> bytes | None:
    """Flip a few bits in the frame of a block."""
    blocks = _blocks(data)
    if not blocks:
        return None
    at = rng.choice(blocks)
    return _flip(data, at, min(len(data), at + 64), rng)


def _flip(data: bytes, start: int, end: int, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        changed[rng.randrange(start, end)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _blocks(data: bytes) -> list[int]:
    return [match.start() for match in re.finditer(re.escape(MAGIC), data)]


def wrong_length(data: bytes, rng: random.Random) -> bytes | None:
    """Change one of the two lengths of a block."""
    blocks = _blocks(data)
    if not blocks:
        return None
    at = rng.choice(blocks) + len(MAGIC)
    (length,) = struct.unpack(">q", data[at : at + 8].ljust(8, b"\0"))
    if rng.random() < 0.5 and 0 < at + length <= len(data):
        at += length  # the one behind the block
    wrong = rng.choice([0, -1, 1, length + 1, length - 1, 1 << 62, -(1 << 62), 1 << 31, 10**9])
    return data[:at] + struct.pack(">q", wrong) + data[at + 8 :]


def future_block(data: bytes, rng: random.Random) -> bytes | None:
    """Return a block a version, a type, a number of headers or a header key that it cannot have."""
    blocks = _blocks(data)
    if not blocks:
        return None
    at = rng.choice(blocks) + len(MAGIC) + 8 + 4 * rng.randrange(4)
    wrong = rng.choice([2, 7, 9, 255, -1, 1 << 30])
    if len(data) < at + 4 or data[at : at + 4] == struct.pack(">i", wrong):
        return None
    return data[:at] + struct.pack(">i", wrong) + data[at + 4 :]


def big_number(data: bytes, rng: random.Random) -> bytes:
    """Put a large length somewhere, as a 32-bit number or as Avro writes it."""
    at = rng.randrange(len(data))
    wrong = rng.choice(
        [b"\x7f\xff\xff\xff", b"\xfe\xff\xff\xff\xff\x1f", b"\xff" * 10, b"\x80" * 9]
    )
    return data[:at] + wrong + data[at + len(wrong) :]


def swap_text(data: bytes, rng: random.Random) -> bytes | None:
    """Change the words of a schema or of JSON: types, names, brackets."""
    words = [
        b'"string"',
        b'"long"',
        b'"null"',
        b'"record"',
        b'"fields"',
        b'"type"',
        b"[",
        b"{",
        b'"',
    ]
    held = [word for word in words if word in data]
    if not held:
        return None
    word, other = rng.choice(held), rng.choice([*words, b'"fixed"', b'"int"', b"", b'"map"'])
    at = rng.choice([match.start() for match in re.finditer(re.escape(word), data)])
    return data[:at] + other.ljust(len(word))[: len(word)] + data[at + len(word) :]


def swap_value(data: bytes, rng: random.Random) -> bytes | None:
    """Return a property another value, or take its line away."""
    lines = data.split(b"\n")
    told = [number for number, line in enumerate(lines) if line.startswith(b"hoodie.")]
    if not told:
        return None
    at = rng.choice(told)
    key = lines[at].partition(b"=")[0]
    wrong = rng.choice(
        [b"", b"com.example.Nobody", b"-1", b"9" * 40, b"\xff\xfe", b"\\u00", b"a," * 500, b"{}"]
    )
    lines[at] = b"" if rng.random() < 0.2 else key + b"=" + wrong
    return b"\n".join(lines)


_SCHEMAS = [
    '{"type":"record","name":"r","fields":[{"name":"r","type":["null","r"]}]}',
    '{"type":"record","name":"r","fields":[{"name":"a","type":'
    + '{"type":"array","items":' * 200
    + '"int"'
    + "}" * 200
    + "}]}",
    json.dumps(
        {
            "type": "record",
            "name": "r",
            "fields": [{"name": f"f{i}", "type": "null"} for i in range(20_000)],
        }
    ),
    '{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"fixed","name":"x",'
    '"size":2147483647}}]}',
    '{"type":"record","name":"r","fields":[]}',
    '{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"array","items":"null"}}]}',
    "[" * 5_000,
]


def strange_schema(data: bytes, rng: random.Random) -> bytes | None:
    """Return a block a schema that holds itself, is nested deeply, or has very many fields."""
    if not data.startswith(MAGIC):
        return None
    return _with_schema(data, rng.choice(_SCHEMAS).encode())


def _with_schema(data: bytes, schema: bytes) -> bytes | None:
    """Replace the SCHEMA header of the first block and keep its lengths right."""
    (length,) = struct.unpack(">q", data[6:14])
    end = 14 + length
    body = data[14 : end - 8]
    (count,) = struct.unpack(">i", body[8:12])
    at, entries, found = 12, b"", False
    for _ in range(min(max(count, 0), 16)):
        key, size = struct.unpack(">ii", body[at : at + 8])
        value = body[at + 8 : at + 8 + size]
        found |= key == 2
        value = schema if key == 2 else value
        entries += struct.pack(">ii", key, len(value)) + value
        at += 8 + size
    if not found:
        return None
    body = body[:12] + entries + body[at:]
    size = len(body) + 8
    return MAGIC + struct.pack(">q", size) + body + struct.pack(">q", size + 6) + data[end:]


def repeat_part(data: bytes, rng: random.Random) -> bytes:
    """Write a part of the file twice, or leave it out."""
    start = rng.randrange(len(data))
    end = min(len(data), start + rng.choice([1, 16, 256, 4096]))
    return data[:end] + (data[start:] if rng.random() < 0.5 else data[end + 8 :])


def zeros(data: bytes, rng: random.Random) -> bytes:
    """Overwrite a stretch with zeros, as a disk that lost a sector."""
    start = rng.randrange(len(data))
    size = min(len(data) - start, rng.choice([1, 8, 64, 512]))
    return data[:start] + bytes(size) + data[start + size :]


MUTATIONS = (
    Mutation("cut", cut, True),
    Mutation("cut in the last block", cut_last_block, True),
    Mutation("wrong length", wrong_length, True),
    Mutation("block of the future", future_block, True),
    Mutation("strange schema", strange_schema, True),
    Mutation("flipped bits", flip_bits, False),
    Mutation("flipped bits in a footer", flip_footer, False),
    Mutation("flipped bits in headers", flip_headers, False),
    Mutation("large number", big_number, False),
    Mutation("swapped words", swap_text, False),
    Mutation("swapped value", swap_value, False),
    Mutation("repeated part", repeat_part, False),
    Mutation("zeros", zeros, False),
)
