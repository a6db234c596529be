"""Slices and keys that a predicate leaves: what can be skipped is, and what is in doubt stays."""

import pyarrow as pa
import pytest

from lakebed.expr.constraints import constraints_of
from lakebed.format.names.bucket_hash import key_buckets, new_bucket_file_id
from lakebed.scan.prune import MAX_KEYS, key_filter, prune_slices
from lakebed.scan.scan import parse_where
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.file_group import FileGroupId, FileSlice
from lakebed.table.read.key_filter import KeyFilter

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("n", pa.int32()),
        ("dt", pa.string()),
        ("day", pa.date32()),
        ("flag", pa.bool_()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
UUID = "01234567-ddab-4ae2-99e3-d6143d5759e1"
DEFAULT = "__HIVE_DEFAULT_PARTITION__"
HIVE = {"hoodie.datasource.write.hive_style_partitioning": "true"}
ENCODED = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
DAYS = {
    "hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
}
MONTHS = {**DAYS, "hoodie.keygen.timebased.output.dateformat": "yyyyMM"}
UTC = {"hoodie.keygen.timebased.timezone": "UTC"}


def config(key="id", partition="", generator="COMPLEX", **others):
    return TableConfig.parse(
        {
            "hoodie.table.name": "t",
            "hoodie.table.version": "9",
            "hoodie.timeline.layout.version": "2",
            "hoodie.table.recordkey.fields": key,
            "hoodie.table.partition.fields": partition,
            "hoodie.table.keygenerator.type": generator,
            **others,
        },
        "t",
    )


def bucket_config(key, buckets, hash_field="", generator="COMPLEX", **others):
    index = {
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": str(buckets),
        "hoodie.bucket.index.hash.field": hash_field,
    }
    return config(key, generator=generator, **index, **others)


def pruned_slices(settings, schema, where, slices):
    return prune_slices(settings, schema, parse_where(where, schema), slices)


def slice_of(partition="", file_id="f-0"):
    return FileSlice(FileGroupId(partition, file_id), "20240101000000000", None)


def folders_left(settings, where, folders):
    pruned = pruned_slices(settings, SCHEMA, where, [slice_of(folder) for folder in folders])
    return [slice_.group.partition for slice_ in pruned.slices]


def buckets_left(settings, where, schema=SCHEMA):
    buckets = range(settings.index.buckets)
    slices = [slice_of("", new_bucket_file_id(bucket, UUID)) for bucket in buckets]
    pruned = pruned_slices(settings, schema, where, slices)
    return {int(slice_.group.file_id[:8]) for slice_ in pruned.slices}


def keys_of(settings, where, schema=SCHEMA):
    return key_filter(settings, schema, constraints_of(parse_where(where, schema), schema))


class TestPartitions:
    @pytest.mark.parametrize(
        ("where", "left"),
        [
            ("dt = 'b'", ["b"]),
            ("dt IN ('a', 'c', 'z')", ["a", "c"]),
            ("dt >= 'b'", ["b", "c"]),
            ("dt > 'a' AND dt < 'c'", ["b"]),
            ("dt = 'b' AND n = 7", ["b"]),
            ("dt = 'B'", []),
            ("dt = 'b' OR dt = 'c'", ["b", "c"]),
            ("dt = 'b' OR n = 7", ["a", "b", "c"]),
            ("NOT dt = 'b'", ["a", "b", "c"]),
            ("dt LIKE 'b'", ["b"]),
            ("dt LIKE 'b%'", ["b"]),
            ("dt IS NULL", ["a", "b", "c"]),
        ],
    )
    def test_a_plain_folder_is_the_value(self, where, left):
        assert folders_left(config(partition="dt"), where, ["a", "b", "c"]) == left

    def test_no_predicate_keeps_everything(self):
        assert folders_left(config(partition="dt"), None, ["a", "b"]) == ["a", "b"]

    def test_hive_style_names_the_field(self):
        settings = config(partition="dt", **HIVE)
        assert folders_left(settings, "dt = 'b'", ["dt=a", "dt=b"]) == ["dt=b"]
        assert folders_left(settings, "dt > 'a'", ["dt=a", "dt=b"]) == ["dt=b"]

    def test_encoded_folders_are_compared_by_their_value(self):
        settings = config(partition="dt", **HIVE, **ENCODED)
        folders = ["dt=a%2Fb", "dt=a", "dt=a%252Fb"]
        assert folders_left(settings, "dt = 'a/b'", folders) == ["dt=a%2Fb"]
        assert folders_left(settings, "dt > 'a'", folders) == ["dt=a%2Fb", "dt=a%252Fb"]

    def test_without_encoding_a_percent_sign_is_one(self):
        assert folders_left(config(partition="dt"), "dt = 'a%2F'", ["a%2F", "b"]) == ["a%2F"]

    def test_a_single_field_owns_slashes(self):
        settings = config(partition="dt")
        folders = ["asia/india/chennai", "americas/brazil/sao_paulo"]
        assert folders_left(settings, "dt = 'asia/india/chennai'", folders) == folders[:1]
        assert folders_left(settings, "dt < 'asia'", folders) == folders[1:]

    @pytest.mark.parametrize("value", ["a/", "/a", "a//b", "a/./b", ".", ".."])
    def test_a_value_that_storage_would_spell_otherwise_prunes_nothing(self, value):
        folders = ["a", "a/b", "z"]
        assert folders_left(config(partition="dt"), f"dt = '{value}'", folders) == folders

    def test_every_level_prunes_by_its_own_field(self):
        settings = config(partition="dt,n", **HIVE)
        folders = ["dt=a/n=1", "dt=a/n=2", "dt=b/n=1", "dt=b/n=10"]
        assert folders_left(settings, "n = 1", folders) == ["dt=a/n=1", "dt=b/n=1"]
        assert folders_left(settings, "dt = 'b' AND n > 2", folders) == ["dt=b/n=10"]
        assert folders_left(settings, "n BETWEEN 2 AND 9", folders) == ["dt=a/n=2"]

    def test_a_folder_of_another_depth_or_style_is_kept(self):
        settings = config(partition="dt,n", **HIVE)
        odd = ["dt=a/b/n=1", "dt=a", "a/1", "", "dt=a/m=1"]
        assert folders_left(settings, "dt = 'z' AND n = 9", [*odd, "dt=a/n=1"]) == odd

    @pytest.mark.parametrize("where", ["dt = 'a'", "dt > 'a'", "dt = ''"])
    def test_the_default_folder_is_never_pruned(self, where):
        assert DEFAULT in folders_left(config(partition="dt"), where, [DEFAULT, "a", "b"])

    def test_a_default_level_leaves_the_other_levels_to_decide(self):
        folders = [f"{DEFAULT}/1", f"{DEFAULT}/2"]
        assert folders_left(config(partition="dt,n"), "dt = 'a' AND n = 1", folders) == folders[:1]

    def test_an_empty_text_lies_in_the_default_folder_alone(self):
        assert folders_left(config(partition="dt"), "dt = ''", [DEFAULT, "a"]) == [DEFAULT]

    def test_dates_prune_by_value_and_range(self):
        settings = config(partition="day")
        folders = ["2024-01-01", "2024-01-31", "2024-02-01"]
        assert folders_left(settings, "day = DATE '2024-01-31'", folders) == folders[1:2]
        assert folders_left(settings, "day >= '2024-01-31'", folders) == folders[1:]

    def test_a_folder_that_is_no_value_of_its_type_is_kept_by_a_range(self):
        folders = ["+10000-01-01", "19724", "2024-01-01"]
        left = folders_left(config(partition="day"), "day < '2024-01-01'", folders)
        assert left == folders[:2]
        left = folders_left(config(partition="n"), "n < 5", ["1", "1.0", "x", "7", "-7", "40"])
        assert left == ["1", "1.0", "x", "-7"]

    def test_truth_values_prune_by_equality(self):
        assert folders_left(config(partition="flag"), "flag = true", ["true", "false"]) == ["true"]

    def test_a_type_whose_text_writers_spell_differently_prunes_nothing(self):
        where = "at = TIMESTAMP '2024-01-01 00:00:00'"
        assert folders_left(config(partition="at"), where, ["1", "2"]) == ["1", "2"]

    @pytest.mark.parametrize(
        "settings",
        [
            config(partition="dt", generator="TIMESTAMP"),
            config(partition="dt", generator="CUSTOM"),
            config(partition="dt", generator="GLOBAL_DELETE"),
            config(partition="dt", generator=""),
            config(
                partition="dt",
                **{"hoodie.datasource.write.slash.separated.date.partitioning": "true"},
            ),
            config(partition="dt", **{"hoodie.simple.index.update.partition.path": "false"}),
        ],
        ids=["timestamp", "custom", "deletes", "not named", "slashed dates", "rows stay"],
    )
    def test_folders_that_need_not_follow_the_column_are_all_kept(self, settings):
        assert folders_left(settings, "dt = 'a'", ["a", "b"]) == ["a", "b"]

    @pytest.mark.parametrize(
        ("where", "left"),
        [
            ("n = 0", ["1970/01/01"]),
            ("n IN (1704164645, 86399, -1)", ["1969/12/31", "1970/01/01", "2024/01/02"]),
            ("n > 0", ["1969/12/31", "1970/01/01", "2024/01/02", "elsewhere"]),
            ("n IS NULL", ["1969/12/31", "1970/01/01", "2024/01/02", "elsewhere"]),
            ("n = 86400", []),
        ],
    )
    @pytest.mark.parametrize("generator", ["TIMESTAMP", "CUSTOM"])
    def test_a_time_is_looked_for_in_the_folder_that_it_becomes(self, generator, where, left):
        partition = "n:timestamp" if generator == "CUSTOM" else "n"
        settings = config(partition=partition, generator=generator, **DAYS, **UTC)
        there = ["1969/12/31", "1970/01/01", "2024/01/02", "elsewhere"]
        assert folders_left(settings, where, there) == left

    def test_hive_style_and_encoding_are_taken_off_the_folder_of_a_time(self):
        settings = config(partition="n", generator="TIMESTAMP", **DAYS, **UTC, **HIVE, **ENCODED)
        there = ["n=1970%2F01%2F01", "n=2024%2F01%2F02", "1970/01/01"]
        assert folders_left(settings, "n = 0", there) == [there[0], there[2]]

    def test_without_a_zone_no_one_knows_the_folder_of_a_time(self):
        settings = config(partition="n", generator="TIMESTAMP", **DAYS)
        assert folders_left(settings, "n = 0", ["1970/01/01", "b"]) == ["1970/01/01", "b"]

    def test_each_part_of_a_custom_generator_prunes_its_own_level(self):
        settings = config(
            partition="dt:simple,n:timestamp", generator="CUSTOM", **MONTHS, **UTC, **HIVE
        )
        there = ["dt=a/n=197001", "dt=b/n=197001", "dt=a/n=202401"]
        assert folders_left(settings, "dt = 'a'", there) == [there[0], there[2]]
        assert folders_left(settings, "n = 7 AND dt >= 'b'", there) == [there[1]]
        assert folders_left(settings, "n = 7", there) == there[:2]

    def test_a_time_of_several_levels_beside_another_field_prunes_nothing(self):
        settings = config(partition="dt:simple,n:timestamp", generator="CUSTOM", **DAYS, **UTC)
        there = ["a/1970/01/01", "b/2024/01/02"]
        assert folders_left(settings, "n = 7 AND dt = 'a'", there) == there

    def test_an_impossible_predicate_leaves_no_slice_and_no_key(self):
        pruned = pruned_slices(config(partition="dt"), SCHEMA, "n = 99999999999", [slice_of("a")])
        assert pruned.slices == ()
        assert pruned.key_filter == KeyFilter(keys=())


class TestKeys:
    def test_all_fields_known_gives_the_keys_in_order(self):
        found = keys_of(config("id,n"), "id IN ('b', 'a') AND n IN (10, 9)")
        assert found.keys == (b"id:a,n:10", b"id:a,n:9", b"id:b,n:10", b"id:b,n:9")
        assert found.ranges == ()

    def test_keys_are_in_the_order_of_their_bytes(self):
        found = keys_of(config("id", generator="SIMPLE"), "id IN ('\U0001f600', '\uff5e', 'z')")
        assert found.keys == tuple(key.encode() for key in ("z", "\uff5e", "\U0001f600"))

    @pytest.mark.parametrize("generator", ["SIMPLE", "NON_PARTITION", "TIMESTAMP"])
    def test_a_plain_key_is_the_value(self, generator):
        assert keys_of(config("n", generator=generator), "n = 7").keys == (b"7",)
        assert keys_of(config("day", generator=generator), "day = '2024-01-02'").keys == (
            b"2024-01-02",
        )

    def test_a_composite_key_of_one_field_has_both_spellings_that_hudi_knew(self):
        assert keys_of(config("id"), "id = 'a'").keys == (b"a", b"id:a")

    def test_an_empty_part_is_spelled_and_a_key_without_value_is_none(self):
        assert keys_of(config("id,n"), "id = '' AND n = 1").keys == (b"id:__empty__,n:1",)
        assert keys_of(config("id,dt"), "id IN ('', 'a') AND dt = ''").keys == (
            b"id:a,dt:__empty__",
        )
        assert keys_of(config("id", generator="SIMPLE"), "id = ''").keys == ()

    def test_leading_fields_give_prefixes(self):
        found = keys_of(config("id,n"), "id IN ('b', 'a')")
        assert found == KeyFilter.of(prefixes=["id:a,", "id:b,"])
        found = keys_of(config("id,n,dt"), "n = 1 AND id = ''")
        assert found == KeyFilter.of(prefixes=["id:__empty__,n:1,"])

    def test_a_range_ends_the_prefix(self):
        found = keys_of(config("id,n"), "id = 'a' AND n > 5")
        assert found == KeyFilter.of(prefixes=["id:a,"])

    @pytest.mark.parametrize("where", ["n = 1", "id > 'a'", "id = 'a' OR n = 1", "dt = 'a'"])
    def test_without_the_first_field_every_key_is_wanted(self, where):
        assert keys_of(config("id,n"), where) is None

    def test_a_prefix_does_not_take_in_longer_values(self):
        found = keys_of(config("id,n"), "id = 'a'")
        keys = pa.array(["id:a,n:1", "id:aa,n:1", "id:a,b,n:1", "id:b,n:1"])
        assert found.mask(keys).to_pylist() == [True, False, True, False]

    def test_too_many_keys_become_prefixes_or_nothing(self):
        many = ", ".join(map(str, range(MAX_KEYS)))
        assert len(keys_of(config("n", generator="SIMPLE"), f"n IN ({many})").keys) == MAX_KEYS
        assert keys_of(config("n", generator="SIMPLE"), f"n IN ({many}, -1)") is None
        found = keys_of(config("id,n"), f"id IN ('a', 'b') AND n IN ({many})")
        assert found == KeyFilter.of(prefixes=["id:a,", "id:b,"])

    def test_the_key_column_itself_is_taken_at_its_word(self):
        pruned = pruned_slices(config("id,n"), SCHEMA, "_hoodie_record_key IN ('b', 'a')", [])
        assert pruned.key_filter == KeyFilter.of(keys=["a", "b"])

    @pytest.mark.parametrize(
        "settings",
        [
            config("id", **{"hoodie.populate.meta.fields": "false"}),
            config("id", **{"hoodie.meta.fields.mode": "COMMIT_TIME_ONLY"}),
            config("id", partition="dt:BY_MOON", generator="CUSTOM"),
            config("id", generator=""),
            config(""),
            config("place.x"),
        ],
        ids=["no meta", "some meta", "custom", "not named", "no key", "nested"],
    )
    def test_keys_that_we_cannot_spell_are_not_filtered(self, settings):
        assert keys_of(settings, "id = 'a' AND n = 1") is None


class TestBuckets:
    def test_exact_keys_leave_the_buckets_that_they_hash_to(self):
        settings = bucket_config("id", 8, generator="SIMPLE")
        # Seen in files that Hudi wrote.
        assert buckets_left(settings, "id = 'user_0'") == {3}
        assert buckets_left(settings, "id IN ('user_5', 'é0')") == {0, 6}

    def test_composite_keys_hash_their_values(self):
        schema = pa.schema([("id", pa.string()), ("name", pa.string())])
        where = "id = 'user_11' AND name = 'nm2'"
        assert buckets_left(bucket_config("id,name", 8), where, schema) == {0}
        assert buckets_left(bucket_config("id,name", 8, "id"), where, schema) == {3}

    def test_hash_fields_alone_are_enough_if_no_other_field_can_hold_a_comma(self):
        assert buckets_left(bucket_config("id,n", 8, "id"), "id = 'user_11'") == {3}
        assert buckets_left(bucket_config("day,id", 8, "id"), "id = 'user_11'") == {3}
        assert buckets_left(bucket_config("id,dt", 8, "id"), "id = 'user_11'") == set(range(8))

    def test_a_text_beside_the_hash_field_can_move_a_key_to_another_bucket(self):
        keys = pa.array(["id:user_11,dt:x,id:7"])
        moved = key_buckets(keys, ["id", "dt"], ["id"], 8, composite=True)
        assert moved.tolist() != [3]

    @pytest.mark.parametrize("where", ["n = 1", "id > 'a'", "id = 'a' OR n = 1", "dt = 'x'"])
    def test_unknown_hash_fields_keep_every_bucket(self, where):
        assert buckets_left(bucket_config("id,n", 4, "id"), where) == set(range(4))

    def test_all_hash_fields_must_be_known(self):
        assert buckets_left(bucket_config("id,n", 4), "id = 'a'") == set(range(4))
        assert len(buckets_left(bucket_config("id,n", 64), "id = 'a' AND n = 1")) == 1

    def test_a_single_field_may_lie_where_either_spelling_hashes_to(self):
        settings = bucket_config("id", 1000)
        both = [
            int(key_buckets(pa.array([key]), ["id"], ["id"], 1000, composite=composite)[0])
            for key, composite in (("id:a", True), ("a", False))
        ]
        assert buckets_left(settings, "id = 'a'") == set(both)

    def test_a_file_id_that_is_no_buckets_is_kept(self):
        settings = bucket_config("id", 8, generator="SIMPLE")
        other, stranger = slice_of("", new_bucket_file_id(0, UUID)), slice_of("", "abcdefgh-0")
        pruned = pruned_slices(settings, SCHEMA, "id = 'user_0'", [other, stranger])
        assert pruned.slices == (stranger,)

    def test_a_bucket_beyond_the_count_shows_another_index(self):
        settings = bucket_config("id", 8, generator="SIMPLE")
        slices = tuple(slice_of("", new_bucket_file_id(bucket, UUID)) for bucket in (0, 8))
        assert pruned_slices(settings, SCHEMA, "id = 'user_0'", slices).slices == slices

    def test_a_table_without_a_stored_bucket_index_keeps_all_file_groups(self):
        slices = tuple(slice_of("", new_bucket_file_id(bucket, UUID)) for bucket in range(8))
        for settings in (
            config("id", generator="SIMPLE"),
            bucket_config("id", 8, generator=""),
            bucket_config("id", 8, **{"hoodie.bucket.index.partition.expressions": "a,3"}),
        ):
            assert pruned_slices(settings, SCHEMA, "id = 'user_0'", slices).slices == slices


def test_partition_and_bucket_prune_together():
    settings = bucket_config(
        "id", 8, generator="SIMPLE", **{"hoodie.table.partition.fields": "day"}
    )
    slices = [
        slice_of(day, new_bucket_file_id(bucket, UUID))
        for day in ("2024-01-01", "2024-01-02")
        for bucket in range(8)
    ]
    pruned = pruned_slices(settings, SCHEMA, "id = 'user_0' AND day = '2024-01-02'", slices)
    assert pruned.slices == (slices[8 + 3],)
    assert pruned.key_filter == KeyFilter.of(keys=["user_0"])
