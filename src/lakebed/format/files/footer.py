"""Footer keys of the Parquet files that we write, and what may be said there.

parquet.avro.schema       the schema with meta fields, as Avro
hoodie_min_record_key     first and last record key, where Java orders keys as we do
hoodie_max_record_key
hudi.log.is_ordered       `true`: sorted by record key, each key once
lakebed.row_group_keys    JSON list: the first record key of each row group, ascending
org.apache.spark.version  which calendar dates and timestamps are in
org.apache.hudi.bloomfilter   of base files: a Bloom filter that may hold any key
"""

import json
from collections.abc import Sequence

FOOTER_AVRO_SCHEMA = "parquet.avro.schema"
FOOTER_MIN_KEY = "hoodie_min_record_key"
FOOTER_MAX_KEY = "hoodie_max_record_key"
FOOTER_IS_ORDERED = "hudi.log.is_ordered"
FOOTER_ROW_GROUP_KEYS = "lakebed.row_group_keys"
# Without it Spark, and so Hudi, takes the file's calendar as unknown and refuses dates
# before 1582 and timestamps before 1900. From 3.1 on Spark writes the calendar that we do.
FOOTER_CALENDAR = {"org.apache.spark.version": "4.0.0"}
# Hudi's Bloom index fails on a base file without a filter (1.2.0: NullPointerException). This one,
# of version -1 with 1 murmur hash over 8 bits, has all bits set: the index then asks the file itself.
FOOTER_OPEN_BLOOM = {"org.apache.hudi.bloomfilter": "/////wAAAAEBAAAACP8="}

MAX_ROW_GROUP_KEYS_CHARS = 1024 * 1024


def same_order_in_java(key: str) -> bool:
    """Return whether comparing with `key` by UTF-8 and by UTF-16 always agrees.

    The two orders differ only between two characters from U+E000 on. Hudi prunes files by
    UTF-16 order, so a range whose ends hold such a character would hide rows from it.
    """
    return all(character < "\ue000" for character in key)


def encode_row_group_keys(keys: Sequence[str]) -> str | None:
    """Write the first key of each row group; None if that would make the footer heavy.

    In plain ASCII, so that its characters are its bytes.

    >>> encode_row_group_keys(["a", "b c"])
    '["a","b c"]'
    """
    # A key takes as many characters or more, so a list that is too long is not even spelled.
    if sum(len(key) + 3 for key in keys) > MAX_ROW_GROUP_KEYS_CHARS:
        return None
    text = json.dumps(list(keys), separators=(",", ":"))
    return text if len(text) <= MAX_ROW_GROUP_KEYS_CHARS else None
