"""Options: one entry each, found by any name; honoured, taken note of, or refused, never ignored."""

import re
from collections import Counter
from pathlib import Path

import pytest

from lakebed.errors import OptionError
from lakebed.model.options import data_source, services, table, writers
from lakebed.model.options.option import (
    LARGE,
    Fate,
    Option,
    Scope,
    Settings,
    Subject,
    duration,
    flag,
    names,
    number,
    options_of,
    ratio,
    size,
    text,
    word,
)
from lakebed.model.options.registry import OPTIONS, check_given, find_option
from lakebed.model.options.services import (
    ArchiveOptions,
    CleanOptions,
    ClusteringOptions,
    CompactionMode,
    CompactionOptions,
    Trigger,
    UpkeepOptions,
)
from lakebed.model.options.writers import HeartbeatOptions
from lakebed.table.config.merge_mode import MergeMode
from lakebed.table.config.table_config import TABLE_VERSIONS, ConcurrencyMode, Layout, TableType

ROOT = Path(__file__).parents[3]
NAME = "hoodie.some.option"
SUBJECT = Subject("Lakes", Scope.CREATE)
NO_NUMBERS = ["-1", "+1", "1.0", "1e3", "0x1", "1_0", "²", "one", "9" * 10, "9" * 5000]
PLACES = (Scope.CREATE, Scope.LATER, Scope.READ, Scope.WRITE)


def value(kind, given: str, *aliases: str):
    return Option(NAME, SUBJECT, kind, "how far", aliases).value({NAME: given})


def sample(option) -> str:
    """Return a value that an option takes."""
    taken = (*option.kind.words, "2", "0.5", "1 day")
    return next(one for one in taken if option.kind.parse(one) is not None)


@pytest.mark.parametrize(
    ("kind", "given", "found"),
    [
        (number(7, 2, 15), "2", 2),
        (number(7, 2, 15), " 15 ", 15),
        (number(7, 2, 15), " ", 7),
        (number(7, most=LARGE), str(LARGE), LARGE),
        (flag(default=False), "TRUE", True),
        (word("Deep", "Shallow"), "SHALLOW", "Shallow"),
        (word("A", "B", same={"B": "A"}), "b", "A"),
        (size(5), "10kb", 10240),
        (duration(5, "for none"), "36 hours", 129_600_000),
        (duration(5, "for none"), "0", 0),
        (ratio(0.5), "2.5", 2.5),
        (text(), " some ", "some"),
        (names(), "a, b,,c", ("a", "b", "c")),
    ],
)
def test_a_value_is_what_its_kind_makes_of_the_text(kind, given, found):
    assert value(kind, given) == found


@pytest.mark.parametrize(
    ("kind", "given", "wanted"),
    [
        *((number(7), bad, "expected a whole number from 0 to 999999999") for bad in NO_NUMBERS),
        *((number(7, 2, 15), bad, "expected a whole number from 2 to 15") for bad in ("1", "16")),
        (flag(default=True), "yes", "expected true or false (how far)"),
        (word("Deep", "Shallow"), "medium", "expected Deep or Shallow (how far)"),
        (size(5), "10 TB", "expected a number of bytes, or one with KB, MB or GB"),
        (size(5), "0", "expected a number of bytes, or one with KB, MB or GB"),
        (ratio(0.5), "nan", "expected a number, 0 or greater"),
        (ratio(0.5), "-0.5", "expected a number, 0 or greater"),
        (duration(5, "for none"), "soon", "expected a number and a unit, such as '7 days'"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_the_option_and_what_it_takes(kind, given, wanted):
    with pytest.raises(OptionError) as refused:
        value(kind, given)
    assert str(refused.value).startswith(f"option {NAME}={given}: {wanted}")


def test_the_first_name_with_a_value_counts():
    option = Option(NAME, SUBJECT, number(7), aliases=("hoodie.older.name",))
    assert option.value({NAME: " ", "hoodie.older.name": "3"}) == 3
    assert option.value({NAME: "4", "hoodie.older.name": "3"}) == 4
    assert option.value({}) == 7


def test_what_hudi_stores_under_a_prefix_is_read_from_there():
    stored = "hoodie.record.merge.property.hoodie.payload.delete.field"
    assert table.DELETE_FIELD.value({stored: "gone", "hoodie.payload.delete.field": "x"}) == "gone"
    assert table.DELETE_FIELD.value({"hoodie.payload.delete.field": "x"}) == "x"


def test_an_option_is_found_by_any_of_its_names():
    known = [name for option in OPTIONS.values() for name in option.all_names]
    assert len(set(known)) == len(known) > 550
    for option in OPTIONS.values():
        assert all(find_option(name) is option for name in option.all_names)
    assert find_option("hoodie.cleaner.policy") is OPTIONS["hoodie.clean.policy"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hoodie.table.type", TableType),
        ("hoodie.table.storage.layout", Layout),
        ("hoodie.write.concurrency.mode", ConcurrencyMode),
        ("hoodie.record.merge.mode", set(MergeMode) - {MergeMode.CUSTOM}),
        ("hoodie.table.version", map(str, TABLE_VERSIONS)),
    ],
)
def test_the_words_of_an_option_are_those_that_a_table_understands(name, words):
    assert set(OPTIONS[name].kind.words) == set(map(str, words))


@pytest.mark.parametrize("option", OPTIONS.values(), ids=lambda option: option.name)
def test_every_option_is_taken_silently_or_with_a_line_or_refused_by_name(option):
    for place in PLACES:
        for name in option.all_names:
            try:
                lines = check_given({name: sample(option)}, place).lines
            except OptionError as error:
                lines = (str(error),)
                assert option.fate is Fate.REFUSED or place in (Scope.CREATE, Scope.LATER)
            assert all(name in line for line in lines)
            assert lines or option.fate in (Fate.HONOURED, Fate.FIXED, Fate.REFUSED)


SETTINGS = [
    held
    for module in (writers, services)
    for held in vars(module).values()
    if isinstance(held, type) and issubclass(held, Settings) and held is not Settings
]


def test_every_option_that_is_honoured_is_read_somewhere():
    code = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    words = Counter(re.findall(r"\w+", code))
    constants = {
        held.name: name
        for module in (table, writers, services, data_source)
        for name, held in vars(module).items()
        if isinstance(held, Option)
    }
    # Those of a time-based key generator are read by their endings.
    read = {option.name for kind in SETTINGS for option in options_of(kind).values()}
    read |= {option.name for option in table.TIMESTAMP_KEYS}
    for option in OPTIONS.values():
        if option.fate is Fate.HONOURED and option.name not in read:
            is_read = words[constants[option.name]] > 1
            assert is_read or code.count(f'"{option.name}"') > 1, option.name


def test_settings_are_taken_from_properties_somewhere():
    code = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    assert len(SETTINGS) >= 8
    for kind in SETTINGS:
        assert f"{kind.__name__}.of(" in code
        assert kind.of({}) == kind()


def test_a_family_of_options_is_known_by_how_its_names_begin():
    family, member = data_source.STORAGE, find_option("lakebed.storage.region")
    assert (member.name, member.effect) == ("lakebed.storage.region", family.effect)
    assert member.value({"lakebed.storage.region": "eu-west-1"}) == "eu-west-1"
    given = {"lakebed.storage.region": "eu-west-1", "lakebed.storage.endpoint": "http://host"}
    found = check_given(given, Scope.READ).of_family(family)
    assert found == {"region": "eu-west-1", "endpoint": "http://host"}


def test_an_option_that_changes_nothing_says_so():
    given = check_given({"hoodie.memory.merge.max.size": "1g"}, Scope.CREATE)
    why = "a merge holds a batch of each run"
    assert given.lines == (f"option hoodie.memory.merge.max.size=1g has no effect here ({why})",)
    assert given.stored == {}


def test_what_is_given_is_kept_under_one_name_and_in_hudis_spelling():
    given = {"hoodie.cleaner.policy": "keep_latest_by_hours", "hoodie.payload.delete.marker": " D"}
    found = check_given(given, Scope.CREATE)
    assert found.stored == {
        "hoodie.clean.policy": "KEEP_LATEST_BY_HOURS",
        "hoodie.payload.delete.marker": " D",
    }
    assert found.names["hoodie.clean.policy"] == "hoodie.cleaner.policy"
    assert OPTIONS["hoodie.payload.delete.marker"].stored_name.startswith("hoodie.record.merge.")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"hoodie.table.checksum": "1"}, "checksum cannot be given: derived from the table's name"),
        (
            {"hoodie.keep.min.commit": "1"},
            "unknown option .*; did you mean hoodie.keep.min.commits",
        ),
        ({"entirely.else": "1"}, "unknown option 'entirely.else'; docs/options.md"),
        (
            {"write.distribution-mode": "x"},
            r"=x: expected none or hash \(.*; by default chosen by size\)",
        ),
        ({"hoodie.keep.min.commits": 3}, "hoodie.keep.min.commits: expected a string, found int 3"),
        ({3: "deep"}, "option 3: expected a name as a string"),
        ({"hoodie.datasource.query.type": "snapshot"}, "for reads and writes of format"),
        (
            {"hoodie.datasource.write.recordkey.field": "id"},
            "did you mean hoodie.table.recordkey.fields",
        ),
        (
            {"hoodie.clean.commits.retained": "3", "hoodie.cleaner.commits.retained": "4"},
            "set the same option",
        ),
    ],
)
def test_any_other_is_refused_by_name(given, message):
    with pytest.raises(OptionError, match=message):
        check_given(given, Scope.CREATE)


def test_what_rows_are_is_settled_when_a_table_is_created():
    for name in ("hoodie.table.name", "hoodie.write.partial.update.unavailable.value"):
        with pytest.raises(
            OptionError, match=f"option {name}: cannot be changed after the table was created"
        ):
            check_given({name: "x"}, Scope.LATER)


@pytest.mark.parametrize("name", [o.name for o in OPTIONS.values() if o.is_stored and not o.family])
def test_a_slip_of_the_finger_is_answered_with_the_right_name(name):
    slip = name[:-3] + name[-2] + name[-3] + name[-1]
    if slip == name:
        return
    with pytest.raises(OptionError, match=r"did you mean (hoodie\.|lakebed\.|compaction_|write\.)"):
        check_given({slip: "x"}, Scope.CREATE)


def test_services_have_hudis_defaults():
    assert CompactionOptions() == CompactionOptions(
        Trigger.NUM_COMMITS, 5, 3600, 0, 0, 5, 512_000, 0.25
    )
    assert ClusteringOptions() == ClusteringOptions(1 << 30, 300 << 20, 30, 2 << 30)
    assert ArchiveOptions() == ArchiveOptions(20, 30, 10, 5, CleanOptions(commits_retained=10))
    assert (HeartbeatOptions(), UpkeepOptions().clean_every) == (HeartbeatOptions(60_000, 2), 5)


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
    check_given(given, Scope.LATER)
    assert CompactionOptions.of(given) == CompactionOptions(
        Trigger.NUM_OR_TIME, 2, 60, 100, 3, 4, 7, 0.5
    )


def test_an_unknown_mode_is_answered_with_those_there_are():
    assert CompactionMode.parse("hybrid") is CompactionMode.HYBRID
    with pytest.raises(OptionError, match="'all': expected full, log, hybrid"):
        CompactionMode.parse("all")


def test_every_option_is_on_the_page():
    page = (ROOT / "docs" / "options.md").read_text()
    listed = set(re.findall(r"`([^`]+)`", page))
    assert {name for option in OPTIONS.values() for name in option.all_names} <= listed
