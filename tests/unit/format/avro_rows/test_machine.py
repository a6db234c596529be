"""Small blocks are read without numba, large ones with it."""

import subprocess
import sys

import pytest

from lakebed.format.avro.avro_rows.machine import load_machine, warm_up


@pytest.fixture(autouse=True)
def _machine():
    """Choose as in real life."""


def test_numba_is_imported_only_for_many_bytes():
    """Importing it takes longer than megabytes without it."""
    script = """
import sys
from lakebed.format.avro.avro_rows.block import encode_head, read_avro_block

text = '{"type":"record","name":"r","fields":[{"name":"a","type":["null","string"]}]}'

def read(rows):
    content = encode_head(rows) + b"\\0\\0\\0\\4\\2\\4ab" * rows
    batches = read_avro_block(lambda at, n: content[at:at + n], len(content), text, None, what="b")
    return sum(batch.num_rows for batch in batches)

assert read(10) == 10
assert "numba" not in sys.modules
assert read(70_000) == 70_000
assert "numba" in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_warming_up_leaves_nothing_to_compile():
    warm_up()
    assert load_machine.cache_info().currsize == 1
