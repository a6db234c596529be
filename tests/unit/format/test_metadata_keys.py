import pytest

from lakebed.errors import CorruptError, InvalidError
from lakebed.format.metadata_keys import (
    bloom_filter_key,
    column_stats_key,
    column_stats_prefix,
    file_group_index,
    parse_secondary_index_key,
    partition_stats_key,
    secondary_file_group_index,
    secondary_index_key,
)


def test_hash_parts_are_those_of_hudi():
    assert column_stats_prefix("id") == "sLZoasJosec="
    assert column_stats_prefix("dt") == "e3OKIURx+ew="
    assert column_stats_prefix("id", "dt=p") == "sLZoasJosec=XoskmQrGAZQ="


def test_keys_are_made_of_their_parts():
    whole = column_stats_key("id", "dt=p", "f.parquet")
    assert whole.startswith(partition_stats_key("id", "dt=p"))
    assert partition_stats_key("id", "dt=p") == "sLZoasJosec=XoskmQrGAZQ="
    assert bloom_filter_key("dt=p", "f.parquet") == whole.removeprefix("sLZoasJosec=")


def test_table_without_partitions_has_the_partition_dot():
    assert partition_stats_key("id", "") == partition_stats_key("id", ".")


@pytest.mark.parametrize(
    ("value", "key", "text"),
    [
        ("n$3\\x", "k3", "6e5c24335c5c78246b33"),
        (None, "k4", "00246b34"),
        ("\0", "k", "5c00246b"),
        ("", "", "24"),
        ("a", "b$c\\d\0", "6124625c24635c5c645c00"),
    ],
)
def test_secondary_key_is_escaped_and_comes_back(value, key, text):
    found = secondary_index_key(value, key)
    assert found.encode().hex() == text
    assert parse_secondary_index_key(found) == (value, key)


@pytest.mark.parametrize("key", ["", "abc", "a\\$b", "a\0b$c", "a$b\\"])
def test_key_without_separator_or_with_a_bare_nul_is_corrupt(key):
    with pytest.raises(CorruptError, match="secondary index key"):
        parse_secondary_index_key(key)
    with pytest.raises(CorruptError, match="secondary index key"):
        secondary_file_group_index(key, 4)


@pytest.mark.parametrize(
    ("key", "groups", "index"),
    [("k1", 10, 6), ("k2", 10, 7), ("k1", 2, 0), ("k2", 2, 1), ("n1", 10, 9), ("", 3, 0),
     ("polygenelubricants", 10, 8), ("é😀", 1000, 812), ("anything", 1, 0)],
)  # fmt: skip
def test_file_group_is_that_of_hudi(key, groups, index):
    assert file_group_index(key, groups) == index


@pytest.mark.parametrize(
    ("value", "of_ten", "of_seven"),
    [("n1", 5, 4), ("n2", 6, 0), ("n$3\\x", 5, 6), (None, 6, 1), ("é😀", 8, 5)],
)
def test_secondary_file_group_follows_the_value_and_its_separator(value, of_ten, of_seven):
    for key in ("k1", "other"):
        found = secondary_index_key(value, key)
        assert secondary_file_group_index(found, 10) == of_ten
        assert secondary_file_group_index(found, 7) == of_seven


def test_first_version_of_the_secondary_index_hashes_the_whole_key():
    assert secondary_file_group_index("n1$k1", 10, 1) == file_group_index("n1$k1", 10)


def test_no_file_groups_is_an_error():
    with pytest.raises(InvalidError):
        file_group_index("k", 0)
