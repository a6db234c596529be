"""A spool gives back what was written to it, from memory or from a file without a name."""

import os
import tempfile

import pytest

from lakebed.errors import InvalidError, UnavailableError
from lakebed.storage.spool import Spool


@pytest.mark.parametrize("memory_bytes", [10, 1 << 20])
def test_bytes_come_back_in_order_and_leave_no_file(tmp_path, monkeypatch, memory_bytes):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spool = Spool("s", memory_bytes)
    parts = [os.urandom(70_000) for _ in range(40)]
    for part in parts:
        assert spool.write(memoryview(part)) == len(part)
    assert spool.tell() == 40 * 70_000
    spool.close()
    assert b"".join(spool.chunks()) == b"".join(parts)
    assert not list(tmp_path.iterdir())
    spool.release()


def test_a_closed_spool_takes_no_more():
    spool = Spool("s")
    spool.close()
    with pytest.raises(InvalidError, match="closed"):
        spool.write(b"x")
    spool.release()


def test_no_room_for_the_temporary_file_is_an_outage(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere/at/all")
    spool = Spool("s", 4)
    with pytest.raises(UnavailableError, match=r"s: temporary file in /nowhere/at/all"):
        spool.write(b"12345")
    assert spool.closed
