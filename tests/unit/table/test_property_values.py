"""Numbers and flags in `hoodie.properties`: what is one, and what is said of the rest."""

import pytest

from lakebed.errors import CorruptError
from lakebed.table.config.property_values import flag, whole_number

NAME = "hoodie.some.number"
NO_NUMBERS = ["-1", "+1", "1.0", "1e3", "0x1", "1_0", "²", "one", "9" * 10, "9" * 5000]


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_what_is_no_number_is_refused_with_the_property_and_the_file(text: str):
    with pytest.raises(CorruptError, match=f"file x: {NAME}="):
        whole_number({NAME: text}, NAME, 7, "file x")
    assert whole_number({NAME: ""}, NAME, 7, "x") == 7


def test_only_the_word_true_is_true():
    found = [flag({NAME: text}, NAME, default=True) for text in ("true", " TRUE", "yes", "")]
    assert found == [True, True, False, False]
    assert (flag({}, NAME), flag({}, NAME, default=True)) == (False, True)
