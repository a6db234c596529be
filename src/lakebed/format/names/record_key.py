"""Record keys: the strings in `_hoodie_record_key`, as Hudi's key generators format them.

    plain       v                 SIMPLE, TIMESTAMP; NON_PARTITION and CUSTOM with one field
    composite   f:v or f:v,f2:v2  COMPLEX; NON_PARTITION and CUSTOM with several fields

In a composite key, null becomes `__null__`, and an empty string `__empty__`. As in Hudi, nothing is
escaped: values may contain `:` and `,`, so different rows can have the same key. A key in which all
parts are null or empty is rejected. Agrees with `KeyGenUtils.getRecordKey` and
`KeyGenerator.constructRecordKey` of Hudi 1.2.0.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from functools import reduce
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import InvalidError, KeyValueError, SchemaError, UnsupportedError
from lakebed.format.names.java_text import column_text

NULL_PART = "__null__"
EMPTY_PART = "__empty__"


class KeyGenerator(Enum):
    """How a table builds keys and paths. Stored on disk: do not change the values."""

    SIMPLE = "SIMPLE"
    COMPLEX = "COMPLEX"
    NON_PARTITION = "NON_PARTITION"
    TIMESTAMP = "TIMESTAMP"
    CUSTOM = "CUSTOM"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `hoodie.table.keygenerator.type`, or the class name that older tables store.

        The Avro variant of a generator is treated as the same, because it formats keys the same
        way.

        >>> KeyGenerator.parse("COMPLEX_AVRO")
        <KeyGenerator.COMPLEX: 'COMPLEX'>
        >>> KeyGenerator.parse("org.apache.hudi.keygen.SimpleAvroKeyGenerator")
        <KeyGenerator.SIMPLE: 'SIMPLE'>
        """
        for member in cls:
            plain = member.class_name
            avro = plain.replace("KeyGenerator", "AvroKeyGenerator")
            if text in {member.value, f"{member.value}_AVRO", plain, avro}:
                return member
        wanted = ", ".join(f"{member.value} ({member.class_name})" for member in cls)
        raise UnsupportedError(f"key generator {text!r}: expected one of {wanted}")

    @property
    def class_name(self) -> str:
        """Return the class of this generator for Spark, as in `hoodie.table.keygenerator.class`."""
        return f"{_PACKAGE}.{_CLASS_STEMS[self.value]}KeyGenerator"

    def is_composite(self, fields: Sequence[str]) -> bool:
        """Return whether keys of `fields` contain field names.

        Raises InvalidError for several fields with a generator that allows only one.
        """
        if self is KeyGenerator.COMPLEX:
            return True
        if len(fields) > 1 and self not in (KeyGenerator.NON_PARTITION, KeyGenerator.CUSTOM):
            raise InvalidError(
                f"key generator {self.value}: expected one record key field, found {list(fields)}"
            )
        return len(fields) > 1


_PACKAGE = "org.apache.hudi.keygen"
_CLASS_STEMS = {
    "SIMPLE": "Simple",
    "COMPLEX": "Complex",
    "NON_PARTITION": "Nonpartitioned",
    "TIMESTAMP": "TimestampBased",
    "CUSTOM": "Custom",
}


def key_texts(columns: Mapping[str, pa.Array], fields: Sequence[str]) -> dict[str, pa.StringArray]:
    """Return each key field as strings; null and empty values are preserved."""
    if not fields:
        raise InvalidError("record key: expected at least one field, found none")
    missing = [field for field in fields if field not in columns]
    if missing:
        raise SchemaError(f"record key fields {missing}: not among the columns {list(columns)}")
    return {field: column_text(columns[field], field) for field in fields}


def record_keys(
    columns: Mapping[str, pa.Array], fields: Sequence[str], composite: bool
) -> pa.StringArray:
    """Return the record key of every row.

    Raises KeyValueError, naming the first such row (from 0), if all parts of a key are null or
    empty.

    >>> record_keys({"id": pa.array([7]), "n": pa.array([""])}, ["id", "n"], True).to_pylist()
    ['id:7,n:__empty__']
    """
    return join_key_texts(key_texts(columns, fields), composite)


def join_key_texts(texts: Mapping[str, pa.StringArray], composite: bool) -> pa.StringArray:
    """Return the record keys for the result of `key_texts`."""
    if not composite and len(texts) != 1:
        raise InvalidError(
            f"record key: expected one field or a composite key, found {list(texts)}"
        )
    missing = {field: _has_no_value(text) for field, text in texts.items()}
    _refuse_rows(reduce(pc.and_, missing.values()), list(texts), texts)
    if not composite:
        return next(iter(texts.values()))
    pieces: list[pa.StringArray | str] = []
    for field, text in texts.items():
        part = text.fill_null(NULL_PART)
        pieces.append(f",{field}:" if pieces else f"{field}:")
        pieces.append(pc.if_else(pc.equal(part, ""), EMPTY_PART, part))
    return pc.binary_join_element_wise(*pieces, "")


def _has_no_value(text: pa.StringArray) -> pa.BooleanArray:
    return pc.fill_null(pc.equal(text, ""), True)


def _refuse_rows(
    bad: pa.BooleanArray, fields: list[str], texts: Mapping[str, pa.StringArray]
) -> None:
    row = pc.index(bad, True).as_py()
    if row < 0:
        return
    found = ", ".join(repr(texts[field][row].as_py()) for field in fields)
    names = ", ".join(map(repr, fields))
    raise KeyValueError(
        f"record key field {names}, row {row}: expected a value that is neither null nor empty, "
        f"found {found}"
    )
