"""The layers of a table as a picture."""

import pyarrow as pa
import pytest

import lakebed
from lakebed.api.layers import FileGroupLayers, Layer, Layers, layers_of
from lakebed.format.names.data_names import BaseFileName, InlineLogName
from lakebed.table.files.file_group import BaseFile, FileGroupId, FileSlice, LogFile
from lakebed.terminal.text import size_text
from support.tables import batch, make

FIRST, SECOND = "20240101000000000", "20240102000000000"


def test_a_slice_is_drawn_with_its_logs_on_top():
    base = BaseFile("p", BaseFileName("f-0", "0-0-0", FIRST), 4096)
    log = LogFile("p", InlineLogName("f-0", SECOND, 1, "0-0-0"), 1024)
    layers = layers_of((FileSlice(FileGroupId("p", "f-0"), FIRST, base, (log,)),))
    [group] = layers
    assert [layer.level for layer in group.layers] == ["L0", "L1"]
    assert group.size_bytes == 5120
    lines = str(layers).splitlines()
    assert lines[0] == "p"
    assert lines[1] == "  file group f-0   5.0 KiB"
    assert lines[2].split() == ["L0", "█" * 6, "1.0", "KiB", SECOND]
    assert lines[3].split() == ["L1", "█" * 24, "4.0", "KiB", FIRST]


def test_a_small_file_still_shows_and_a_partition_is_named_once():
    big = Layer("L1", "a", FIRST, 10**9)
    small = Layer("L1", "b", FIRST, 1)
    layers = Layers((FileGroupLayers("p", "f", (big,)), FileGroupLayers("p", "g", (small,))))
    text = str(layers)
    assert text.splitlines().count("p") == 1
    assert "L1 █ " in text
    assert len(layers) == 2


def test_no_files_and_no_partition_have_words():
    assert str(Layers(())) == "(no files)"
    table = make(partition_by=(), buckets=1)
    table.insert(batch(("a", 1, 1, "p")))
    assert str(table.layers()).startswith("(not partitioned)\n  file group 00000000-")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (1 << 20, "1.0 MiB"),
        (3 << 30, "3.0 GiB"),
        (5 << 40, "5.0 TiB"),
        (5 << 50, "5120.0 TiB"),
    ],
)
def test_sizes_are_spelled_for_people(size, text):
    assert size_text(size) == text


def test_a_planned_compaction_shows_itself_in_notebooks():
    table = lakebed.create_table(None, "memory://layers-plan", "id BIGINT, v BIGINT", key="id")
    for value in (1, 2):
        table.upsert(pa.table({"id": [1], "v": [value]}))
    planned = table.schedule_compaction()
    assert str(planned) in planned._repr_html_()
