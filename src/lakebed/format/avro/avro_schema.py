"""Table schemas as Avro JSON, the form in which Hudi stores them.

    {"type":"record","name":"<t>_record","namespace":"hoodie.<t>","fields":[
      {"name":"id","type":["null","string"],"default":null}, ...]}

A nullable column is a union with null as first branch and default; other columns are the bare type.
Arrow types correspond to Avro types as follows (Hudi: `SchemaConverters`):

    bool boolean     int8/int16/int32 int     int64 long     float float     double double
    string string    binary bytes             date32 int/date
    timestamp[us, UTC] long/timestamp-micros  timestamp[us] long/local-timestamp-micros
    decimal128(p,s)  fixed/decimal of minimal size, `<path of names>.<column>.fixed`
    list array       map<string, T> map       struct record, `<path of names>.<column>`

int8 and int16 have the property `"lakebed.type"` = `byte` or `short`, from which Lakebed restores
the declared type; other readers ignore it.
"""

import json
import re
from collections.abc import Mapping

import pyarrow as pa

from lakebed.errors import CorruptError, SchemaError, UnsupportedError
from lakebed.format.names.meta_columns import META_COLUMNS

MAX_DEPTH = 64
MAX_FIELDS = 100_000
MAX_TEXT_CHARS = 16 * 1024 * 1024

TYPE_PROPERTY = "lakebed.type"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_PRIMITIVES: dict[pa.DataType, object] = {
    pa.bool_(): "boolean",
    pa.int8(): {"type": "int", TYPE_PROPERTY: "byte"},
    pa.int16(): {"type": "int", TYPE_PROPERTY: "short"},
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.timestamp("us", "UTC"): {"type": "long", "logicalType": "timestamp-micros"},
    pa.timestamp("us"): {"type": "long", "logicalType": "local-timestamp-micros"},
}

_PLAIN: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}

_LOGICAL: dict[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time64("us"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("string", "uuid"): pa.string(),
}

_NARROW = {"byte": pa.int8(), "short": pa.int16()}

# Plain numbers or bytes would not be the values that the writer stored.
_UNREADABLE = frozenset({"timestamp-nanos", "local-timestamp-nanos", "duration", "big-decimal"})


def sanitize_name(name: str) -> str:
    """Replace characters that are invalid in Avro names with `__`, as Hudi does for table names.

    >>> sanitize_name("sales-2024"), sanitize_name("1st")
    ('sales__2024', '__st')
    """
    head = re.sub(r"^[^A-Za-z_]", "__", name)
    return re.sub(r"[^A-Za-z0-9_]", "__", head)


def check_name(name: str, path: str) -> None:
    """Raise SchemaError for a column name that is invalid in Avro."""
    if not _NAME.fullmatch(name):
        raise SchemaError(
            f"column {path!r}: the name must be letters A-Z a-z, digits and _, not beginning with"
            " a digit, because Hudi's readers keep the table's schema in Avro"
        )


def decimal_bytes(precision: int) -> int:
    """Return the minimum size in bytes for decimals of `precision` digits."""
    largest: int = 10**precision - 1
    return (largest.bit_length() + 8) // 8


def arrow_to_avro(schema: pa.Schema, table_name: str) -> str:
    """Encode a table's schema, without meta fields, as Hudi writes it into commits.

    Raises SchemaError for a type or name that Avro or Hudi does not support.
    """
    table = sanitize_name(table_name)
    record = _record_to_avro(list(schema), f"{table}_record", f"hoodie.{table}", "", 1)
    return json.dumps(record, separators=(",", ":"))


def _record_to_avro(
    fields: list[pa.Field], name: str, namespace: str, path: str, depth: int
) -> dict[str, object]:
    inner = f"{namespace}.{name}"
    return {
        "type": "record",
        "name": name,
        "namespace": namespace,
        "fields": [_field_to_avro(field, inner, path, depth) for field in fields],
    }


def _field_to_avro(field: pa.Field, namespace: str, path: str, depth: int) -> dict[str, object]:
    here = f"{path}.{field.name}" if path else field.name
    check_name(field.name, here)
    avro = _type_to_avro(field.type, field.name, namespace, here, depth)
    if field.nullable:
        return {"name": field.name, "type": ["null", avro], "default": None}
    return {"name": field.name, "type": avro}


def _type_to_avro(t: pa.DataType, name: str, namespace: str, path: str, depth: int) -> object:
    if depth > MAX_DEPTH:
        raise SchemaError(f"column {path!r}: expected at most {MAX_DEPTH} levels of nesting")
    if t in _PRIMITIVES:
        return _PRIMITIVES[t]
    if pa.types.is_decimal128(t) and 0 <= t.scale <= t.precision:
        return {
            "type": "fixed",
            "name": "fixed",
            "namespace": f"{namespace}.{name}",
            "size": decimal_bytes(t.precision),
            "logicalType": "decimal",
            "precision": t.precision,
            "scale": t.scale,
        }
    if pa.types.is_struct(t):
        return _record_to_avro(list(t), name, namespace, path, depth + 1)
    if pa.types.is_list(t):
        items = _nested_to_avro(t.value_field, name, namespace, f"{path}.element", depth + 1)
        return {"type": "array", "items": items}
    if pa.types.is_map(t):
        if t.key_type != pa.string():
            raise SchemaError(f"column {path!r}: expected string map keys, found {t.key_type}")
        values = _nested_to_avro(t.item_field, name, namespace, f"{path}.value", depth + 1)
        return {"type": "map", "values": values}
    raise SchemaError(f"column {path!r}: Hudi's tables cannot hold the type {t}")


def _nested_to_avro(field: pa.Field, name: str, namespace: str, path: str, depth: int) -> object:
    avro = _type_to_avro(field.type, name, namespace, path, depth)
    return ["null", avro] if field.nullable else avro


def with_meta_fields(text: str) -> str:
    """Prepend the five meta fields to a record schema, replacing any that exist."""
    record = load_record(text)
    meta = [
        {"name": name, "type": ["null", "string"], "doc": "", "default": None}
        for name in META_COLUMNS
    ]
    fields = record["fields"]
    assert isinstance(fields, list)
    own = [f for f in fields if not (isinstance(f, dict) and f.get("name") in META_COLUMNS)]
    return json.dumps({**record, "fields": meta + own}, separators=(",", ":"))


def load_record(text: str) -> dict[str, object]:
    """Parse the JSON of a record schema, checking only that it has a list of fields."""
    if len(text) > MAX_TEXT_CHARS:
        raise CorruptError(
            f"Avro schema: expected at most {MAX_TEXT_CHARS} characters, found {len(text)}"
        )
    try:
        loaded = json.loads(text)
        if "\\u" in text:
            json.dumps(
                loaded, ensure_ascii=False
            ).encode()  # raises an error for half of a surrogate pair
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"Avro schema {text[:80]!r}: expected JSON, found {error}") from error
    if not isinstance(loaded, dict) or loaded.get("type") != "record":
        raise CorruptError(f"Avro schema {text[:80]!r}: expected a record")
    if not isinstance(loaded.get("fields"), list):
        raise CorruptError(f"Avro schema {text[:80]!r}: expected a list of fields")
    return loaded


def avro_to_arrow(text: str, *, unions: bool = False) -> pa.Schema:
    """Parse any table schema that Hudi writes; the inverse of `arrow_to_avro`.

    As in Spark, times in milliseconds become microseconds, and enums become strings. With `unions`,
    a union of null and several types becomes a dense union, which no table column is. Raises
    UnsupportedError, naming the field, for a type without a column type, and CorruptError if `text`
    is not an Avro schema.
    """
    record = load_record(text)
    parsed = _Parser(unions=unions).parse(record, "", "", 0)[0]
    return pa.schema(list(parsed))


class _Parser:
    """One walk over an Avro schema; holds the named types so far and the number of fields."""

    def __init__(self, *, unions: bool) -> None:
        self._unions = unions
        self._named: dict[str, pa.DataType | None] = {}
        self._fields = 0

    def parse(
        self, avro: object, namespace: str, path: str, depth: int
    ) -> tuple[pa.DataType, bool]:
        """Return the Arrow type of `avro` and whether it is nullable."""
        if depth > MAX_DEPTH:
            raise UnsupportedError(f"Avro field {path!r}: nested deeper than {MAX_DEPTH} levels")
        self._fields += 1
        if self._fields > MAX_FIELDS:
            raise UnsupportedError(f"Avro field {path!r}: more than {MAX_FIELDS} types in a schema")
        if isinstance(avro, list):
            if self._unions and len(avro) > 2 and avro[0] == "null":
                return self._wide_union(avro, namespace, path, depth), False
            return self._union(avro, namespace, path, depth), "null" in avro
        if isinstance(avro, str):
            return self._named_or_plain(avro, namespace, path), False
        if isinstance(avro, dict):
            return self._typed(avro, namespace, path, depth), False
        raise CorruptError(f"Avro field {path!r}: expected a type, found {str(avro)[:80]}")

    def _union(self, branches: list[object], namespace: str, path: str, depth: int) -> pa.DataType:
        real = [branch for branch in branches if branch != "null"]
        if len(real) != 1 or isinstance(real[0], list):
            raise UnsupportedError(
                f"Avro field {path!r}: expected a union of null and one type, found {str(branches)[:80]}"
            )
        return self.parse(real[0], namespace, path, depth + 1)[0]

    def _wide_union(
        self, branches: list[object], namespace: str, path: str, depth: int
    ) -> pa.DataType:
        kinds = [self.parse(branch, namespace, path, depth + 1)[0] for branch in branches[1:]]
        fields = [pa.field("0", pa.null())]
        fields += [pa.field(str(at), kind, False) for at, kind in enumerate(kinds, 1)]
        return pa.dense_union(fields)

    def _named_or_plain(self, name: str, namespace: str, path: str) -> pa.DataType:
        if name in _PLAIN:
            return _PLAIN[name]
        if name == "null":
            raise UnsupportedError(f"Avro field {path!r}: a column that can only be null")
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full not in self._named:
            raise CorruptError(f"Avro field {path!r}: no type named {full[:80]!r}")
        known = self._named[full]
        if known is None:
            raise UnsupportedError(f"Avro field {path!r}: the record {full!r} holds itself")
        self._fields += _count(known)
        return known

    def _typed(
        self, avro: Mapping[str, object], namespace: str, path: str, depth: int
    ) -> pa.DataType:
        kind = avro.get("type")
        if kind == "record":
            return self._record(avro, namespace, path, depth)
        if kind == "array":
            element, nullable = self.parse(
                avro.get("items"), namespace, f"{path}.element", depth + 1
            )
            return pa.list_(pa.field("element", element, nullable))
        if kind == "map":
            value, nullable = self.parse(avro.get("values"), namespace, f"{path}.value", depth + 1)
            return pa.map_(pa.string(), pa.field("value", value, nullable))
        if kind in ("fixed", "enum"):
            known = pa.string() if kind == "enum" else _bytes_type(avro, path)
            self._named[full_name(avro, namespace, path)] = known
            return known
        if isinstance(kind, str) and kind in _PLAIN:
            return _bytes_type(avro, path) if kind == "bytes" else _scalar_type(kind, avro, path)
        if isinstance(kind, str | dict | list):
            return self.parse(kind, namespace, path, depth + 1)[0]
        raise CorruptError(f"Avro field {path!r}: expected a type, found {str(avro)[:80]}")

    def _record(
        self, avro: Mapping[str, object], namespace: str, path: str, depth: int
    ) -> pa.DataType:
        full = full_name(avro, namespace, path)
        inner = full.rpartition(".")[0]
        self._named[full] = None
        members = avro.get("fields")
        if not isinstance(members, list):
            raise CorruptError(f"Avro field {path!r}: the record {full!r} has no list of fields")
        fields: list[pa.Field] = []
        for member in members:
            name = member.get("name") if isinstance(member, dict) else None
            if not isinstance(name, str) or not name:
                raise CorruptError(f"Avro field {path!r}: a field of {full!r} has no name")
            here = f"{path}.{name}" if path else name
            arrow, nullable = self.parse(member.get("type"), inner, here, depth + 1)
            fields.append(pa.field(name, arrow, nullable))
        names = [field.name for field in fields]
        if len(set(names)) != len(names):
            raise CorruptError(f"Avro field {path!r}: two fields of {full!r} have one name")
        self._named[full] = pa.struct(fields)
        return self._named[full]


def _count(t: pa.DataType) -> int:
    return 1 + sum(_count(t.field(i).type) for i in range(t.num_fields))


def full_name(avro: Mapping[str, object], namespace: str, path: str) -> str:
    """Return the name of a record, enum or fixed with its own or the enclosing namespace."""
    name, own = avro.get("name"), avro.get("namespace", namespace)
    if not isinstance(name, str) or not isinstance(own, str):
        raise CorruptError(f"Avro field {path!r}: expected a type name, found {str(name)[:80]}")
    return name if "." in name or not own else f"{own}.{name}"


def logical_type(avro: Mapping[str, object]) -> str | None:
    """Return the name of the logical type, or None if it is missing or not a string."""
    logical = avro.get("logicalType")
    return logical if isinstance(logical, str) else None


def _scalar_type(kind: str, avro: Mapping[str, object], path: str) -> pa.DataType:
    logical = logical_type(avro)
    if logical in _UNREADABLE:
        raise UnsupportedError(f"Avro field {path!r}: the logical type {logical}")
    narrow = avro.get(TYPE_PROPERTY)
    if kind == "int" and isinstance(narrow, str) and logical is None:
        if narrow not in _NARROW:
            raise UnsupportedError(f"Avro field {path!r}: {TYPE_PROPERTY} {narrow[:80]!r}")
        return _NARROW[narrow]
    return _LOGICAL.get((kind, str(logical)), _PLAIN[kind])


def _bytes_type(avro: Mapping[str, object], path: str) -> pa.DataType:
    logical = logical_type(avro)
    if logical in _UNREADABLE:
        raise UnsupportedError(f"Avro field {path!r}: the logical type {logical}")
    if logical != "decimal":
        return pa.binary()
    precision, scale = avro.get("precision"), avro.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        raise CorruptError(f"Avro field {path!r}: expected whole numbers for precision and scale")
    if not (1 <= precision <= 38 and 0 <= scale <= precision):
        raise UnsupportedError(
            f"Avro field {path!r}: expected a decimal of at most 38 digits, found ({precision}, {scale})"
        )
    return pa.decimal128(precision, scale)
