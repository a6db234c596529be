"""Column statistics of large commits leave out files before any footer is opened."""

import math
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.api.table import Table
from lakebed.errors import CorruptError, DamageWarning
from lakebed.model.clock import ManualClock
from lakebed.model.executor import LocalExecutor
from lakebed.model.options.services import ArchiveOptions, CleanOptions
from lakebed.services.archive.execute import archive
from lakebed.services.clean.execute import clean
from lakebed.services.verify.findings import Code, Severity
from lakebed.services.verify.plan import plan_repair
from lakebed.services.verify.repair import repair
from lakebed.services.verify.verify import verify
from lakebed.storage.objects import memory_storage
from lakebed.storage.storage import Storage
from lakebed.table.files.column_statistics import STATISTICS_FOLDER, StatisticsRun
from lakebed.write.base_file import MAX_COLUMNS
from support.faulty import FaultyStorage
from support.tables import contents, copy_of, make, reopen

NAN = math.nan
ALWAYS = {"lakebed.file.index.min.files": "1"}
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("dt", pa.string()),
        ("ts", pa.int64()),
        ("amount", pa.float64()),
        ("name", pa.string()),
    ]
)
PARTITIONS = 12
ARCHIVE = ArchiveOptions(
    2, 3, clean=CleanOptions(commits_retained=1, min_age_seconds=0), delta_commits=1
)


def rows(*numbers: int, ts: int = 1, **values: object) -> pa.Table:
    """Make rows of some partitions, whose amount is their number unless `values` say otherwise."""
    made = [
        {
            "id": f"k{n}",
            "dt": f"p{n % PARTITIONS:02}",
            "ts": ts,
            "amount": float(n),
            "name": f"n{n}",
        }
        for n in numbers
    ]
    return pa.Table.from_pylist([{**row, **values} for row in made], SCHEMA)


def filled(storage: Storage | None = None, **changes: object) -> Table:
    """Make a table with a row, and a base file, in each of its partitions."""
    how = {"ordering": ("ts",), "table_type": "MERGE_ON_READ", "properties": ALWAYS, "buckets": 1}
    table = make(storage, schema=SCHEMA, **{**how, **changes})
    table.bulk_insert(rows(*range(PARTITIONS)))
    return table


def ids(table: Table, where: str, **how: object) -> list[str]:
    return sorted(table.to_arrow(where=where, **how)["id"].to_pylist())


def files_read(table: Table, where: str) -> int:
    return table.explain(where=where).file_groups.read


def runs(storage: Storage) -> list[str]:
    return [f"{STATISTICS_FOLDER}/{name}" for name in sorted(storage.names(STATISTICS_FOLDER))]


def test_a_selective_read_opens_and_lists_only_what_may_match():
    table = filled()
    storage = FaultyStorage(table._storage)
    assert ids(reopen(storage), "amount > 10") == ["k11"]
    opened = {op.split()[1] for op in storage.ops if op.startswith("open_read p")}
    assert {path.partition("/")[0] for path in opened} == {"p11"}
    listed = {op.split()[1] for op in storage.ops if re.fullmatch(r"list_names p\d+", op)}
    assert listed == {"p11"}
    assert "list " not in storage.ops
    shown = str(table.explain(where="amount > 10"))
    assert "column statistics: amount > 10.0 (1 file group left)" in shown


def test_a_log_on_top_of_a_file_keeps_it_in_the_read():
    table = filled()
    assert ids(table, "amount = 100") == []
    table.upsert(rows(*range(3, PARTITIONS), ts=2, amount=100.0))
    assert len(ids(table, "amount = 100")) == PARTITIONS - 3
    table.delete([{"id": f"k{n}", "dt": f"p{n:02}"} for n in range(4, PARTITIONS)])
    assert ids(table, "amount = 100") == ["k3"]
    # The base file of p03 alone would match, and its version must not come back.
    assert ids(table, "amount = 3") == []
    table.compact(mode="full")
    assert ids(table, "amount = 100") == ["k3"]
    # Files without rows have no statistics.
    assert files_read(table, "amount = 100") == 1 + 8
    assert ids(table, "amount = 3", as_of=table.history()["instant"].to_pylist()[-1]) == ["k3"]


def test_nan_is_greater_than_every_bound():
    table = filled()
    assert files_read(table, "amount > 1e300") == 0
    table.insert_overwrite(rows(*range(11), 11, amount=NAN))
    assert len(ids(table, "amount > 1e300")) == PARTITIONS
    assert ids(table, "amount <= 1e300") == []
    mixed = pa.concat_tables([rows(*range(PARTITIONS)), rows(PARTITIONS + 5, amount=NAN)])
    table.insert_overwrite(mixed)
    assert ids(table, "amount > 1e300") == ["k17"]
    table.insert_overwrite(rows(0, 1, amount=-0.0))
    assert ids(table, "amount = 0.0") == ["k0", "k1"]
    assert ids(table, "amount < 0") == []


def test_the_bounds_of_a_row_group_with_nan_are_marked_for_all_readers(tmp_path):
    """Spark would skip it by bounds that leave NaN out."""
    schema = pa.schema([("id", pa.int64()), ("a", pa.float64()), ("b", pa.float64()),
                        ("f", pa.float32()), ("s", pa.struct([("x", pa.float64())]))])  # fmt: skip
    table = lakebed.create_table(
        None, str(tmp_path / "t"), schema, key="id", buckets=1, properties=ALWAYS
    )
    numbers = range(40_000)
    made = {
        "id": list(numbers),
        "a": [NAN if n == 20_000 else n / 4 for n in numbers],
        "b": [0.5] * len(numbers),
        "f": [NAN if n == 39_999 else 0.0 for n in numbers],
        "s": [{"x": NAN if n == 3 else 1.0} for n in numbers],
    }
    table.bulk_insert(pa.table(made, schema))
    [path] = (tmp_path / "t").glob("*.parquet")
    metadata = pq.read_metadata(path)
    with_nan = set()
    for group in range(metadata.num_row_groups):
        for at in range(5, metadata.num_columns):
            chunk = metadata.row_group(group).column(at)
            if chunk.physical_type in ("FLOAT", "DOUBLE") and math.isnan(chunk.statistics.max):
                rows_ = pq.ParquetFile(path).read_row_group(group)["id"].to_pylist()
                with_nan.add((chunk.path_in_schema, min({3, 20_000, 39_999} & set(rows_))))
    assert {name for name, _ in with_nan} == {"a", "f", "s.x"}
    assert len(with_nan) == 3
    for where, found in (("a > 1e9", [20_000]), ("f >= 1", [39_999]), ("s.x > 2", [3])):
        assert table.to_arrow(where=where)["id"].to_pylist() == found
    assert table.to_arrow(where="a = 9999.75")["id"].to_pylist() == [39_999]
    assert table.to_arrow(where="b > 1").num_rows == 0
    assert list(table.verify().findings) == []


def test_nulls_and_columns_that_a_file_lacks_are_null():
    table = filled()
    assert files_read(table, "name IS NULL") == 0
    wider = rows(3, ts=2, name=None).append_column("extra", pa.array([7]))
    table.insert_overwrite(wider, evolve=True)
    assert (ids(table, "name IS NULL"), files_read(table, "name IS NULL")) == (["k3"], 1)
    assert (ids(table, "extra = 7"), files_read(table, "extra = 7")) == (["k3"], 1)
    assert len(ids(table, "extra IS NULL")) == PARTITIONS - 1
    assert files_read(table, "extra IS NULL") == PARTITIONS - 1


def test_long_strings_are_rounded_up_and_down():
    table = make(schema=SCHEMA, properties=ALWAYS, buckets=1)
    ends = ["é" * 40, "é" * 40 + "z", "\U0010ffff" * 40, "é" * 15 + "\u0301" * 9]
    names = [*ends, *(f"n{number}" for number in range(8))]
    made = rows(*range(12)).set_column(4, "name", pa.array(names))
    table.bulk_insert(made)
    [run] = runs(table._storage)
    held = StatisticsRun(table._storage, run).read(["name"])
    lengths = [len(of.columns["name"].upper or b"") for of in held.values()]
    assert max(lengths) <= 32
    for number, name in enumerate(names):
        assert ids(table, f"name = '{name}'") == [f"k{number}"]
        assert f"k{number}" in ids(table, f"name >= '{name}'")
        assert f"k{number}" not in ids(table, f"name > '{name}'")
    assert ids(table, "name LIKE 'n7%'") == ["k11"]
    assert files_read(table, "name LIKE 'n7%'") == 1


def test_a_widened_column_is_compared_as_it_is_read():
    schema = pa.schema([*list(SCHEMA)[:3], ("amount", pa.float32()), ("name", pa.string())])
    table = make(schema=schema, properties=ALWAYS, buckets=1)
    table.bulk_insert(rows(*range(PARTITIONS), amount=0.1).cast(schema))
    table.upsert(rows(3, ts=2, amount=0.25), evolve=True)
    assert table.schema.field("amount").type == pa.float64()
    found = table.to_arrow(columns=["id", "amount"])
    for value in set(found["amount"].to_pylist()):
        wanted = found.filter(pa.compute.equal(found["amount"], value))["id"].to_pylist()
        assert ids(table, f"amount = {value!r}D") == sorted(wanted)


def test_statistics_outlive_the_commit_on_the_timeline():
    table = filled()
    before = runs(table._storage)
    for number in range(6):
        table.upsert(rows(1, ts=2 + number))
    assert archive(table._target(), ARCHIVE)
    assert before[0] in runs(table._storage)
    fresh = reopen(table._storage)
    assert fresh._now().timeline.is_archived(before[0].rpartition("/")[2].partition("_")[0])
    assert (ids(fresh, "amount > 10"), files_read(fresh, "amount > 10")) == (["k11"], 2)
    assert not [f for f in verify_table(table._storage) if f.code is Code.FILE_INDEX]
    # Once none of its files is left, its statistics go too.
    table.insert_overwrite(rows(1, ts=20))
    table.delete_partitions([f"p{n:02}" for n in range(PARTITIONS) if n != 1])
    for number in range(5):
        table.upsert(rows(1, 2, ts=30 + number))
    clean(table._target(), ARCHIVE.clean)
    table.upsert(rows(1, 2, ts=40))
    assert archive(table._target(), ARCHIVE)
    assert before[0] not in runs(table._storage)


@pytest.mark.parametrize("column_count", [MAX_COLUMNS + 3])
def test_only_the_first_columns_and_indexed_ones_have_statistics(column_count):
    wide = pa.schema([*SCHEMA, *((f"c{n}", pa.int64()) for n in range(column_count))])
    table = make(schema=wide, properties=ALWAYS, buckets=1)
    last = f"c{column_count - 1}"
    table.create_index("by_last", [last])
    made = rows(*range(PARTITIONS))
    for n in range(column_count):
        made = made.append_column(f"c{n}", pa.array(range(PARTITIONS)))
    table.bulk_insert(made)
    [run] = runs(table._storage)
    [first, *_] = StatisticsRun(table._storage, run).read(None).values()
    assert len(first.columns) == MAX_COLUMNS + 1
    assert last in first.columns
    assert ids(table, f"c{column_count - 2} = 3") == ["k3"]


def verify_table(storage: Storage):
    return verify(storage, ManualClock(1_800_000_000_000), LocalExecutor(1))


@pytest.mark.parametrize("damage", ["torn", "flipped", "empty", "gone", "swapped"])
def test_damaged_statistics_are_a_warning_and_repaired(damage):
    table = filled()
    objects = contents(table._storage)
    [path] = runs(table._storage)
    data = objects[path]
    bad = {"torn": data[:-9], "flipped": data[:50] + b"\xff" + data[51:], "empty": b""}
    bad["swapped"] = data.replace(b"amount", b"a_ount")
    storage = copy_of({**objects, path: bad.get(damage, b"")})
    if damage == "gone":
        storage.delete(path)
        assert ids(reopen(storage), "amount > 10") == ["k11"]
    else:
        with pytest.warns(DamageWarning, match=re.escape(path)):
            assert ids(reopen(storage), "amount > 10") == ["k11"]
    report = verify_table(storage)
    [finding] = [f for f in report if f.code is Code.FILE_INDEX]
    assert finding.severity is (Severity.NOTE if damage == "gone" else Severity.WARNING)
    assert finding.path == path
    done = repair(storage, ManualClock(1_800_000_000_000), plan_repair(report))
    assert [step.path for step in done.done] == [path]
    assert StatisticsRun(storage, path).read(None) == StatisticsRun(table._storage, path).read(None)
    assert not [f for f in verify_table(storage) if f.code is Code.FILE_INDEX]


def test_statistics_that_differ_from_footers_are_an_error_and_repaired():
    table, other = filled(), filled()
    other.upsert(rows(3, ts=2, amount=50.0))
    storage = table._storage
    [path] = runs(storage)
    held = contents(storage)
    lies = make(
        schema=SCHEMA, ordering=("ts",), table_type="MERGE_ON_READ", properties=ALWAYS, buckets=1
    )
    lies.bulk_insert(rows(*range(PARTITIONS), amount=1.0))
    # The clocks of both tables are the same, and so are the names of their files.
    assert set(runs(lies._storage)) == {path}
    storage.put(path, contents(lies._storage)[path])
    report = verify_table(storage)
    [finding] = [f for f in report if f.code is Code.FILE_INDEX]
    assert (finding.severity, finding.path) == (Severity.ERROR, path)
    assert not [f for f in verify(storage, ManualClock(1_800_000_000_000), LocalExecutor(1), quick=True) if f.code is Code.FILE_INDEX]  # fmt: skip
    repair(storage, ManualClock(1_800_000_000_000), plan_repair(report))
    assert storage.read(path) == held[path]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("amount", [1.0, NAN, 5e-324]),
        ("amount", [2.0, NAN]),
        ("amount", [NAN]),
        ("name", ["a", "a" * 5_000]),
    ],
    ids=["NaN and numbers", "NaN and one number", "only NaN", "a value too long for a bound"],
)
def test_statistics_of_a_write_are_those_of_its_footers(column, values):
    table = filled()
    made = [rows(PARTITIONS * (at + 1), **{column: value}) for at, value in enumerate(values)]
    table.insert_overwrite(pa.concat_tables(made))
    assert not [f for f in verify_table(table._storage) if f.code is Code.FILE_INDEX]


def test_no_flipped_byte_of_statistics_changes_what_they_say():
    table = filled()
    [path] = runs(table._storage)
    whole = table._storage.read(path)
    storage = memory_storage()
    storage.put(path, whole)
    wanted = StatisticsRun(storage, path).read(["amount", "name"])
    refused = 0
    for at in range(0, len(whole), 5):
        storage.put(path, whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        try:
            assert StatisticsRun(storage, path).read(["amount", "name"]) == wanted, at
        except CorruptError:
            refused += 1
    assert refused > len(whole) // 20


def test_statistics_of_a_commit_that_was_rolled_back_do_not_count():
    table = filled()
    table.insert_overwrite(rows(*range(PARTITIONS), ts=2, amount=77.0))
    assert len(ids(table, "amount = 77")) == PARTITIONS
    table.rollback(table.history()["instant"].to_pylist()[0])
    assert ids(table, "amount = 77") == []
    assert (ids(table, "amount > 10"), files_read(table, "amount > 10")) == (["k11"], 1)
