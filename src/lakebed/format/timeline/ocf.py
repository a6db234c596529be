"""Avro object container files of one record, the form of non-empty timeline files.

    file    = "Obj" 01 | map of metadata | sync (16 bytes) | block
    block   = long count (1) | long size | size bytes of records | sync
    long    = as in avro_binary
    metadata= avro.schema: JSON string; avro.codec: "null" (also when absent) or "deflate"

The frame is parsed here, so that a length is used only if the file has as many bytes. The schema in
the file is not trusted either: it is rebuilt from the Avro types that Hudi uses, and rejected if
decoding could take unbounded time (a type that contains itself, an array of zero-byte values,
nested types that multiply zero-byte values).
"""

import functools
import hashlib
import io
import json
import zlib
from collections.abc import Mapping
from typing import Final, TypeAlias

import fastavro

from lakebed.errors import CorruptError, InvalidError, UnsupportedError
from lakebed.format.avro.avro_binary import AvroReader, encode_bytes, encode_long

Schema: TypeAlias = "str | dict[str, object] | list[Schema]"
"""An Avro schema as JSON values."""
Record: TypeAlias = "dict[str, object]"

MAGIC: Final = b"Obj\x01"
_SYNC_SIZE: Final = 16
_MAX_INFLATED: Final = 1 << 27
_MAX_INFLATED_FREELY: Final = 1 << 22
_MAX_RATIO: Final = 64
"""The maximum ratio by which a large record may expand."""
_MAX_FREE_VALUES: Final = 32
"""How many values a record may have in excess of its bytes; Hudi's records have at most 3."""
_MAX_SCHEMA_DEPTH: Final = 32
_PRIMITIVES: Final = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)
_DECODE_ERRORS: Final = (
    EOFError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError,
    RecursionError, StopIteration, fastavro.schema.SchemaParseException,
    fastavro.schema.UnknownType, fastavro.read.SchemaResolutionError,
)  # fmt: skip


def encode_record(schema: Schema, record: Mapping[str, object]) -> bytes:
    """Encode one record as a container file without compression.

    The sync marker is derived from the content, so equal records have equal bytes. A field that
    `record` lacks takes its default; a field that the schema lacks is rejected.
    """
    out = io.BytesIO()
    try:
        fastavro.schemaless_writer(out, _prepared(_text(schema)), record, strict_allow_default=True)
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as error:
        raise InvalidError(
            f"record of {full_name(schema)}: does not match its schema: {error}"
        ) from error
    body = out.getvalue()
    text = _text(schema).encode()
    sync = hashlib.md5(text + body, usedforsecurity=False).digest()
    header = encode_long(1) + encode_bytes(b"avro.schema") + encode_bytes(text) + encode_long(0)
    return MAGIC + header + sync + encode_long(1) + encode_bytes(body) + sync


def decode_record(
    data: bytes, what: str, readers: Mapping[str, Schema] | None = None
) -> tuple[str, Record]:
    """Return the full name and the values of the one record in `data`.

    `readers` are schemas by full name, one of which must have the record's name. Values are
    resolved to that schema: missing fields take their defaults, unknown fields are dropped. Raises
    CorruptError, naming `what`, if the data is invalid.
    """
    if not data:
        raise CorruptError(f"{what}: expected an Avro container file, found 0 bytes")
    if data[:1] == b"{":
        raise CorruptError(
            f"{what}: expected an Avro container file, found JSON, which timeline layout 2 does not have"
        )
    file = AvroReader(data, 0, what)
    if file.take(len(MAGIC)) != MAGIC:
        raise CorruptError(f"{what}: expected the magic {MAGIC!r}, found {data[:4]!r}")
    metadata = _metadata(file)
    sync = file.take(_SYNC_SIZE)
    count = file.long()
    if count != 1:
        raise CorruptError(f"{what}: expected one record, found a block of {count}")
    body = _inflate(file.sized(), metadata.get(b"avro.codec", b"null"), what)
    if file.take(_SYNC_SIZE) != sync:
        raise CorruptError(f"{what}: the sync marker after the record is not that of the header")
    if not file.at_end:
        raise CorruptError(f"{what}: expected one record, found bytes after it")
    return _decode_body(metadata.get(b"avro.schema", b""), body, what, readers)


def full_name(schema: Schema) -> str:
    """Return the name of a record schema, qualified by its namespace."""
    if not isinstance(schema, dict) or not isinstance(schema.get("name"), str):
        return "a schema without a name"
    name, space = str(schema["name"]), schema.get("namespace")
    return name if "." in name or not space else f"{space}.{name}"


def _decode_body(
    schema_text: bytes, body: bytes, what: str, readers: Mapping[str, Schema] | None
) -> tuple[str, Record]:
    try:
        name, writer = _foreign(schema_text)
    except _DECODE_ERRORS as error:
        raise CorruptError(f"{what}: expected an Avro schema that Hudi writes: {error}") from error
    reader = None
    if readers is not None:
        if name not in readers:
            raise CorruptError(f"{what}: expected one of {sorted(readers)}, found {name}")
        ours = _text(readers[name])
        # Resolving takes ten times as long as decoding, and is unnecessary if the schemas are
        # equal.
        reader = None if writer == _foreign(ours.encode())[1] else _prepared(ours)
    stream = io.BytesIO(body)
    try:
        record = fastavro.schemaless_reader(stream, writer, reader)
    except _DECODE_ERRORS as error:
        raise CorruptError(f"{what}: the record {name} does not decode: {error!r}") from error
    if stream.tell() != len(body) or not isinstance(record, dict):
        raise CorruptError(
            f"{what}: the record {name} takes {stream.tell()} bytes, the block has {len(body)}"
        )
    return name, record


@functools.lru_cache(maxsize=64)
def _prepared(text: str) -> object:
    """Parse our own schema for fastavro."""
    return fastavro.parse_schema(json.loads(text))


@functools.lru_cache(maxsize=64)
def _foreign(schema_text: bytes) -> tuple[str, object]:
    """Check and parse a file's schema; cached, because most files have the same schema."""
    clean = _Cleaner().clean(json.loads(schema_text.decode("utf-8")), "", 0)
    if not isinstance(clean, dict) or clean.get("type") != "record":
        raise ValueError("the schema is not a record")
    return full_name(clean), fastavro.parse_schema(clean)


def _text(schema: Schema) -> str:
    return json.dumps(schema, separators=(",", ":"))


class _Cleaner:
    """Rebuilds an untrusted schema from types that can be decoded in bounded time."""

    def __init__(self) -> None:
        self._empty: dict[str, bool] = {}  # whether each complete named type has a size of 0 bytes
        self._free: dict[str, int] = {}  # how many values each type has in excess of its bytes
        self._open: set[str] = set()

    def clean(self, schema: object, space: str, depth: int) -> Schema:
        if depth > _MAX_SCHEMA_DEPTH:
            raise ValueError(f"the schema is nested deeper than {_MAX_SCHEMA_DEPTH}")
        if isinstance(schema, str):
            return schema if schema in _PRIMITIVES else self._reference(schema, space)
        if isinstance(schema, list):
            return [self.clean(branch, space, depth + 1) for branch in schema]
        if not isinstance(schema, dict):
            raise TypeError(f"{schema!r} is not a schema")
        kind = schema.get("type")
        if kind == "record":
            return self._record(schema, space, depth)
        if kind == "array":
            items = self.clean(schema.get("items"), space, depth + 1)
            if self._takes_no_bytes(items):
                raise ValueError("an array of values without bytes")
            return {"type": "array", "items": items}
        if kind == "map":
            return {"type": "map", "values": self.clean(schema.get("values"), space, depth + 1)}
        if isinstance(kind, str) and kind in _PRIMITIVES:
            return kind
        raise ValueError(f"type {kind!r} is not in Hudi's timeline")

    def _record(self, schema: Mapping[str, object], space: str, depth: int) -> Schema:
        given, fields = schema.get("name"), schema.get("fields")
        space = str(schema.get("namespace", space) or "")
        if not isinstance(given, str) or not isinstance(fields, list):
            raise TypeError("a record without name or fields")
        name = given if "." in given or not space else f"{space}.{given}"
        if name in self._open or name in self._empty:
            raise ValueError(f"the type {name} is defined twice")
        self._open.add(name)
        # A name with dots sets the namespace of its contents.
        inner = name.rpartition(".")[0]
        clean: list[dict[str, object]] = []
        for field in fields:
            if not isinstance(field, dict) or not isinstance(field.get("name"), str):
                raise TypeError(f"a field of {name} without a name")
            clean.append(
                {"name": field["name"], "type": self.clean(field.get("type"), inner, depth + 1)}
            )
        self._open.discard(name)
        self._empty[name] = all(self._takes_no_bytes(field["type"]) for field in clean)
        self._free[name] = 1 + sum(self._free_values(field["type"]) for field in clean)
        if self._free[name] > _MAX_FREE_VALUES:
            raise ValueError(f"the type {name} holds more than {_MAX_FREE_VALUES} free values")
        return {"type": "record", "name": name, "fields": clean}

    def _reference(self, given: str, space: str) -> str:
        name = given if "." in given or not space else f"{space}.{given}"
        if name not in self._empty:
            raise ValueError(f"the type {name} is unknown, or holds itself")
        return name

    def _free_values(self, schema: object) -> int:
        if isinstance(schema, list):
            # The branch index takes a byte.
            return max([self._free_values(branch) - 1 for branch in schema], default=0)
        if isinstance(schema, dict):
            return self._free[str(schema["name"])] if schema["type"] == "record" else 0
        return 1 if schema == "null" else self._free.get(str(schema), 0)

    def _takes_no_bytes(self, schema: object) -> bool:
        if isinstance(schema, dict):
            return schema["type"] == "record" and self._empty[str(schema["name"])]
        return isinstance(schema, str) and (schema == "null" or self._empty.get(schema, False))


def _metadata(reader: AvroReader) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for _ in reader.items():
        key = reader.sized()
        found[key] = reader.sized()
    return found


def _inflate(body: bytes, codec: bytes, what: str) -> bytes:
    if codec == b"null":
        return body
    if codec != b"deflate":
        raise UnsupportedError(f"{what}: codec {codec[:20]!r}, expected null or deflate")
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    most = min(_MAX_INFLATED, max(_MAX_INFLATED_FREELY, _MAX_RATIO * len(body)))
    try:
        plain = inflater.decompress(body, most)
    except zlib.error as error:
        raise CorruptError(f"{what}: the record does not inflate: {error}") from error
    # Some writers append zlib's checksum to the stream, which is ignored, as in Java.
    if not inflater.eof:
        raise CorruptError(
            f"{what}: expected one complete deflate stream of at most {most} bytes, found {len(body)} bytes"
            " that hold more or are cut"
        )
    return plain
