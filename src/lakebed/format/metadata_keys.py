r"""Keys of the metadata table, and the file group that holds a key.

    column_stats     h(column) h(partition) m(file name)     h = base64 of XXH64, 12 characters
    partition_stats  h(column) h(partition)                  m = base64 of MD5, 24 characters
    bloom_filters    h(partition) m(file name)
    secondary_index  escape(value) "$" escape(record key)    \, $ and NUL are escaped by \;
                                                             a null value is a bare NUL

The partition of a table without partitions is `.`. Agrees with Hudi's HashID,
SecondaryIndexKeyUtils and HoodieTableMetadataUtil.
"""

import base64
import hashlib
import re
from typing import Final

import xxhash

from lakebed.errors import CorruptError, InvalidError

NON_PARTITIONED: Final = "."
"""The partition name of a table without partitions."""
ALL_PARTITIONS: Final = "__all_partitions__"
"""The key of the list of partitions in the partition `files`."""

_SEED: Final = 0xFFFFFFFF_DABADABA
_SEPARATOR: Final = "$"
_NULL: Final = "\0"
_SPECIAL: Final = re.compile(r"[\\$\x00]")
_SECONDARY_KEY: Final = re.compile(
    r"(?P<value>\x00|(?:\\.|[^\\$\x00])*)\$(?P<key>(?:\\.|[^\\])*)", re.DOTALL
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


def partition_name(partition_path: str) -> str:
    """Give the name that the metadata table has for a partition path."""
    return partition_path or NON_PARTITIONED


def column_stats_key(column: str, partition_path: str, file_name: str) -> str:
    """Give the key of one column of one file. `file_name` is without folders."""
    return _hash64(column) + _hash64(partition_name(partition_path)) + _hash128(file_name)


def partition_stats_key(column: str, partition_path: str) -> str:
    """Give the key of one column of one partition."""
    return _hash64(column) + _hash64(partition_name(partition_path))


def column_stats_prefix(column: str, partition_path: str | None = None) -> str:
    """Give how the keys of a column begin, in all partitions or in one.

    >>> column_stats_prefix("id")
    'sLZoasJosec='
    """
    partition = "" if partition_path is None else _hash64(partition_name(partition_path))
    return _hash64(column) + partition


def bloom_filter_key(partition_path: str, file_name: str) -> str:
    """Give the key of the bloom filter of one base file."""
    return _hash64(partition_name(partition_path)) + _hash128(file_name)


def secondary_index_key(value: str | None, record_key: str) -> str:
    r"""Give the key of one row in the secondary index.

    >>> secondary_index_key("a$b", "k1")
    'a\\$b$k1'
    """
    return secondary_index_prefix(value) + _escape(record_key)


def secondary_index_prefix(value: str | None) -> str:
    """Give how the keys of all rows with `value` begin."""
    return (_NULL if value is None else _escape(value)) + _SEPARATOR


def parse_secondary_index_key(key: str) -> tuple[str | None, str]:
    """Give the value and the record key, or raise CorruptError."""
    match = _SECONDARY_KEY.fullmatch(key)
    if match is None:
        raise CorruptError(
            f"secondary index key {key!r}: want <escaped value>$<escaped record key>"
        )
    value = None if match["value"] == _NULL else _unescape(match["value"])
    return value, _unescape(match["key"])


def file_group_index(key: str, file_groups: int) -> int:
    """Give which of the `file_groups` of a metadata partition holds `key`.

    The hash is Java's String.hashCode, so it runs over UTF-16 units.

    >>> file_group_index("k2", 10)
    7
    """
    if file_groups < 1:
        raise InvalidError(f"{file_groups} file groups: want 1 or more")
    units = key.encode("utf-16-be", "surrogatepass")
    total = 0
    for at in range(0, len(units), 2):
        total = (31 * total + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    # Java's remainder takes the sign of the hash and abs drops it: the magnitude decides.
    return (total if total < 1 << 31 else (1 << 32) - total) % file_groups


def secondary_file_group_index(key: str, file_groups: int, index_version: int = 2) -> int:
    """Give which file group of a secondary index holds `key`, escaped as on disk.

    Version 2 hashes the key up to and with its `$`, so that all rows of one value are
    together; version 1 hashes all of it.

    >>> secondary_file_group_index("n1$k1", 10)
    5
    """
    if index_version == 1:
        return file_group_index(key, file_groups)
    match = _SECONDARY_KEY.fullmatch(key)
    if match is None:
        raise CorruptError(
            f"secondary index key {key!r}: want <escaped value>$<escaped record key>"
        )
    return file_group_index(match["value"] + _SEPARATOR, file_groups)


def _hash64(text: str) -> str:
    return _base64(xxhash.xxh64_digest(text.encode(), seed=_SEED))


def _hash128(text: str) -> str:
    return _base64(hashlib.md5(text.encode(), usedforsecurity=False).digest())


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode("ascii")


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(r"\1", text)
