"""The commit of each delete, for blocks in which compaction merged deletes of several commits.

A delete block has the instant of the write that created it. If compaction merges deletes of several
commits into one block, the original instants, which determine the age of the tombstones, are
recorded in the schema in the block's header:

    "lakebed.delete.instants": {"instants": ["20261115…", …], "rows": "<base64>"}

`rows` is an index into `instants` for each delete, in the order of the block, as 4-byte
little-endian integers compressed with zlib; it is omitted if there is only one instant. Other
readers ignore unknown properties of a schema. Native delete files have a column
`_hoodie_commit_time` instead.
"""

import base64
import binascii
import json
import zlib
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError

INSTANTS_PROPERTY: Final = "lakebed.delete.instants"


@dataclass(frozen=True, slots=True)
class DeleteInstants:
    """The instants of the deletes of one block: the distinct instants, and their encoded rows."""

    instants: tuple[str, ...]
    rows: str | None = None

    @classmethod
    def of(cls, column: pa.StringArray) -> "DeleteInstants":
        """Return the instants in `column`, which has one for each delete."""
        encoded = column.dictionary_encode()
        instants = tuple(encoded.dictionary.to_pylist())
        if len(instants) == 1:
            return cls(instants)
        numbers = encoded.indices.to_numpy(zero_copy_only=False).astype("<u4")
        return cls(instants, base64.b64encode(zlib.compress(numbers.tobytes())).decode())

    @property
    def oldest(self) -> str:
        """Return the oldest of the instants."""
        return min(self.instants)

    def column(self, count: int, what: str) -> pa.StringArray:
        """Return the instants of `count` deletes; raise CorruptError if the rows are invalid."""
        if self.rows is None:
            return pa.repeat(pa.scalar(self.instants[0]), count)
        try:
            numbers = np.frombuffer(zlib.decompress(base64.b64decode(self.rows)), "<u4")
        except (binascii.Error, zlib.error, ValueError) as error:
            raise CorruptError(f"{what}: {INSTANTS_PROPERTY} cannot be decoded: {error}") from error
        if len(numbers) != count or (count and int(numbers.max()) >= len(self.instants)):
            raise CorruptError(
                f"{what}: {INSTANTS_PROPERTY} has {len(numbers)} rows of {len(self.instants)} "
                f"instants, but the block has {count} deletes"
            )
        return pc.take(pa.array(self.instants, pa.string()), pa.array(numbers))


def record_instants(schema_text: str, instants: DeleteInstants) -> str:
    """Add the instants to the Avro schema of a record, leaving its text otherwise unchanged."""
    value: dict[str, object] = {"instants": instants.instants}
    if instants.rows is not None:
        value["rows"] = instants.rows
    text = json.dumps(value, separators=(",", ":"))
    return f'{schema_text.rstrip()[:-1].rstrip()},"{INSTANTS_PROPERTY}":{text}}}'


def recorded_instants(schema_text: str, what: str) -> DeleteInstants | None:
    """Parse the instants in a schema; return None if it has none."""
    if INSTANTS_PROPERTY not in schema_text:
        return None
    try:
        found = json.loads(schema_text).get(INSTANTS_PROPERTY)
    except (ValueError, AttributeError, RecursionError) as error:
        raise CorruptError(f"{what}: expected an Avro schema as JSON: {error}") from error
    if found is None:
        return None
    instants = found.get("instants") if isinstance(found, dict) else None
    rows = found.get("rows") if isinstance(found, dict) else None
    if (
        not isinstance(instants, list)
        or not instants
        or not all(isinstance(instant, str) for instant in instants)
        or not (rows is None or isinstance(rows, str))
    ):
        raise CorruptError(f"{what}: expected instants and rows in {INSTANTS_PROPERTY}")
    return DeleteInstants(tuple(instants), rows)
