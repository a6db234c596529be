"""Java's text of numbers, dates and bytes, against texts that a real JDK 17 printed."""

import datetime as dt
import struct
from decimal import Decimal

import pyarrow as pa
import pytest

from lakebed.errors import KeyValueError, SchemaError
from lakebed.format.names.java_text import column_text, double_text, float_text, spell_distinct

# Bits of a value: the text of Double.toString and Float.toString of OpenJDK 17.0.15.
DOUBLES = {
    0x3F60E669A798C7AE: "0.0020629943435545783",
    0xBF60E13E58D8B019: "-0.0020605294910378655",
    0x0000000000000000: "0.0",
    0x8000000000000000: "-0.0",
    0x3FF0000000000000: "1.0",
    0xBFF0000000000000: "-1.0",
    0x3FF8000000000000: "1.5",
    0x3FB999999999999A: "0.1",
    0x3FC999999999999A: "0.2",
    0x3FD3333333333333: "0.3",
    0x3FD5555555555555: "0.3333333333333333",
    0x4059000000000000: "100.0",
    0x412E848000000000: "1000000.0",
    0x416312CFE0000000: "9999999.0",
    0x416312D000000000: "1.0E7",
    0x41678C29DCCCCCCD: "1.23456789E7",
    0x4202A05F20000000: "1.0E10",
    0x437B69B4BA630F35: "1.2345678901234568E17",
    0x430C6BF526340000: "1.0E15",
    0x4341C37937E08000: "1.0E16",
    0x4376345785D8A000: "1.0E17",
    0x43ABC16D674EC800: "1.0E18",
    0x43E158E460913D00: "1.0E19",
    0x444B1AE4D6E2EF50: "1.0E21",
    0x4480F0CF064DD592: "1.0E22",
    0x44B52D02C7E14AF6: "9.999999999999999E22",
    0x44C52D02C7E14AF6: "1.9999999999999998E23",
    0x3F847AE147AE147B: "0.01",
    0x3F50624DD2F1A9FC: "0.001",
    0x3F5061E273273F09: "9.999E-4",
    0x3F1A36E2EB1C432D: "1.0E-4",
    0x3F60624DD2F1A9FC: "0.002",
    0x3EE4F8B588E368F1: "1.0E-5",
    0x54B249AD2594C37D: "1.0E100",
    0x2B2BFF2EE48E0530: "1.0E-100",
    0x7FE1CCF385EBC8A0: "1.0E308",
    0x7FEFFFFFFFFFFFFF: "1.7976931348623157E308",
    0x0010000000000000: "2.2250738585072014E-308",
    0x000FFFFFFFFFFFFF: "2.225073858507201E-308",
    0x0000000000000001: "4.9E-324",
    0x0000000000000002: "1.0E-323",
    0x0000000000000004: "2.0E-323",
    0x0000000000000009: "4.4E-323",
    0x0008000000000000: "1.1125369292536007E-308",
    0x7FF8000000000000: "NaN",
    0x7FF0000000000000: "Infinity",
    0xFFF0000000000000: "-Infinity",
    0x400921FB54442D18: "3.141592653589793",
    0x4005BF0A8B145769: "2.718281828459045",
    0x36DC8B8218854567: "2.0E-44",
    0x43F0000000000000: "1.8446744073709552E19",
    0x43E0000000000000: "9.223372036854776E18",
    0x4340000000000000: "9.007199254740992E15",
    0x4340000000000001: "9.007199254740994E15",
    0x4330000000000000: "4.503599627370496E15",
    0x3E60000000000000: "2.9802322387695312E-8",
    0x447C7E83209E90B2: "8.409999999999999E21",
    0x00000000000000C0: "9.5E-322",
    0x36A0000000000000: "1.401298464324817E-45",
    0x47EFFFFFE0000000: "3.4028234663852886E38",
    0x4160000000000000: "8388608.0",
    0x4170000000000000: "1.6777216E7",
    0x3FD3333333333334: "0.30000000000000004",
    0x400199999999999A: "2.2",
    0x3FF199999999999A: "1.1",
    0x4011666666666666: "4.35",
    0x41D964DF496B731D: "1.704164645678901E9",
    0x41CDCD6500400000: "1.0000000005E9",
    0xC071126666666666: "-273.15",
    0x44DFE185CA57C517: "6.02214076E23",
    0x390B860BDE023111: "6.62607015E-34",
    0xC38188C5EAC0C18B: "-1.57934663440544096E17",
    0x0035509C11F62836: "1.1856796373268741E-307",
    0x43BFAAE247DE7C36: "2.28188495951981517E18",
    0x2FA3D8C8B51B7507: "3.3476644235549936E-79",
    0x43BFC2ECAD6EE882: "2.28865179029186202E18",
    0x30C9DD4DB07E9D8D: "1.1436538571773006E-73",
    0xC389B241AA6027BC: "-2.31451824602019712E17",
    0xE38D07C328770DBE: "-3.5058989758767664E171",
    0x43B3C944D0ACF89B: "1.42574642008533274E18",
    0x1FC87F0FEFA45808: "1.4273595889289043E-155",
    0x43BE9E179E582A91: "2.20622683630957798E18",
    0xAEDA06445FF80392: "-5.3585005498340635E-83",
    0x4387D74DDB293080: "2.14740923318669312E17",
    0x4AFFE63ACEE809D4: "1.9095932969721227E53",
    0x437C89D5E50ABC99: "1.28525617785981328E17",
    0x53277D25EC3D383A: "3.8278122137518903E92",
    0x43798F974521DCA3: "1.15116068487154224E17",
    0x2F9609318940D0AF: "1.8584555787202156E-79",
    0xC379102972F9CBF5: "-1.12874314023092048E17",
    0xADCA30439F3CB4B2: "-4.1139824151385994E-88",
    0x438999894AAB9F4F: "2.30582059523107296E17",
    0x170990602EB603E8: "1.0687130593237362E-197",
    0x43B83E7E0378D988: "1.74697225884385485E18",
    0x4CAC53CC85E7E356: "2.2760139787181502E61",
    0xC3B46FAA28563084: "-1.47258269339487539E18",
    0xCDF86C5FCF682EC7: "-4.115324134594979E67",
    0x9BC63D5E8A2B24AC: "-7.024928647822189E-175",
    0x1F86608837558942: "8.149212694004464E-157",
    0xC76A149F3F68D8D0: "-1.0833438673290087E36",
    0x700666221F1CC5D1: "4.346848472705018E231",
    0x9EC087A81344B69F: "-1.469679938753102E-160",
    0x6E3DD28DC67519EA: "1.0780043263226155E223",
    0xE3C6D13E141BADA2: "-4.408925937571084E172",
    0x2A9909897395A034: "1.7466592510788987E-103",
    0xE086B4E9AA4BBA4F: "-9.742302216163375E156",
    0x000605BFEDF5FFE8: "8.375261252178696E-309",
    0x000016C7A074AA98: "1.23746874820387E-310",
    0x0000005174D3518F: "1.728500307137E-312",
    0x00000000CA2E6F9D: "1.6758908587E-314",
    0x0000000001D443FC: "1.5162011E-316",
    0x00000000001CD34B: "9.33339E-318",
    0x000000000000025B: "2.98E-321",
    0x000000000000000E: "6.9E-323",
}
FLOATS = {
    0xEA31A01D: "-5.3683995E25",
    0xBD427445: "-0.047474165",
    0x265917D5: "7.5319297E-16",
    0x00000000: "0.0",
    0x80000000: "-0.0",
    0x3F800000: "1.0",
    0xBF800000: "-1.0",
    0x3FC00000: "1.5",
    0x3DCCCCCD: "0.1",
    0x3E4CCCCD: "0.2",
    0x3E99999A: "0.3",
    0x3EAAAAAB: "0.33333334",
    0x42C80000: "100.0",
    0x49742400: "1000000.0",
    0x4B18967F: "9999999.0",
    0x4B189680: "1.0E7",
    0x4B800000: "1.6777216E7",
    0x4C000000: "3.3554432E7",
    0x501502F9: "1.0E10",
    0x60AD78EC: "1.0E20",
    0x7F7FFFFF: "3.4028235E38",
    0x00800000: "1.17549435E-38",
    0x007FFFFF: "1.1754942E-38",
    0x00000001: "1.4E-45",
    0x00000002: "2.8E-45",
    0x00000007: "9.8E-45",
    0x3A83126F: "0.001",
    0x3A82F0E1: "9.99E-4",
    0x38D1B717: "1.0E-4",
    0x3B03126F: "0.002",
    0x63E3F419: "8.41E21",
    0x0000000E: "2.0E-44",
    0x000002A6: "9.5E-43",
    0x7FC00000: "NaN",
    0x7F800000: "Infinity",
    0xFF800000: "-Infinity",
    0x40490FDB: "3.1415927",
    0x4F000000: "2.14748365E9",
    0x5F000000: "9.223372E18",
    0x4F800000: "4.2949673E9",
    0x3F8CCCCD: "1.1",
    0x400CCCCD: "2.2",
    0x4BFFFFFF: "3.355443E7",
    0xC0F00000: "-7.5",
    0x4CBEBC20: "1.0E8",
    0x47F12065: "123456.79",
    0x3851B717: "5.0E-5",
    0x7B1F5CD8: "8.274583E35",
    0xF636EAB0: "-9.274981E32",
    0x6D9ECFC7: "6.1437274E27",
    0xF06E09E7: "-2.9467761E29",
    0x19443458: "1.0143533E-23",
    0xD28E9CC7: "-3.06257822E11",
    0x37C815E7: "2.3852057E-5",
    0x471426B8: "37926.72",
    0xE20EE0D0: "-6.589093E20",
    0x22619A2C: "3.0574804E-18",
    0xC055D844: "-3.3413248",
    0xC0364BD6: "-2.8483787",
    0x7B8A1EB6: "1.4343197E36",
    0x3B81E0BA: "0.003963557",
    0xEC7B82AF: "-1.2162301E27",
    0x9259993C: "-6.8662003E-28",
    0x69BECB11: "2.8831857E25",
    0x859ECBA1: "-1.493305E-35",
    0xF365890B: "-1.8185662E31",
    0xFB8BEA94: "-1.4529741E36",
    0x1A62D34E: "4.6906395E-23",
    0x8EA9A8B0: "-4.1824157E-30",
    0xFDD80D43: "-3.5897763E37",
    0x55F9B821: "3.43211529E13",
    0x5AE6CE53: "3.24830503E16",
    0xD4DA088B: "-7.4915696E12",
    0xDE2591B5: "-2.98262897E18",
    0xD04CFBDC: "-1.37562317E10",
    0xDADD616B: "-3.1156541E16",
    0x4FB393BB: "6.0256067E9",
    0xCE640BB6: "-9.5649318E8",
    0xCA5F0A14: "-3654277.0",
    0xCDFC9383: "-5.2969072E8",
    0xCD980238: "-3.1878528E8",
    0xD72C9A91: "-1.89779858E14",
    0x0010C6B6: "1.540652E-39",
    0x0005B10F: "5.22694E-40",
    0x0000DA72: "7.8363E-41",
    0x00000D2A: "4.722E-42",
    0x00000239: "7.97E-43",
    0x0000004B: "1.05E-43",
}


def as_double(bits: int) -> float:
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


def as_float(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def test_doubles_read_as_the_jdk_prints_them():
    assert {bits: double_text(as_double(bits)) for bits in DOUBLES} == DOUBLES


def test_floats_read_as_the_jdk_prints_them():
    assert {bits: float_text(as_float(bits)) for bits in FLOATS} == FLOATS


def test_a_double_column_keeps_rows_nulls_and_the_sign_of_zero():
    column = pa.array([1.5, None, -0.0, 0.0, 1e10, 1.5, float("nan"), float("-inf")])
    want = ["1.5", None, "-0.0", "0.0", "1.0E10", "1.5", "NaN", "-Infinity"]
    assert column_text(column, "v").to_pylist() == want
    assert column_text(column.slice(2, 3), "v").to_pylist() == want[2:5]


def test_a_float_column_is_spelled_in_32_bits():
    column = pa.array([0.1, None, 3.4028235e38], pa.float32())
    assert column_text(column, "v").to_pylist() == ["0.1", None, "3.4028235E38"]


@pytest.mark.parametrize(
    "kind", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
)
def test_every_integer_is_decimal_text(kind):
    column = pa.array([7, None, 0], pa.type_for_alias(kind))
    assert column_text(column, "v").to_pylist() == ["7", None, "0"]


def test_the_smallest_long_keeps_all_digits():
    assert column_text(pa.array([-(2**63)]), "v").to_pylist() == ["-9223372036854775808"]


# Each as printed by BigDecimal.toString through Hudi 1.2.0's KeyGenUtils.
DECIMALS = {
    "12.30": "12.30",
    "0.0000001": "1E-7",
    "0E-10": "0E-10",
    "-0.0000012": "-0.0000012",
    "1234567890.0000000000": "1234567890.0000000000",
    "0.00": "0.00",
    "7": "7",
}


@pytest.mark.parametrize("kind", [pa.decimal128, pa.decimal256])
@pytest.mark.parametrize(("value", "text"), DECIMALS.items())
def test_a_decimal_keeps_its_scale(value, text, kind):
    number = Decimal(value)
    column = pa.array([number, None], kind(30, -number.as_tuple().exponent))
    assert column_text(column, "v").to_pylist() == [text, None]


# Epoch days with the text of LocalDate.toString.
DATES = {
    19724: "2024-01-02",
    -1: "1969-12-31",
    2932896: "9999-12-31",
    2932897: "+10000-01-01",
    -719528: "0000-01-01",
    -719529: "-0001-12-31",
}


def test_dates_read_as_local_dates_also_far_from_today():
    column = pa.array([*DATES, None], pa.int32()).view(pa.date32())
    assert column_text(column, "v").to_pylist() == [*DATES.values(), None]


def test_an_empty_or_all_null_date_column_has_no_texts():
    assert column_text(pa.array([], pa.date32()), "v").to_pylist() == []
    assert column_text(pa.array([None], pa.date32()), "v").to_pylist() == [None]


def test_date64_is_a_date_too():
    assert column_text(pa.array([dt.date(2024, 1, 2)], pa.date64()), "v").to_pylist() == [
        "2024-01-02"
    ]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", None])
def test_a_timestamp_is_its_microseconds_whatever_its_zone(zone):
    column = pa.array([1704164645678901, None, -1], pa.timestamp("us", zone))
    assert column_text(column, "v").to_pylist() == ["1704164645678901", None, "-1"]


def test_other_timestamp_units_become_microseconds():
    assert column_text(pa.array([5], pa.timestamp("s")), "v").to_pylist() == ["5000000"]
    assert column_text(pa.array([5000], pa.timestamp("ns")), "v").to_pylist() == ["5"]


def test_a_timestamp_finer_than_microseconds_is_refused():
    with pytest.raises(KeyValueError, match=r"'when'.*microseconds"):
        column_text(pa.array([5001], pa.timestamp("ns")), "when")


def test_booleans_and_strings_are_themselves():
    assert column_text(pa.array([True, False, None]), "v").to_pylist() == ["true", "false", None]
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        column = pa.array(["é", "", "a\0b", None, "\U0001f600"], kind)
        texts = column_text(column, "v")
        assert texts.type == pa.string()
        assert texts.to_pylist() == ["é", "", "a\0b", None, "\U0001f600"]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_binary_is_lower_case_hex(kind):
    column = pa.array([b"x\xff\0", None, b"", bytes(range(256))], kind)
    want = ["78ff00", None, "", bytes(range(256)).hex()]
    assert column_text(column, "v").to_pylist() == want
    assert column_text(column.slice(1, 3), "v").to_pylist() == want[1:]
    assert column_text(column.slice(0, 0), "v").to_pylist() == []


def test_fixed_size_binary_is_hex_too():
    column = pa.array([b"ab", None], pa.binary(2))
    assert column_text(column, "v").to_pylist() == ["6162", None]


def test_a_dictionary_column_is_spelled_by_its_values():
    column = pa.array([1.5, None, 1.5, 2.0]).dictionary_encode()
    assert column_text(column, "v").to_pylist() == ["1.5", None, "1.5", "2.0"]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1]]),
        pa.array([{"a": 1}]),
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        pa.array([dt.time(1)]),
        pa.array([dt.timedelta(1)]),
        pa.array([1.0], pa.float16()),
    ],
    ids=lambda column: str(column.type),
)
def test_types_that_hudi_has_no_text_for_are_refused_by_name(column):
    with pytest.raises(SchemaError, match=r"'v'.*found"):
        column_text(column, "v")


def test_spelling_asks_once_for_each_distinct_value():
    asked = []
    texts = spell_distinct(pa.array([3, None, 3, 4]), lambda value: asked.append(value) or "x")
    assert texts.to_pylist() == ["x", None, "x", "x"]
    assert asked == [3, 4]
