import pytest

from lakebed.errors import OptionError
from lakebed.model.options import check_options
from lakebed.services.compaction.options import CompactionOptions, Mode, Trigger


def test_without_properties_the_defaults_are_hudis():
    assert CompactionOptions.parse({}) == CompactionOptions(
        Trigger.NUM_COMMITS, 5, 3600, 0, 0, 5, 512_000, 0.25
    )


def test_properties_under_hudis_names_are_honoured():
    given = {
        "hoodie.compact.inline.trigger.strategy": "num_or_time",
        "hoodie.compact.inline.max.delta.commits": "2",
        "hoodie.compact.inline.max.delta.seconds": "60",
        "hoodie.compaction.logfile.size.threshold": "100",
        "hoodie.compaction.logfile.num.threshold": "3",
        "hoodie.log.compaction.blocks.threshold": "4",
        "hoodie.compaction.target.io": "7",
        "lakebed.compaction.log.ratio": "0.5",
    }
    check_options(given)
    assert CompactionOptions.parse(given) == CompactionOptions(
        Trigger.NUM_OR_TIME, 2, 60, 100, 3, 4, 7, 0.5
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hoodie.compact.inline.trigger.strategy", "SOMETIMES"),
        ("hoodie.compact.inline.max.delta.commits", "-1"),
        ("hoodie.compaction.target.io", "many"),
        ("lakebed.compaction.log.ratio", "nan"),
        ("lakebed.compaction.log.ratio", "-0.5"),
        ("lakebed.compaction.log.ratio", "half"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(name: str, value: str):
    with pytest.raises(OptionError, match=name.replace(".", r"\.")):
        CompactionOptions.parse({name: value})


def test_an_unknown_mode_is_answered_with_those_there_are():
    assert Mode.parse("hybrid") is Mode.HYBRID
    with pytest.raises(OptionError, match="'all': want full or log or hybrid"):
        Mode.parse("all")
