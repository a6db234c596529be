"""File groups and their slices, from names and a timeline alone.

A file group is all files of one id in one partition and one column group. Its slices are its
versions: a base file and the logs on top of it. The rules are Hudi's
(HoodieFileGroup.getBaseInstantTime and the completion-time query view):

1. base files key the slices by their requested instant; a pending compaction keys a slice without a
   base file;
2. a log with completion time c belongs to the slice with the greatest instant <= c, or to a slice
   of its own instant if there is none;
3. within a slice logs replay by (requested instant, version, write token, kind).

So the position of a log in its file group is (slice, requested instant, version, token), even while
the compaction that starts its slice is pending: executing the plan moves no log. In `lsm_tree`
tables a log of version 0 was written together with a base file and holds tombstones: it replays
before every other log of the slice.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from lakebed.errors import CorruptError
from lakebed.format.names.data_names import (
    TOMBSTONE_VERSION,
    BaseFileName,
    InlineLogName,
    LogKind,
    LogName,
    parse_data_name,
    replay_key,
)
from lakebed.model.packing import file_cost


class _DataFile:
    """The common part of base files and logs."""

    __slots__ = ()
    partition: str
    name: BaseFileName | LogName

    @property
    def path(self) -> str:
        """Return the path of the file, relative to the table."""
        return join_path(self.partition, self.name.encode())

    @property
    def group(self) -> "FileGroupId":
        """Return the file group that the file belongs to."""
        return FileGroupId(self.partition, self.name.file_id, self.name.column_group)


@dataclass(frozen=True, slots=True)
class BaseFile(_DataFile):
    """One base file: its location, the parts of its name, its size.

    A file that holds the columns of all column groups is a base file of each: `serves` are the
    groups whose columns are read from it, or None for all of its columns.
    """

    partition: str
    name: BaseFileName
    size_bytes: int
    serves: tuple[str, ...] | None = None

    @property
    def group(self) -> "FileGroupId":
        """Return the file group that the file is a version of."""
        own = self.serves[0] if self.serves is not None and len(self.serves) == 1 else None
        return FileGroupId(
            self.partition, self.name.file_id, self.name.column_group if own is None else own
        )


@dataclass(frozen=True, slots=True)
class LogFile(_DataFile):
    """One log file, inline or native."""

    partition: str
    name: LogName
    size_bytes: int

    @property
    def is_cdc(self) -> bool:
        """Return whether the log holds change data, which no snapshot reads."""
        if isinstance(self.name, InlineLogName):
            return self.name.cdc
        return self.name.kind is LogKind.CDC


DataFile = BaseFile | LogFile


@dataclass(frozen=True, slots=True, order=True)
class FileGroupId:
    """A file group: partition, file id, and column group (empty means the default one)."""

    partition: str
    file_id: str
    column_group: str = ""

    @property
    def whole(self) -> "FileGroupId":
        """Return the file group without its column group: all column groups share the file id."""
        return replace(self, column_group="") if self.column_group else self


@dataclass(frozen=True, slots=True)
class PendingCompaction:
    """A compaction that is planned on a file group and not completed.

    It drops the ordered deletes of commits before `cutoff`; an empty cutoff drops none.
    """

    instant: str
    cutoff: str = ""


@dataclass(frozen=True, slots=True)
class Boundary:
    """Where a pending compaction divides the logs of a slice.

    The compaction merges the first `merged` logs with the base file, and drops the ordered deletes
    of commits before `cutoff`: later logs are not merged with these deletes.
    """

    merged: int
    cutoff: str


@dataclass(frozen=True, slots=True)
class LostFile:
    """A file that a slice needs and that is lost or damaged, with the commit that wrote it.

    `rows` is None if the commit does not record how many rows it wrote. `until` is set if the slice
    is read as of an earlier instant, whose files cleaning may have deleted.
    """

    path: str
    problem: str
    commit: str = ""
    rows: int | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True)
class FileSlice:
    """One version of a file group: L1 is the base file, L0 the logs on top, oldest first.

    `tombstones` are logs of deletes that were written together with the base file. Their keys are
    not in the base file, so they only matter to the logs on top. `boundary` is set while a
    compaction of the slice is pending and logs have arrived since it was planned. `key_logs` are
    the logs that may hold keys that the base file lacks, if an index requested them. If there is
    `damage`, files are missing, and the others alone would return wrong rows.

    In a table with column groups, a slice of the whole file group has the files of the default
    group, and in `others` the slices of the other groups. `bases_only` means that logs were left
    out, so the keys of one group do not tell which keys the other groups hold.
    """

    group: FileGroupId
    instant: str
    base_file: BaseFile | None
    log_files: tuple[LogFile, ...] = ()
    tombstones: tuple[LogFile, ...] = ()
    boundary: Boundary | None = None
    damage: tuple[LostFile, ...] = ()
    key_logs: tuple[LogFile, ...] = ()
    others: tuple["FileSlice", ...] = ()
    bases_only: bool = False

    @property
    def needs_merge(self) -> bool:
        """Return whether reading the slice takes more than its base file."""
        return bool(self.log_files or self.others)

    @property
    def files(self) -> tuple[DataFile, ...]:
        """Return the files of the slice, oldest first."""
        base = () if self.base_file is None else (self.base_file,)
        own = (*base, *self.tombstones, *self.log_files)
        if not self.others:
            return own
        others = (file for slice_ in self.others for file in slice_.files)
        # A base file of all columns is a file of several column groups.
        return tuple({file.path: file for file in (*own, *others)}.values())

    @property
    def is_only_wide(self) -> bool:
        """Return whether the slice is a base file of all columns, without logs and tombstones.

        The file has a row for each key that any column group held. A tombstone hides it in its own
        group: dropping all groups that hold the key must not leave it.
        """
        base = self.base_file
        return base is not None and base.name.is_wide and not (self.log_files or self.tombstones)

    @property
    def by_group(self) -> Mapping[str, "FileSlice"]:
        """Return the slice of each column group that has files, by its name."""
        base = self.base_file
        if base is not None and base.serves is not None and len(base.serves) > 1:
            return {
                name: replace(
                    self,
                    group=replace(self.group, column_group=name),
                    base_file=replace(base, serves=(name,)),
                )
                for name in base.serves
            }
        own = replace(self, others=(), damage=())
        found = {own.group.column_group: own} if own.files else {}
        return {**found, **{slice_.group.column_group: slice_ for slice_ in self.others}}

    def with_tombstones_apart(self) -> "FileSlice":
        """Return the slice of an `lsm_tree` table with its tombstone logs separated.

        Tombstone logs of a lost base file stay among the logs, on top of an older base file.
        """
        if self.base_file is None:
            return self
        place = (self.base_file.name.instant, TOMBSTONE_VERSION)
        apart = tuple(
            log for log in self.log_files if (log.name.instant, log.name.version) == place
        )
        if not apart:
            return self
        rest = tuple(log for log in self.log_files if log not in apart)
        return replace(self, tombstones=(*self.tombstones, *apart), log_files=rest)

    @property
    def cost_bytes(self) -> int:
        """Return the estimated cost of reading the slice."""
        return file_cost(sum(file.size_bytes for file in self.files), len(self.files))


def named_group(partition: str, file_id: str, names: Iterable[str]) -> FileGroupId:
    """Return the file group of a plan's files, with the column group from their names."""
    parsed = map(parse_data_name, names)
    groups = (name.column_group for name in parsed if name is not None)
    return FileGroupId(partition, file_id, next(groups, ""))


def data_file(path: str, size_bytes: int) -> DataFile | None:
    """Return the file at `path`; None if its name is not that of a base file or a log."""
    partition, _, text = path.rpartition("/")
    name = parse_data_name(text)
    if name is None:
        return None
    if isinstance(name, BaseFileName):
        return BaseFile(partition, name, size_bytes)
    return LogFile(partition, name, size_bytes)


def join_path(partition: str, name: str) -> str:
    """Return the path of a file in a partition; partition '' is the table's base path."""
    return f"{partition}/{name}" if partition else name


def group_files(files: Iterable[DataFile]) -> dict[FileGroupId, list[DataFile]]:
    """Group files by file group."""
    groups: dict[FileGroupId, list[DataFile]] = defaultdict(list)
    for file in files:
        groups[file.group].append(file)
    return dict(groups)


ALL_GROUPS = "*"
"""The column group of a base file of all columns, where files are listed."""


def shown_group(file: DataFile, name: str) -> str:
    """Return the column group of a file where files are listed; `name` is that of its slice."""
    wide = isinstance(file, BaseFile) and file.serves is not None
    return ALL_GROUPS if wide else name


def spread(
    files: Iterable[DataFile], groups_of: Callable[[str], Iterable[str]]
) -> Iterator[DataFile]:
    """Yield the files, and a base file of all columns once for each column group that it serves.

    `groups_of` returns the names of these groups by the instant of the file.
    """
    for file in files:
        if isinstance(file, BaseFile) and file.name.is_wide:
            for name in groups_of(file.name.instant):
                yield replace(file, serves=(name,))
        else:
            yield file


def build_slices(
    group: FileGroupId,
    files: Iterable[DataFile],
    completion_of: Callable[[str], str],
    pending: Iterable[PendingCompaction] = (),
    *,
    tombstones: bool = False,
) -> tuple[FileSlice, ...]:
    """Return the slices of one file group, oldest first.

    `files` are the files of visible instants only; `completion_of` returns the completion time of a
    visible instant. `pending` are the compactions planned on this group: their slices have no base
    file yet, but later logs belong to them. With `tombstones`, logs of version 0 hold tombstones.
    """
    bases: dict[str, BaseFile] = {}
    logs: list[LogFile] = []
    for file in files:
        if isinstance(file, LogFile):
            if not file.is_cdc:
                logs.append(file)
        elif (other := bases.get(file.name.instant)) is not None:
            raise CorruptError(
                f"two base files of one file group and instant: {other.path} and {file.path}"
            )
        else:
            bases[file.name.instant] = file
    planned = {one.instant: Boundary(0, one.cutoff) for one in pending}
    slices: dict[str, FileSlice] = {
        instant: FileSlice(group, instant, bases.get(instant), boundary=planned.get(instant))
        for instant in sorted({*bases, *planned})
    }
    for instant, held in _logs_by_slice(logs, sorted(slices), completion_of).items():
        found = slices.get(instant) or FileSlice(group, instant, None)
        found = replace(found, log_files=held)
        slices[instant] = found.with_tombstones_apart() if tombstones else found
    return tuple(slices[instant] for instant in sorted(slices))


def _logs_by_slice(
    logs: list[LogFile], instants: list[str], completion_of: Callable[[str], str]
) -> Mapping[str, tuple[LogFile, ...]]:
    held: dict[str, list[LogFile]] = defaultdict(list)
    # Without any base file all logs form one slice, keyed by the oldest instant.
    first = min((log.name.instant for log in logs), default="")
    for log in sorted(logs, key=lambda file: replay_key(file.name)):
        completion = completion_of(log.name.instant)
        fitting = [instant for instant in instants if instant <= completion]
        key = fitting[-1] if fitting else (log.name.instant if instants else first)
        held[key].append(log)
    return {key: tuple(files) for key, files in held.items()}


def latest_slice(slices: tuple[FileSlice, ...]) -> FileSlice | None:
    """Return the slice of a file group that a snapshot reads; None if there is none.

    While a compaction is pending its slice has no base file: the previous slice and the logs of the
    pending slice are read together, so nothing is lost.
    """
    logs: tuple[LogFile, ...] = ()
    late = 0
    pending: Boundary | None = None
    for found in reversed(slices):
        logs = found.log_files + logs
        if found.base_file is not None:
            return replace(found, log_files=logs, boundary=_boundary(pending, logs, late))
        if found.boundary is not None and found.log_files:
            pending, late = found.boundary, len(logs)
    if not slices or not logs:
        return None
    return replace(slices[0], log_files=logs, boundary=_boundary(pending, logs, late))


def whole_slice(group: FileGroupId, slices: Mapping[str, FileSlice]) -> FileSlice:
    """Combine the slices of a file group's column groups, by group name, into one slice."""
    if tuple(slices) == ("",):
        return slices[""]
    default = slices.get("")
    if default is None:
        default = FileSlice(group, min(slice_.instant for slice_ in slices.values()), None)
    others = tuple(slice_ for name, slice_ in sorted(slices.items()) if name)
    damage = tuple(lost for slice_ in (default, *others) for lost in slice_.damage)
    return replace(default, others=others, damage=damage)


def _boundary(pending: Boundary | None, logs: tuple[LogFile, ...], late: int) -> Boundary | None:
    """Return the boundary before the last `late` logs; None unless a pending plan creates one."""
    return None if pending is None else replace(pending, merged=len(logs) - late)
