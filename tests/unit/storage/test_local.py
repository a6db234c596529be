"""What only a disk has: durability, links, hidden files, other processes, full disks."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap

import pytest

from lakebed.errors import ChangedError, InvalidError, NotFoundError, UnavailableError
from lakebed.storage.local import LocalStorage


@pytest.fixture
def root(tmp_path) -> str:
    return str(tmp_path / "table")


@pytest.fixture
def storage(root) -> LocalStorage:
    return LocalStorage(root)


def paths(storage: LocalStorage) -> list[str]:
    return [entry.path for entry in storage.list()]


def hidden(root: str) -> list[str]:
    found = (name for _, _, names in os.walk(root) for name in names)
    return [name for name in found if name.startswith(".lakebed-tmp-")]


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def steps(monkeypatch, root) -> list[str]:
    """Record the system calls that make a file durable, in order."""
    os.makedirs(root)
    done: list[str] = []
    real = {name: getattr(os, name) for name in ("fsync", "rename", "link", "unlink", "mkdir")}

    def fsync(descriptor: int) -> None:
        name = os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))
        done.append("fsync temp" if name.startswith(".lakebed-tmp-") else f"fsync {name}")
        real["fsync"](descriptor)

    def watch(name: str):
        def act(*arguments):
            done.append(name)
            return real[name](*arguments)

        return act

    monkeypatch.setattr(os, "fsync", fsync)
    for name in ("rename", "link", "unlink", "mkdir"):
        monkeypatch.setattr(os, name, watch(name))
    return done


class TestDurability:
    def test_put_syncs_the_bytes_before_the_rename_and_the_folder_after(self, storage, steps):
        storage.put("a", b"1")
        assert steps == ["fsync temp", "rename", "fsync table"]

    def test_put_if_absent_syncs_the_bytes_before_the_link_and_the_folder_after(
        self, storage, steps
    ):
        storage.put_if_absent("a", b"1")
        assert steps == ["fsync temp", "link", "unlink", "fsync table"]

    def test_put_if_unchanged_syncs_like_put(self, storage, steps):
        tag = storage.put("a", b"1")
        steps.clear()
        storage.put_if_unchanged("a", b"2", tag)
        assert steps == ["fsync temp", "rename", "fsync table"]

    def test_close_of_a_stream_syncs_like_put(self, storage, steps):
        with storage.open_write("a") as stream:
            stream.write(b"1")
            assert steps == []
        assert steps == ["fsync temp", "rename", "fsync table"]

    def test_new_folders_are_synced_in_their_parents(self, storage, steps):
        storage.put("f/g/a", b"1")
        made = ["mkdir", "fsync table", "mkdir", "fsync f"]
        assert steps == [*made, "fsync temp", "rename", "fsync g"]

    def test_delete_syncs_the_folder(self, storage, steps):
        storage.put("a", b"1")
        steps.clear()
        storage.delete("a")
        assert steps == ["unlink", "fsync table"]

    def test_a_stale_put_if_unchanged_writes_nothing_at_all(self, storage, root, steps):
        storage.put("a", b"1")
        steps.clear()
        with pytest.raises(ChangedError):
            storage.put_if_unchanged("a", b"2", "stale")
        assert steps == []
        assert os.listdir(root) == ["a"]


class TestTags:
    def test_a_small_object_replaced_within_one_tick_at_the_same_inode_has_another_tag(
        self, storage
    ):
        storage.put("a", b"1")
        full = storage.local_path("a")
        before, time_ns = storage.head("a").etag, os.stat(full).st_mtime_ns
        with open(full, "r+b") as file:  # what inode reuse within a clock tick looks like
            file.write(b"2")
        os.utime(full, ns=(time_ns, time_ns))
        assert storage.head("a").etag != before

    @pytest.mark.parametrize("size", [0, 1, 4096, 4097, 100_000])
    def test_a_replacement_by_equal_bytes_has_another_tag(self, storage, size):
        first = storage.put("a", b"x" * size)
        assert storage.put("a", b"x" * size) != first
        assert storage.head("a").etag != first

    def test_once_a_folder_is_locked_a_plain_put_waits_for_the_lock(self, storage, root):
        storage.put_if_unchanged("a", b"2", storage.put("a", b"1"))
        assert sorted(os.listdir(root)) == [".lakebed-lock", "a"]
        holder = start(
            """
            import sys
            from lakebed.storage.durable import folder_lock
            with folder_lock(sys.argv[1], create=False):
                print("held", flush=True)
                sys.stdin.readline()
                print(open(sys.argv[1] + "/a").read(), flush=True)
            """,
            root,
        )
        assert holder.stdout.readline() == "held\n"
        putter = start(
            """
            import sys
            from lakebed.storage.local import LocalStorage
            print("ready", flush=True)
            LocalStorage(sys.argv[1]).put("a", b"3")
            """,
            root,
        )
        assert putter.stdout.readline() == "ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            putter.wait(timeout=0.5)
        assert holder.communicate("go\n", timeout=10)[0] == "2\n"
        putter.communicate(timeout=10)
        assert storage.read("a") == b"3"


class TestHiddenFiles:
    def test_an_open_stream_has_a_hidden_file_that_no_listing_shows(self, storage, root):
        with storage.open_write("f/a") as stream:
            stream.write(b"1")
            assert len(hidden(root)) == 1
            assert paths(storage) == []
            assert storage.list_names("f") == ([], [])
        assert hidden(root) == []

    def test_no_way_out_of_a_write_leaves_a_hidden_file(self, storage, root):
        storage.put("a", b"1")
        with pytest.raises(ChangedError):
            storage.put_if_unchanged("a", b"2", "stale")
        storage.open_write("b").abort()
        stream = storage.open_write("c")
        stream.write(b"1")
        del stream
        with pytest.raises(InvalidError):
            storage.put("a/below-a-file", b"1")
        os.makedirs(f"{root}/folder")
        with pytest.raises(InvalidError, match="folder"):
            storage.put("folder", b"1")
        stream = storage.open_write("folder")
        with pytest.raises(InvalidError, match="folder"):
            stream.close()
        assert stream.closed
        assert hidden(root) == []

    def test_a_killed_writer_leaves_the_table_as_it_was(self, storage, root):
        storage.put("a", b"old")
        writer = start(
            """
            import sys
            from lakebed.storage.local import LocalStorage
            stream = LocalStorage(sys.argv[1]).open_write("a")
            stream.write(b"x" * (3 << 20))
            print("written", flush=True)
            sys.stdin.readline()
            """,
            root,
        )
        assert writer.stdout.readline() == "written\n"
        os.kill(writer.pid, signal.SIGKILL)
        writer.communicate()
        assert len(hidden(root)) == 1
        assert paths(storage) == ["a"]
        assert storage.read("a") == b"old"


class TestFailures:
    def test_a_write_that_does_not_fit_is_unavailable_and_leaves_nothing(self, root):
        program = start(
            """
            import os, resource, signal, sys
            from lakebed.errors import UnavailableError
            from lakebed.storage.local import LocalStorage
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
            storage, data = LocalStorage(sys.argv[1]), bytes(3 << 20)
            for act in (storage.put, storage.put_if_absent):
                try:
                    act("f/a", data)
                except UnavailableError as error:
                    print(error)
            try:
                with storage.open_write("f/a") as stream:
                    stream.write(data)
            except UnavailableError as error:
                print(error)
            print(os.listdir(sys.argv[1] + "/f"))
            """,
            root,
        )
        lines = program.communicate(timeout=20)[0].splitlines()
        assert lines == [f"file://{root}/f/a: File too large"] * 3 + ["[]"]

    def test_a_right_that_is_missing_is_the_callers_affair(self):
        storage = LocalStorage("/sys")  # refuses new files even to root
        for act in (lambda: storage.put("a", b""), lambda: storage.open_write("a")):
            with pytest.raises(InvalidError, match="file:///sys/a: "):
                act()

    def test_a_device_error_is_unavailable(self):
        with pytest.raises(UnavailableError, match="/proc/self/mem"):
            LocalStorage("/proc/self").read("mem")

    def test_a_path_below_a_file_is_missing_to_readers(self, storage):
        storage.put("a", b"1")
        for act in (storage.read, storage.head, storage.open_read):
            with pytest.raises(NotFoundError):
                act("a/b")
        storage.delete("a/b")
        assert list(storage.list("a")) == []

    def test_a_file_name_that_is_not_utf8_is_refused_by_name(self, storage, root):
        os.makedirs(root)
        with open(os.fsencode(root) + b"/\xff", "wb"):
            pass
        with pytest.raises(InvalidError, match="not UTF-8"):
            list(storage.list())


class TestLinks:
    @pytest.fixture
    def outside(self, storage, tmp_path, root):
        storage.put("a", b"1")
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "secret").write_bytes(b"secret")
        os.symlink(tmp_path / "out", f"{root}/folder")
        os.symlink(tmp_path / "out" / "secret", f"{root}/file")
        os.symlink("../../table2/new", f"{root}/dangling")
        return tmp_path / "out" / "secret"

    @pytest.mark.parametrize("path", ["folder/secret", "folder/new", "file", "dangling"])
    def test_every_method_refuses_a_link_out_of_the_root(self, storage, outside, path):
        for act in (
            lambda: storage.read(path),
            lambda: storage.read_range(path, 0, 1),
            lambda: storage.head(path),
            lambda: storage.put(path, b""),
            lambda: storage.put_if_absent(path, b""),
            lambda: storage.put_if_unchanged(path, b"", "tag"),
            lambda: storage.delete(path),
            lambda: storage.open_write(path),
            lambda: storage.open_read(path),
            lambda: storage.local_path(path),
            lambda: storage.list(path),
            lambda: storage.list_names(path),
        ):
            with pytest.raises(InvalidError, match="leads out of"):
                act()
        assert outside.read_bytes() == b"secret"
        assert [path.name for path in outside.parent.iterdir()] == ["secret"]

    def test_a_listing_names_the_link_that_leads_out(self, storage, outside):
        for act in (lambda: list(storage.list()), storage.list_names):
            with pytest.raises(InvalidError, match="leads out of"):
                act()

    def test_a_link_to_a_file_below_the_root_is_that_file(self, storage, root):
        storage.put("f/a", b"12")
        os.symlink("f/a", f"{root}/link")
        assert storage.read("link") == b"12"
        assert [(entry.path, entry.size) for entry in storage.list()] == [("f/a", 2), ("link", 2)]

    def test_a_link_to_a_folder_is_refused_by_listings_so_that_no_loop_traps_them(
        self, storage, root
    ):
        storage.put("f/a", b"12")
        os.symlink("..", f"{root}/f/loop")
        with pytest.raises(InvalidError, match="loop"):
            list(storage.list("f"))

    def test_the_root_itself_may_be_a_link(self, storage, root, tmp_path):
        storage.put("f/a", b"12")
        os.symlink(root, tmp_path / "alias")
        os.symlink("a", f"{root}/f/link")
        alias = LocalStorage(str(tmp_path / "alias"))
        assert alias.read("f/link") == b"12"


class TestProcesses:
    program = """
        import sys
        from lakebed.errors import ConflictError
        from lakebed.storage.local import LocalStorage
        root, who = sys.argv[1:]
        storage = LocalStorage(root)
        print("ready", flush=True)
        sys.stdin.readline()
        won = 0
        for number in range(30):
            try:
                storage.put_if_absent(f"timeline/{number}", who.encode())
                won += 1
            except ConflictError:
                pass
        raised = 0
        while raised < 20:
            tag = storage.head("counter").etag
            value = int(storage.read("counter"))
            try:
                storage.put_if_unchanged("counter", b"%d" % (value + 1), tag)
                raised += 1
            except ConflictError:
                pass
        print(won, flush=True)
        """

    def test_racing_processes_win_each_name_once_and_lose_no_update(self, storage, root):
        storage.put("counter", b"0")
        racers = [start(self.program, root, str(number)) for number in range(4)]
        for racer in racers:
            assert racer.stdout.readline() == "ready\n"
        for racer in racers:
            racer.stdin.write("go\n")
            racer.stdin.flush()
        won = [int(racer.communicate(timeout=60)[0]) for racer in racers]
        assert sum(won) == 30
        owners = [storage.read(f"timeline/{number}") for number in range(30)]
        assert [owners.count(b"%d" % number) for number in range(4)] == won
        assert storage.read("counter") == b"80"
        assert hidden(root) == []


def test_it_travels_by_pickle(storage, root):
    storage.put("a", b"1")
    copy = pickle.loads(pickle.dumps(storage))
    assert copy.read("a") == b"1"
    assert copy.url == storage.url == f"file://{root}"
    assert repr(copy) == f"LocalStorage({root!r})"


def test_a_range_of_absurd_length_allocates_only_what_is_there(storage):
    storage.put("a", b"12345")
    assert storage.read_range("a", 1, 1 << 62) == b"2345"


def test_an_open_file_stays_readable_when_it_is_deleted(storage):
    storage.put("a", b"x" * 100_000)
    with storage.open_read("a") as file:
        storage.delete("a")
        assert file.read() == b"x" * 100_000


def test_delete_keeps_the_folder(storage, root):
    storage.put("f/a", b"1")
    storage.delete("f/a")
    assert storage.list_names() == (["f"], [])
    assert paths(storage) == []
