"""Hidden files of dead writers."""

import os

from lakebed.storage.local import LocalStorage
from lakebed.storage.objects import memory_storage
from lakebed.storage.stale_temporary import delete_abandoned

DAY_MS = 86_400_000


def test_only_what_nobody_wrote_to_for_long_goes(tmp_path):
    storage = LocalStorage(str(tmp_path))
    storage.put("p/file", b"x")
    stream = storage.open_write("p/other")
    stream.write(b"half")
    [hidden] = [n for n in os.listdir(tmp_path / "p") if n.startswith(".lakebed-tmp-")]
    now_ms = os.stat(tmp_path / "p" / hidden).st_mtime_ns // 1_000_000
    assert delete_abandoned(storage, now_ms - DAY_MS) == 0
    old = (now_ms - 2 * DAY_MS) / 1000
    os.utime(tmp_path / "p" / hidden, (old, old))
    os.utime(tmp_path / "p" / "file", (old, old))
    assert delete_abandoned(storage, now_ms - DAY_MS) == 1
    assert sorted(os.listdir(tmp_path / "p")) == ["file"]
    stream.abort()


def test_an_object_store_has_none():
    assert delete_abandoned(memory_storage(), DAY_MS) == 0
