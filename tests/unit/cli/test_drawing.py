"""Layers are drawn within the width, whatever keys look like."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from lakebed.cli.drawing import align, draw_groups
from lakebed.table.run_facts import FileGroupFacts, RunFacts, age_of
from lakebed.terminal.text import age_text

TEXT = st.text(max_size=60)


@st.composite
def runs(draw):
    return RunFacts(
        draw(st.sampled_from(["L0", "L1"])),
        draw(st.sampled_from(["data", "deletes", "partial rows", "unread"])),
        "path",
        "20240101000000000",
        draw(st.integers(0, 1 << 50)),
        draw(st.none() | st.integers(0, 1 << 40)),
        draw(st.none() | TEXT),
        draw(st.none() | TEXT),
        draw(st.none() | st.integers(-(1 << 40), 1 << 45)),
    )


GROUPS = st.builds(
    FileGroupFacts,
    TEXT,
    TEXT,
    st.integers(0, 1 << 50),
    st.lists(runs(), max_size=4).map(tuple),
    TEXT,
)


@given(st.lists(GROUPS, max_size=3), st.integers(20, 200))
def test_no_line_is_longer_than_the_width_and_every_run_is_drawn(groups, width):
    lines = draw_groups(groups, width)
    assert max(map(cell_len, lines), default=0) <= max(width, 60)
    assert all(line.isprintable() for line in lines)
    drawn = sum(line.startswith(("    L0 █", "    L1 █")) for line in lines)
    assert drawn == sum(len(group.runs) for group in groups)


def test_the_longest_bar_is_that_of_the_largest_run():
    def run(size_bytes):
        return RunFacts("L0", "data", "p", "1", size_bytes, 1, None, None, 0)

    small, large = draw_groups([FileGroupFacts("", "f", 1, (run(1), run(1000)))], 100)[2:]
    assert small.count("█") == 1
    assert large.count("█") == 20


@pytest.mark.parametrize(
    ("age_ms", "text"),
    [(0, "0 s"), (-5, "0 s"), (59_999, "59 s"), (60_000, "1 min"), (3_600_000, "1 h"), (None, "?")],
)
def test_ages_are_spelled_in_their_largest_unit(age_ms, text):
    assert age_text(age_ms) == text


def test_digits_that_are_no_time_have_no_age():
    assert age_of("00000000000000000", "UTC", 0) is None
    assert age_of("19700101000000000", "UTC", 5) == 5


def test_columns_line_up():
    assert align(("name", "n"), [("a", "1"), ("bcdefg", "234")], right={"n"}) == [
        "name      n",
        "a         1",
        "bcdefg  234",
    ]
    assert align(("name",), []) == ["name"]
