"""The tables that a page shows: one table, or those of a warehouse folder.

A name in an address is looked up among the folders that a listing found; it is never made part of
a path. So no address leads out of the folder that the server was given.
"""

from collections.abc import Mapping
from threading import Lock

from lakebed.api.opening import open_as
from lakebed.api.table import Table
from lakebed.errors import LakebedError, NotFoundError
from lakebed.model.spelling import nearest
from lakebed.storage.open import open_storage
from lakebed.storage.paths import join
from lakebed.table.snapshot import Snapshot

_MAX_TABLES = 10_000


class PageTable(Table):
    """A table with the snapshot of its latest commit, which sections share."""

    def snapshot(self) -> Snapshot:
        """Return the snapshot of the latest commit; the same one as long as nothing changes."""
        return self._snapshot(None)


class Site:
    """The tables below a path, each opened when it is first shown."""

    def __init__(self, path: str, storage_options: Mapping[str, str] | None = None) -> None:
        """Find out whether `path` is a table or a folder of tables.

        Raises NotFoundError if it is neither.
        """
        self._options = storage_options
        self._opened: dict[str, PageTable] = {}
        self._lock = Lock()
        self._storage = open_storage(path, storage_options)
        self.url = self._storage.url
        try:
            table = open_as(PageTable, None, path, storage_options)
        except NotFoundError as error:
            if not self.tables():
                raise NotFoundError(
                    f"{error}; there are no tables in its folders either"
                ) from error
            self.single = None
        else:
            self.single = table.name
            self._opened[table.name] = table

    def tables(self) -> list[str]:
        """Return the names of the tables: folders, or folders of folders as `database/table`."""
        found: list[str] = []
        for name in self._folders(""):
            inner = self._folders(name)
            if ".hoodie" in inner:
                found.append(name)
            else:
                found += [f"{name}/{i}" for i in inner if ".hoodie" in self._folders(f"{name}/{i}")]
            if len(found) >= _MAX_TABLES:
                break
        return found

    def table(self, name: str) -> PageTable:
        """Return the table of a name; raise NotFoundError if there is none."""
        if self.single is not None:
            if name != self.single:
                raise NotFoundError(f"there is no table {name!r} here; this is {self.single!r}")
            return self._opened[name]
        with self._lock:
            if name not in self._opened:
                if name not in self.tables():
                    raise NotFoundError(
                        f"there is no table {name!r} in {self.url}{nearest(name, self.tables())}"
                    )
                self._opened[name] = open_as(PageTable, None, join(self.url, name), self._options)
            return self._opened[name]

    def _folders(self, prefix: str) -> list[str]:
        try:
            return [name for name in self._storage.list_names(prefix)[0] if name != ".lakebed"]
        except LakebedError:
            return []  # a folder without permission is not a table that can be shown
