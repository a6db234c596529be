"""Which row groups may hold a key: for few keys and for more keys than there are row groups."""

import numpy as np
import pytest

from lakebed.table.read.key_filter import KeyFilter


def may_hold(key: bytes, firsts: list[bytes], last: bytes | None, group: int) -> bool:
    end = firsts[group + 1] if group + 1 < len(firsts) else last
    return firsts[group] <= key and (end is None or key <= end)


@pytest.mark.parametrize("has_last", [True, False])
@pytest.mark.parametrize("seed", range(60))
def test_row_groups_are_those_between_whose_first_keys_a_key_lies(seed: int, has_last: bool):
    rng = np.random.default_rng(seed)
    firsts = sorted(f"{n:03}".encode() for n in rng.integers(0, 40, rng.integers(0, 6)))
    last = max([*firsts, b"030"]) if has_last else None
    keys = [f"{n:03}" for n in rng.integers(0, 45, rng.integers(0, 12))]
    found = KeyFilter.of(keys=keys)._groups_between(firsts, last)
    wanted = [
        group
        for group in range(len(firsts))
        if any(may_hold(key.encode(), firsts, last, group) for key in keys)
    ]
    assert found == wanted
