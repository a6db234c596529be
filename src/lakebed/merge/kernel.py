"""The compiled merge: a loser tree over the keys of a window, and the fold of repeated keys.

    keys      the bytes of all keys, run after run, and 8 zero bytes; viewed as an unaligned 64-bit
              little-endian word at every byte, so that eight bytes are compared at once
    offsets   n + 1 offsets into the bytes; key i is keys[offsets[i]:offsets[i + 1]]
    bounds    k + 1 row numbers; run r has the rows bounds[r] to bounds[r + 1]

Rows are numbered across all runs. `merge/twin.py` does the same in plain Python and shares no code;
both run the same tests. Importing numba is slow; see `format/compiled.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from lakebed.format.compiled import load_compiled

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

# _MASKS[n] selects the first n bytes of a word.
_MASKS = np.array([(1 << 64) - (1 << 64 - 8 * n) for n in range(9)], np.uint64)

OrderRuns = Callable[[Words, Ints, Ints, Ints, Ints, Bytes], int]
FoldVersions = Callable[
    [Ints, Bytes, Bytes, Ints, Ints, Bytes, Bytes, bool, bool, Ints, Ints, Bytes], None
]


@dataclass(frozen=True, slots=True)
class Kernels:
    """The two compiled functions; see `_order_runs` and `_fold_versions`."""

    order_runs: OrderRuns
    fold_versions: FoldVersions


@cache
def load_kernels() -> Kernels:
    """Return the kernels, compiled or loaded from the cache once per process."""
    return load_compiled(__file__, _compile)


def _compile(cached: bool) -> Kernels:
    import numba as nb  # noqa: PLC0415 - see the module's docstring

    words = nb.types.Array(nb.uint64, 1, "A", readonly=True, aligned=False)
    ints, ints_2d = nb.int64[::1], nb.int64[:, ::1]
    bits, bits_2d = nb.uint8[::1], nb.uint8[:, ::1]
    order = nb.njit(nb.int64(words, ints, ints, ints, ints, bits), cache=cached, nogil=True)
    fold = nb.njit(
        nb.void(ints, bits, bits, ints_2d, ints, bits_2d, bits, nb.b1, nb.b1, ints, ints_2d, bits),
        cache=cached,
        nogil=True,
    )
    return Kernels(order(_order_runs), fold(_fold_versions))


def _order_runs(  # noqa: C901, PLR0912, PLR0915 - one function: numba caches no calls of others
    words: Words, offsets: Ints, bounds: Ints, tree: Ints, positions: Ints, starts: Bytes
) -> int:
    """Set `positions` to the row numbers in key order, and `starts` to 1 at the first row of a key.

    Equal keys are ordered by run, oldest first, then by row. `tree` has a node for each run, and
    its size is a power of two: tree[0] is the winner, tree[n] the run that lost the match at node
    n; a tie goes to the lower run. Returns -1, or the row of a key that is less than the key before
    it in its run.

    Matches avoid branches where possible: the winner is practically random, and a mispredicted
    branch would cost as much as the rest of the work for a row.
    """

    def head(at: int, mask: np.uint64) -> np.uint64:
        """Return 8 bytes as a big-endian number; the bits outside `mask` are 0."""
        word: np.uint64 = words[at]
        word = ((word >> np.uint64(8)) & np.uint64(0x00FF00FF00FF00FF)) | (
            (word & np.uint64(0x00FF00FF00FF00FF)) << np.uint64(8)
        )
        word = ((word >> np.uint64(16)) & np.uint64(0x0000FFFF0000FFFF)) | (
            (word & np.uint64(0x0000FFFF0000FFFF)) << np.uint64(16)
        )
        return ((word >> np.uint64(32)) | (word << np.uint64(32))) & mask

    def compare(left: int, right: int, at: int) -> int:
        """Return the sign of left - right; padded with zeros, the keys are equal in `at` bytes."""
        left_at = offsets[left]
        right_at = offsets[right]
        left_size = offsets[left + 1] - left_at
        right_size = offsets[right + 1] - right_at
        order: int = left_size - right_size
        while at < left_size and at < right_size:
            if words[left_at + at] != words[right_at + at]:
                left_word = head(left_at + at, _MASKS[min(left_size - at, 8)])
                right_word = head(right_at + at, _MASKS[min(right_size - at, 8)])
                if left_word != right_word:
                    order = -1 if left_word < right_word else 1
                    break
            at += 8
        return order

    runs = bounds.shape[0] - 1
    leaves = tree.shape[0]
    rows = positions.shape[0]
    if rows == 0:
        return -1
    most = np.uint64(0xFFFFFFFFFFFFFFFF)

    # If the runs ascend, all keys share the common prefix of the first and last keys of all runs.
    base = offsets[0]
    shared = offsets[1] - base
    for run in range(runs):
        if bounds[run] == bounds[run + 1]:
            continue
        for end in range(2):
            row = bounds[run] if end == 0 else bounds[run + 1] - 1
            at = offsets[row]
            size = min(shared, offsets[row + 1] - at)
            shared = 0
            while (
                shared < size and (words[at + shared] ^ words[base + shared]) & np.uint64(255) == 0
            ):
                shared += 1

    # The 16 bytes after the shared prefix decide nearly every match. Row i of run r is at i + r,
    # because each run is followed by a sentinel, the greatest possible value.
    high = np.empty(rows + leaves, np.uint64)
    low = np.empty(rows + leaves, np.uint64)
    whole = shared >> 3 << 3
    rest = most >> np.uint64(8) * np.uint64(8 - shared + whole) if shared > whole else np.uint64(0)
    sample = words[base + whole]
    for run in range(leaves):
        first = bounds[min(run, runs)]
        end = bounds[min(run + 1, runs)]
        high_before = np.uint64(0)
        low_before = np.uint64(0)
        for row in range(first, end):
            at = offsets[row]
            size = offsets[row + 1] - at - shared
            odd = (words[at + whole] ^ sample) & rest
            for step in range(0, whole, 8):
                odd |= words[at + step] ^ words[base + step]
            at += shared
            now_high = head(at, _MASKS[min(max(size, 0), 8)])
            now_low = head(at + 8, _MASKS[min(max(size - 8, 0), 8)])
            high[row + run] = now_high
            low[row + run] = now_low
            ascends = (high_before < now_high) | (
                (high_before == now_high) & (low_before < now_low)
            )
            if not ascends or odd != 0:
                # Search from here on for a key less than the one before it.
                for later in range(max(row, first + 1), end):
                    if compare(later - 1, later, 0) > 0:
                        return later
                    if odd == 0 and size >= 0:
                        break
            high_before = now_high
            low_before = now_low
        high[end + run] = most
        low[end + run] = most

    heads = np.empty(leaves, np.int64)
    node_high = np.zeros(leaves, np.uint64)
    node_low = np.zeros(leaves, np.uint64)
    # Until all runs have entered, a sentinel that wins every match takes their places.
    ghost = leaves
    for run in range(leaves):
        heads[run] = bounds[min(run, runs)]
        tree[run] = ghost
    last_high = np.uint64(0)
    last_low = np.uint64(0)
    last = -1
    for turn in range(-leaves, rows):
        if turn < 0:
            run = turn + leaves
        else:
            run = tree[0]
            row = heads[run]
            now_high = high[row + run]
            now_low = low[row + run]
            same = (now_high == last_high) & (now_low == last_low)
            if same:
                same = last >= 0 and compare(last, row, shared + 16) == 0
            positions[turn] = row
            starts[turn] = not same
            last = row
            last_high = now_high
            last_low = now_low
            heads[run] = row + 1
        best_high = high[heads[run] + run]
        best_low = low[heads[run] + run]
        node = (run + leaves) >> 1
        while node > 0:
            rival = tree[node]
            rival_high = node_high[node]
            rival_low = node_low[node]
            # The borrow of the 128-bit difference rival - best is 1 if the rival is less and so
            # wins.
            borrow = (
                (~rival_low & best_low) | ((~rival_low | best_low) & (rival_low - best_low))
            ) >> np.uint64(63)
            wins = (
                (~rival_high & best_high)
                | ((~rival_high | best_high) & (rival_high - best_high - borrow))
            ) >> np.uint64(63)
            high_flip = rival_high ^ best_high
            low_flip = rival_low ^ best_low
            if high_flip | low_flip == 0:
                if ghost in (run, rival):
                    lost = rival == ghost
                elif heads[rival] == bounds[min(rival + 1, runs)]:
                    lost = False
                elif heads[run] == bounds[min(run + 1, runs)]:
                    lost = True
                else:
                    order = compare(heads[rival], heads[run], shared + 16)
                    lost = order < 0 or (order == 0 and rival < run)
                wins = np.uint64(1) if lost else np.uint64(0)
            mask = np.uint64(0) - wins
            high_flip &= mask
            low_flip &= mask
            run_flip = (run ^ rival) & np.int64(mask)
            tree[node] = rival ^ run_flip
            node_high[node] = rival_high ^ high_flip
            node_low[node] = rival_low ^ low_flip
            run ^= run_flip
            best_high ^= high_flip
            best_low ^= low_flip
            node >>= 1
        tree[0] = run
    return -1


def _fold_versions(  # noqa: C901, PLR0912 - one loop, as above
    rows: Ints,
    starts: Bytes,
    flags: Bytes,
    ranks: Ints,
    parts: Ints,
    presence: Bytes,
    yields: Bytes,
    loser_gives: bool,
    open_stays: bool,
    winners: Ints,
    sources: Ints,
    results: Bytes,
) -> None:
    """Fold the versions of each key, oldest first.

    Inputs are the row numbers in key order; `starts`, 1 at the first row of a key; flags;
    ranks[field, version]; the part of each version; presence[class, part], whether the part has the
    columns of a class; yields[part], whether the part's versions, which come last, win only by
    greater ranks; and the rules of `tree.fold_versions`. Outputs are, for each key, the winning
    row; sources[class, key], the row that supplies the columns of a class, or -1 for null; and the
    flags.
    """
    fields = ranks.shape[0]
    classes = presence.shape[0]
    key = -1
    held = 0
    for new in range(rows.shape[0]):
        row = rows[new]
        deleted = flags[new] & 1 != 0
        if starts[new] != 0:
            key += 1
            held = new
            winners[key] = row
            results[key] = flags[new]
            for cls in range(classes):
                there = presence[cls, parts[new]] != 0 and not deleted
                sources[cls, key] = row if there else -1
            continue
        yielding = yields[parts[new]] != 0
        stays = open_stays and deleted and results[key] & 5 == 5
        wins = not yielding and not stays
        if results[key] & 4 == 0 and (yielding or flags[new] & 2 == 0):
            for field in range(fields):
                if ranks[field, new] != ranks[field, held]:
                    wins = ranks[field, new] > ranks[field, held]
                    break
        barrier = (results[key] | flags[new]) & 2
        gone = results[key] & 1 != 0
        if wins:
            for cls in range(classes):
                if deleted:
                    sources[cls, key] = -1
                elif presence[cls, parts[new]] != 0:
                    sources[cls, key] = row
            held = new
            winners[key] = row
            results[key] = (flags[new] & 5) | barrier
        else:
            gives = loser_gives and not gone and not deleted
            for cls in range(classes):
                if gives and sources[cls, key] < 0 and presence[cls, parts[new]] != 0:
                    sources[cls, key] = row
            results[key] = (results[key] & 5) | barrier
