"""A crash at every storage operation of the change that retires Hudi's metadata table.

Whatever is left, a reader that uses the metadata table sees what one that lists sees: as long as
the properties name it, it is whole and no commit came that it does not know.
"""

import functools
from collections.abc import Callable

import pytest

from lakebed.api.table import Table
from lakebed.commit.metadata_table import METADATA_FOLDER
from lakebed.model.clock import ManualClock
from lakebed.storage.storage import Storage
from lakebed.table.config.metadata_partitions import BEING_BUILT, LIVE, metadata_partitions
from lakebed.table.config.properties_file import load_config
from lakebed.timeline.active import load_timeline
from support.crash_points import Work
from support.fixtures import files
from support.tables import copy_of, one_thread

NOW = 1_900_000_000_000
Rows = list[dict[str, object]]


def opened(storage: Storage) -> Table:
    return Table(storage, load_config(storage), one_thread(), ManualClock(ms=NOW, step_ms=1))


def rows_of(storage: Storage) -> Rows:
    return sorted(opened(storage).read().read_all().to_pylist(), key=lambda row: str(row["id"]))


@functools.cache
def small() -> dict[str, bytes]:
    """Return a table of Hudi's; of its metadata table one file of each folder will do."""
    kept: dict[str, bytes] = {}
    folders: set[str] = set()
    for path, data in sorted(files("cow9_mdt").items()):
        folder = path.rpartition("/")[0]
        if path.startswith(METADATA_FOLDER) and not path.endswith("hoodie.properties"):
            if folder in folders:
                continue
            folders.add(folder)
        kept[path] = data
    return kept


def upsert(storage: Storage) -> None:
    table = opened(storage)
    table.upsert(table.read().read_all().slice(0, 2))


def rollback(storage: Storage) -> None:
    opened(storage).rollback(load_timeline(copy_of(small())).commits[-1].requested)


ACTS = {"upsert": upsert, "rollback": rollback}


@pytest.mark.parametrize("act", ACTS)
def test_a_crash_leaves_the_metadata_table_whole_or_unnamed(act: str):
    work = Work.of(small(), ACTS[act])
    done = rows_of(work.done)
    points = work.ends()
    assert len(points) > 10
    for storage, what in work.crashes(points):
        check_reader(storage, what)
        check_recovery(storage, ACTS[act], done)


def check_reader(storage: Storage, what: str) -> None:
    """Check what a reader that asks the metadata table would be told."""
    before = copy_of(small())
    if not metadata_partitions(load_config(storage)):
        return
    for path, data in small().items():
        # All files that it names are there, too.
        if path.startswith(METADATA_FOLDER) or path.endswith(".parquet"):
            assert storage.read(path) == data, what
    assert load_timeline(storage).commits == load_timeline(before).commits, what


def check_recovery(storage: Storage, work: Callable[[Storage], None], done: Rows) -> None:
    """Check that the next change ends what was begun."""
    if work is upsert:
        work(storage)
        assert rows_of(storage) == done
    else:
        opened(storage).upsert(opened(storage).read().read_all().slice(0, 1))
    properties = load_config(storage).properties
    assert (properties[LIVE], properties[BEING_BUILT]) == ("", "")
    assert not list(storage.list(METADATA_FOLDER))
