"""Runs merged as a stream: what is read, what is copied, what is refused."""

import decimal
import itertools

import pyarrow as pa
import pytest

from lakebed.errors import CorruptError, InvalidError
from lakebed.format.compiled import kernels
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.merge.rule import MergeRule
from lakebed.merge.run import BARRIER, COMMIT_TIME_DELETE, DELETED, FLAGS, OPEN, Run
from lakebed.merge.window import GATHER_ROWS, MAX_ROWS, merge_runs

SCHEMA = pa.schema([(RECORD_KEY, pa.string()), ("ts", pa.int64()), ("v", pa.string())])


@pytest.fixture(autouse=True, params=[False, True], ids=["twin", "kernel"])
def engine(request):
    """Run every test compiled and in plain Python."""
    with kernels(request.param):
        yield


def batch(*rows, flags=None, schema=SCHEMA) -> pa.RecordBatch:
    made = pa.RecordBatch.from_pylist(
        [dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema
    )
    return made if flags is None else made.append_column(FLAGS, pa.array(flags, pa.uint8()))


def numbered(start: int, stop: int, step: int = 1, value: str = "x") -> pa.RecordBatch:
    return batch(*((f"{i:08d}", i, value) for i in range(start, stop, step)))


def merged(*runs: Run, rule=MergeRule(), **options) -> list[tuple]:  # noqa: B008
    found = merge_runs(runs, rule, SCHEMA, **options)
    return [tuple(row.values()) for piece in found for row in piece.to_pylist()]


def test_records_come_out_in_the_order_of_their_key_bytes():
    runs = [
        Run("a", [batch(("Ａ", 1, "a"), ("\U0001f600", 1, "a"))]),
        Run("b", [batch(("", 1, "b"), ("\0", 1, "b"), ("a", 1, "b"), ("￿", 1, "b"))]),
    ]
    assert [row[0] for row in merged(*runs)] == ["", "\0", "a", "Ａ", "￿", "\U0001f600"]


def test_of_equal_keys_the_newest_run_wins_and_in_a_run_the_last():
    runs = [
        Run("a", [batch(("k", 1, "a0"), ("k", 1, "a1"), ("m", 1, "a"), ("m", 1, "a1"))]),
        Run("b", [batch(("k", 1, "b0"), ("k", 1, "b1"))]),
    ]
    assert merged(*runs) == [("k", 1, "b1"), ("m", 1, "a1")]


def test_with_ordering_the_greatest_wins_and_a_late_row_loses():
    runs = [
        Run("a", [batch(("k", 7, "a"), ("m", 1, "a"))]),
        Run("b", [batch(("k", 3, "late"), ("m", 1, "tie"))]),
    ]
    assert merged(*runs, rule=MergeRule(("ts",))) == [("k", 7, "a"), ("m", 1, "tie")]


@pytest.mark.parametrize("cuts", list(itertools.product([False, True], repeat=5)))
def test_a_key_that_goes_on_in_the_next_batch_is_still_one_key(cuts):
    rows = [
        ("a", 1, "0"),
        ("k", 2, "1"),
        ("k", 9, "2"),
        ("k", 3, "3"),
        ("k", 1, "4"),
        ("z", 1, "5"),
    ]
    bounds = [0, *(at + 1 for at, here in enumerate(cuts) if here), len(rows)]
    pieces = [batch(*rows[a:b]) for a, b in itertools.pairwise(bounds)]
    other = Run("b", [batch(("k", 5, "b"))])
    found = merged(Run("a", pieces), other, rule=MergeRule(("ts",)))
    assert found == [("a", 1, "0"), ("k", 9, "2"), ("z", 1, "5")]


def test_a_delete_hides_what_is_older_and_not_what_is_newer():
    runs = [
        Run("base", [batch(("a", 5, "old"), ("b", 5, "old"), ("c", 5, "old"))]),
        Run(
            "deletes",
            [batch(("a", 9, None), ("b", None, None), ("c", 1, None), flags=[1, 7, 1])],
        ),
        Run("newer", [batch(("a", 8, "late"), ("b", 1, "back"))]),
    ]
    assert merged(*runs, rule=MergeRule(("ts",))) == [("b", 1, "back"), ("c", 5, "old")]
    assert merged(*runs) == [("a", 8, "late"), ("b", 1, "back")]


def test_a_kept_delete_has_its_ordering_value_and_nothing_else():
    runs = [
        Run("a", [batch(("k", 9, "gone"), ("m", 1, "alone"), flags=[DELETED, COMMIT_TIME_DELETE])]),
        Run("b", [batch(("k", 5, "late"), ("n", 1, "there"))]),
    ]
    assert merged(*runs, rule=MergeRule(("ts",)), keep_deletes=True) == [
        ("k", 9, None, DELETED),
        ("m", 1, None, COMMIT_TIME_DELETE),
        ("n", 1, "there", 0),
    ]


def test_what_replaced_a_barrier_stays_one():
    runs = [
        Run("a", [batch(("k", None, None), flags=[COMMIT_TIME_DELETE])]),
        Run("b", [batch(("k", 1, "new"))]),
    ]
    found = merged(*runs, rule=MergeRule(("ts",)), keep_deletes=True)
    assert found == [("k", 1, "new", BARRIER)]


def test_logs_first_a_delete_without_ordering_value_stays_when_one_that_has_it_follows():
    base = Run("base", [batch(("k", 5, "old"))], yields=True)
    deletes = [
        Run("a", [batch(("k", None, None), flags=[COMMIT_TIME_DELETE])]),
        Run("b", [batch(("k", 3, None), flags=[DELETED])]),
    ]
    rule = MergeRule(("ts",), logs_first=True)
    assert merged(*deletes, rule=rule, keep_deletes=True) == [("k", None, None, COMMIT_TIME_DELETE)]
    assert merged(*deletes, base, rule=rule) == []
    again = Run("c", [batch(("k", 2, "again"))])
    assert merged(*deletes, again, rule=rule) == [("k", 2, "again")]


def test_in_sequence_a_delete_without_ordering_value_starts_the_key_anew():
    base = Run("base", [batch(("k", 5, "old"))])
    deletes = [
        Run("a", [batch(("k", None, None), flags=[COMMIT_TIME_DELETE])]),
        Run("b", [batch(("k", 3, None), flags=[DELETED])]),
    ]
    rule = MergeRule(("ts",))
    assert merged(*deletes, rule=rule, keep_deletes=True) == [("k", 3, None, DELETED | BARRIER)]
    assert merged(base, *deletes, Run("c", [batch(("k", 2, "late"))]), rule=rule) == []
    assert merged(base, *deletes, Run("c", [batch(("k", 3, "new"))]), rule=rule) == [
        ("k", 3, "new")
    ]


def test_a_single_run_has_its_deletes_dropped():
    run = Run("a", [batch(("a", 1, "x"), ("b", 1, "y"), ("c", 1, "z"), flags=[1, 0, OPEN])])
    assert merged(run) == [("b", 1, "y"), ("c", 1, "z")]


def test_only_deletes_give_no_batch():
    assert (
        list(merge_runs([Run("a", [batch(("a", 1, "x"), flags=[1])])], MergeRule(), SCHEMA)) == []
    )


def test_a_column_that_a_run_lacks_is_null_or_in_a_partial_run_kept():
    narrow = pa.schema([(RECORD_KEY, pa.string()), ("ts", pa.int64())])
    base = batch(("k", 1, "old"), ("m", 1, "old"))
    update = batch(("k", 2), schema=narrow)
    whole = merged(Run("a", [base]), Run("b", [update]))
    assert whole == [("k", 2, None), ("m", 1, "old")]
    partial = merged(Run("a", [base]), Run("b", [update], partial=True))
    assert partial == [("k", 2, "old"), ("m", 1, "old")]


def test_a_late_row_completes_a_partial_one_only_where_logs_are_folded_first():
    narrow = pa.schema([(RECORD_KEY, pa.string()), ("ts", pa.int64())])
    update = Run("a", [batch(("k", 9), schema=narrow)], partial=True)
    late = Run("b", [batch(("k", 5, "late"))])
    assert merged(update, late, rule=MergeRule(("ts",))) == [("k", 9, None)]
    assert merged(update, late, rule=MergeRule(("ts",), logs_first=True)) == [("k", 9, "late")]


def test_a_row_that_lost_gives_a_later_partial_row_nothing():
    narrow = pa.schema([(RECORD_KEY, pa.string()), ("ts", pa.int64())])
    runs = [
        Run("base", [batch(("k", 5, "base"))]),
        Run("late", [batch(("k", 3, "late"))]),
        Run("update", [batch(("k", 9), schema=narrow)], partial=True),
    ]
    assert merged(*runs, rule=MergeRule(("ts",))) == [("k", 9, "base")]
    turned = [runs[0], runs[2], runs[1]]
    assert merged(*turned, rule=MergeRule(("ts",))) == [("k", 9, "base")]


def test_after_a_delete_nothing_older_completes_a_partial_row():
    narrow = pa.schema([(RECORD_KEY, pa.string()), ("ts", pa.int64())])
    runs = [
        Run("a", [batch(("k", 1, "old"))]),
        Run("b", [batch(("k", 1, "gone"), flags=[DELETED])]),
        Run("c", [batch(("k", 9), schema=narrow)], partial=True),
    ]
    assert merged(*runs) == [("k", 9, None)]


def test_a_row_that_lost_to_a_delete_never_completes_a_partial_one():
    narrow = pa.schema([(RECORD_KEY, pa.string()), ("ts", pa.int64())])
    runs = [
        Run("a", [batch(("k", 5, None), flags=[DELETED])]),
        Run("b", [batch(("k", 3, "lost"))]),
        Run("c", [batch(("k", 9), schema=narrow)], partial=True),
    ]
    assert merged(*runs, rule=MergeRule(("ts",))) == [("k", 9, None)]


def test_a_base_file_that_comes_last_wins_only_by_a_greater_ordering_value():
    logs = Run("logs", [batch(*((key, 5, "log") for key in "abcd"), flags=[0, 0, 0, 7])])
    base = Run("base", [batch(*zip("abcd", (4, 5, 6, 9), ["base"] * 4, strict=True))], yields=True)
    found = merged(logs, base, rule=MergeRule(("ts",)))
    assert found == [("a", 5, "log"), ("b", 5, "log"), ("c", 6, "base")]
    assert merged(logs, base) == [("a", 5, "log"), ("b", 5, "log"), ("c", 5, "log")]


def test_no_runs_and_empty_runs_give_nothing():
    assert list(merge_runs([], MergeRule(), SCHEMA)) == []
    empty = [Run("r", []), Run("s", [batch()]), Run("t", [batch(), batch()])]
    assert list(merge_runs(empty, MergeRule(), SCHEMA)) == []


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("cuts", [[], [1], [2], [3], [1, 2, 3]])
def test_a_run_that_goes_back_is_named_with_its_keys(cuts, others):
    rows = [("b", 1, "x"), ("d", 1, "x"), ("c", 1, "x"), ("e", 1, "x")]
    pieces = [batch(*rows[a:b]) for a, b in itertools.pairwise([0, *cuts, 4])]
    more = [Run("fine", [batch(("a", 1, "y"), ("b", 1, "y"), ("z", 1, "y"))])] * others
    with pytest.raises(CorruptError, match=r"^p/file\.parquet: key b'c' comes after b'd', but"):
        merged(*more, Run("p/file.parquet", pieces))


def test_a_row_without_a_key_is_corrupt():
    with pytest.raises(
        CorruptError, match=r"^f: expected a '_hoodie_record_key' in every row, found 1 rows"
    ):
        merged(Run("f", [batch((None, 1, "x"))]))


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("ts", pa.array(["1"]), "f: column 'ts': expected int64, found string"),
        (FLAGS, pa.array([1], pa.int32()), "f: column '_lakebed_flags': expected uint8"),
        (FLAGS, pa.array([None], pa.uint8()), "without nulls, found uint8 with 1 nulls"),
    ],
)
def test_a_batch_of_another_schema_is_refused_by_name(column, values, words):
    given = pa.RecordBatch.from_pydict({RECORD_KEY: ["k"], column: values})
    with pytest.raises(InvalidError, match=words):
        merged(Run("f", [given]))


def test_a_schema_without_key_or_ordering_field_is_refused():
    with pytest.raises(InvalidError, match="'nope' is missing"):
        merged(rule=MergeRule(("nope",)))
    with pytest.raises(InvalidError, match="'_hoodie_record_key' is missing"):
        list(merge_runs([], MergeRule(), pa.schema([("ts", pa.int64())])))
    with pytest.raises(InvalidError, match="f: column '_hoodie_record_key' is missing"):
        merged(Run("f", [pa.RecordBatch.from_pydict({"ts": [1]})]))


def test_an_ordering_type_that_has_no_order_is_refused():
    schema = pa.schema([(RECORD_KEY, pa.string()), ("o", pa.struct([("a", pa.int64())]))])
    rows = batch(("k", {"a": 1}), ("k", {"a": 2}), schema=schema)
    with pytest.raises(
        InvalidError, match="expected a type whose values can be compared, found struct"
    ):
        list(merge_runs([Run("f", [rows])], MergeRule(("o",)), schema))


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (pa.int8(), -1, 1),
        (pa.uint8(), 1, 200),
        (pa.uint64(), 1, 2**64 - 1),
        (pa.float32(), -0.0, 0.0),
        (pa.float64(), float("inf"), float("nan")),
        (pa.date32(), -1, 1),
        (pa.timestamp("us", "UTC"), -1, 1),
        (pa.time64("us"), 0, 1),
        (pa.decimal128(5, 2), decimal.Decimal(-1), decimal.Decimal("0.5")),
        (pa.large_string(), "1", "10"),
        (pa.binary(), b"\x7f", b"\x80"),
        (pa.bool_(), False, True),
    ],
)
@pytest.mark.parametrize("with_null", [False, True])
def test_ordering_values_of_every_type_rise_as_in_java(kind, low, high, with_null):
    schema = pa.schema([(RECORD_KEY, pa.string()), ("o", kind), ("v", pa.string())])
    values = [low, high, low] if not with_null else [None, low, high, low, None]
    names = ["low", "high", "low"] if not with_null else ["null", "low", "high", "low", "null"]
    columns = [pa.array(["k"] * len(values)), pa.array(values, kind), pa.array(names)]
    rows = pa.RecordBatch.from_arrays(columns, schema=schema)
    (found,) = merge_runs([Run("f", [rows])], MergeRule(("o",)), schema)
    assert found.column("v").to_pylist() == ["high"]
    if with_null:
        (found,) = merge_runs([Run("f", [rows.slice(0, 2)])], MergeRule(("o",)), schema)
        assert found.column("v").to_pylist() == ["low"]


@pytest.mark.parametrize("kind", [pa.large_string(), pa.binary(), pa.large_binary()])
def test_keys_may_be_bytes_or_large(kind):
    schema = pa.schema([(RECORD_KEY, kind), ("v", pa.int64())])
    keys = [[b"a", b"\xff"], [b"a\0", b"b", b"\xff"]] if "binary" in str(kind) else [["a"], ["b"]]
    runs = [
        Run(str(n), [pa.RecordBatch.from_pydict({RECORD_KEY: k, "v": [n] * len(k)}, schema=schema)])
        for n, k in enumerate(keys)
    ]
    found = [
        row[RECORD_KEY] for b in merge_runs(runs, MergeRule(), schema) for row in b.to_pylist()
    ]
    assert found == sorted({key for part in keys for key in part})


def test_keys_of_another_type_are_refused():
    schema = pa.schema([(RECORD_KEY, pa.int64())])
    with pytest.raises(InvalidError, match="f: expected keys as strings or bytes, found int64"):
        list(merge_runs([Run("f", [batch((1,), schema=schema)])], MergeRule(), schema))


def test_rows_of_one_run_pass_through_without_a_copy():
    rows = numbered(0, GATHER_ROWS)
    (found,) = merge_runs([Run("a", [rows])], MergeRule(("ts",)), SCHEMA)
    for name in SCHEMA.names:
        mine, given = found.column(name).buffers(), rows.column(name).buffers()
        assert [part and part.address for part in mine] == [part and part.address for part in given]


def test_small_batches_are_joined_and_large_ones_cut():
    pieces = [numbered(i, i + 1000) for i in range(0, 40_000, 1000)]
    sizes = [found.num_rows for found in merge_runs([Run("a", pieces)], MergeRule(), SCHEMA)]
    assert sum(sizes) == 40_000
    assert min(sizes[:-1]) >= GATHER_ROWS
    large = Run("b", [numbered(0, MAX_ROWS + 5)])
    assert [f.num_rows for f in merge_runs([large], MergeRule(), SCHEMA)] == [MAX_ROWS, 5]


def test_wide_rows_are_not_gathered_without_end():
    pieces = [batch((f"{i:04d}", i, "x" * (1 << 20))) for i in range(40)]
    sizes = [found.num_rows for found in merge_runs([Run("a", pieces)], MergeRule(), SCHEMA)]
    assert sizes == [8] * 5


def test_a_merge_reads_one_batch_of_a_run_ahead_and_no_more():
    taken = []
    size = GATHER_ROWS

    def source(name: str, shift: int):
        for i in range(20):
            taken.append(name)
            yield numbered(2 * i * size + shift, 2 * (i + 1) * size + shift, 2)

    stream = merge_runs([Run("x", source("x", 0)), Run("y", source("y", 1))], MergeRule(), SCHEMA)
    given = sum(next(stream).num_rows for _ in range(3))
    assert len(taken) <= given // size + 4


def test_overlapping_runs_of_many_batches_give_every_key_once():
    runs = [
        Run("base", [numbered(i, i + 500, 1, "base") for i in range(0, 5000, 500)]),
        Run("half", [numbered(i, i + 700, 2, "half") for i in range(0, 4900, 700)]),
        Run("third", [numbered(0, 5000, 3, "third")]),
    ]
    found = merged(*runs)
    assert [row[1] for row in found] == list(range(5000))
    for key, number, value in found:
        want = (
            "third" if number % 3 == 0 else "half" if number % 2 == 0 and number < 4900 else "base"
        )
        assert (key, value) == (f"{number:08d}", want)
