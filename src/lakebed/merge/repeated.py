"""Separate the rows of one run that have the same key and are each kept."""

from collections.abc import Sequence

import numpy as np

from lakebed.merge.tree import Order


def set_apart(order: Order, parts: Sequence[tuple[int, bool]]) -> Order:
    """Copy the versions that other parts hold of a repeated key for each of its rows.

    `parts` lists the number of rows of each part and whether the part repeats. The result contains
    a key once for each of its rows in such a part, in the order of these rows.
    """
    rows, repeats = np.array([rows for rows, _ in parts]), [flag for _, flag in parts]
    if not any(repeats) or order.starts.all():
        return order
    own = np.repeat(repeats, rows)[order.positions]
    if not (own[1:] & own[:-1] & ~order.starts[1:]).any():
        return order
    key = np.cumsum(order.starts) - 1
    copies = np.maximum(np.bincount(key, own).astype(np.int64), 1)
    before = np.cumsum(own)
    # The number of the row among its key's rows in parts that repeat.
    turn = before - 1 - (before - own)[order.starts][key]
    times = np.where(own, 1, copies[key])
    at = np.repeat(np.arange(len(key)), times)
    copy = np.arange(len(at)) - np.repeat(np.cumsum(times) - times, times)
    copy = np.where(own[at], turn[at], copy)
    # The sort is stable, so versions of a key keep their order.
    sorted_ = np.lexsort((copy, key[at]))
    at, copy = at[sorted_], copy[sorted_]
    starts = np.ones(len(at), np.bool_)
    starts[1:] = (key[at][1:] != key[at][:-1]) | (copy[1:] != copy[:-1])
    return Order(order.positions[at], starts)
