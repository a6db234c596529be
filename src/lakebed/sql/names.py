"""The catalogue: names of tables in a warehouse, a folder or URL whose subfolders are tables.

`t` is the folder `t` of the warehouse, `db.t` the folder `db/t`, and `` lakebed.`/data/t` `` the
table at a path. A table created with LOCATION is elsewhere; its folder holds a file with its URL.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from lakebed.api.opening import drop_table, open_table
from lakebed.api.table import Table
from lakebed.errors import ExistsError, InvalidError, NotFoundError
from lakebed.model.spelling import listed, nearest
from lakebed.storage.open import open_storage
from lakebed.storage.paths import check_path, join, parse_location
from lakebed.storage.storage import Storage
from lakebed.table.config.properties_file import PROPERTIES_PATH

DEFAULT: Final = "default"
"""The name of the database that is the warehouse itself."""
POINTER: Final = ".lakebed-location"
_CATALOGS: Final = ("lakebed", "spark_catalog")
_FORMATS: Final = ("lakebed", "hudi")

Name = Sequence[str]


class Names:
    """The tables of a warehouse by name; without a warehouse, tables are named by their path."""

    def __init__(
        self,
        spark: Any | None,
        warehouse: str | None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self.spark = spark
        self._options = dict(storage_options or {})
        self._root: Storage | None = None
        if warehouse is not None:
            self._root = open_storage(warehouse, self._options)

    def __repr__(self) -> str:
        return f"Catalog({None if self._root is None else self._root.url})"

    @property
    def warehouse(self) -> str | None:
        """Return the URL of the warehouse."""
        return None if self._root is None else self._root.url

    def table(self, name: str | Name) -> Table:
        """Open a table.

        Args:
            name: Its name, such as `"orders"` or `"sales.orders"`.

        Raises:
            NotFoundError: There is no such table; the message has the most similar name.
        """
        parts = name.split(".") if isinstance(name, str) else list(name)
        url = self.locate(parts)
        return open_table(self.spark, url, self.options_of(url))

    def tables(self, database: str = DEFAULT) -> list[str]:
        """Return the names of the tables of a database, sorted.

        Args:
            database: A folder of the warehouse; by default, the warehouse itself.
        """
        folder = self._folder_of(database)
        return [name for name, _ in self._entries(folder)]

    def databases(self) -> list[str]:
        """Return the names of the databases: folders of the warehouse that contain tables."""
        root = self._warehouse()
        found = [
            name
            for name in root.list_names("")[0]
            if not name.startswith(".") and not self._is_table(name) and any(self._entries(name))
        ]
        return [DEFAULT, *found]

    def exists(self, name: Name) -> bool:
        """Return whether there is a table of this name."""
        try:
            self.locate(name)
        except NotFoundError:
            return False
        return True

    def locate(self, name: Name) -> str:
        """Return the URL of an existing table; raise NotFoundError with the most similar name."""
        path = path_of(name)
        if path is not None:
            return path
        folder = self._folder(name)
        url = self._url(folder)
        if url is None:
            database, _, last = folder.rpartition("/")
            entries = dict(self._entries(database))
            same = [entry for entry in entries if entry.lower() == last.lower()]
            if len(same) != 1:
                raise NotFoundError(
                    f"there is no table {'.'.join(name)!r} in the warehouse "
                    f"{self._warehouse().url}{nearest(last, entries)}"
                )
            url = entries[same[0]]
        return url

    def place(self, name: Name) -> str:
        """Return the URL at which to create a table."""
        path = path_of(name)
        return path if path is not None else self._join(self._folder(name))

    def register(self, name: Name, url: str) -> None:
        """Record the location of a table that is not in the folder of its name."""
        folder = self._folder(name)
        if self._url(folder) is not None:
            raise ExistsError(f"table {'.'.join(name)!r} already exists at {self._url(folder)}")
        self._warehouse().put_if_absent(join(folder, POINTER), f"{url}\n".encode())

    def forget(self, name: Name) -> None:
        """Delete the recorded location of a table."""
        self._warehouse().delete(join(self._folder(name), POINTER))

    def check_new(self, name: Name) -> None:
        """Raise ExistsError if there is a table of this name."""
        if self.exists(name):
            raise ExistsError(f"table {'.'.join(name)!r} already exists at {self.locate(name)}")

    def drop(self, name: Name) -> None:
        """Delete a table, or, of a table with a LOCATION, its name only."""
        url = self.locate(name)
        if path_of(name) is None:
            pointer = join(self._relative(url, name), POINTER)
            if self._pointed(pointer) is not None:
                self._warehouse().delete(pointer)
                return
        drop_table(url, self.options_of(url))

    def options_of(self, url: str) -> Mapping[str, str] | None:
        """Return the storage options for a URL: those of the warehouse, in the same store."""
        if self._root is None or not self._options:
            return None
        here, there = parse_location(self._root.url), parse_location(url)
        same = (here.scheme, here.authority) == (there.scheme, there.authority)
        return self._options if same else None

    def _relative(self, url: str, name: Name) -> str:
        """Return the folder of an existing table, in the case in which it is stored."""
        folder = self._folder(name)
        if self._url(folder) is not None:
            return folder
        database = folder.rpartition("/")[0]
        return next(join(database, entry) for entry, at in self._entries(database) if at == url)

    def _warehouse(self) -> Storage:
        if self._root is None:
            raise InvalidError(
                "a table is named, but there is no warehouse: call lakebed.catalog(spark, "
                "warehouse).sql(...), set LAKEBED_WAREHOUSE, or name the table's path, as in "
                "lakebed.`/data/t`"
            )
        return self._root

    def _folder(self, name: Name) -> str:
        """Return the folder of a name below the warehouse; raise an error for one outside it."""
        parts = list(name)
        if len(parts) == 3 and parts[0].lower() in _CATALOGS:
            parts = parts[1:]
        if len(parts) > 2:
            raise InvalidError(
                f"table {'.'.join(name)!r}: expected a name, database.name, or lakebed.`path`"
            )
        for part in parts:
            if "/" in part or "\\" in part or part.startswith(".") or not part.strip():
                raise InvalidError(
                    f"table {'.'.join(name)!r}: {part!r} is not a name of a folder in the warehouse; "
                    "a path is written lakebed.`/data/t`"
                )
        if len(parts) == 2:
            parts = [*([] if parts[0].lower() == DEFAULT else [parts[0]]), parts[1]]
        return check_path("/".join(parts))

    def _folder_of(self, database: str) -> str:
        return "" if database.lower() == DEFAULT else self._folder([database])

    def _join(self, folder: str) -> str:
        return f"{self._warehouse().url.rstrip('/')}/{folder}"

    def _entries(self, folder: str) -> Iterator[tuple[str, str]]:
        """Yield the tables in a folder of the warehouse, with their URLs."""
        for name in self._warehouse().list_names(folder)[0]:
            if not name.startswith("."):
                url = self._url(join(folder, name))
                if url is not None:
                    yield name, url

    def _url(self, folder: str) -> str | None:
        """Return the URL of the table of a folder; None if it is not a table."""
        if self._is_table(folder):
            return self._join(folder)
        return self._pointed(join(folder, POINTER))

    def _is_table(self, folder: str) -> bool:
        try:
            self._warehouse().head(join(folder, PROPERTIES_PATH))
        except NotFoundError:
            return False
        return True

    def _pointed(self, path: str) -> str | None:
        try:
            return self._warehouse().read(path).decode().strip()
        except NotFoundError:
            return None


def path_of(name: Name) -> str | None:
    """Return the path in a name such as lakebed.`/data/t`; None for another name."""
    if len(name) != 2 or name[0].lower() not in _FORMATS:
        return None
    return name[1] if "/" in name[1] else None


def check_database(catalog: Names, database: str) -> None:
    """Raise NotFoundError for a database without tables."""
    known = catalog.databases()
    if database.lower() not in (one.lower() for one in known):
        raise NotFoundError(
            f"there is no database {database!r} in the warehouse {catalog.warehouse}; it has "
            f"{listed(known)}{nearest(database, known)}"
        )
