"""Content of a DELETE block: the deleted keys of a file group.

    int32  version (3)
    int32  length of what follows
    Avro   HoodieDeleteRecordList {deleteRecordList: [HoodieDeleteRecord]}

    HoodieDeleteRecord {recordKey: null|string; partitionPath: null|string; orderingVal: union}
    union  0 null, 1 boolean, 2 int, 3 long, 4 float, 5 double, 6 bytes, 7 string, 8 date,
           9 decimal(30,15), 10 time micros, 11 timestamp micros, 12 array of the same
           (where 12 is local date); each a record of one field

`int 0` is Hudi's encoding of a delete without an ordering value, which always wins; `long 0` is an
ordinary value. Agrees with Hudi's HoodieDeleteBlock; versions 1 and 2 contained serialized Java
objects.
"""

import json
from enum import IntEnum
from typing import Final

CONTENT_VERSION: Final = 3
ARRAY: Final = 12
"""The branch of the union for several ordering values."""


class OrderingKind(IntEnum):
    """The type of an ordering value: its index in the union. Stored on disk: do not change it."""

    BOOLEAN = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    STRING = 7
    DATE = 8
    DECIMAL = 9
    TIME_MICROS = 10
    TIMESTAMP_MICROS = 11
    LOCAL_DATE = 12  # inside an array only: alone, 12 is the array


def _record(name: str, **fields: object) -> dict[str, object]:
    listed = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "fields": listed}


# Dates and times are read as plain numbers, because their unit depends on the writer. Decimals of #
# up to 38 digits are accepted, more than Hudi declares.
_TYPES: Final[dict[OrderingKind, object]] = {
    OrderingKind.BOOLEAN: "boolean",
    OrderingKind.INT: "int",
    OrderingKind.LONG: "long",
    OrderingKind.FLOAT: "float",
    OrderingKind.DOUBLE: "double",
    OrderingKind.BYTES: "bytes",
    OrderingKind.STRING: "string",
    OrderingKind.DATE: "int",
    OrderingKind.DECIMAL: {
        "type": "bytes",
        "logicalType": "decimal",
        "precision": 38,
        "scale": 15,
    },
    OrderingKind.TIME_MICROS: "long",
    OrderingKind.TIMESTAMP_MICROS: "long",
    OrderingKind.LOCAL_DATE: "int",
}
*_ALONE, _LOCAL_DATE = (_record(kind.name, value=_TYPES[kind]) for kind in OrderingKind)
_ITEMS: Final = ["null", *(record["name"] for record in _ALONE), _LOCAL_DATE]
_ARRAY: Final = _record("ARRAY", value=["null", {"type": "array", "items": _ITEMS}])
_DELETE: Final = _record(
    "HoodieDeleteRecord",
    recordKey=["null", "string"],
    partitionPath=["null", "string"],
    orderingVal=["null", *_ALONE, _ARRAY],
)
SCHEMA: Final = json.dumps(
    _record("HoodieDeleteRecordList", deleteRecordList={"type": "array", "items": _DELETE})
)
"""Avro schema of a block's records; a record with one field has the bytes of that field."""
