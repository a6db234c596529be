"""Lists the objects of a table outside its metadata folder."""

from collections.abc import Iterator

from lakebed.storage.storage import Entry, Storage
from lakebed.timeline.layout import METADATA_FOLDER

# From this many folders on, one listing of everything is cheaper than a listing of each folder.
_MANY_FOLDERS = 8


def table_files(storage: Storage) -> Iterator[Entry]:
    """List every object of the table outside its metadata folder, partition by partition."""
    folders, entries = storage.list_names("")
    if len(folders) > _MANY_FOLDERS:
        yield from (e for e in storage.list() if METADATA_FOLDER not in e.path.split("/"))
        return
    yield from entries
    for folder in folders:
        if folder != METADATA_FOLDER:
            # The files of a table nested below this one are not part of this table.
            for entry in storage.list(folder):
                if METADATA_FOLDER not in entry.path.split("/"):
                    yield entry
