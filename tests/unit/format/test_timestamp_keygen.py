"""Folders of formatted time, against what Apache Hudi 1.2.0 made of the same values in UTC."""

import datetime as dt
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from lakebed.errors import KeyValueError, OptionError, SchemaError, UnsupportedError
from lakebed.format.names.partition_path import PartitionStyle
from lakebed.format.names.timestamp_keygen import (
    JodaPattern,
    TimestampKeygen,
    TimestampType,
    parse_zone,
)

PREFIX = "hoodie.keygen.timebased."
ISO = "yyyy-MM-dd'T'HH:mm:ssZ"


def keygen(kind, output, **options):
    names = {
        "given": "input.dateformat",
        "zone": "timezone",
        "input_zone": "input.timezone",
        "output_zone": "output.timezone",
        "unit": "timestamp.scalar.time.unit",
        "separator": "input.dateformat.list.delimiter.regex",
    }
    properties = {f"{PREFIX}timestamp.type": kind, f"{PREFIX}output.dateformat": output}
    properties |= {PREFIX + names[name]: value for name, value in options.items()}
    return TimestampKeygen.parse(properties)


def path(value, kind, output, style=None, **options):
    column = value if isinstance(value, pa.Array) else pa.array([value])
    made = keygen(kind, output, **options)
    (text,) = made.partition_paths(
        column, "t", style or PartitionStyle(url_encode=True)
    ).to_pylist()
    return text


def test_the_observed_folders_of_hudi():
    assert path(1704164645, "UNIX_TIMESTAMP", "yyyy/MM/dd", PartitionStyle()) == "2024/01/02"
    hive = PartitionStyle(hive_style=True)
    made = path(1704164645678, "EPOCHMILLISECONDS", "yyyy-MM-dd HH", hive, zone="GMT+8:00")
    assert made == "t=2024-01-02 11"
    assert path(1704164645678901, "EPOCHMICROSECONDS", "yyyyMMdd") == "20240102"
    text = "2024-01-02T23:30:00.123-0500"
    given = "yyyy-MM-dd'T'HH:mm:ss.SSSZ"
    plain = PartitionStyle()
    made = path(text, "DATE_STRING", "yyyy/MM/dd", plain, given=given, output_zone="UTC")
    assert made == "2024/01/03"
    assert path(19724, "SCALAR", "yyyy-MM-dd", unit="days") == "2024-01-02"
    assert path("2024-01-02", "MIXED", "yyyyMM", given="yyyy-MM-dd") == "202401"


def test_null_is_one_unit_after_1970():
    column = pa.array([None, 5], pa.int64())
    made = keygen("EPOCHMILLISECONDS", "yyyy-MM-dd HH:mm:ss.SSS")
    assert made.partition_paths(column, "t", PartitionStyle(url_encode=True)).to_pylist() == [
        "1970-01-01 00%3A00%3A00.001",
        "1970-01-01 00%3A00%3A00.005",
    ]
    null = pa.array([None])
    assert path(null, "UNIX_TIMESTAMP", "ss SSS") == "01 000"
    assert path(null, "SCALAR", "dd", unit="days") == "02"


@pytest.mark.parametrize(
    ("given", "output", "zones", "want"),
    [
        (f"{ISO},yyyy", "yyyy-MM-dd HH mm ss SSS", {}, "1970-01-01 00 00 00 000"),
        (
            "yyyy-MM-dd",
            "yyyy-MM-dd HH mm",
            {"input_zone": "Asia/Tokyo", "output_zone": "UTC"},
            "1969-12-31 15 00",
        ),
        (
            "yyyy-MM-dd HH:mm:ss.SSS",
            "yyyy-MM-dd HH mm ss SSS",
            {"output_zone": "America/New_York"},
            "1969-12-31 14 00 00 001",
        ),
    ],
)
def test_null_text_goes_through_the_first_input_pattern(given, output, zones, want):
    null = pa.array([None], pa.string())
    assert path(null, "DATE_STRING", output, given=given, **zones) == want


@pytest.mark.parametrize(
    ("value", "kind", "output", "want"),
    [
        (-1, "EPOCHMILLISECONDS", "yyyy-MM-dd HH mm ss.SSS", "1969-12-31 23 59 59.999"),
        (-1, "EPOCHMICROSECONDS", "yyyy-MM-dd HH mm ss.SSS", "1970-01-01 00 00 00.000"),
        (-1999, "EPOCHMICROSECONDS", "ss.SSS", "59.999"),
        (1704164645.9, "UNIX_TIMESTAMP", "yyyyMMddHHmmss", "20240102030405"),
        (-1.9, "UNIX_TIMESTAMP", "yyyyMMddHHmmss", "19691231235959"),
        (float("nan"), "UNIX_TIMESTAMP", "yyyyMMddHHmmss", "19700101000000"),
        (Decimal("1704164645.99"), "UNIX_TIMESTAMP", "yyyyMMddHHmmss", "20240102030405"),
        (5, "SCALAR", "ss", "05"),
    ],
)
def test_numbers_are_cut_towards_1970(value, kind, output, want):
    assert path(value, kind, output) == want


def test_a_date_column_counts_days_and_a_timestamp_column_microseconds():
    days = pa.array([dt.date(2024, 1, 2)])
    assert path(days, "SCALAR", "yyyy-MM-dd", unit="DAYS") == "2024-01-02"
    instant = pa.array([1704164645678901], pa.timestamp("us", "Asia/Tokyo"))
    assert path(instant, "EPOCHMICROSECONDS", "yyyyMMdd HHmmss") == "20240102 030405"


@pytest.mark.parametrize(
    ("text", "own", "utc", "new_york"),
    [
        ("2024-01-02T23:30:00-0500", "02 23 30", "03 04 30", "02 23 30 -0500"),
        ("2024-01-02T23:30:00+09:00", "02 23 30", "02 14 30", "02 09 30 -0500"),
        ("2024-01-02T23:30:00Z", "02 23 30", "02 23 30", "02 18 30 -0500"),
        ("2024-01-02T23:30:00z", "02 23 30", "02 23 30", "02 18 30 -0500"),
        ("2024-1-2T3:4:5Z", "02 03 04", "02 03 04", "01 22 04 -0500"),
        ("2024-01-02T23:30:00+05", "02 23 30", "02 18 30", "02 13 30 -0500"),
    ],
)
def test_the_offset_of_a_text_counts(text, own, utc, new_york):
    assert path(text, "DATE_STRING", "dd HH mm", given=ISO) == own
    assert path(text, "DATE_STRING", "dd HH mm", given=ISO, output_zone="UTC") == utc
    made = path(text, "DATE_STRING", "dd HH mm Z", given=ISO, input_zone="America/New_York")
    assert made == new_york


@pytest.mark.parametrize(
    "text",
    [
        "2024-01-02T23:30:00",
        "2024-01-02T23:30:00+5",
        "2024-13-02T23:30:00Z",
        "2024-02-30T23:30:00Z",
        "2024-01-02T24:00:00Z",
        "2024-01-02T23:30:00+24:00",
        "",
        " 2024-01-02T23:30:00Z",
        "2024-01-02T23:30:00Z\n",
        "٢٠٢٤-01-02T23:30:00Z",
        "x" * 1000,
    ],
)
def test_a_text_that_fits_no_pattern_is_refused_with_field_and_value(text):
    with pytest.raises(KeyValueError, match=r"'t', value .*expected a time like") as caught:
        path(text, "DATE_STRING", "yyyy", given=ISO)
    assert len(str(caught.value)) < 300


def test_the_first_pattern_that_fits_wins():
    listed = "yyyy-MM-dd, yyyyMMdd"
    assert path("20240102", "DATE_STRING", "yyyy.MM.dd", given=listed) == "2024.01.02"
    listed = "yyyy|'x';yyyy'|y'"
    assert path("2024|Y", "DATE_STRING", "yyyy", given=listed, separator=";") == "2024"


def test_a_time_without_offset_is_of_the_input_zone_or_utc():
    given = "yyyy-MM-dd HH:mm"
    text = "2024-01-02 23:30"
    made = path(
        text, "DATE_STRING", "dd HH", given=given, input_zone="Asia/Tokyo", output_zone="UTC"
    )
    assert made == "02 14"
    assert path(text, "DATE_STRING", "dd HH Z", given=given) == "02 23 +0000"
    assert path(text, "DATE_STRING", "dd HH", given=given, output_zone="Asia/Tokyo") == "03 08"


def test_clock_changes_skip_a_time_and_take_the_earlier_of_two():
    zone = {"given": "yyyy-MM-dd HH:mm", "input_zone": "America/New_York"}
    with pytest.raises(KeyValueError, match="2024-03-10 02:30"):
        path("2024-03-10 02:30", "DATE_STRING", "HH", **zone)
    assert path("2024-11-03 01:30", "DATE_STRING", "dd HH Z", **zone) == "03 01 -0400"


def test_a_fraction_of_a_second_may_be_short_but_not_long():
    for text, want in [("12:00:00.1", "100"), ("12:00:00.12", "120")]:
        made = path(text, "DATE_STRING", "yyyy-MM-dd SSS", given="HH:mm:ss.SSS")
        assert made == f"1970-01-01 {want}"
    for text in ("12:00:00.1234", "12:00:00."):
        with pytest.raises(KeyValueError):
            path(text, "DATE_STRING", "SSS", given="HH:mm:ss.SSS")


def test_a_date_without_a_year_is_of_2000():
    assert path("02-29", "DATE_STRING", "yyyyMMdd", given="MM-dd") == "20000229"


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy", "2024"),
        ("M", "1"),
        ("d", "2"),
        ("H", "3"),
        ("s", "5"),
        ("S", "6"),
        ("SS", "67"),
        ("SSSS", "6780"),
        ("SSSSSS", "678000"),
        ("Z", "+0000"),
        ("ZZ", "+00:00"),
        ("''yyyy''", "'2024'"),
        ("'a''b'yyyy", "a'b2024"),
        ("yyyy'T", "2024T"),
        ("yyyy.MM_dd~,;", "2024.01_02~,;"),
        ("yyyy MM[dd]", "2024 01[02]"),
        ("''", "'"),
    ],
)
def test_patterns_format_as_joda_formats_them(pattern, text):
    moment = dt.datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)
    assert JodaPattern.parse(pattern).format(moment) == text


@pytest.mark.parametrize(
    "letters",
    ["yy", "yyy", "yyyyy", "YYYY", "MMM", "E", "a", "hh", "D", "u", "X", "o", "ZZZ", "DDD", "q"],
)
def test_any_other_letter_is_refused_by_name(letters):
    with pytest.raises(UnsupportedError, match=f"found '{letters}'"):
        JodaPattern.parse(f"MM-{letters}")


def test_a_letter_twice_in_an_input_pattern_is_refused():
    with pytest.raises(UnsupportedError, match="each letter once"):
        keygen("DATE_STRING", "yyyy", given="yyyy-MM-dd MM")


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        ("UTC", "+0000"),
        ("GMT", "+0000"),
        ("GMT+8", "+0800"),
        ("GMT+8:00", "+0800"),
        ("GMT-0530", "-0530"),
        ("GMT+05:30", "+0530"),
        ("Asia/Kolkata", "+0530"),
        ("EST", "-0500"),
        ("America/New_York", "-0500"),
    ],
)
def test_zones_have_the_offsets_of_java(name, offset):
    assert path(1704164645, "UNIX_TIMESTAMP", "Z", zone=name) == offset


@pytest.mark.parametrize("name", ["UTC+8", "foo", "GMT+25:00", "GMT+5:3", "../etc/passwd", "a\0b"])
def test_a_zone_that_java_would_take_for_gmt_is_refused(name):
    with pytest.raises(OptionError, match="time zone"):
        parse_zone(name)


def test_the_common_zone_wins_even_if_blank():
    options = {"output_zone": "Asia/Tokyo", "input_zone": "Asia/Tokyo"}
    assert path(0, "UNIX_TIMESTAMP", "HH", zone="", **options) == "00"
    made = keygen("UNIX_TIMESTAMP", "HH", zone="Europe/Paris", **options)
    assert made.input_zone == made.output_zone == ZoneInfo("Europe/Paris")


def test_the_old_prefix_is_read_too():
    old = "hoodie.deltastreamer.keygen.timebased."
    made = TimestampKeygen.parse(
        {f"{old}timestamp.type": "SCALAR", f"{old}output.dateformat": "dd"}
    )
    assert made.kind is TimestampType.SCALAR
    assert made.output.text == "dd"


def test_a_table_that_does_not_name_the_type_can_be_opened_but_not_written():
    made = TimestampKeygen.parse({f"{PREFIX}output.dateformat": "yyyy"})
    with pytest.raises(UnsupportedError, match=r"timestamp.type"):
        made.partition_paths(pa.array([1]), "t", PartitionStyle())


@pytest.mark.parametrize(
    ("properties", "found"),
    [
        ({"timestamp.type": "unix_timestamp"}, "found 'unix_timestamp'"),
        ({"timestamp.type": "UNIX_TIMESTAMP", "output.dateformat": None}, "output.dateformat"),
        ({"timestamp.type": "DATE_STRING"}, "input.dateformat"),
        ({"timestamp.type": "SCALAR", "timestamp.scalar.time.unit": "hour"}, "found 'HOUR'"),
        (
            {
                "timestamp.type": "MIXED",
                "input.dateformat": "yyyy",
                "input.dateformat.list.delimiter.regex": "(",
            },
            "regular expression",
        ),
    ],
)
def test_wrong_settings_are_refused_by_name(properties, found):
    given = {"output.dateformat": "yyyy"} | properties
    with pytest.raises(OptionError, match=found):
        TimestampKeygen.parse({PREFIX + k: v for k, v in given.items() if v is not None})


def test_a_parser_class_of_somebody_else_is_refused():
    with pytest.raises(UnsupportedError, match=r"com\.example"):
        TimestampKeygen.parse({"hoodie.keygen.datetime.parser.class": "com.example.P"})


@pytest.mark.parametrize(
    ("column", "kind", "given"),
    [
        (pa.array(["5"]), "UNIX_TIMESTAMP", {}),
        (pa.array([5]), "MIXED", {"given": "yyyy"}),
        (pa.array([dt.date(2024, 1, 2)]), "DATE_STRING", {"given": "yyyy"}),
        (pa.array([True]), "UNIX_TIMESTAMP", {}),
        (pa.array([[1]]), "UNIX_TIMESTAMP", {}),
    ],
)
def test_a_column_of_the_wrong_type_is_refused(column, kind, given):
    with pytest.raises(SchemaError, match=r"'t'.*found"):
        path(column, kind, "yyyy", **given)


@pytest.mark.parametrize("value", [253402300800, -99999999999, 2**63 - 1, -(2**63), 1e300])
def test_a_time_beyond_the_year_9999_is_refused(value):
    with pytest.raises(KeyValueError, match=r"'t'.*year from 1 to 9999"):
        path(value, "UNIX_TIMESTAMP", "yyyy")


def test_the_edge_of_time_in_a_zone_is_refused_not_raised():
    with pytest.raises(KeyValueError, match="'t'"):
        path(253402300799, "UNIX_TIMESTAMP", "yyyy", zone="Asia/Tokyo")


def test_a_colon_in_the_folder_needs_encoding():
    with pytest.raises(KeyValueError, match="':'"):
        path(0, "UNIX_TIMESTAMP", "HH:mm", PartitionStyle())
    assert path(0, "UNIX_TIMESTAMP", "HH:mm") == "00%3A00"


def test_equal_values_share_one_folder_in_every_encoding():
    column = pa.array([0, 86400, 0, None]).dictionary_encode()
    made = keygen("UNIX_TIMESTAMP", "yyyy/MM/dd")
    hive = PartitionStyle(hive_style=True)
    assert made.partition_paths(column, "t", hive).to_pylist() == [
        "t=1970/01/01",
        "t=1970/01/02",
        "t=1970/01/01",
        "t=1970/01/01",
    ]


@pytest.mark.parametrize(
    ("made", "known"),
    [
        (keygen("UNIX_TIMESTAMP", "yyyy"), False),
        (keygen("UNIX_TIMESTAMP", "yyyy", input_zone="UTC"), False),
        (keygen("UNIX_TIMESTAMP", "yyyy", output_zone="UTC"), True),
        (keygen("UNIX_TIMESTAMP", "yyyy", zone="UTC"), True),
        # A text goes out in the zone that it came in, if no other is asked for.
        (keygen("DATE_STRING", "yyyy", given="yyyy-MM-dd"), True),
        (keygen("DATE_STRING", "yyyy", given="yyyy-MM-dd", output_zone="UTC"), False),
        (keygen("DATE_STRING", "yyyy", given="yyyy-MM-dd", zone="UTC"), True),
        (keygen("DATE_STRING", "yyyy", given=ISO, output_zone="UTC"), True),
        (keygen("DATE_STRING", "yyyy", given=f"{ISO},yyyy", output_zone="UTC"), False),
    ],
)
def test_only_named_zones_and_offsets_make_a_folder_the_same_everywhere(made, known):
    assert made.is_zone_known is known
