"""Floats widened in columns are the doubles that Java reads from their text, one by one."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.format.files.float_widening import widen_column, widen_floats
from lakebed.format.names.java_text import float_text

_BITS = st.integers(-(2**31), 2**31 - 1)
_USUAL = st.floats(-1e9, 1e9, width=32)


def one_by_one(values: np.ndarray) -> list[str]:
    return [repr(float(float_text(value))) for value in values.tolist()]


@given(st.lists(st.one_of(_BITS, _USUAL.map(lambda v: int(np.float32(v).view(np.int32))))))
def test_a_column_is_widened_as_its_values_are_one_by_one(bits):
    values = np.array(bits, dtype=np.int32).view(np.float32)
    assert list(map(repr, widen_floats(values).tolist())) == one_by_one(values)


def test_powers_of_two_and_their_neighbours_are_widened_by_their_text():
    powers = np.ldexp(np.float32(1), np.arange(-149, 128)).astype(np.float32)
    for values in (powers, np.nextafter(powers, np.float32(0)), -powers):
        assert list(map(repr, widen_floats(values).tolist())) == one_by_one(values)


def test_the_order_of_numbers_stays():
    """Statistics of a file are widened like its values, and bounds stay bounds."""
    rng = np.random.default_rng(7)
    values = np.sort(rng.integers(-(2**31), 2**31, 100_000).astype(np.int32).view(np.float32))
    widened = widen_floats(values[~np.isnan(values)])
    assert (np.diff(widened[np.isfinite(widened)]) >= 0).all()


@pytest.mark.parametrize("value", [0.0, -0.0, math.inf, -math.inf, math.nan])
def test_what_has_no_digits_stays(value):
    [widened] = widen_floats(np.array([value], dtype=np.float32)).tolist()
    assert repr(widened) == repr(value)


def test_nulls_stay_null_and_nan_stays_nan_in_a_slice_of_a_column():
    column = pa.array([9.0, None, math.nan, 0.1, None, 0.2], pa.float32()).slice(1, 4)
    assert list(map(repr, widen_column(column).to_pylist())) == ["None", "nan", "0.1", "None"]
