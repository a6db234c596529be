"""Finds the table of a path: the table at the path, or the table that contains it.

As in Hudi, the path of a partition's folder selects that partition; the table is searched upwards.
Globs, which old releases of Hudi needed, are rejected, as in Hudi 1.0.
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lakebed.errors import InvalidError, LakebedError, NotFoundError
from lakebed.model.spelling import listed
from lakebed.storage.open import open_storage
from lakebed.storage.paths import join, parse_location
from lakebed.storage.storage import Storage
from lakebed.table.config.properties_file import PROPERTIES_PATH, load_config
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.file_group import FileSlice

_GLOB = re.compile(r"[*?\[{]")
_MOST_LOOKED_AT = 100


@dataclass(frozen=True, slots=True)
class TableFolder:
    """A folder of a table: the table's root and properties, and the folder's path ("" is the root)."""

    root: Storage
    config: TableConfig
    folder: str = ""

    def within(self, slices: Sequence[FileSlice]) -> tuple[FileSlice, ...]:
        """Return the slices whose partition is in the folder."""
        start = f"{self.folder}/" if self.folder else ""
        return tuple(s for s in slices if f"{s.group.partition}/".startswith(start))

    def check_partition(self, slices: Sequence[FileSlice]) -> None:
        """Raise an error for a folder that is not a partition of the table.

        An empty partition still has its metadata file, so it is accepted and has no rows, as in
        Hudi.
        """
        if self.folder and not self.within(slices) and not any(self.root.list(self.folder)):
            raise NotFoundError(
                f"{join(self.root.url, self.folder)}: not a partition of the table "
                f"that contains it; {self.advice}"
            )

    @property
    def advice(self) -> str:
        """Return a hint on how to read some partitions of the table."""
        names = self.config.partition_fields
        column = names[0].partition(":")[0] if names else ""
        return f'use load("{self.root.url}")' + (
            f', with .where("{column} = ...") for some of its partitions' if column else ""
        )


def find_table(url: str, options: Mapping[str, str] | None = None) -> TableFolder:
    """Find the table at `url`, or the table that contains `url`."""
    storage = open_storage(url, options)
    try:
        return TableFolder(storage, load_config(storage))
    except NotFoundError as error:
        place = find_above(storage.url, options)
        if _GLOB.search(storage.url):
            advice = 'use load("<the folder of the table>")' if place is None else place.advice
            raise InvalidError(
                f"{url}: a table is read by its folder, without a glob; {advice}"
            ) from None
        if place is None or place.folder.startswith("."):
            hint = "" if place is None else f"; {place.advice}"
            raise NotFoundError(f"{error}{similar_tables(storage, options)}{hint}") from None
        return place


def find_above(url: str, options: Mapping[str, str] | None = None) -> TableFolder | None:
    """Find the nearest table that contains `url`; return None if there is none."""
    for parent, folder in _parents(url):
        try:
            storage = open_storage(parent, options)
            storage.head(PROPERTIES_PATH)
            return TableFolder(storage, load_config(storage), folder)
        except NotFoundError:
            continue
        except LakebedError:
            return None  # an unreadable parent ends the search
    return None


def _parents(url: str) -> Iterator[tuple[str, str]]:
    """Yield each parent of `url`, nearest first, with the rest of the path."""
    scheme, authority, path = parse_location(url)
    parts = path.split("/")
    for depth in range(len(parts) - 1, 0, -1):
        if not _GLOB.search("/".join(parts[:depth])):
            yield f"{scheme}://{authority}/{'/'.join(parts[:depth])}", "/".join(parts[depth:])


def similar_tables(storage: Storage, options: Mapping[str, str] | None = None) -> str:
    """Return a hint that names tables in a folder on local disk, or a similar one beside it.

    The hint is empty if there are none.
    """
    parent, _, name = storage.url.rpartition("/")
    if not parent.startswith("file:///"):
        return ""
    with suppress(LakebedError):
        inside = sorted(storage.list_names("")[0])[:_MOST_LOOKED_AT]
        tables = [folder for folder in inside if _is_table(f"{storage.url}/{folder}", options)]
        if tables:
            return f"; the tables in this folder are {listed(tables, 5)}"
    with suppress(LakebedError):
        folders, _ = open_storage(parent, options).list_names("")
        for near in difflib.get_close_matches(name, folders, n=3):
            if _is_table(f"{parent}/{near}", options):
                return f"; did you mean {parent}/{near}?"
    return ""


def _is_table(url: str, options: Mapping[str, str] | None) -> bool:
    with suppress(NotFoundError):
        open_storage(url, options).head(PROPERTIES_PATH)
        return True
    return False
