"""What every storage promises: one body of tests over local disk, memory and S3."""

import threading
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.errors import (
    ChangedError,
    ConflictError,
    ExistsError,
    InvalidError,
    NotFoundError,
)
from lakebed.model.clock import SystemClock
from lakebed.storage.storage import Entry, Storage

ODD_PATHS = [
    "dt=p q%3D%25é/文件 😀[1].parquet",
    "a+b",
    "#x",
    "q?y&z=1;2",
    "back\\slash",
    "a%2Fb",
    "{*~'()!}<>|\"^`",
    "e\u0301",
    "..a/b..",
    ".hoodie/.hidden",
    "x" * 255,
]
BAD_PATHS = ["", "/etc/passwd", "../a", "a/../../b", "a//b", "a/.", "a\0b", "x" * 256]


def paths(storage: Storage, prefix: str = "") -> list[str]:
    return [entry.path for entry in storage.list(prefix)]


def race(count: int, act: Callable[[int], object]) -> list[object]:
    """Run `act` in threads that start together; give each result or its conflict."""
    results: list[object] = [None] * count
    barrier = threading.Barrier(count)

    def run(number: int) -> None:
        barrier.wait()
        try:
            results[number] = act(number)
        except ConflictError as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


class TestPutAndRead:
    @pytest.mark.parametrize("data", [b"", b"a", bytes(range(256)) * 500])
    def test_an_object_reads_back_as_it_was_put(self, storage, data):
        storage.put("a/b", data)
        assert storage.read("a/b") == data
        assert storage.head("a/b").size == len(data)

    def test_a_put_replaces_what_is_there(self, storage):
        first = storage.put("a", b"first")
        assert storage.put("a", b"second, longer") != first
        assert storage.read("a") == b"second, longer"

    def test_a_large_put_reads_back(self, storage):
        data = b"0123456789abcdef" * 700_000
        storage.put("large", data)
        assert storage.read("large") == data

    @pytest.mark.parametrize("path", ODD_PATHS)
    def test_any_utf8_name_goes_through_put_list_read_and_delete(self, storage, path):
        storage.put(path, b"1")
        assert paths(storage) == [path]
        assert storage.read(paths(storage)[0]) == b"1"
        folder, _, name = path.rpartition("/")
        assert storage.list_names(folder)[1][0].path.endswith(name)
        with storage.open_write(path) as stream:
            stream.write(b"2")
        assert storage.open_read(path).read() == b"2"
        storage.delete(path)
        assert paths(storage) == []

    def test_what_is_missing_is_not_found_by_name(self, storage):
        storage.put("folder/a", b"1")
        for act in (storage.read, storage.head, storage.open_read):
            for path in ("nope", "folder/nope", "folder", "no/such/folder"):
                with pytest.raises(NotFoundError, match=path):
                    act(path)
        for length in (0, 1):
            with pytest.raises(NotFoundError, match="nope"):
                storage.read_range("nope", 0, length)

    def test_delete_removes_the_object_and_takes_a_missing_one_calmly(self, storage):
        storage.put("folder/a", b"1")
        storage.put("folder/b", b"1")
        storage.delete("folder/a")
        storage.delete("folder/a")
        storage.delete("folder")
        storage.delete("no/such/folder")
        assert paths(storage) == ["folder/b"]


class TestRange:
    @pytest.mark.parametrize(
        ("offset", "length", "want"),
        [
            (0, 3, b"abc"),
            (2, 2, b"cd"),
            (4, 100, b"ef"),
            (0, 1 << 60, b"abcdef"),
            (0, 0, b""),
            (3, 0, b""),
            (6, 0, b""),
            (6, 1, b""),
            (7, 1, b""),
            (1 << 60, 1 << 60, b""),
            (1 << 80, 1, b""),
        ],
    )
    def test_a_range_is_cut_at_the_end_of_the_object(self, storage, offset, length, want):
        storage.put("a", b"abcdef")
        assert storage.read_range("a", offset, length) == want

    def test_every_range_of_an_empty_object_is_empty(self, storage):
        storage.put("a", b"")
        assert storage.read_range("a", 0, 0) == b""
        assert storage.read_range("a", 0, 10) == b""

    @pytest.mark.parametrize(("offset", "length"), [(-1, 1), (0, -1)])
    def test_a_negative_range_is_refused(self, storage, offset, length):
        storage.put("a", b"abcdef")
        with pytest.raises(InvalidError, match="range"):
            storage.read_range("a", offset, length)


class TestList:
    def test_objects_come_sorted_by_path_at_any_depth(self, storage):
        names = ["b", "a/x", "a-b/y", "a", "a.c", "a/é", "a/z/1", "a/z-1", "Z", "é", "😀", "｡"]
        names.remove("a")  # a disk cannot hold both the object `a` and the folder `a`
        for name in names:
            storage.put(name, b"12")
        assert paths(storage) == sorted(names)
        assert paths(storage, "a") == ["a/x", "a/z-1", "a/z/1", "a/é"]
        assert paths(storage, "a/z") == ["a/z/1"]

    def test_a_prefix_is_a_folder_and_not_the_start_of_a_name(self, storage):
        storage.put("ab/c", b"")
        storage.put("a/d", b"")
        assert paths(storage, "a") == ["a/d"]
        assert paths(storage, "ab/c") == []
        assert paths(storage, "nope") == []
        assert storage.list_names("nope") == ([], [])

    def test_an_entry_is_what_head_says(self, storage):
        storage.put("small", b"1")
        storage.put("empty", b"")
        storage.put("f/large", b"x" * 100_000)
        entries = list(storage.list())
        assert [entry.size for entry in entries] == [0, 100_000, 1]
        assert entries == [
            replace(storage.head(entry.path), etag="", modified_ms=0) for entry in entries
        ]
        assert storage.list_names()[1] == [entries[0], entries[2]]

    def test_names_gives_the_objects_of_one_folder_only(self, storage):
        for path in ("a", "f/b", "f/中 😀", "f/g/c"):
            storage.put(path, b"1")
        assert sorted(storage.names()) == ["a"]
        assert sorted(storage.names("f")) == ["b", "中 😀"]
        assert list(storage.names("nope")) == []

    def test_list_names_tells_folders_from_objects(self, storage):
        for name in ("p=2/f", "p=1/f", "p=1/g/h", "b", "a"):
            storage.put(name, b"1")
        folders, entries = storage.list_names()
        assert folders == ["p=1", "p=2"]
        assert [entry.path for entry in entries] == ["a", "b"]
        folders, entries = storage.list_names("p=1")
        assert folders == ["g"]
        assert [entry.path for entry in entries] == ["p=1/f"]

    def test_an_empty_table_lists_nothing(self, storage):
        assert paths(storage) == []
        assert storage.list_names() == ([], [])


class TestPutIfAbsent:
    def test_the_second_put_is_refused_and_changes_nothing(self, storage):
        tag = storage.put_if_absent("f/a", b"first")
        with pytest.raises(ExistsError, match="f/a"):
            storage.put_if_absent("f/a", b"second")
        assert storage.read("f/a") == b"first"
        assert storage.head("f/a").etag == tag

    def test_an_identical_second_put_is_refused_too(self, storage):
        storage.put_if_absent("a", b"")
        with pytest.raises(ExistsError):
            storage.put_if_absent("a", b"")

    def test_one_of_eight_racers_wins(self, storage):
        for turn in range(5):
            path = f"timeline/{turn}"
            results = race(8, lambda number, path=path: storage.put_if_absent(path, b"%d" % number))
            winners = [number for number, result in enumerate(results) if isinstance(result, str)]
            assert len(winners) == 1
            assert storage.read(path) == b"%d" % winners[0]
            assert storage.head(path).etag == results[winners[0]]
            assert sum(isinstance(result, ExistsError) for result in results) == 7
        assert len(paths(storage)) == 5

    def test_one_of_eight_racers_with_equal_bytes_wins(self, storage):
        results = race(8, lambda _: storage.put_if_absent("a", b""))
        assert sum(isinstance(result, str) for result in results) == 1

    def test_a_deleted_object_can_be_put_again(self, storage):
        storage.put_if_absent("a", b"1")
        storage.delete("a")
        storage.put_if_absent("a", b"2")
        assert storage.read("a") == b"2"


class TestPutIfUnchanged:
    def test_the_tags_of_put_and_head_serve(self, storage):
        tag = storage.put_if_unchanged("a", b"2", storage.put("a", b"1"))
        assert tag == storage.head("a").etag
        storage.put_if_unchanged("a", b"3", tag)
        storage.put_if_unchanged("a", b"4", storage.head("a").etag)
        storage.delete("a")
        storage.put_if_unchanged("a", b"7", storage.put_if_absent("a", b"6"))
        assert storage.read("a") == b"7"
        assert paths(storage) == ["a"]
        assert storage.list_names() == ([], [Entry("a", 1)])

    def test_a_stale_tag_is_refused_and_changes_nothing(self, storage):
        old = storage.put("a", b"1")
        storage.put("a", b"2")
        with pytest.raises(ChangedError, match="a"):
            storage.put_if_unchanged("a", b"3", old)
        assert storage.read("a") == b"2"

    def test_an_object_that_is_gone_or_was_never_there_has_changed(self, storage):
        tag = storage.put("a", b"1")
        storage.delete("a")
        for path in ("a", "no/such/folder/a"):
            with pytest.raises(ChangedError):
                storage.put_if_unchanged(path, b"2", tag)
        assert paths(storage) == []

    @pytest.mark.parametrize("tag", ["", "nonsense", "é", "a\nb", '"0"x'])
    def test_text_that_is_no_tag_never_fits(self, storage, tag):
        storage.put("a", b"1")
        with pytest.raises(ChangedError):
            storage.put_if_unchanged("a", b"2", tag)

    def test_one_of_six_racers_wins(self, storage):
        tag = storage.put("locks/lock", b"start")
        for turn in range(5):
            results = race(
                6,
                lambda number, tag=tag, turn=turn: storage.put_if_unchanged(
                    "locks/lock", b"%d by %d" % (turn, number), tag
                ),
            )
            winners = [number for number, result in enumerate(results) if isinstance(result, str)]
            assert len(winners) == 1
            assert storage.read("locks/lock") == b"%d by %d" % (turn, winners[0])
            assert sum(isinstance(result, ChangedError) for result in results) == 5
            tag = results[winners[0]]

    def test_a_counter_raised_by_racers_loses_no_step(self, storage):
        storage.put("counter", b"0")

        def raise_by_ten(_: int) -> None:
            done = 0
            while done < 10:
                tag = storage.head("counter").etag
                value = int(storage.read("counter"))
                try:
                    storage.put_if_unchanged("counter", b"%d" % (value + 1), tag)
                    done += 1
                except ChangedError:
                    pass

        race(3, raise_by_ten)
        assert storage.read("counter") == b"30"


class TestWriteStream:
    @pytest.mark.parametrize("size", [0, 10, 20 << 20])
    def test_the_object_appears_whole_at_close_and_not_before(self, storage, size):
        piece = bytes(range(256)) * 4096
        with storage.open_write("f/a") as stream:
            for start in range(0, size, len(piece)):
                stream.write(memoryview(piece)[: size - start])
            stream.flush()
            assert stream.tell() == size
            assert not stream.closed
            assert paths(storage) == []
            with pytest.raises(NotFoundError):
                storage.read("f/a")
        assert stream.closed
        assert storage.head("f/a").size == size
        assert storage.read("f/a") == (piece * 20)[:size]
        assert next(storage.list()) == Entry("f/a", size)

    def test_until_close_the_old_object_stays(self, storage):
        storage.put("a", b"old")
        stream = storage.open_write("a")
        stream.write(b"new")
        assert storage.read("a") == b"old"
        stream.close()
        stream.close()
        stream.abort()
        assert storage.read("a") == b"new"

    @pytest.mark.parametrize("size", [0, 10, 20 << 20])
    def test_abort_leaves_nothing(self, storage, size):
        stream = storage.open_write("f/a")
        stream.write(bytes(size))
        stream.abort()
        stream.abort()
        stream.close()
        assert stream.closed
        assert paths(storage) == []
        with pytest.raises(InvalidError, match="closed"):
            stream.write(b"more")

    def test_an_exception_in_the_block_leaves_nothing(self, storage):
        with pytest.raises(ZeroDivisionError), storage.open_write("a") as stream:
            stream.write(b"x" * 100)
            raise ZeroDivisionError
        assert paths(storage) == []

    def test_a_forgotten_stream_leaves_nothing(self, storage):
        stream = storage.open_write("a")
        stream.write(b"x" * (9 << 20))
        del stream
        assert paths(storage) == []

    def test_arrow_buffers_and_views_of_other_types_count_in_bytes(self, storage):
        with storage.open_write("a") as stream:
            assert stream.write(pa.py_buffer(b"abc")) == 3
            assert stream.write(memoryview(b"12345678").cast("i")) == 8
            assert stream.write(b"") == 0
        assert storage.read("a") == b"abc12345678"

    def test_two_streams_on_one_path_give_the_object_of_the_last_to_close(self, storage):
        first, second = storage.open_write("a"), storage.open_write("a")
        first.write(b"first")
        second.write(b"second")
        second.close()
        first.close()
        assert storage.read("a") == b"first"


class TestParquet:
    table = pa.table({"k": [f"{n:06d}" for n in range(50_000)], "v": list(range(50_000))})

    def test_a_parquet_file_written_to_a_stream_reads_back_by_column(self, storage):
        with storage.open_write("a.parquet") as stream:
            pq.write_table(self.table, stream, row_group_size=10_000)
        with pq.ParquetFile(storage.open_read("a.parquet"), pre_buffer=False) as file:
            assert file.read(columns=["v"]) == self.table.select(["v"])
            assert file.read_row_group(2) == self.table.slice(20_000, 10_000)

    def test_a_writer_that_fails_midway_leaves_nothing(self, storage):
        def write() -> None:
            with (
                storage.open_write("a.parquet") as stream,
                pq.ParquetWriter(stream, self.table.schema) as writer,
            ):
                writer.write_table(self.table)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            write()
        assert paths(storage) == []


class TestOpenRead:
    def test_it_reads_at_random(self, storage):
        data = bytes(range(256)) * 1000
        storage.put("a", data)
        with storage.open_read("a") as file:
            assert file.size() == len(data)
            assert file.read_at(10, len(data) - 10) == data[-10:]
            assert file.read_at(10, 3) == data[3:13]
            assert file.read_at(100_000, 50) == data[50:100_050]
            file.seek(-5, 2)
            assert file.read() == data[-5:]
            file.seek(1)
            assert file.read(2) == data[1:3]
            assert file.tell() == 3
            file.seek(len(data) + 10)
            assert file.read(5) == b""

    def test_an_empty_object_opens(self, storage):
        storage.put("a", b"")
        with storage.open_read("a") as file:
            assert file.size() == 0
            assert file.read() == b""

    def test_an_object_replaced_meanwhile_is_never_read_half_old_half_new(self, storage):
        old, new = b"o" * 300_000, b"n" * 300_000
        storage.put("a", old)
        with storage.open_read("a") as file:
            assert file.read(100_000) == old[:100_000]
            storage.put("a", new)
            if storage.local_path("a"):
                assert file.read(200_000) == old[100_000:]
            else:
                with pytest.raises(ChangedError, match="/a"):
                    file.read(200_000)


class TestBadPaths:
    @pytest.mark.parametrize("path", BAD_PATHS)
    def test_every_method_refuses_a_path_that_leaves_the_root(self, storage, path):
        calls: list[Callable[[], object]] = [
            lambda: storage.read(path),
            lambda: storage.read_range(path, 0, 0),
            lambda: storage.head(path),
            lambda: storage.put(path, b""),
            lambda: storage.put_if_absent(path, b""),
            lambda: storage.put_if_unchanged(path, b"", "tag"),
            lambda: storage.delete(path),
            lambda: storage.open_write(path),
            lambda: storage.open_read(path),
            lambda: storage.local_path(path),
        ]
        if path:
            calls += [lambda: storage.list(path), lambda: storage.list_names(path)]
        for call in calls:
            with pytest.raises(InvalidError, match="expected a relative path") as caught:
                call()
            assert not isinstance(caught.value, NotFoundError)

    def test_names_of_hidden_files_cannot_be_written(self, storage):
        for path in (".lakebed-tmp-1", "a/.lakebed-lock"):
            with pytest.raises(InvalidError, match="reserved"):
                storage.put(path, b"")


def test_an_entry_is_a_value(storage):
    before = SystemClock().now_ms()
    storage.put("a", b"1")
    head = storage.head("a")
    assert head == Entry("a", 1, head.etag, head.modified_ms)
    assert abs(head.modified_ms - before) < 60_000


def test_make_folder_shows_no_object_and_may_be_called_again(storage):
    storage.make_folder("a/b")
    storage.make_folder("a/b")
    assert list(storage.list()) == []
    storage.put("a/b/c", b"1")
    assert list(storage.names("a/b")) == ["c"]
    with pytest.raises(InvalidError):
        storage.make_folder("../out")
