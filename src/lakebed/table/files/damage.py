"""The error for reading a damaged file slice, which names each lost file.

Logs without their base file, or a base file without one of its logs, would yield wrong rows. So a
slice is read completely or not at all; other slices are not affected.
"""

from collections.abc import Iterable

from lakebed.errors import CorruptError, InvalidError, LakebedError
from lakebed.table.files.file_group import FileSlice, LostFile

_NAMED = 3
WAY_OUT = (
    "verify() lists all damage; restore the files from a backup, overwrite or drop the partition, "
    "restore a savepoint, read without it (on_damage='skip'), or remove it with repair(drop_lost=True)"
)


def check_whole(slices: Iterable[FileSlice]) -> None:
    """Raise CorruptError, naming the lost files, their commits and rows, if a slice is damaged."""
    lost = [file for slice_ in slices for file in slice_.damage]
    if lost:
        raise damage_error(lost)


def damage_error(lost: list[LostFile]) -> LakebedError:
    """Return the error for a read that needs lost files."""
    past = next((file for file in lost if file.until is not None), None)
    if past is not None:
        return InvalidError(
            f"as of {past.until}: {past.path} no longer exists: it was cleaned, or lost"
        )
    told = "; ".join(describe(file) for file in lost[:_NAMED])
    more = f"; and {len(lost) - _NAMED} more files" if len(lost) > _NAMED else ""
    return CorruptError(f"{told}{more}. {WAY_OUT}")


def describe(file: LostFile) -> str:
    """Return a clause that names a file, its commit, its problem and the rows written to it."""
    commit = f", of commit {file.commit}" if file.commit else ""
    rows = "" if file.rows is None else f" ({file.rows:,} were written to it)"
    return f"{file.path}{commit}: {file.problem}, and rows are missing{rows}"


def describe_slice(slice_: FileSlice) -> str:
    """Return a description of the problems of a damaged slice's files."""
    return "; ".join(map(describe, slice_.damage))
