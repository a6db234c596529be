"""The Bloom index reads the keys of those files alone whose footers allow them."""

import base64
import struct
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.api.table import Table
from lakebed.errors import OptionError
from lakebed.format.index.bloom import FOOTER_BLOOM, FOOTER_BLOOM_TYPE, parse_bloom
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.index.bloom import BloomLocator
from lakebed.index.holders import HOLDERS
from lakebed.index.simple import SimpleLocator
from lakebed.table.files.file_group import FileSlice
from lakebed.table.read.log_reader import slice_sources
from lakebed.table.read.parquet_source import open_parquet
from lakebed.table.store.data_writer import DataFileWriter, NewDataFile
from support.tables import SCHEMA, batch, make, user_rows

NO_FILL = {"hoodie.parquet.small.file.limit": "0"}


def slices_of(table: Table) -> list[FileSlice]:
    return list(table._snapshot(None).slices)


def footer_of(table: Table, slice_: FileSlice) -> dict[str, str]:
    assert slice_.base_file is not None
    with open_parquet(table._storage, slice_.base_file.path, "it") as file:
        return dict(file.key_values)


@pytest.fixture
def interleaved() -> Table:
    """Return a table of three files with the keys a, d, g, ...; b, e, h, ...; c, f, i, ..."""
    table = make(index="bloom", properties=NO_FILL, partition_by=())
    for first in range(3):
        letters = "abcdefghijklmnopqrstuvwx"[first::3]
        table.upsert(batch(*((letter, 1, 1, "p") for letter in letters)))
    return table


def narrowed(table: Table, *keys: str) -> list[list[str]]:
    """Return which of the keys each file may hold."""
    view = table._snapshot(None).view()
    return [
        BloomLocator().narrow(view, slice_sources(view, slice_)[0], pa.array(keys))[1].to_pylist()
        for slice_ in slices_of(table)
    ]


def test_a_file_is_searched_for_the_keys_of_its_filter_and_range_alone(interleaved: Table):
    found = narrowed(interleaved, "A", "b", "d", "kk", "z")
    assert sorted(found) == [[], ["b"], ["d"]]


@pytest.mark.parametrize("locator", [SimpleLocator(), BloomLocator()])
@pytest.mark.parametrize("keys", [["b", "d", "kk"], None])
def test_sources_have_the_keys_that_are_looked_up_and_the_files_that_hold_them(
    interleaved: Table, locator: SimpleLocator, keys: list[str] | None
):
    slices = slices_of(interleaved)
    view = interleaved._snapshot(None).view()
    asked = None if keys is None else pa.array(keys)
    found = {
        key: slices[int(at)].base_file
        for source in locator.key_sources(view, slices, asked)
        for rows in source.open(view).batches
        for key, at in zip(
            rows.column(RECORD_KEY).to_pylist(), rows.column(HOLDERS).to_pylist(), strict=True
        )
    }
    assert set(found) == ({"b", "d"} if keys else set("abcdefghijklmnopqrstuvwx"))
    for key, file in found.items():
        assert file is not None
        assert key in interleaved._storage.read(file.path).decode("latin1")


def test_many_keys_are_found_too(interleaved: Table):
    keys = [f"{n:05}" for n in range(10_001)]
    rows = [(key, 1, 1, "p") for key in [*keys, "a", "b"]]
    interleaved.upsert(batch(*rows))
    interleaved.upsert(batch(*((key, 2, 2, "p") for key, *_ in rows)))
    found = interleaved.read().read_all().to_pylist()
    assert len(found) == 24 + len(keys)
    assert {row["id"] for row in found if row["v"] == 2} == {*keys, "a", "b"}


def test_every_base_file_has_a_filter_of_its_keys_whoever_wrote_it():
    table = make(index="bloom", table_type="MERGE_ON_READ", properties=NO_FILL, partition_by=())
    table.bulk_insert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    table.insert(batch(("c", 1, 1, "p")))
    table.upsert(batch(("a", 2, 2, "p"), ("d", 1, 1, "p")))
    check_filters(table, 3)
    table.compact()
    check_filters(table, 3)
    table.cluster()
    check_filters(table, 1)
    assert {key: row["v"] for (_, key), row in user_rows(table).items()} == {
        "a": 2,
        "b": 1,
        "c": 1,
        "d": 1,
    }


def check_filters(table: Table, files: int) -> None:
    slices = slices_of(table)
    assert len(slices) == files
    for slice_ in slices:
        marks = footer_of(table, slice_)
        bloom = parse_bloom(marks[FOOTER_BLOOM], marks[FOOTER_BLOOM_TYPE], "it")
        assert slice_.base_file is not None
        with open_parquet(table._storage, slice_.base_file.path, "it") as file:
            keys = pa.chunked_array([b.column(0) for b in file.read([RECORD_KEY])])
        assert bloom.missing(keys.combine_chunks()).true_count == 0
        assert bloom.missing(pa.array([f"other-{n}" for n in range(100)])).true_count > 95


def test_the_size_of_filters_is_an_option(tmp_path: Path):
    small = {**NO_FILL, "hoodie.index.bloom.fpp": "0.5"}
    sizes = []
    for properties in (NO_FILL, small):
        table = make(index="bloom", properties=properties, partition_by=())
        table.upsert(batch(*((f"{n}", 1, 1, "p") for n in range(1000))))
        sizes.append(len(footer_of(table, slices_of(table)[0])[FOOTER_BLOOM]))
    assert sizes[0] > 10 * sizes[1]
    for bad in ("0", "1", "x"):
        with pytest.raises(OptionError, match="a number between 0 and 1"):
            make(index="bloom", properties={"hoodie.index.bloom.fpp": bad})
    with pytest.raises(OptionError, match="no effect without index='bloom'"):
        lakebed.create_table(
            None, str(tmp_path), SCHEMA, key="id", index="simple", properties=small
        )


DAMAGED = {
    "no base64": "§",
    "cut": base64.b64encode(struct.pack(">iibi", -1, 7, 1, 1 << 20)).decode(),
    "another hash": base64.b64encode(struct.pack(">iibi", -1, 7, 0, 8) + b"\0").decode(),
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_a_filter_that_cannot_be_read_is_not_trusted(text: str, caplog: pytest.LogCaptureFixture):
    table = make(index="bloom", properties=NO_FILL, partition_by=())
    table.upsert(batch(("a", 1, 1, "p"), ("c", 1, 1, "p")))
    (slice_,) = slices_of(table)
    assert slice_.base_file is not None
    path = slice_.base_file.path
    file = NewDataFile(
        path,
        SCHEMA,
        "t",
        slice_.base_file.name.instant,
        metadata={FOOTER_BLOOM: text, "as long as before": "x" * 400},
    )
    with DataFileWriter(table._storage.open_write(path), file) as writer:
        rows = batch(("a", 1, 1, "p"), ("c", 1, 1, "p")).to_batches()[0]
        writer.write(rows, pa.array(["a", "c"]))
    table.upsert(batch(("a", 2, 2, "p"), ("b", 2, 2, "p")))
    assert "all keys of the file are read" in caplog.text
    found = sorted((row["id"], row["v"]) for row in table.read().read_all().to_pylist())
    assert found == [("a", 2), ("b", 2), ("c", 1)]


def test_a_bloom_index_and_a_simple_one_find_the_same_keys_so_either_name_is_taken():
    table = make(index="simple")
    table.upsert(batch(("a", 1, 1, "p")), index="bloom")
    assert str(table.config.index) == "simple index"
    table = make(index="global_bloom")
    table.upsert(batch(("a", 1, 1, "p")), index="global_simple")
    assert str(table.config.index) == "global bloom index"
