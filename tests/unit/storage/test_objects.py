"""What only object stores have: lost answers, open uploads, folder marks, credentials."""

import http.client
import http.server
import pickle
import socket
import threading
import time
import uuid

import obstore
import pytest
from obstore.store import MemoryStore

from lakebed.errors import (
    ChangedError,
    ExistsError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from lakebed.storage.objects import ObjectStorage, memory_storage
from lakebed.storage.open import open_storage


class Proxy(http.server.ThreadingHTTPServer):
    """Passes requests on to S3, and spoils the next answers to PUT and POST as told.

    `faults` holds one word for each: "drop" and "500" lose the answer after the request
    took effect, "refuse" answers 500 and passes nothing on.
    """

    def __init__(self, target_port: int) -> None:
        super().__init__(("127.0.0.1", 0), ProxyHandler)
        self.target_port = target_port
        self.faults: list[str] = []
        self.puts = 0


class ProxyHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = ""
        if self.command in ("PUT", "POST"):
            self.server.puts += 1
            fault = self.server.faults.pop(0) if self.server.faults else ""
        if fault == "refuse":
            self.answer(500, {}, b"")
            return
        target = http.client.HTTPConnection("127.0.0.1", self.server.target_port)
        target.request(self.command, self.path, body, dict(self.headers))
        response = target.getresponse()
        content = response.read()
        target.close()
        if fault == "drop":
            self.close_connection = True
        elif fault == "500":
            self.answer(500, {}, b"")
        else:
            self.answer(response.status, dict(response.getheaders()), content)

    def answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response_only(status)
        for key, value in headers.items():
            if key.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(key, value)
        length = headers.get("Content-Length") if self.command == "HEAD" else str(len(content))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def proxy(s3_server):
    server = Proxy(s3_server.port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def shaky(s3_server, proxy) -> ObjectStorage:
    """S3 behind the proxy."""
    url = f"s3://{s3_server.bucket}/{uuid.uuid4()}"
    return open_storage(url, s3_server.options(proxy.server_port))


class TestLostAnswers:
    @pytest.mark.parametrize("fault", ["drop", "500"])
    def test_put_if_absent_whose_answer_is_lost_has_won(self, shaky, proxy, fault):
        proxy.faults = [fault]
        tag = shaky.put_if_absent("a", b"1")
        assert proxy.faults == []
        assert shaky.head("a").etag == tag

    @pytest.mark.parametrize("fault", ["drop", "500"])
    def test_put_if_unchanged_whose_answer_is_lost_has_won(self, shaky, proxy, fault):
        tag = shaky.put("a", b"1")
        proxy.faults = [fault]
        tag = shaky.put_if_unchanged("a", b"2", tag)
        assert proxy.faults == []
        assert shaky.read("a") == b"2"
        assert shaky.head("a").etag == tag

    @pytest.mark.parametrize("fault", ["drop", "500", "refuse"])
    def test_a_rival_with_the_same_bytes_is_not_taken_for_us(self, shaky, proxy, fault):
        shaky.put_if_absent("a", b"same")
        proxy.faults = [fault]
        with pytest.raises(ExistsError):
            shaky.put_if_absent("a", b"same")

    @pytest.mark.parametrize("fault", ["500", "refuse"])
    def test_a_rival_that_changed_the_object_is_not_taken_for_us(self, shaky, proxy, fault):
        tag = shaky.put("a", b"1")
        shaky.put("a", b"2")
        proxy.faults = [fault]
        with pytest.raises(ChangedError):
            shaky.put_if_unchanged("a", b"3", tag)
        assert shaky.read("a") == b"2"

    def test_a_refused_write_is_tried_again(self, shaky, proxy):
        proxy.faults = ["refuse", "refuse"]
        shaky.put_if_absent("a", b"1")
        assert shaky.read("a") == b"1"

    def test_a_server_that_keeps_failing_is_unavailable_within_seconds(self, shaky, proxy):
        proxy.faults = ["refuse"] * 100
        started = time.monotonic()
        for act in (shaky.put, shaky.put_if_absent):
            with pytest.raises(UnavailableError, match="/a: "):
                act("a", b"1")
        assert time.monotonic() - started < 20
        assert list(shaky.list()) == []

    def test_an_upload_that_fails_midway_says_so_and_leaves_no_object(self, shaky, proxy):
        def write() -> None:
            with shaky.open_write("a") as stream:
                stream.write(bytes(9 << 20))
                proxy.faults = ["refuse"] * 100
                for _ in range(20):
                    stream.write(bytes(8 << 20))

        with pytest.raises(UnavailableError, match="/a: "):
            write()
        assert list(shaky.list()) == []


class TestUploads:
    @pytest.mark.parametrize("how", ["abort", "exception", "forgotten"])
    def test_a_large_stream_given_up_leaves_no_open_upload(self, s3_server, s3_storage, how):
        stream = s3_storage.open_write("large")
        stream.write(bytes(30 << 20))
        deadline = time.monotonic() + 10
        while not self.uploads(s3_server):
            assert time.monotonic() < deadline, "no upload was begun"
            time.sleep(0.01)
        if how == "abort":
            stream.abort()
        elif how == "exception":
            with pytest.raises(ZeroDivisionError), stream:
                raise ZeroDivisionError
        else:
            del stream
        assert self.uploads(s3_server) == []
        assert list(s3_storage.list()) == []

    def test_a_small_stream_is_one_request(self, shaky, proxy):
        with shaky.open_write("small") as stream:
            for _ in range(1000):
                stream.write(b"x" * 1000)
        assert proxy.puts == 1

    @pytest.mark.parametrize("extra", [-1, 0, 1])
    def test_sizes_around_one_part_come_out_right(self, s3_storage, extra):
        data = b"0123456789abcdef" * ((8 << 20) // 16) + b"!"
        with s3_storage.open_write("a") as stream:
            stream.write(memoryview(data)[: (8 << 20) + extra])
        assert s3_storage.read("a") == data[: (8 << 20) + extra]

    @staticmethod
    def uploads(server) -> list[object]:
        answer = server.client().list_multipart_uploads(Bucket=server.bucket)
        return answer.get("Uploads", [])


class TestOutages:
    def test_a_refused_connection_is_unavailable_within_seconds(self, s3_server):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))  # bound and not listening: no other process takes it
            options = s3_server.options(closed.getsockname()[1])
            storage = open_storage("s3://bucket/table", options)
            started = time.monotonic()
            for act in (
                lambda: storage.read("a"),
                lambda: storage.read_range("a", 0, 1),
                lambda: list(storage.list()),
                lambda: storage.put_if_absent("a", b""),
                lambda: storage.delete("a"),
            ):
                with pytest.raises(UnavailableError, match="s3://bucket/table/"):
                    act()
            assert time.monotonic() - started < 20

    def test_a_missing_bucket_is_named(self, s3_server):
        storage = open_storage("s3://no-such-bucket/t", s3_server.options())
        with pytest.raises(NotFoundError, match="no-such-bucket"):
            storage.read("a")
        with pytest.raises((NotFoundError, UnavailableError), match="no-such-bucket"):
            storage.put("a", b"")


class TestListing:
    def test_folder_marks_of_hadoop_are_left_out(self, s3_server, s3_storage):
        s3_storage.put("p=1/q/f", b"1")
        prefix = s3_storage.url.removeprefix(f"s3://{s3_server.bucket}/")
        for mark in ("", "p=1/", "p=1/q/", "empty/"):
            s3_server.client().put_object(Bucket=s3_server.bucket, Key=f"{prefix}/{mark}", Body=b"")
        assert [entry.path for entry in s3_storage.list("p=1")] == ["p=1/q/f"]
        assert list(s3_storage.list("empty")) == []
        assert s3_storage.list_names() == (["empty", "p=1"], [])
        assert s3_storage.list_names("p=1") == (["q"], [])
        assert s3_storage.list_names("empty") == ([], [])
        s3_server.client().delete_object(Bucket=s3_server.bucket, Key=f"{prefix}/empty/")
        assert [entry.path for entry in s3_storage.list()] == ["p=1/q/f"]

    def test_hidden_files_copied_from_a_disk_are_left_out(self):
        store = MemoryStore()
        for name in ("a", "f/.lakebed-tmp-12", ".lakebed-lock", "f/b"):
            obstore.put(store, f"base/{name}", b"1")
        storage = ObjectStorage(store, "memory://x/base", "base")
        assert [entry.path for entry in storage.list()] == ["a", "f/b"]
        assert [entry.path for entry in storage.list_names("f")[1]] == ["f/b"]

    def test_neighbours_of_the_prefix_are_never_seen(self, s3_server):
        base = f"s3://{s3_server.bucket}/{uuid.uuid4()}"
        one, two = (open_storage(f"{base}/{name}", s3_server.options()) for name in ("t", "t2"))
        two.put("a", b"2")
        assert list(one.list()) == []
        assert one.list_names() == ([], [])
        one.put("a", b"1")
        assert two.read("a") == b"2"
        assert open_storage(base, s3_server.options()).list_names() == (["t", "t2"], [])


class TestReader:
    def test_a_footer_and_what_lies_before_it_cost_one_request(self, s3_storage, monkeypatch):
        data = bytes(range(256)) * 2000
        s3_storage.put("a", data)
        requests = []
        real_get = obstore.get

        def counting(*arguments, **options):
            requests.append(options["options"]["range"])
            return real_get(*arguments, **options)

        monkeypatch.setattr(obstore, "get", counting)
        with s3_storage.open_read("a") as file:
            end = len(data)
            assert file.read_at(8, end - 8) == data[-8:]
            assert file.read_at(5000, end - 5008) == data[-5008:-8]
            assert requests == [(end - 65536, end)]
            assert file.read_at(200_000, 10) == data[10:200_010]
            assert requests[1:] == [(10, 200_010)]

    def test_a_position_before_the_start_is_refused(self):
        storage = memory_storage()
        storage.put("a", b"123")
        with storage.open_read("a") as file, pytest.raises(InvalidError, match="position"):
            file.seek(-4, 2)


def test_an_s3_storage_travels_by_pickle_and_shows_no_secret(s3_storage):
    s3_storage.put("a", b"1")
    copy = pickle.loads(pickle.dumps(s3_storage))
    assert copy.read("a") == b"1"
    assert copy.url == s3_storage.url
    assert "secret" not in repr(copy)


def test_a_memory_storage_refuses_to_travel():
    with pytest.raises(InvalidError, match="memory tables live in one process"):
        pickle.dumps(memory_storage())


def test_two_memory_storages_share_nothing():
    one, two = memory_storage(), memory_storage()
    one.put("a", b"1")
    assert list(two.list()) == []


@pytest.mark.parametrize("path", ["a\tb", "a\nb", "a\x7fb"])
def test_control_characters_are_refused_by_name(path):
    with pytest.raises(InvalidError, match="control characters"):
        memory_storage().put(path, b"")
