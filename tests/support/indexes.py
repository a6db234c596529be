"""Checks that every row of a table is a candidate in each of its secondary indexes."""

from collections.abc import Iterator
from contextlib import contextmanager

from lakebed.api.table import Table
from lakebed.index.secondary.definition import PROPERTY_PREFIX
from lakebed.index.secondary.open_index import OpenIndex, index_root, open_indexes
from lakebed.model.executor import LocalExecutor
from lakebed.services.indexing.check import check_index
from lakebed.table.config.properties_file import load_config, update_properties


@contextmanager
def unindexed(table: Table) -> Iterator[None]:
    """Let the writes of a block know of no index, as those of another engine."""
    held = load_config(table._storage).properties
    names = [name for name in held if name.startswith(PROPERTY_PREFIX)]
    update_properties(table._storage, dict.fromkeys(names))
    yield
    update_properties(table._storage, {name: held[name] for name in names})


def add_indexes(table: Table) -> None:
    """Create two indexes on a table of `support.tables`."""
    table.create_index("by_v", ["v"])
    table.create_index("by_two", ["ts", "id"])


def check_indexes(table: Table, *, covered: bool = False) -> None:
    """Fail if an index that queries may use does not find a row.

    With `covered`, every index must be usable, and know every row.
    """
    snapshot = table._snapshot(None)
    first = snapshot.timeline.first_active or ""
    for entry in table._storage.list(index_root(snapshot.config)):
        instant, _, rest = entry.path.rpartition("/")[2].partition("_")
        if rest and covered:
            done = snapshot.timeline.completed(instant) is not None or instant < first
            assert done, f"{entry.path}: its commit is not complete"
    for index in open_indexes(snapshot):
        if covered:
            assert isinstance(index, OpenIndex), index
            assert not index.manifest.whole, index.manifest
        if isinstance(index, OpenIndex):
            found = check_index(snapshot, index, LocalExecutor(1))
            assert found.missing == 0, (index.definition.name, found)
            assert found.superfluous == 0, (index.definition.name, found)
