import pytest

from lakebed.errors import CorruptError
from lakebed.format.avro.avro_binary import AvroReader, encode_bytes, encode_long


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "00"), (-1, "01"), (1, "02"), (300, "d804"), ((1 << 63) - 1, "feffffffffffffffff01"),
     (-(1 << 63), "ffffffffffffffffff01")],
)  # fmt: skip
def test_number_has_the_bytes_of_avro(value, text):
    assert encode_long(value).hex() == text
    assert AvroReader(bytes.fromhex(text), 0, "f").long() == value


@pytest.mark.parametrize("text", ["", "80", "ffffffffffffffffff02", "ff" * 11])
def test_number_without_end_or_over_64_bits_is_corrupt(text):
    with pytest.raises(CorruptError, match="f: "):
        AvroReader(bytes.fromhex(text), 0, "f").long()


def test_text_comes_back_and_the_end_is_seen():
    reader = AvroReader(b"x" + encode_bytes("é".encode()), 1, "f")
    assert reader.text() == "é"
    assert reader.at_end


@pytest.mark.parametrize("data", [encode_long(9) + b"ab", encode_long(-1), b"\x02\xff"])
def test_text_that_is_short_negative_or_no_utf8_is_corrupt(data):
    with pytest.raises(CorruptError, match="f: "):
        AvroReader(data, 0, "f").text()


def test_list_is_read_in_parts():
    data = encode_long(2) + b"ab" + encode_long(-1) + encode_long(1) + b"c" + encode_long(0)
    reader = AvroReader(data, 0, "f")
    assert [reader.take(1) for _ in reader.items()] == [b"a", b"b", b"c"]
    assert reader.at_end
