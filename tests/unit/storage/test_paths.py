"""Paths that may name an object, and absolute paths that lie below the table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.errors import InvalidError
from lakebed.storage.paths import check_path, is_reserved

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
