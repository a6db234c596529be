"""Order the keys of a window and fold their versions, in compiled code or plain Python.

Importing numba takes longer than merging many rows in plain Python, so each process merges its
first rows with the twin, unless numba is already imported.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lakebed.format.compiled import PlainFirst
from lakebed.merge import twin
from lakebed.merge.arrays import Bytes, Ints
from lakebed.merge.kernel import load_kernels

# The kernel reads up to 16 bytes from any byte of a key.
_PADDING = np.zeros(24, np.uint8)


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys of a run: key i is data[offsets[i]:offsets[i + 1]]."""

    data: Bytes
    offsets: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def key(self, row: int) -> bytes:
        """Return the bytes of one key."""
        return self.data[self.offsets[row] : self.offsets[row + 1]].tobytes()

    def part(self, start: int, end: int) -> "Keys":
        """Return the keys from `start` to before `end`, without a copy."""
        return Keys(self.data, self.offsets[start : end + 1])


@dataclass(frozen=True, slots=True)
class Order:
    """Rows of a window in key order, with equal keys oldest first.

    Rows are numbered across all runs. `descends` is -1, or the row of a key that is less than the
    key before it in its run; the other fields are then undefined.
    """

    positions: Ints
    starts: npt.NDArray[np.bool_]
    descends: int = -1


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions of keys in key order, oldest first.

    `presence[class, part]` is 1 if a part of the window has the columns of a class, `yields[part]`
    if its rows, which come last, win only by a greater rank. `loser_gives` and `open_stays` are
    rules of `fold_versions`.
    """

    rows: Ints
    starts: npt.NDArray[np.bool_]
    flags: Bytes
    ranks: Ints
    parts: Ints
    presence: Bytes
    yields: Bytes
    loser_gives: bool = False
    open_stays: bool = False


@dataclass(frozen=True, slots=True)
class Folded:
    """The result for each key: the winning row, the source row (or -1) of each class, and flags."""

    winners: Ints
    sources: Ints
    flags: Bytes


# A process merges this many rows in plain Python, in about 0.1 s, before it imports numba.
use_kernel = PlainFirst(50_000).use_kernel


def warm_up() -> None:
    """Load and call the kernels, so that processes forked later have them."""
    keys = Keys(np.zeros(1, np.uint8), np.array([0, 1]))
    order = order_keys([[keys], [keys]], kernel=True)
    zeros = np.zeros(2, np.int64)
    none = np.zeros(2, np.uint8)
    ones = np.ones((1, 1), np.uint8)
    ranks = zeros[np.newaxis]
    versions = Versions(order.positions, order.starts, none, ranks, zeros, ones, none[:1])
    fold_versions(versions, kernel=True)


def order_keys(runs: Sequence[Sequence[Keys]], *, kernel: bool) -> Order:
    """Return the order of the keys of all runs, oldest run first, each as consecutive pieces."""
    return _order_compiled(runs) if kernel else _order_plain(runs)


def fold_versions(versions: Versions, *, kernel: bool) -> Folded:
    """Fold the versions of each key, oldest to newest.

    The newer version wins if it is a barrier, if the older is open, or if its ranks are not less.
    With `open_stays`, an open delete wins over a delete that follows. A newer winner keeps the
    older columns that its part lacks; a newer loser supplies columns that the winner lacks only
    with `loser_gives`. A deleted version supplies nothing, and a deleted winner has no columns. The
    winner keeps its flags, and the barrier flag of either version. A version that yields wins only
    if its ranks are greater and the older is not open.
    """
    return _fold_compiled(versions) if kernel else _fold_plain(versions)


def _order_compiled(runs: Sequence[Sequence[Keys]]) -> Order:
    pieces = [piece for run in runs for piece in run]
    rows = sum(map(len, pieces))
    offsets = np.zeros(rows + 1, np.int64)
    blobs = []
    at = size = 0
    for piece in pieces:
        first, last = int(piece.offsets[0]), int(piece.offsets[-1])
        np.add(piece.offsets, size - first, out=offsets[at : at + len(piece) + 1])
        blobs.append(piece.data[first:last])
        at += len(piece)
        size += last - first
    data = np.concatenate([*blobs, _PADDING])
    words = np.ndarray((len(data) - 7,), np.uint64, data, strides=(1,))
    bounds = np.zeros(len(runs) + 1, np.int64)
    np.cumsum([sum(map(len, run)) for run in runs], out=bounds[1:])
    tree = np.empty(1 << (len(runs) - 1).bit_length() if runs else 0, np.int64)
    positions = np.empty(rows, np.int64)
    starts = np.empty(rows, np.uint8)
    descends = load_kernels().order_runs(words, offsets, bounds, tree, positions, starts)
    return Order(positions, starts.view(np.bool_), descends)


def _order_plain(runs: Sequence[Sequence[Keys]]) -> Order:
    keys = [[piece.key(row) for piece in run for row in range(len(piece))] for run in runs]
    positions, starts, descends = twin.order_runs(keys)
    return Order(np.array(positions, np.int64), np.array(starts, np.bool_), descends)


def _fold_compiled(versions: Versions) -> Folded:
    keys = int(np.count_nonzero(versions.starts))
    winners = np.empty(keys, np.int64)
    sources = np.empty((len(versions.presence), keys), np.int64)
    flags = np.empty(keys, np.uint8)
    load_kernels().fold_versions(
        versions.rows,
        versions.starts.view(np.uint8),
        versions.flags,
        versions.ranks,
        versions.parts,
        versions.presence,
        versions.yields,
        versions.loser_gives,
        versions.open_stays,
        winners,
        sources,
        flags,
    )
    return Folded(winners, sources, flags)


def _fold_plain(versions: Versions) -> Folded:
    has = (versions.presence != 0).T.tolist()
    winners, sources, flags = twin.fold_versions(
        versions.rows.tolist(),
        versions.starts.tolist(),
        versions.flags.tolist(),
        list(map(tuple, versions.ranks.T.tolist())),
        [has[part] for part in versions.parts.tolist()],
        [bool(versions.yields[part]) for part in versions.parts.tolist()],
        loser_gives=versions.loser_gives,
        open_stays=versions.open_stays,
    )
    by_class = np.array(sources, np.int64).reshape(len(winners), len(versions.presence)).T
    return Folded(
        np.array(winners, np.int64), np.ascontiguousarray(by_class), np.array(flags, np.uint8)
    )
