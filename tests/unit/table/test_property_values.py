"""Numbers and flags among properties: what is one, and what is said of the rest."""

import pytest

from lakebed.commit.heartbeat import Pulse
from lakebed.errors import CorruptError, OptionError
from lakebed.services.upkeep import Upkeep
from lakebed.table.config.property_values import LARGE, flag, option_number, whole_number

NAME = "hoodie.some.number"
NO_NUMBERS = ["-1", "+1", "1.0", "1e3", "0x1", "1_0", "²", "one", "9" * 10, "9" * 5000]


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_what_is_no_number_is_refused_with_the_option_and_the_range(text: str):
    said = f"option {NAME}={text}: want a whole number from 0 to 999999999"
    with pytest.raises(OptionError) as refused:
        option_number({NAME: text}, NAME, 7)
    assert str(refused.value) == said
    with pytest.raises(CorruptError, match=f"file x: {NAME}="):
        whole_number({NAME: text}, NAME, 7, "file x")


def test_a_number_keeps_to_its_bounds():
    assert option_number({NAME: "2"}, NAME, 7, least=2, most=15) == 2
    assert option_number({NAME: " 15 "}, NAME, 7, least=2, most=15) == 15
    assert option_number({NAME: str(LARGE)}, NAME, 7, most=LARGE) == LARGE
    for text in ("1", "16"):
        with pytest.raises(OptionError, match=f"{NAME}={text}: want .* from 2 to 15"):
            option_number({NAME: text}, NAME, 7, least=2, most=15)


def test_the_first_name_with_a_value_counts_and_none_is_the_default():
    names = (NAME, "hoodie.older.name")
    assert option_number({NAME: " ", names[1]: "3"}, names, 7) == 3
    assert option_number({NAME: "4", names[1]: "3"}, names, 7) == 4
    assert option_number({}, names, 7) == whole_number({NAME: ""}, NAME, 7, "x") == 7


def test_only_the_word_true_is_true():
    found = [flag({NAME: text}, NAME, default=True) for text in ("true", " TRUE", "yes", "")]
    assert found == [True, True, False, False]
    assert (flag({}, NAME), flag({}, NAME, default=True)) == (False, True)


@pytest.mark.parametrize(
    ("of", "name"),
    [
        (Pulse.of, "hoodie.client.heartbeat.tolerable.misses"),
        (Upkeep.of, "hoodie.clean.trigger.max.commits"),
    ],
)
@pytest.mark.parametrize("text", ["0", "soon", "9" * 5000])
def test_a_number_that_must_be_above_zero_is_refused_by_name(of, name: str, text: str):
    with pytest.raises(OptionError, match=f"option {name}={text}: want a whole number from 1 to"):
        of({name: text})
