"""Paths that may name an object, and absolute paths that lie below the table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.errors import InvalidError
from lakebed.storage.paths import check_path, is_reserved, relative_path

segments = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1, max_size=40
).filter(lambda text: text not in (".", "..") and not is_reserved(text))


@given(st.lists(segments, min_size=1, max_size=5))
def test_any_utf8_segments_make_a_path(parts):
    path = "/".join(parts)
    assert check_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/a",
        "//a",
        "a/",
        "a//b",
        ".",
        "..",
        "./a",
        "a/./b",
        "../a",
        "a/../b",
        "a/..",
        "a\0b",
        "a/" + "x" * 256,
        "é" * 128,
        "/".join(["x" * 200] * 6),
        "\udcff",
        "x" * 10_000_000,
        ".lakebed-tmp-00/a",
        "a/.lakebed-lock",
    ],
)
def test_a_path_that_is_no_object_below_the_root_is_refused_by_name(path):
    with pytest.raises(InvalidError, match="expected a relative path"):
        check_path(path)


@pytest.mark.parametrize(
    "path",
    ["...", "..a", "a..", "a\\b", "a\\..\\b", "x" * 255, "é" * 127, ".hoodie/.locks/t", "a:b"],
)
def test_a_path_that_only_looks_odd_is_taken(path):
    assert check_path(path) == path


@pytest.mark.parametrize(
    ("root", "text", "want"),
    [
        ("file:///base", "p/f", "p/f"),
        ("file:///base", "/base/p/f", "p/f"),
        ("file:///base", "file:/base/p/f", "p/f"),
        ("file:///base", "file:///base/p/f", "p/f"),
        ("file:///base", "FILE:///base//p//f", "p/f"),
        ("/base/", "file:/base/p/f", "p/f"),
        ("file:///a b%20", "file:/a b%20/p=1%2F/f", "p=1%2F/f"),
        ("file:///", "/p/f", "p/f"),
        ("s3://bucket/base", "s3a://bucket/base/p/f", "p/f"),
        ("s3a://bucket", "s3://bucket/p/f", "p/f"),
        ("gs://bucket/base", "gs://bucket/base/f", "f"),
        ("az://box/base", "abfss://box@account.dfs.core.windows.net/base/f", "f"),
        ("memory://t", "memory://t/f", "f"),
        ("file:///base", "10:00/f", "10:00/f"),
        ("file:///base", "t=10:/f", "t=10:/f"),
    ],
)
def test_the_part_below_the_root_is_found(root, text, want):
    assert relative_path(root, text) == want


@pytest.mark.parametrize(
    ("root", "text"),
    [
        ("file:///base", "/etc/passwd"),
        ("file:///base", "/base2/f"),
        ("file:///base", "/base"),
        ("file:///base", "/base/"),
        ("file:///base", "/base/../etc/passwd"),
        ("file:///base", "../etc/passwd"),
        ("file:///base", "file://elsewhere/base/f"),
        ("file:///base", "s3://base/f"),
        ("s3://bucket/base", "s3://other/base/f"),
        ("s3://bucket/base", "/base/f"),
        ("s3://bucket/base", "gs://bucket/base/f"),
        ("file:///base", ""),
    ],
)
def test_a_path_outside_the_root_is_refused_by_name(root, text):
    with pytest.raises(InvalidError, match="path '"):
        relative_path(root, text)


@given(st.lists(segments, min_size=1, max_size=4))
def test_an_absolute_path_below_the_root_gives_its_relative_path(parts):
    path = "/".join(parts)
    assert relative_path("s3://bucket/base", f"s3a://bucket/base/{path}") == path
    assert relative_path("file:///base", f"file:/base/{path}") == path
