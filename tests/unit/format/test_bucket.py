"""Bucket numbers and file ids, against what Apache Hudi 1.2.0 computed."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from lakebed.errors import InvalidError
from lakebed.format.compiled import is_numba_imported, kernels
from lakebed.format.names import kernel
from lakebed.format.names.bucket_hash import (
    _python_hash,
    _to_buckets,
    bucket_of_file_id,
    extract_key_values,
    fixed_bucket_file_id,
    hash_field_texts,
    key_buckets,
    list_hashes,
    new_bucket_file_id,
    split_composite_keys,
    warm_up,
)
from lakebed.format.names.record_key import join_key_texts


def bucket_numbers(texts, num_buckets):
    """Return the bucket of every row; `texts` are the columns to hash."""
    return _to_buckets(list_hashes(texts), num_buckets)


@pytest.fixture(params=["numpy", "kernel"], autouse=True)
def fold(request):
    """Run every test with the numpy twin and with the compiled kernel."""
    with kernels(request.param == "kernel"):
        yield request.param


def test_the_kernel_runs_when_it_is_asked_for(fold):
    before = kernel.load_fold.cache_info()
    list_hashes([pa.array(["a"]), pa.array(["b"])])
    after = kernel.load_fold.cache_info()
    loads = after.hits + after.misses - before.hits - before.misses
    assert loads == (1 if fold == "kernel" else 0)


# Real file ids of Hudi, 8 buckets.
ONE_FIELD = {
    "user_0": 3,
    "user_1": 4,
    "user_2": 5,
    "user_3": 6,
    "user_4": 7,
    "user_5": 0,
    "user_6": 1,
    "user_10": 2,
    "é0": 6,
    "é2": 0,
    "some-long-uuid-3f2a-0": 6,
}


def test_keys_of_one_field_fall_where_hudi_put_them():
    assert bucket_numbers([pa.array(list(ONE_FIELD))], 8).tolist() == list(ONE_FIELD.values())


def test_keys_of_numbers_fall_where_hudi_put_them():
    assert bucket_numbers([pa.array(["2000006", "0", "4000012"])], 4).tolist() == [3, 3, 0]


def test_composite_keys_fall_where_hudi_put_them():
    ids, names = pa.array(["user_11", "user_5", "user_0"]), pa.array(["nm2", "nm2", "nm0"])
    assert bucket_numbers([ids, names], 8).tolist() == [0, 3, 6]
    assert bucket_numbers([ids], 8).tolist()[0] == 3


def test_list_hashes_are_those_of_java():
    assert list_hashes([pa.array(["user_0", "é0"])]).tolist() == [-836030245, 7302]
    pair = [pa.array(["user_11"]), pa.array(["nm2"])]
    assert list_hashes(pair).tolist() == [-266098304]
    assert list_hashes([pa.array(["\U0001f600"])]).tolist() == [1772930]


def test_null_and_empty_hash_as_nothing():
    assert list_hashes([pa.array([None, ""])]).tolist() == [31, 31]
    pair = [pa.array([None, ""], pa.string()), pa.array(["x", None])]
    assert list_hashes(pair).tolist() == [1081, 961]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_slices_and_large_strings_are_read_in_place(kind):
    column = pa.array(["zz", "user_0", None, "é0", "user_1", "zz"], kind).slice(1, 4)
    assert bucket_numbers([column], 8).tolist() == [3, 7, 6, 4]


def test_no_rows_have_no_buckets():
    assert bucket_numbers([pa.array([], pa.string())], 8).tolist() == []
    assert bucket_numbers([pa.array(["x"]).slice(0, 0)], 8).dtype == np.int32


def test_many_rows_and_a_very_long_one_agree_with_each_row_alone():
    texts = [f"key-{i}-{'é' if i % 7 == 0 else ''}" for i in range(40_000)]
    texts[20_000] = "\U0001f600ß" * 200_000
    together = list_hashes([pa.array(texts)])
    for row in (0, 7, 13_107, 19_999, 20_000, 20_001, 39_999):
        assert list_hashes([pa.array([texts[row]])])[0] == together[row]


def test_nul_bytes_count():
    assert list_hashes([pa.array(["a", "a\0"])]).tolist() == [128, 31 + 97 * 31]


# Key, hash fields, and what extractRecordKeysByFields of the 1.2.0 jar gave with its hash.
CUT_BY_HUDI = [
    ("user_0", "id", ["user_0"], -836030245),
    ("id:k0", "id", ["id:k0"], 100007939),
    ("id:a,b", "id", ["a,b"], 94710),
    ("a,b:c", "id", ["a,b:c"], 90988447),
    ("id:1,id:2", "id", ["1", "2"], 2530),
    ("x,id:9", "id", ["x,id:9"], -815608211),
    ("id:user_11,name:nm2", "id,name", ["user_11", "nm2"], -266098304),
    ("id:user_11,name:nm2", "id", ["user_11"], -147134669),
    ("id:user_11,name:nm2", "name,id", ["user_11", "nm2"], -266098304),
    ("id:user_11,name:nm2", "name", ["nm2"], 109170),
    ("id:b:c,name:y,z", "id,name", ["b:c", "y,z"], 3097053),
    ("id:b:c,name:y,z", "id", ["b:c"], 96106),
    ("id:1,ts:10:30", "ts", ["10:30"], 46739895),
    ("id:1,ts:10:30", "id,ts", ["1", "10:30"], 46742344),
    ("id:__null__,name:__empty__", "id,name", [None, ""], 961),
    ("id:__null__,name:x", "id,name", [None, "x"], 1081),
    ("id:__empty__,name:x", "id", [""], 31),
    ("id:a,b:c,name:x", "id,name", ["a", "x"], 4088),
    ("id:x,name:a,b:c", "id,name", ["x", "a"], 4778),
    ("id:x,name:a,b:c", "id", ["x"], 151),
    ("id:x,name:y", "zz", ["id:x,name:y"], -1604523364),
    ("id:x,name:y", "", ["x", "y"], 4802),
    ("id:\U0001f600,name:y", "id", ["\U0001f600"], 1772930),
    ("id:,name:y", "id,name", ["", "y"], 1082),
    ("id:a,name:b,c,id:q", "id,name", ["a", "b,c", "q"], 3087992),
    ("id:1:2:3,ts:x", "ts", ["x"], 151),
    ("id:1:2:3,ts:x", "id", ["1:2:3"], 47030337),
    ("id:a,,,name:,,3", "id,name", ["a,,", ",,3"], 2978035),
    ("__null__", "id", ["__null__"], -262656090),
    ("id:__null__", "id", ["id:__null__"], 106354469),
    (":,", "id", [":,"], 1873),
    (",:", "id", [",:"], 1453),
    ("id:,", "id", [","], 75),
]


@pytest.mark.parametrize(("key", "fields", "values", "total"), CUT_BY_HUDI)
def test_a_key_is_cut_as_hudi_cuts_it(key, fields, values, total):
    assert extract_key_values(key, fields.split(",")) == values
    columns = [pa.array([value], pa.string()) for value in values]
    assert list_hashes(columns).tolist() == [total]


@pytest.mark.parametrize(("key", "hash_fields", "values", "total"), CUT_BY_HUDI)
def test_buckets_of_whole_keys_follow_the_cut(key, hash_fields, values, total):
    """The columnar way must end in the same bucket whatever made the key."""
    second = "ts" if ",ts:" in key else "name"
    shapes = [(["id"], False)]
    if key.startswith("id:"):
        shapes.append((["id"], True))
    if key.startswith("id:") and f",{second}:" in key:
        shapes.append((["id", second], True))
    for fields, composite in shapes:
        found = key_buckets(
            pa.array([key, key]), fields, hash_fields.split(","), 1009, composite=composite
        )
        assert found.tolist() == [(total & 0x7FFFFFFF) % 1009] * 2, (fields, composite)


@pytest.mark.parametrize(
    ("key", "composite", "fields"),
    [("10:30:00, x", False, ["id"]), ("id:1,ts:10:30", True, ["id", "ts"])],
)
def test_keys_that_hang_hudi_still_get_a_bucket(key, composite, fields):
    whole = "1" if composite else key
    found = key_buckets(pa.array([key]), fields, ["id"], 8, composite=composite)
    assert found.tolist() == bucket_numbers([pa.array([whole])], 8).tolist()


def test_parts_given_and_parts_cut_out_again_give_the_same_buckets():
    texts = {
        "id": pa.array(["a", None, "", "x:y", "p,q", "p,q:r", "__null__", "é"]),
        "ts": pa.array(["10:30", "b", "b", None, "", "z", "z", "id:9"]),
    }
    keys = join_key_texts(texts, True)
    given = key_buckets(keys, ["id", "ts"], ["id", "ts"], 997, composite=True, texts=texts)
    cut = key_buckets(keys, ["id", "ts"], ["id", "ts"], 997, composite=True)
    alone = [
        (_python_hash(extract_key_values(key, ["id", "ts"])) & 0x7FFFFFFF) % 997
        for key in keys.to_pylist()
    ]
    assert given.tolist() == cut.tolist() == alone


def test_which_texts_feed_the_hash():
    def feed(keys, fields, hash_fields, composite):
        columns = hash_field_texts(pa.array(keys), fields, hash_fields, composite=composite)
        return [column.to_pylist() for column in columns]

    assert feed(["k0"], ["id"], ["id"], False) == [["k0"]]
    assert feed(["id:k0", "id:a,b"], ["id"], ["id"], True) == [["id:k0", "a,b"]]
    keys = ["id:u,name:__null__", "id:__empty__,name:n"]
    assert feed(keys, ["id", "name"], ["name", "id"], True) == [["u", ""], ["", "n"]]
    assert feed(keys, ["id", "name"], ["name"], True) == [["", "n"]]
    assert feed(keys, ["id", "name"], ["other"], True) == [keys]


def test_a_key_of_other_fields_has_no_parts():
    parts = split_composite_keys(pa.array(["id:a,n:b", "id:a", "x"]), ["id", "n"])
    assert parts["id"].to_pylist() == ["a", None, None]
    assert parts["n"].to_pylist() == ["b", None, None]


def test_field_names_are_taken_literally_and_values_may_have_lines():
    parts = split_composite_keys(pa.array(["a.b:1\n2,c+:3"]), ["a.b", "c+"])
    assert {name: part.to_pylist() for name, part in parts.items()} == {
        "a.b": ["1\n2"],
        "c+": ["3"],
    }


@pytest.mark.parametrize("count", [0, -1, 100_000_001])
def test_a_number_of_buckets_that_no_file_id_holds_is_refused(count):
    with pytest.raises(InvalidError, match=str(count)):
        bucket_numbers([pa.array(["a"])], count)


def test_columns_must_be_texts_of_one_length():
    with pytest.raises(InvalidError, match="at least one"):
        bucket_numbers([], 8)
    with pytest.raises(InvalidError, match="2 rows"):
        bucket_numbers([pa.array(["a", "b"]), pa.array(["a"])], 8)
    with pytest.raises(InvalidError, match="int64"):
        bucket_numbers([pa.array([1])], 8)


def test_a_new_file_id_carries_the_bucket_and_the_rest_of_the_uuid():
    file_id = new_bucket_file_id(3, "01234567-ddab-4ae2-99e3-d6143d5759e1")
    assert file_id == "00000003-ddab-4ae2-99e3-d6143d5759e1-0"
    assert bucket_of_file_id(file_id) == 3


def test_a_fixed_file_id_is_the_same_for_every_writer():
    assert fixed_bucket_file_id(3) == "00000003-0000-0000-0000-000000000000-0"
    assert bucket_of_file_id(fixed_bucket_file_id(99_999_999)) == 99_999_999


@pytest.mark.parametrize(
    "file_id", ["", "3", "0000003-a", "0000000a-ddab", "٠٠٠٠٠٠٠١-x", "00000001"]
)
def test_other_file_ids_name_no_bucket(file_id):
    assert bucket_of_file_id(file_id) is None


def test_a_file_id_is_made_of_a_bucket_and_a_uuid_only():
    with pytest.raises(InvalidError, match="bucket 100000000"):
        fixed_bucket_file_id(100_000_000)
    with pytest.raises(InvalidError, match="bucket -1"):
        fixed_bucket_file_id(-1)
    with pytest.raises(InvalidError, match="'x_y'"):
        new_bucket_file_id(1, "x_y")


def test_warming_up_leaves_the_kernel_loaded():
    warm_up()
    assert is_numba_imported()
    assert kernel.load_fold.cache_info().currsize == 1


@pytest.mark.parametrize(
    ("fields", "hashed", "composite"),
    [
        (["id"], ["id"], False),
        (["id", "ts"], ["id", "ts"], True),
        (["id", "ts"], ["ts"], True),
        (["id", "ts"], ["id"], False),
        (["id"], [], False),
        (["a,b", "c"], ["c"], True),
    ],
)
def test_a_few_keys_fall_into_the_buckets_of_many(fields, hashed, composite):
    values = ["1", "", "é🐈", "__null__", "a,b", "10:30", "x,id:7", "id:", ",ts:1"]
    keys = [
        ",".join(f"{f}:{v}" for f, v in zip(fields, pair, strict=False))
        for pair in itertools.product(values, values)
    ] + values
    many = key_buckets(pa.array(keys), fields, hashed, 1_000, composite=composite)
    for at, key in enumerate(keys):
        one = key_buckets(pa.array([key]), fields, hashed, 1_000, composite=composite)
        assert one.tolist() == [many[at]], key
