"""Finds the files that the newest slices of a table need, according to the commits.

A file that the newest commit lists may be lost. A reader that only lists files would silently
return too few rows.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from operator import itemgetter

from lakebed.errors import CorruptError
from lakebed.format.names.data_names import BaseFileName, parse_data_name
from lakebed.format.names.instant_name import LAYOUT_1
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.table.files.file_group import FileGroupId, join_path
from lakebed.timeline.timeline import TimelineInstant


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A data file as listed by its commit; the size is 0 if the commit does not record it.

    `instant` is the instant of the commit, `completion` its completion time.
    """

    path: str
    size_bytes: int
    instant: str = ""
    completion: str = ""
    rows: int | None = None
    key_range: tuple[str, str] | None = field(default=None, compare=False)


def needed_files(
    commits: Iterable[tuple[TimelineInstant, CommitMetadata]],
    archived: Iterable[NamedFile] = (),
) -> dict[FileGroupId, list[NamedFile]]:
    """Return the files of each file group's newest slice; `commits` are in order, oldest first.

    `archived` are files that older commits listed, which `commits` may not include.
    """
    told = list(commits)
    counted = {instant.requested for instant, _ in told}
    files = [file for commit in told for file in written_files(*commit, counted)]
    return newest_slices([*archived, *files])


def written_files(
    instant: TimelineInstant, metadata: CommitMetadata, counted: Set[str]
) -> Iterator[NamedFile]:
    """Yield the data files that a commit wrote; `counted` are the instants with visible logs.

    In layout 1 the commit also names the base file below each log, which is yielded too.
    """
    for stat in metadata.write_stats():
        if not stat.path:
            continue
        path = stat.path.lstrip("/")
        partition, _, text = path.rpartition("/")
        name = parse_data_name(text)
        if name is None:
            raise CorruptError(f"a commit names {path!r}, which is not the name of a data file")
        completion = instant.completion or ""
        if not isinstance(name, BaseFileName):
            if instant.layout == LAYOUT_1:
                completion = name.instant
                base = parse_data_name(stat.base_file or "")
                if isinstance(base, BaseFileName):
                    yield NamedFile(join_path(partition, base.encode()), 0, base.instant)
            elif name.instant not in counted:
                # While buckets are resized, a log is named after the clustering and hidden until it
                # completes.
                continue
        size_bytes = stat.file_size_in_bytes or 0
        yield NamedFile(
            path, size_bytes, instant.requested, completion, stat.num_writes, stat.key_range
        )


def newest_slices(files: Iterable[NamedFile]) -> dict[FileGroupId, list[NamedFile]]:
    """Return the newest base file of each file group, and the logs completed after it started.

    A base file of all columns is a version of every column group that has files.
    """
    bases: dict[FileGroupId, tuple[str, NamedFile]] = {}
    logs: dict[FileGroupId, list[NamedFile]] = defaultdict(list)
    wide: dict[FileGroupId, tuple[str, NamedFile]] = {}
    for file in files:
        partition, _, text = file.path.rpartition("/")
        name = parse_data_name(text)
        if name is None:
            continue
        group = FileGroupId(partition, name.file_id, name.column_group)
        if not isinstance(name, BaseFileName):
            logs[group].append(file)
        # If a file is listed twice, the entry of the commit that wrote it is more complete.
        elif group not in bases or name.instant > bases[group][0] or not bases[group][1].size_bytes:
            bases[group] = (name.instant, file)
        if isinstance(name, BaseFileName) and name.is_wide:
            wide[group] = max(wide.get(group, ("", file)), (name.instant, file), key=itemgetter(0))
    for group in {*bases, *logs} if wide else ():
        found = wide.get(group.whole)
        if found is not None and (group not in bases or found[0] > bases[group][0]):
            bases[group] = found
    needed = {group: [file] for group, (_, file) in bases.items()}
    for group, held in logs.items():
        began = bases[group][0] if group in bases else ""
        needed.setdefault(group, []).extend(file for file in held if file.completion >= began)
    return needed
