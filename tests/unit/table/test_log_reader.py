"""Which runs a slice is made of: order, visibility, rollbacks, log compaction, order marks."""

import pytest

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.format.logs.log_block import BlockType
from lakebed.format.logs.native_footer import FooterKind
from lakebed.format.names.data_names import LogKind
from lakebed.storage.objects import memory_storage
from lakebed.table.read.log_reader import slice_sources
from support.runs import (
    SCHEMA,
    Slice,
    block,
    brief,
    config,
    data_block,
    delete_block,
    deletes_table,
    instant,
    marked,
    native,
    parquet,
    rollback_block,
    with_meta,
)

ROW = {"id": "a", "v": 1, "ts": 1}
ROWS = with_meta([ROW])
KEYS = deletes_table([("a", 1)])
LSM = {"table_storage_layout": "lsm_tree"}


@pytest.fixture
def slice_():
    return Slice(memory_storage())


def sources(slice_, version=9, invisible=(), **properties):
    view = slice_.view(config(version, **properties), invisible=invisible)
    return slice_sources(view, slice_.value)


def inline_name(number):
    return f".{Slice(memory_storage()).value.group.file_id}_{instant(number)}.log.1_0-0-0"


def test_the_base_file_comes_first_and_logs_replay_by_instant_then_version(slice_):
    slice_.inline(3, data_block(3, [ROW]))
    slice_.inline(2, data_block(2, [ROW]), delete_block(2, ["a"]), version=2)
    slice_.inline(2, delete_block(2, ["b"]), version=1)
    slice_.base(1, parquet(ROWS))
    found = sources(slice_)
    assert brief(found) == [
        (1, "data"),
        (2, "deletes"),
        (2, "data"),
        (2, "deletes"),
        (3, "data"),
    ]
    assert [source.is_base for source in found] == [True, False, False, False, False]


def test_native_deletes_replay_after_the_data_of_the_same_flush(slice_):
    slice_.native(1, LogKind.DELETES, KEYS)
    slice_.native(1, LogKind.LOG, ROWS)
    assert brief(sources(slice_, 10)) == [(1, "data"), (1, "deletes")]


def test_a_block_counts_if_its_own_instant_is_visible_whatever_the_name_says(slice_):
    slice_.inline(1, data_block(1, [ROW]), data_block(7, [ROW]))
    slice_.native(8, LogKind.LOG, ROWS)
    assert brief(sources(slice_, invisible=(7, 8))) == [(1, "data")]


def test_a_native_file_that_does_not_count_is_not_even_opened(slice_):
    name = slice_.native(8, LogKind.LOG, ROWS)
    slice_.storage.put(name, b"torn")
    assert sources(slice_, invisible=(8,)) == []
    with pytest.raises(CorruptError, match=name):
        sources(slice_)


def test_a_rollback_takes_back_what_stands_before_it_and_nothing_else(slice_):
    slice_.inline(1, data_block(1, [ROW]), data_block(2, [ROW]))
    slice_.inline(2, rollback_block(9, 1), data_block(1, [ROW]))
    # The rollback's own instant need not be one that is visible.
    found = sources(slice_, invisible=(9,))
    assert brief(found) == [(2, "data"), (1, "data")]
    assert found[1].path == inline_name(2)


def test_a_command_that_is_no_rollback_is_refused_by_name(slice_):
    slice_.inline(
        1, block(BlockType.COMMAND, 1, TARGET_INSTANT_TIME=instant(0), COMMAND_BLOCK_TYPE="4")
    )
    with pytest.raises(UnsupportedError, match=r"log\.1_0-0-0.*block at byte 0.*command '4'"):
        sources(slice_)


def test_a_command_without_a_target_is_corrupt(slice_):
    slice_.inline(1, block(BlockType.COMMAND, 1, COMMAND_BLOCK_TYPE="0"))
    with pytest.raises(CorruptError, match="TARGET_INSTANT_TIME"):
        sources(slice_)


def test_change_data_is_left_out_in_files_and_in_blocks(slice_):
    slice_.inline(1, b"whatever", cdc=True)
    slice_.native(1, LogKind.CDC, ROWS)
    slice_.inline(2, block(BlockType.CDC_DATA, 2, b"x"), data_block(2, [ROW]))
    slice_.log(inline_name(3), native(3, FooterKind.CDC, ROWS))
    assert brief(sources(slice_)) == [(2, "data")]


def test_an_empty_log_is_no_error(slice_):
    slice_.inline(1)
    assert sources(slice_) == []


def test_a_block_that_this_release_does_not_read_is_refused_only_if_it_counts(slice_):
    slice_.inline(1, data_block(1, [ROW]), block(BlockType.HFILE_DATA, 2, b"x"))
    offset = len(data_block(1, [ROW]))
    with pytest.raises(UnsupportedError, match=f"byte {offset}.*HFILE_DATA.*Avro and Parquet"):
        sources(slice_)
    assert brief(sources(slice_, invisible=(2,))) == [(1, "data")]
    slice_.inline(3, rollback_block(3, 2))
    assert brief(sources(slice_)) == [(1, "data")]


def test_a_torn_block_is_corrupt_and_says_what_to_do(slice_):
    whole = data_block(1, [ROW])
    name = slice_.inline(1, whole, data_block(1, [ROW])[:-5])
    with pytest.raises(CorruptError) as caught:
        sources(slice_)
    said = str(caught.value)
    assert name in said
    assert f"byte {len(whole)}" in said
    assert "does not fit" in said
    assert f"roll back the instant {instant(1)}" in said


def test_a_torn_block_of_a_writer_that_was_rolled_back_does_no_harm(slice_):
    slice_.inline(1, data_block(1, [ROW])[:-5])
    slice_.inline(2, rollback_block(2, 1))
    assert sources(slice_) == []


@pytest.mark.parametrize("extension", ["hfile", "lance", "orc"])
def test_a_native_log_that_is_no_parquet_is_refused_by_name(slice_, extension):
    name = f"f-0_0-0-0_{instant(1)}_1.log.{extension}"
    slice_.log(name, b"x")
    with pytest.raises(UnsupportedError, match=f"{extension}.*Parquet only"):
        sources(slice_, 10)


def test_a_block_without_an_instant_is_corrupt(slice_):
    data = bytearray(block(BlockType.DELETE, 1, b"x"))
    at = data.index(instant(1).encode()) - 8
    data[at : at + 4] = (2).to_bytes(4, "big")  # the same text as another header
    slice_.inline(1, bytes(data))
    with pytest.raises(CorruptError, match=r"log\.1_0-0-0.*INSTANT_TIME"):
        sources(slice_)


class TestParquetUnderAnInlineName:
    def test_its_kind_comes_from_the_footer(self, slice_):
        slice_.log(inline_name(1), native(1, FooterKind.PARQUET_DATA, ROWS, ordered=True))
        slice_.log(inline_name(2), native(2, FooterKind.DELETE, KEYS))
        found = sources(slice_)
        assert brief(found) == [(1, "data"), (2, "deletes")]
        assert [source.ordered for source in found] == [True, False]
        assert all(source.length is None for source in found)

    def test_it_is_not_taken_as_sorted_unless_it_says_so(self, slice_):
        slice_.log(inline_name(1), native(1, FooterKind.PARQUET_DATA, ROWS))
        assert not sources(slice_, 10, **LSM)[0].ordered

    def test_a_command_file_takes_back_what_stands_before_it(self, slice_):
        slice_.log(inline_name(1), native(1, FooterKind.PARQUET_DATA, ROWS))
        slice_.log(inline_name(2), native(2, FooterKind.PARQUET_DATA, ROWS))
        command = native(
            3,
            FooterKind.COMMAND,
            ROWS.slice(0, 0),
            TARGET_INSTANT_TIME=instant(1),
            COMMAND_BLOCK_TYPE="0",
        )
        slice_.log(inline_name(3), command)
        assert brief(sources(slice_, invisible=(3,))) == [(2, "data")]

    def test_without_a_block_type_it_is_corrupt(self, slice_):
        name = slice_.log(inline_name(1), parquet(ROWS))
        with pytest.raises(CorruptError, match=f"{name}.*without a block type"):
            sources(slice_)


def test_a_footer_that_contradicts_the_name_is_corrupt(slice_):
    name = f"f-0_0-0-0_{instant(1)}_1.log.parquet"
    slice_.log(name, native(1, FooterKind.DELETE, KEYS))
    with pytest.raises(CorruptError, match=f"{name}.*expected parquet_data.*found delete"):
        sources(slice_, 10)


def test_a_native_log_without_a_log_footer_goes_by_its_name(slice_):
    name = f"f-0_0-0-0_{instant(4)}_1.deletes.parquet"
    slice_.log(name, parquet(KEYS))
    assert brief(sources(slice_, 10)) == [(4, "deletes")]


def test_the_footer_of_a_future_version_is_refused_by_name(slice_):
    name = f"f-0_0-0-0_{instant(4)}_1.log.parquet"
    slice_.log(name, parquet(ROWS, {"hudi.log.format.metadata": '{"VERSION":"3"}'}))
    with pytest.raises(UnsupportedError, match=f"{name}.*version 3"):
        sources(slice_, 10)


class TestOrder:
    @pytest.mark.parametrize("mark", [True, False])
    @pytest.mark.parametrize(
        ("version", "properties"),
        [(8, {}), (9, {}), (9, LSM), (10, {}), (10, {**LSM, "table_initial_version": "9"})],
    )
    def test_a_base_file_is_ordered_if_it_says_so(self, slice_, version, properties, mark):
        slice_.base(1, parquet(ROWS, marked(mark)))
        assert sources(slice_, version, **properties)[0].ordered is mark

    def test_base_files_of_an_lsm_table_born_in_version_10_are_ordered_unmarked(self, slice_):
        slice_.base(1, parquet(ROWS))
        assert sources(slice_, 10, **LSM)[0].ordered

    @pytest.mark.parametrize(
        ("version", "properties", "mark", "ordered"),
        [
            (10, LSM, None, True),
            (10, LSM, False, False),
            (10, {**LSM, "table_initial_version": "9"}, None, True),
            (10, {}, None, False),
            (10, {}, True, True),
            (9, LSM, None, False),
            (9, LSM, True, True),
        ],
    )
    @pytest.mark.parametrize("kind", [LogKind.LOG, LogKind.DELETES])
    def test_a_native_log_is_ordered_by_its_mark_or_by_the_layout(
        self, slice_, kind, version, properties, mark, ordered
    ):
        slice_.native(1, kind, ROWS if kind is LogKind.LOG else KEYS, ordered=mark)
        assert sources(slice_, version, **properties)[0].ordered is ordered

    @pytest.mark.parametrize("mark", [True, False])
    @pytest.mark.parametrize(("version", "properties"), [(9, {}), (9, LSM), (10, LSM)])
    def test_a_block_is_ordered_by_its_mark_only(self, slice_, version, properties, mark):
        slice_.inline(1, data_block(1, [ROW], ordered=mark), delete_block(1, ["a"], ordered=mark))
        found = sources(slice_, version, **properties)
        assert [source.ordered for source in found] == [mark, mark]


def test_partial_runs_are_told_by_header_and_by_footer(slice_):
    slice_.inline(1, data_block(1, [ROW], IS_PARTIAL="true"), data_block(1, [ROW]))
    slice_.native(2, LogKind.LOG, ROWS, IS_PARTIAL="true")
    assert [source.partial for source in sources(slice_)] == [True, False, True]


class TestLogCompaction:
    def compacted(self, *numbers):
        return {"COMPACTED_BLOCK_TIMES": ",".join(map(instant, numbers))}

    def test_it_stands_at_the_place_of_the_newest_original(self, slice_):
        for number in (1, 2, 3):
            slice_.inline(number, data_block(number, [ROW]))
        times = self.compacted(1, 2)
        slice_.inline(4, data_block(4, [ROW], **times), delete_block(4, ["b"], **times))
        slice_.inline(5, data_block(5, [ROW]))
        assert brief(sources(slice_)) == [
            (4, "data"),
            (4, "deletes"),
            (3, "data"),
            (5, "data"),
        ]

    def test_compactions_are_compacted_in_turn(self, slice_):
        slice_.inline(1, data_block(1, [ROW]))
        slice_.inline(2, data_block(2, [ROW]))
        slice_.inline(3, data_block(3, [ROW], **self.compacted(1, 2)))
        slice_.inline(4, data_block(4, [ROW]))
        slice_.inline(5, data_block(5, [ROW]))
        slice_.inline(6, data_block(6, [ROW], **self.compacted(3, 4)))
        assert brief(sources(slice_)) == [(6, "data"), (5, "data")]

    def test_one_that_replaces_a_compaction_alone_takes_over_its_place(self, slice_):
        for number in (1, 2, 3):
            slice_.inline(number, data_block(number, [ROW]))
        slice_.inline(4, data_block(4, [ROW], **self.compacted(1, 2)))
        slice_.inline(5, data_block(5, [ROW], **self.compacted(4)))
        assert brief(sources(slice_)) == [(5, "data"), (3, "data")]

    def test_one_whose_originals_are_gone_stays_where_it_is(self, slice_):
        slice_.inline(3, data_block(3, [ROW]))
        slice_.inline(4, data_block(4, [ROW], **self.compacted(1, 2)))
        assert brief(sources(slice_)) == [(3, "data"), (4, "data")]

    def test_one_that_does_not_count_replaces_nothing(self, slice_):
        slice_.inline(1, data_block(1, [ROW]))
        slice_.inline(2, data_block(2, [ROW], **self.compacted(1)))
        assert brief(sources(slice_, invisible=(2,))) == [(1, "data")]
        slice_.inline(3, rollback_block(3, 2))
        assert brief(sources(slice_)) == [(1, "data")]

    def test_a_replaced_block_need_not_be_readable(self, slice_):
        slice_.inline(1, block(BlockType.HFILE_DATA, 1, b"x"))
        slice_.inline(2, data_block(2, [ROW], **self.compacted(1)))
        assert brief(sources(slice_)) == [(2, "data")]

    def test_a_native_one_of_an_lsm_table_replays_at_its_own_instant(self, slice_):
        for number in (1, 2, 3):
            slice_.native(number, LogKind.LOG, ROWS)
        slice_.native(4, LogKind.LOG, ROWS, **self.compacted(1, 2))
        assert brief(sources(slice_, 10, **LSM)) == [(3, "data"), (4, "data")]
        assert brief(sources(slice_, 10)) == [(4, "data"), (3, "data")]


def test_where_a_block_lies_is_where_its_content_is(slice_):
    first = data_block(1, [ROW])
    name = slice_.inline(1, first, delete_block(1, ["a"]))
    data, deletes = sources(slice_)
    stored = slice_.storage.read(name)
    assert stored[data.offset : data.offset + data.length] == parquet(with_meta([ROW], SCHEMA))
    assert deletes.offset > len(first)
    assert stored[deletes.offset : deletes.offset + deletes.length].startswith(b"\0\0\0\x03")
