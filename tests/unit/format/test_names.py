import pytest

from lakebed.errors import FileNameError, InvalidError
from lakebed.format.names.data_names import (
    BaseFileName,
    InlineLogName,
    LogKind,
    NativeLogName,
    parse_data_name,
    replay_key,
)

ID = "00000000-6616-4257-b618-13e7ea4055b7-0"
T = "20261115060917636"


def test_base_name_is_parsed_into_its_parts():
    assert BaseFileName.parse(f"{ID}_2-61-78_{T}.parquet") == BaseFileName(
        ID, "2-61-78", T, "parquet"
    )


def test_inline_name_is_parsed_into_its_parts():
    assert InlineLogName.parse(f".{ID}_{T}.log.12_0-75-102") == InlineLogName(ID, T, 12, "0-75-102")


def test_native_name_is_parsed_into_its_parts():
    assert NativeLogName.parse(f"{ID}_0-1-2_{T}_3.deletes.parquet") == NativeLogName(
        ID, "0-1-2", T, 3, LogKind.DELETES, "parquet"
    )


def test_cdc_suffix_of_an_inline_name_is_kept():
    name = InlineLogName.parse(f".{ID}_{T}.log.1_0-7-1.cdc")
    assert name.cdc
    assert name.encode() == f".{ID}_{T}.log.1_0-7-1.cdc"


def test_inline_name_of_an_old_table_has_no_token():
    name = InlineLogName.parse(f".{ID}_{T}.log.1")
    assert name.write_token == ""
    assert name.encode() == f".{ID}_{T}.log.1"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (f"{ID}_2-61-78_{T}_cg1.parquet", BaseFileName),
        (f".{ID}_{T}_cg1.log.1_0-7-1", InlineLogName),
        (f"{ID}_2-61-78_{T}_cg1_4.log.parquet", NativeLogName),
    ],
)
def test_column_group_stands_after_the_instant(name, kind):
    found = parse_data_name(name)
    assert type(found) is kind
    assert found.column_group == "cg1"
    assert found.encode() == name


@pytest.mark.parametrize(
    "name",
    [
        "files-0000-0_0-33-50_00000000000000000.hfile",
        ".files-0000-0_00000000000000000.log.1_0-0-0",
        ".secondary-index-idx-name-0001-0_20261115061810378.log.1_4-177-696",
        f"{ID}_0-1-2_{T}_1.log.hfile",
        f"{ID}_0-1-2_20240101000000.orc",
    ],
)
def test_names_of_the_metadata_table_and_other_formats_are_data(name):
    found = parse_data_name(name)
    assert found is not None
    assert found.encode() == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".hoodie_partition_metadata",
        ".hoodie_partition_metadata.parquet",
        f".{ID}_2-61-78_{T}.parquet.crc",
        f"..{ID}_{T}.log.1_0-75-102.crc",
        f"{ID}_2-61-78_{T}.parquet.tmp",
        f"{ID}_2-61-78_{T}.txt",
        f"{ID}_2-61-78_{T}_7.parquet",
        f"{ID}_2-61-78_{T}_a_b.parquet",
        f"{ID}_2-61-78_2024.parquet",
        f"{ID}_2-61_{T}.parquet",
        f".{ID}_{T}.archive.1_0-0-0",
        f".{ID}_{T}.log.01_0-0-0",
        f"{ID}_2-61-78_{T}_1.delete.parquet",
        f"{ID}_2-61-78_{T}.parquet\n",
        f"a/{ID}_2-61-78_{T}.parquet",
        "part-00000-x.snappy.parquet",
        f"{ID}_\u0662-61-78_{T}.parquet",
        "_SUCCESS",
        "a" * 100_000,
    ],
)
def test_file_that_is_no_data_is_none(name):
    assert parse_data_name(name) is None
    for kind in (BaseFileName, InlineLogName, NativeLogName):
        with pytest.raises(FileNameError, match="expected"):
            kind.parse(name)


@pytest.mark.parametrize("group", ["a_b", "a.b", "12", "a/b"])
def test_column_group_that_would_not_come_back_is_refused(group):
    with pytest.raises(InvalidError, match="column group"):
        BaseFileName("f", "0-0-0", T, "parquet", group)


@pytest.mark.parametrize(
    "make",
    [
        lambda: BaseFileName("a_b", "0-0-0", T),
        lambda: BaseFileName("a", "0-0", T),
        lambda: BaseFileName("a", "0-0-0", "2024"),
        lambda: BaseFileName("a", "0-0-0", T, "csv"),
        lambda: InlineLogName("a", T, -1, "0-0-0"),
        lambda: InlineLogName("a", T, 1, "", cdc=True),
        lambda: NativeLogName("a", "0-0-0", T, 1, "delete"),
    ],
)
def test_parts_that_make_no_name_are_refused(make):
    with pytest.raises(InvalidError, match="expected"):
        make()


def test_kind_given_as_text_is_the_kind():
    assert NativeLogName("a", "0-0-0", T, 1, "cdc").kind is LogKind.CDC


def test_logs_replay_by_instant_then_version_then_token_then_data_before_deletes():
    later = "20261115060917637"
    ordered = [
        InlineLogName("f", T, 2, "9-0-0"),
        InlineLogName("f", T, 10, "0-0-0"),
        NativeLogName("f", "0-0-0", later, 1, LogKind.LOG),
        NativeLogName("f", "0-0-0", later, 1, LogKind.DELETES),
        NativeLogName("f", "1-0-0", later, 1, LogKind.LOG),
    ]
    shuffled = [ordered[at] for at in (3, 1, 4, 0, 2)]
    assert sorted(shuffled, key=replay_key) == ordered
