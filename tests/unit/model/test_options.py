"""Hudi's option names: honoured, taken note of, or refused, never ignored."""

import pytest

from lakebed.errors import OptionError
from lakebed.model.options import TABLE_OPTIONS, Fate, Option, canonical, check_options

KNOWN = (
    Option("lake.depth", Fate.HONOURED, ("Deep", "Shallow"), "how far down"),
    Option("lake.colour", Fate.INFORMATION, note="water is water"),
    Option("lake.salt", Fate.REFUSED, note="this is no sea"),
)


def test_an_option_that_we_honour_passes_silently():
    assert check_options({"lake.depth": "deep"}, KNOWN) == []


def test_an_option_that_changes_nothing_says_so():
    [line] = check_options({"lake.colour": "blue"}, KNOWN)
    assert line == "option lake.colour=blue changes nothing here (water is water)"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lake.salt": "1"}, "lake.salt cannot be given: this is no sea"),
        ({"lake.depht": "deep"}, "unknown option 'lake.depht'; did you mean lake.depth?"),
        ({"entirely.else": "1"}, "unknown option 'entirely.else'; docs/options.md"),
        ({"lake.depth": "medium"}, r"lake.depth=medium: want Deep or Shallow \(how far down\)"),
        ({"lake.depth": 3}, "lake.depth: want text, found int 3"),
        ({3: "deep"}, "option 3: want a name as text"),
    ],
)
def test_any_other_is_refused_by_name(given, message):
    with pytest.raises(OptionError, match=message):
        check_options(given, KNOWN)


def test_words_get_the_spelling_of_the_list():
    assert canonical("lake.depth", "DEEP", KNOWN) == "Deep"
    assert canonical("lake.colour", "BLUE", KNOWN) == "BLUE"
    assert canonical("unknown", "x", KNOWN) == "x"


def test_every_option_is_listed_once_and_its_values_pass():
    names = [option.name for option in TABLE_OPTIONS]
    assert len(set(names)) == len(names)
    for option in TABLE_OPTIONS:
        if option.fate is not Fate.REFUSED:
            for value in option.values or ("anything",):
                check_options({option.name: value})


@pytest.mark.parametrize("name", [o.name for o in TABLE_OPTIONS])
def test_a_slip_of_the_finger_is_answered_with_the_right_name(name):
    slip = name[:-3] + name[-2] + name[-3] + name[-1]
    if slip == name:
        return
    with pytest.raises(OptionError, match=r"did you mean (hoodie\.|lakebed\.|compaction_|write\.)"):
        check_options({slip: "x"})
