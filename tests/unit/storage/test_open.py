"""URLs that open a storage, and those that do not."""

import os
import traceback

import pytest

import lakebed
from lakebed.errors import InvalidError, LakebedError, OptionError
from lakebed.model.options.read import ReadOptions
from lakebed.model.options.save import SaveOptions
from lakebed.model.options.stream import StreamReadOptions
from lakebed.storage.failures import first_line
from lakebed.storage.local import LocalStorage
from lakebed.storage.objects import ObjectStorage
from lakebed.storage.open import open_storage


@pytest.mark.parametrize("start", ["", "file:", "file://", "FILE://", "file://localhost"])
def test_a_path_and_its_file_urls_are_one_folder(tmp_path, start):
    root = f"{tmp_path}/a b%20é?#[1]"
    storage = open_storage(f"{start}{root}")
    assert isinstance(storage, LocalStorage)
    storage.put("x", b"1")
    assert os.path.exists(f"{root}/x")
    assert storage.url == f"file://{root}"
    assert open_storage(storage.url).read("x") == b"1"


def test_a_relative_path_is_made_absolute_and_nothing_else_is_expanded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_storage("~/$HOME/t/").url == f"file://{tmp_path}/~/$HOME/t"


def test_opening_makes_nothing(tmp_path):
    open_storage(str(tmp_path / "t"))
    assert list(tmp_path.iterdir()) == []


def test_a_memory_is_the_same_for_the_same_name():
    open_storage("memory://open-one/t").put("a", b"1")
    assert open_storage("memory://open-one/t").read("a") == b"1"
    assert open_storage("memory://open-one").read("t/a") == b"1"
    assert list(open_storage("memory://open-two/t").list()) == []


@pytest.mark.parametrize("start", ["s3", "s3a"])
def test_both_names_of_s3_reach_the_same_objects(s3_server, s3_storage, start):
    s3_storage.put("a", b"1")
    url = start + s3_storage.url.removeprefix("s3")
    assert open_storage(url + "/", s3_server.options()).read("a") == b"1"
    assert open_storage(url, s3_server.options()).url == url


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("gs://bucket/t", {"skip_signature": "true"}),
        ("az://box/t", {"account_name": "acct", "skip_signature": "true"}),
        ("abfs://box@acct.dfs.core.windows.net/t", {"skip_signature": "true"}),
        ("abfss://box@acct.dfs.core.windows.net/t", {"skip_signature": "true"}),
        ("s3://bucket", {"region": "eu-central-1", "timeout": "9s"}),
    ],
)
def test_the_other_clouds_open_without_a_request(url, options):
    storage = open_storage(url, options)
    assert isinstance(storage, ObjectStorage)
    assert storage.url == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hdfs://name/t",
        "http://host/t",
        "s3:///t",
        "s3://",
        "memory://",
        "memory:/t",
        "s3://bucket/a/../b",
        "memory://m/a//b",
        "file://elsewhere/t",
        "a\0b",
    ],
)
def test_a_url_that_opens_nothing_is_refused_by_name(url):
    with pytest.raises(InvalidError, match="path '"):
        open_storage(url)


def test_an_unknown_scheme_is_told_the_known_ones():
    with pytest.raises(InvalidError, match=r"'hdfs' is not one of .*file, memory, s3, s3a, gs, az"):
        open_storage("hdfs://name/t")


@pytest.mark.parametrize(
    ("url", "options", "named"),
    [
        ("s3://bucket/t", {"colour": "red"}, "colour"),
        ("s3://bucket/t", {"bucket": "other"}, "bucket"),
        ("s3://bucket/t", {"timeout": "soon"}, "timeout"),
        ("memory://m", {"region": "x"}, "region"),
        ("/tmp/t", {"region": "x"}, "region"),
    ],
)
def test_an_option_that_the_storage_cannot_take_is_refused_by_name(url, options, named):
    with pytest.raises(OptionError, match=named):
        open_storage(url, options)


SECRET = "s3cr3t-of-a-user"
NOWHERE = {
    "region": "x",
    "access_key_id": "a",
    "endpoint": "http://127.0.0.1:9",
    "allow_http": "true",
}


@pytest.mark.parametrize(
    ("url", "options"),
    [
        (f"s3://user:{SECRET}@bucket/t", {}),
        (f"memory://user:{SECRET}@bucket/t", {}),
        ("s3://bucket/t", {"region": "x", "allow_http": SECRET}),
        ("s3://bucket/t", {"region": "x", "timeout": SECRET}),
        ("s3://bucket/t", {"region": "x", "secret_access_keys": SECRET}),
    ],
)
def test_errors_of_urls_and_options_do_not_have_the_secrets(url, options):
    with pytest.raises(InvalidError) as caught:
        open_storage(url, options)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_errors_of_a_store_do_not_have_the_password_of_its_address():
    at = {**NOWHERE, "endpoint": f"http://user:{SECRET}@127.0.0.1:9", "secret_access_key": SECRET}
    storage = open_storage("s3://bucket/t", {**at, "timeout": "1s"})
    with pytest.raises(LakebedError) as caught:
        storage.read("x")
    assert "127.0.0.1" in str(caught.value)
    assert SECRET not in str(caught.value)
    signed = OSError(f"GET https://host/t?a=1&X-Amz-Signature={SECRET}&sig={SECRET} failed")
    assert first_line(signed) == "GET https://host/t?a=1&***&*** failed"


def test_values_that_hold_storage_options_do_not_show_them():
    options = {"secret_access_key": SECRET}
    held = (
        lakebed.foreach_batch("/data/t", storage_options=options),
        ReadOptions("/data/t", storage_options=options),
        SaveOptions("/data/t", storage_options=options),
        StreamReadOptions("/data/t", storage_options=options),
        lakebed.catalog(None, "s3://bucket/w", {**NOWHERE, **options}),
    )
    assert SECRET not in repr(held)
