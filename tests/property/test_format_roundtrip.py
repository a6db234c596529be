"""Every form of the format comes back from its bytes, and broken bytes give our own errors."""

import string
from dataclasses import fields
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.errors import CorruptError, FileNameError, LakebedError, UnsupportedError
from lakebed.format.files.partition_metadata import PartitionMetadata
from lakebed.format.files.properties import encode_properties, parse_properties
from lakebed.format.logs.delete_block import OrderingKind
from lakebed.format.logs.log_block import (
    MAGIC,
    BlockType,
    CorruptSpan,
    HeaderKey,
    LogBlock,
    encode_block,
)
from lakebed.format.names.data_names import (
    BASE_EXTENSIONS,
    BaseFileName,
    InlineLogName,
    LogKind,
    NativeLogName,
    parse_data_name,
)
from lakebed.format.names.instant_name import Action, InstantName, State
from lakebed.format.timeline.commit_metadata import CommitMetadata, RuntimeStats, WriteStat
from lakebed.format.timeline.ocf import decode_record
from support.delete_records import (
    DeleteRecord,
    OrderingValue,
)
from support.log_blocks import iter_blocks

TEXT = st.text(max_size=20)
WORDS = st.text(
    st.characters(exclude_characters="._/", exclude_categories=["Cs", "Cc"]),
    min_size=1,
    max_size=12,
)
INSTANTS = st.text(string.digits, min_size=14, max_size=20)
TOKENS = st.from_regex(r"[0-9]{1,5}-[0-9]{1,5}-[0-9]{1,5}", fullmatch=True)
GROUPS = st.just("") | WORDS.filter(lambda word: not set(word) <= set(string.digits))
VERSIONS = st.integers(0, 10**9 - 1)
EXTENSIONS = st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True)

BASE_NAMES = st.builds(
    BaseFileName, WORDS, TOKENS, INSTANTS, st.sampled_from(sorted(BASE_EXTENSIONS)), GROUPS
)
INLINE_NAMES = st.builds(InlineLogName, WORDS, INSTANTS, VERSIONS, TOKENS, st.booleans(), GROUPS)
NATIVE_NAMES = st.builds(
    NativeLogName, WORDS, TOKENS, INSTANTS, VERSIONS, st.sampled_from(LogKind), EXTENSIONS, GROUPS
)
DATA_NAMES = BASE_NAMES | INLINE_NAMES | NATIVE_NAMES


@given(DATA_NAMES)
def test_data_name_parses_to_itself_and_to_no_other_kind(name):
    text = name.encode()
    assert parse_data_name(text) == name
    for kind in (BaseFileName, InlineLogName, NativeLogName):
        if isinstance(name, kind):
            assert kind.parse(text) == name
        else:
            with pytest.raises(FileNameError):
                kind.parse(text)


@given(st.text(max_size=60) | DATA_NAMES.map(lambda name: name.encode()[:-1]))
def test_any_text_that_parses_as_a_data_name_is_that_name(text):
    name = parse_data_name(text)
    assert name is None or name.encode() == text


@given(INSTANTS, INSTANTS, st.sampled_from(Action), st.sampled_from(State))
def test_instant_name_comes_back(requested, completion, action, state):
    done = state is State.COMPLETED
    name = InstantName(
        requested, action.completed if done else action, state, completion if done else None
    )
    assert InstantName.parse(name.encode()) == name


@given(st.from_regex(r"[0-9]{14,20}[_.a-z0-9]{0,40}", fullmatch=True) | TEXT)
def test_any_text_is_an_instant_or_none_or_our_error(text):
    try:
        name = InstantName.parse(text)
    except LakebedError:
        return
    assert name is None or name.encode() == text


@given(st.dictionaries(TEXT, TEXT), st.lists(TEXT, max_size=3))
def test_properties_come_back_whatever_their_text(properties, comments):
    data = encode_properties(properties, comments)
    assert parse_properties(data) == properties
    assert data == encode_properties(dict(reversed(properties.items())), comments)


@given(st.binary(max_size=80))
def test_any_bytes_are_properties_or_corrupt(data):
    try:
        found = parse_properties(data)
    except CorruptError:
        return
    assert parse_properties(encode_properties(found)) == found


@given(TEXT, st.integers(0, 99))
def test_partition_metadata_comes_back(commit_time, depth):
    metadata = PartitionMetadata(commit_time, depth)
    assert PartitionMetadata.parse(metadata.encode(), "f") == metadata


LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
BY_TYPE = {
    "str | None": TEXT,
    "int | None": st.integers(-(1 << 31), (1 << 31) - 1),
    "tuple[str, ...] | None": st.lists(TEXT, max_size=3).map(tuple),
    "Mapping[str, int] | None": st.dictionaries(TEXT, LONGS, max_size=3),
    "RuntimeStats | None": st.builds(RuntimeStats, st.none() | LONGS, st.none() | LONGS),
}


def stat_type(field):
    text = field.type if isinstance(field.type, str) else str(field.type)
    for module in ("lakebed.format.timeline.commit_metadata.", "collections.abc."):
        text = text.replace(module, "")
    return text


# The range of keys and the statistics of columns are not a part of a commit.
STORED = [field for field in fields(WriteStat) if field.name not in ("key_range", "statistics")]
STATS = st.builds(WriteStat, **{f.name: st.none() | BY_TYPE[stat_type(f)] for f in STORED})
COMMITS = st.builds(
    CommitMetadata,
    partition_to_write_stats=st.dictionaries(
        TEXT, st.lists(STATS, max_size=2).map(tuple), max_size=2
    ),
    compacted=st.none() | st.booleans(),
    extra_metadata=st.dictionaries(TEXT, TEXT, max_size=2),
    operation_type=st.none() | TEXT,
    partition_to_replace_file_ids=st.none()
    | st.dictionaries(TEXT, st.lists(TEXT, max_size=2).map(tuple), max_size=2),
    version=st.none() | st.integers(0, 9),
)


@settings(max_examples=50)
@given(COMMITS)
def test_commit_comes_back(commit):
    assert CommitMetadata.parse(commit.encode(), "f") == commit


COMMIT = CommitMetadata(
    partition_to_write_stats={"p": (WriteStat(path="p/f", num_writes=1, log_files=("a",)),)},
    extra_metadata={"schema": "{}"},
    partition_to_replace_file_ids={"p": ("f",)},
).encode()


def test_commit_cut_anywhere_is_corrupt():
    for size in range(len(COMMIT)):
        with pytest.raises(CorruptError, match="f: "):
            CommitMetadata.parse(COMMIT[:size], "f")


@settings(max_examples=500)
@given(st.data())
def test_commit_with_broken_bytes_is_corrupt_or_valid(data):
    broken = bytearray(COMMIT)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(broken) - 1))
        broken[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    for parse in (decode_record, CommitMetadata.parse):
        try:
            parse(bytes(broken), "f")
        except (CorruptError, UnsupportedError) as error:
            assert str(error).startswith("f: ")  # noqa: PT017


BLOCKS = st.builds(
    LogBlock,
    st.sampled_from([kind for kind in BlockType if kind is not BlockType.CORRUPT]),
    st.dictionaries(st.sampled_from(HeaderKey), TEXT),
    st.binary(max_size=40),
)


@given(st.lists(BLOCKS, max_size=4))
def test_blocks_come_back(blocks):
    assert list(iter_blocks(b"".join(map(encode_block, blocks)), "f")) == blocks


@given(st.lists(BLOCKS, max_size=3), BLOCKS, st.data())
def test_torn_last_block_costs_no_other_block(blocks, last, data):
    whole, torn = b"".join(map(encode_block, blocks)), encode_block(last)
    size = data.draw(st.integers(1, len(torn) - 1))
    found = list(iter_blocks(whole + torn[:size], "f"))
    # Content that itself holds the magic may begin a second damaged stretch, nothing else.
    assert found[: len(blocks)] == blocks
    assert all(isinstance(span, CorruptSpan) for span in found[len(blocks) :])


@given(st.binary(max_size=80) | st.binary(max_size=80).map(lambda rest: MAGIC + rest))
def test_any_bytes_are_covered_by_blocks_and_stretches_or_our_error(data):
    try:
        found = list(iter_blocks(data, "f"))
    except (CorruptError, UnsupportedError):
        return
    sizes = [b.size_bytes if isinstance(b, CorruptSpan) else len(encode_block(b)) for b in found]
    assert sum(sizes) == len(data)


def ordering(kind):
    values = {
        OrderingKind.BOOLEAN: st.booleans(),
        OrderingKind.FLOAT: st.floats(width=32, allow_nan=False),
        OrderingKind.DOUBLE: st.floats(allow_nan=False),
        OrderingKind.BYTES: st.binary(max_size=9),
        OrderingKind.STRING: TEXT,
        OrderingKind.DECIMAL: st.decimals(
            Decimal("-1e15"), Decimal("1e15"), places=15, allow_nan=False
        ),
        OrderingKind.LONG: LONGS,
        OrderingKind.TIMESTAMP_MICROS: LONGS,
    }
    ints = st.integers(-(1 << 31), (1 << 31) - 1)
    return st.builds(OrderingValue, st.just(kind), values.get(kind, ints))


ORDERINGS = st.sampled_from(OrderingKind).flatmap(ordering)
DELETES = st.builds(
    DeleteRecord,
    st.none() | TEXT,
    st.none() | TEXT,
    st.none()
    | ORDERINGS.filter(lambda value: value.kind is not OrderingKind.LOCAL_DATE)
    | st.lists(st.none() | ORDERINGS, max_size=3).map(tuple),
)
