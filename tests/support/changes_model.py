"""What incremental and change data reads must agree with: the states before and after them."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from lakebed.format.names.meta_columns import COMMIT_TIME

Row = Mapping[str, Any]
Ident = tuple[str, str]
State = dict[Ident, dict[str, Any]]


def replay(state: State, changes: Iterable[Row], ident_of: Callable[[Row], Ident]) -> State:
    """Carry change rows out on a state; each must fit what is there when its turn comes."""
    held = dict(state)
    # A commit that replaces a file group deletes its rows before it inserts others.
    for change in sorted(changes, key=lambda row: (row["ts_ms"], row["op"])):
        before, after, op = change["before"], change["after"], change["op"]
        ident = ident_of(before if after is None else after)
        assert (before is None, after is None) == (op == "i", op == "d"), change
        assert held.get(ident) == before, f"{ident}: held {held.get(ident)}, change {change}"
        if after is None:
            del held[ident]
        else:
            held[ident] = dict(after)
    return held


def check_incremental(
    found: Iterable[Row],
    state: Mapping[Ident, Row],
    written: Collection[str],
    ident_of: Callable[[Row], Ident],
) -> None:
    """Assert that what the commits `written` wrote and what still stands is found as it stands.

    More may be found: a row that lost against one that is older than the range.
    """
    seen: dict[Ident, Row] = {}
    for row in found:
        ident = ident_of(row)
        assert ident not in seen, f"{ident} occurs twice"
        assert row[COMMIT_TIME] in written, row
        seen[ident] = row
    for ident, row in state.items():
        if row[COMMIT_TIME] in written:
            assert seen.get(ident) == row, f"{ident}: expected {row}, found {seen.get(ident)}"
        elif ident in seen:
            assert seen[ident][COMMIT_TIME] > row[COMMIT_TIME], (seen[ident], row)
