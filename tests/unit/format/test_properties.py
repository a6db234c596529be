import pytest

from lakebed.errors import CorruptError, InvalidError
from lakebed.format.files.properties import encode_properties, parse_properties, table_checksum


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"", {}),
        (b"a=b", {"a": "b"}),
        (b"a = b ", {"a": "b "}),
        (b"a:b", {"a": "b"}),
        (b"a b c", {"a": "b c"}),
        (b"a\t\x0c =\tb", {"a": "b"}),
        (b"a", {"a": ""}),
        (b"a==b", {"a": "=b"}),
        (b"=b", {"": "b"}),
        (b"# c\n! d\n  #e\n\na=1", {"a": "1"}),
        (b"a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        (b"a=1\na=2", {"a": "2"}),
        (b"a=x\\\n    y", {"a": "xy"}),
        (b"a=x\\\r\n#y", {"a": "x#y"}),
        (b"a=x\\\\\nb=y", {"a": "x\\", "b": "y"}),
        (b"# c\\\na=1", {"a": "1"}),
        (b"a=x\\", {"a": "x"}),
        (b"a\\ b\\=c\\:d=1", {"a b=c:d": "1"}),
        (b"a=\\t\\n\\r\\f\\q\\\\", {"a": "\t\n\r\fq\\"}),
        (b"a=\\u00e9\\uD83D\\uDE00", {"a": "é😀"}),
        (b"a=\xe9", {"a": "é"}),
        ("a=é".encode(), {"a": "Ã©"}),
    ],
)
def test_text_is_read_as_java_reads_it(text, found):
    assert parse_properties(text) == found


@pytest.mark.parametrize("text", [b"a=\\u12", b"a=\\uzzzz", b"a=\\ud83d", b"a=\\ude00\\ud83d"])
def test_broken_escape_is_corrupt(text):
    with pytest.raises(CorruptError, match="table t"):
        parse_properties(text, "table t")


def test_text_is_written_sorted_and_escaped_as_java_does():
    written = encode_properties(
        {"z": " lead", "a b": 'x"y":#!=\\', "é": "😀\t\n", "m": "a b"}, ["note\nsecond", "ü"]
    )
    assert written == (
        b"#note\n#second\n#\\u00FC\n"
        b'a\\ b=x"y"\\:\\#\\!\\=\\\\\nm=a b\nz=\\ lead\n\\u00E9=\\uD83D\\uDE00\\t\\n\n'
    )


def test_half_of_a_surrogate_pair_is_refused():
    with pytest.raises(InvalidError, match="surrogate"):
        encode_properties({"a": "\ud83d"})


def test_checksum_covers_database_and_table():
    assert table_checksum("", "mor9_bucket_avro") == "1442631740"
    assert table_checksum(None, "mor9_bucket_avro") == "1442631740"
    assert table_checksum("default", "mor9_partial") == "2163426320"
