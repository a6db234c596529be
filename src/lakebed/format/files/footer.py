"""Footer keys of the Parquet files that Lakebed writes.

parquet.avro.schema       the schema with meta fields, as Avro
hoodie_min_record_key     first and last record key, if Java orders keys the same way
hoodie_max_record_key
hudi.log.is_ordered       `true`: sorted by record key, each key once
lakebed.row_group_keys    JSON list: the first record key of each row group, ascending
lakebed.key_column        of a run that is not keyed by the record key: the column that it is
                          sorted by, as bytes, each key once
lakebed.row_group_key_bytes   of such a run, JSON list of base64: the first key of each row group
                          and, unless there is none, the last key of the file
lakebed.columns_without_nan   JSON: the number of rows, and the columns of floats that hold no NaN,
                          which statistics do not show
lakebed.keys_since        of a base file of a column group: the instant of an older base file with
                          the same keys
lakebed.column_groups     of a base file with the columns of all column groups: JSON of `WideColumns`
org.apache.spark.version  the calendar of dates and timestamps
org.apache.hudi.bloomfilter   in base files: a Bloom filter of the keys, or one that matches every key
"""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence

from lakebed.errors import CorruptError
from lakebed.format.names.meta_columns import RECORD_KEY

FOOTER_AVRO_SCHEMA = "parquet.avro.schema"
FOOTER_MIN_KEY = "hoodie_min_record_key"
FOOTER_MAX_KEY = "hoodie_max_record_key"
FOOTER_IS_ORDERED = "hudi.log.is_ordered"
FOOTER_ROW_GROUP_KEYS = "lakebed.row_group_keys"
FOOTER_KEY_COLUMN = "lakebed.key_column"
FOOTER_ROW_GROUP_KEY_BYTES = "lakebed.row_group_key_bytes"
FOOTER_KEYS_SINCE = "lakebed.keys_since"
FOOTER_WITHOUT_NAN = "lakebed.columns_without_nan"
FOOTER_COLUMN_GROUPS = "lakebed.column_groups"
# Without this entry, Spark, and so Hudi, does not know the file's calendar, and rejects dates
# before 1582 and timestamps before 1900. Lakebed writes the calendar of Spark 3.1 and later.
FOOTER_CALENDAR = {"org.apache.spark.version": "4.0.0"}
# Hudi's Bloom index fails on a base file without a filter (1.2.0: NullPointerException). In this #
# filter (version -1, 1 murmur hash, 8 bits) all bits are set, so the index reads the file itself.
FOOTER_OPEN_BLOOM = {"org.apache.hudi.bloomfilter": "/////wAAAAEBAAAACP8="}

MAX_ROW_GROUP_KEYS_CHARS = 1024 * 1024


def same_order_in_java(key: str) -> bool:
    """Return whether `key` compares with every other key the same in UTF-8 as in UTF-16.

    The orders differ only between characters from U+E000 on. Hudi prunes files in UTF-16 order, so
    key bounds with such characters could hide rows from Hudi.
    """
    return all(character < "\ue000" for character in key)


def encode_row_group_keys(keys: Sequence[str]) -> str | None:
    """Encode the first key of each row group; return None if the footer would become too large.

    The result is ASCII, so its size in bytes is its length.

    >>> encode_row_group_keys(["a", "b c"])
    '["a","b c"]'
    """
    # Encoding does not shorten keys, so a list that is too long is rejected without encoding it.
    if sum(len(key) + 3 for key in keys) > MAX_ROW_GROUP_KEYS_CHARS:
        return None
    text = json.dumps(list(keys), separators=(",", ":"))
    return text if len(text) <= MAX_ROW_GROUP_KEYS_CHARS else None


def encode_row_group_key_bytes(keys: Sequence[bytes]) -> str | None:
    """Encode the first key of each row group and the last key of the file.

    Returns None if the footer would become too large.

    >>> encode_row_group_key_bytes([b"a", bytes([255, 0])])
    '["YQ==","/wA="]'
    """
    if sum(len(key) * 4 // 3 + 3 for key in keys) > MAX_ROW_GROUP_KEYS_CHARS:
        return None
    text = json.dumps([base64.b64encode(key).decode() for key in keys], separators=(",", ":"))
    return text if len(text) <= MAX_ROW_GROUP_KEYS_CHARS else None


def parse_row_group_keys(text: str, what: str) -> list[str]:
    """Parse the result of `encode_row_group_keys`; errors name `what`."""
    return _parse_keys(text, FOOTER_ROW_GROUP_KEYS, what)


def parse_row_group_key_bytes(text: str, what: str) -> list[bytes]:
    """Parse the result of `encode_row_group_key_bytes`; errors name `what`."""
    keys = _parse_keys(text, FOOTER_ROW_GROUP_KEY_BYTES, what)
    try:
        return [base64.b64decode(key, validate=True) for key in keys]
    except ValueError as error:
        raise CorruptError(
            f"{what}: {FOOTER_ROW_GROUP_KEY_BYTES} is not base64 ({error})"
        ) from error


def encode_columns_without_nan(columns: Iterable[str], num_rows: int) -> str:
    """Encode the columns that hold no NaN in a file of `num_rows` rows.

    >>> encode_columns_without_nan(["b", "a"], 3)
    '{"rows": 3, "columns": ["a", "b"]}'
    """
    return json.dumps({"rows": num_rows, "columns": sorted(columns)})


def parse_columns_without_nan(key_values: Mapping[str, str], num_rows: int) -> frozenset[str]:
    """Return the columns that a footer says hold no NaN.

    The entry counts only for its own number of rows: tools that join files may copy it.
    """
    try:
        values = json.loads(key_values[FOOTER_WITHOUT_NAN])
        known = values["rows"] == num_rows
        return frozenset(map(str, values["columns"])) if known else frozenset()
    except (LookupError, TypeError, ValueError, RecursionError):
        return frozenset()


def sorted_by(key_values: Mapping[str, str]) -> str | None:
    """Return the column by which the file is marked as sorted, or None."""
    if key_values.get(FOOTER_IS_ORDERED) == "true":
        return RECORD_KEY
    return key_values.get(FOOTER_KEY_COLUMN)


def _parse_keys(text: str, entry: str, what: str) -> list[str]:
    try:
        keys = json.loads(text)
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise CorruptError(f"{what}: {entry} is not a list of keys")
        "".join(keys).encode()  # raises an error for an unpaired surrogate, which JSON allows
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"{what}: {entry} is not JSON ({error})") from error
    return keys
