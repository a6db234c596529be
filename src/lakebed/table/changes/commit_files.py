"""The data files listed in commits, and whether they still exist."""

from collections.abc import Iterable, Iterator

from lakebed.errors import CorruptError, InvalidError, UnsupportedError
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.model.instant import Instant
from lakebed.table.files.file_group import DataFile, FileSlice, data_file


class LostFilesError(InvalidError):
    """Changes cannot be read because files that hold them no longer exist."""


def named_data_files(
    requested: Instant, metadata: CommitMetadata, *, is_read: bool = True
) -> Iterator[DataFile]:
    """Yield the files that a commit lists, with their recorded sizes (0 if not recorded).

    A commit may have written logs while buckets were resized: such logs have the instant of the
    resizing and are visible only once it has completed. If the commit's changes are read
    (`is_read`), such a log raises UnsupportedError.
    """
    for stat in metadata.write_stats():
        if not stat.path:
            continue
        path = stat.path.lstrip("/")
        file = data_file(path, stat.file_size_in_bytes or 0)
        if file is None:
            raise CorruptError(
                f"commit {requested} names {path!r}, which is not the name of a data file"
            )
        if is_read and file.name.instant != requested:
            raise UnsupportedError(
                f"{path}: written by commit {requested} while buckets were resized; these changes "
                "cannot be read. Start at a later commit, or read a snapshot"
            )
        yield file


def lost_file(slice_: FileSlice, sizes: dict[str, int]) -> str | None:
    """Return the path of a file of the slice that no longer exists, or None.

    Raises CorruptError if a file is truncated.
    """
    for file in slice_.files:
        found = sizes.get(file.path)
        if found is None:
            return file.path
        if found < file.size_bytes:
            raise CorruptError(
                f"{file.path}: its commit wrote {file.size_bytes} bytes, found {found}; it was "
                "truncated, and rows are missing"
            )
    return None


def check_there(slices: Iterable[FileSlice], sizes: dict[str, int], what: str) -> None:
    """Raise an error if a read needs a file that no longer exists."""
    for slice_ in slices:
        lost = lost_file(slice_, sizes)
        if lost is not None:
            raise gone(what, lost)


def gone(what: str, lost: str) -> LostFilesError:
    """Return the error for a read that needs the lost file."""
    return LostFilesError(
        f"{what}: {lost} no longer exists: it was cleaned, or lost; start "
        "later, or read a snapshot (cleaning keeps more with hoodie.clean.commits.retained)"
    )
