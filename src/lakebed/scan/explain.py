"""Explains a scan: which part of the table it reads, which conditions it used, and why.

The slices, row groups and columns are those of the scan itself, so the explanation cannot differ
from the read. Only footers are read, no rows. In a table with many files only some footers are
read, and the other row groups are estimated from them.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from lakebed.format.names.meta_columns import META_COLUMNS
from lakebed.groups.stitch import KEYS_ONLY
from lakebed.scan.index_choice import IndexNote
from lakebed.scan.prune_step import PruneStep
from lakebed.scan.scan import Scan
from lakebed.scan.slice_size import ReadSize
from lakebed.table.files.file_group import FileSlice
from lakebed.table.read.by_group.first_group import first_group
from lakebed.table.read.slice_reader import group_reads, parts_of
from lakebed.table.read.source_cache import SourceCache
from lakebed.table.snapshot import Snapshot
from lakebed.terminal.html import text_html
from lakebed.terminal.text import plural, size_text

MAX_FILES = 500
"""The most files that an explanation opens; half of them are files that the scan reads."""


@dataclass(frozen=True, slots=True)
class Share:
    """How much of a total is read; `estimated` if some files were not opened to find out."""

    read: int
    total: int
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class GroupNote:
    """What a read opens of a column group, and why; the name of the default group is empty.

    Attributes:
        columns: The columns that are read.
        columns_in: The number of file groups in which these columns are read.
        keys_in: The number of file groups in which only keys are read, because the other column
            groups may lack some rows.
        wide_in: In how many of all these the column group's base file is one of all columns.
        first_in: In how many the column group is read before the others, of which only the keys
            that fulfil the conditions on its columns are then read.
        looked_in: In how many of `keys_in` only keys are read that another group has deleted.
    """

    name: str
    columns: tuple[str, ...]
    columns_in: int
    keys_in: int
    wide_in: int = 0
    first_in: int = 0
    looked_in: int = 0

    def __str__(self) -> str:
        parts = []
        if self.columns_in:
            found = plural(self.columns_in, "file group")
            parts.append(f"read for {', '.join(self.columns)} ({found})")
        if self.keys_in:
            found = plural(self.keys_in, "file group")
            which = "the keys of deletes" if self.looked_in == self.keys_in else "its keys"
            parts.append(f"read for {which} only ({found})")
        if self.first_in:
            parts[-1] += ", first: the keys that fulfil its conditions are read of the others"
        if self.wide_in:
            shared = "" if self.wide_in == self.columns_in + self.keys_in else f" in {self.wide_in}"
            parts[-1] += f", from the base file of all columns{shared}"
        return f"{self.name or '(default)'} {' and '.join(parts) or 'not read'}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The plan of a read and the reasons for it; `print` shows it.

    `size_bytes` compares the column chunks that are read with all files of the table. `pruned_by`
    lists the steps of the plan, in order, and how much each of them left to read. `groups` has a
    note for each column group of the table, `indexes` one for each secondary index.
    """

    table: str
    where: str | None
    columns: tuple[str, ...]
    as_of: str | None
    partitions: Share
    file_groups: Share
    row_groups: Share
    size_bytes: Share
    pruned_by: tuple[PruneStep, ...]
    indexes: tuple[IndexNote, ...] = ()
    groups: tuple[GroupNote, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Return the explanation as dicts, lists and plain values."""
        return asdict(self)

    def _repr_html_(self) -> str:
        return text_html(str(self))

    def __str__(self) -> str:
        head = self.table if self.where is None else f"{self.table} where {self.where}"
        lines = [head if self.as_of is None else f"{head} as of {self.as_of}"]
        sizes = self.size_bytes
        almost = "about " if sizes.estimated else ""
        lines += [
            f"  reads       {_share(self.partitions, 'partition')}",
            f"              {_share(self.file_groups, 'file group')}",
            f"              {_share(self.row_groups, 'row group')}",
            f"              {almost}{size_text(sizes.read)} of {size_text(sizes.total)}",
            f"  columns     {', '.join(self.columns)}",
        ]
        name = "  groups      "
        for group in self.groups:
            lines.append(f"{name}{group}")
            name = " " * len(name)
        name = "  pruned by   "
        for step in self.pruned_by:
            shown = f": {' and '.join(step.conditions)}" if step.conditions else ""
            left = plural(step.left, step.noun)
            lines.append(f"{name}{step.by}{shown} ({left} left)")
            name = " " * len(name)
        if not self.pruned_by:
            lines.append(f"{name}nothing: every file group is read")
        name = "  indexes     "
        for note in self.indexes:
            used = "used" if note.used else "not used"
            lines.append(f"{name}{note.name} ({', '.join(note.columns)}) {used}: {note.reason}")
            name = " " * len(name)
        return "\n".join(lines)


def explain_scan(
    scan: Scan, snapshot: Snapshot, cache: SourceCache, max_files: int = MAX_FILES
) -> Explanation:
    """Explain a snapshot read; at most about `max_files` files are opened."""
    chosen = {slice_.group for slice_ in scan.slices}
    others = [slice_ for slice_ in snapshot.slices if slice_.group not in chosen]
    whole = replace(scan, predicate=None, key_filter=None, candidates=None)
    read, is_whole = _measure(scan, scan.slices, cache, max_files // 2)
    rest, is_all = _measure(whole, others, cache, max_files // 2)
    total_bytes = sum(map(_size_of, snapshot.slices))
    total = sum(size.all_row_groups + size.other_row_groups for size in (read, rest))
    groups = Share(read.row_groups, total, not (is_whole and is_all))
    steps = list(scan.steps)
    if scan.predicate is not None and read.row_groups < read.all_row_groups:
        step = PruneStep("footers", tuple(scan.predicate.columns), read.row_groups, "row group")
        steps.append(step)
    return Explanation(
        table=snapshot.config.name,
        where=None if scan.predicate is None else scan.predicate.text,
        columns=tuple(scan.needed_columns),
        as_of=snapshot.timeline.until,
        partitions=Share(_partitions(scan.slices), _partitions(snapshot.slices)),
        file_groups=Share(len(scan.slices), len(snapshot.slices)),
        row_groups=groups,
        size_bytes=Share(read.size_bytes, total_bytes, not is_whole),
        pruned_by=tuple(steps),
        indexes=scan.notes,
        groups=_group_notes(scan),
    )


def _group_notes(scan: Scan) -> tuple[GroupNote, ...]:
    """Return what is read of each column group; none in an ordinary table."""
    groups = scan.view.column_groups
    if not groups:
        return ()
    columns: dict[str, list[str]] = defaultdict(list)
    columns_in: dict[str, int] = defaultdict(int)
    keys_in: dict[str, int] = defaultdict(int)
    wide_in: dict[str, int] = defaultdict(int)
    first_in: dict[str, int] = defaultdict(int)
    looked_in: dict[str, int] = defaultdict(int)
    for slice_ in scan.slices:
        reads = group_reads(scan.view, slice_, scan.needed_columns)
        if len(reads) > 1:
            keys = scan.keys_of(slice_)
            count = len(scan.needed_columns)
            first = first_group(scan.view, parts_of(reads), scan.row_groups, keys, count)
            if first is not None:
                first_in[first.group] += 1
        for read in reads:
            free = [c for c in read.columns if c not in groups.shared and c not in KEYS_ONLY]
            base = read.part.base_file
            is_wide = base is not None and base.name.is_wide
            for name in read.groups:
                own = [c for c in free if c in META_COLUMNS or groups.owner(c) == name]
                columns[name] = columns[name] or own
                (columns_in if own else keys_in)[name] += 1
                wide_in[name] += is_wide
                looked_in[name] += read.only is not None
    return tuple(
        GroupNote(
            name,
            tuple(columns[name]),
            columns_in[name],
            keys_in[name],
            wide_in[name],
            first_in[name],
            looked_in[name],
        )
        for name in groups.names
    )


def _measure(
    scan: Scan, slices: Sequence[FileSlice], cache: SourceCache, max_files: int
) -> tuple[ReadSize, bool]:
    """Return how much a scan reads of `slices`, and whether that is exact."""
    found = ReadSize()
    opened: list[FileSlice] = []
    files = 0
    for slice_ in slices:
        files += len(slice_.files)
        if opened and files > max_files:
            break
        opened.append(slice_)
        if not slice_.damage:
            found += _measured(scan, slice_, cache)
    if len(opened) == len(slices):
        return found, not any(slice_.damage for slice_ in slices)
    factor = sum(map(_size_of, slices)) / max(1, sum(map(_size_of, opened)))
    return (
        ReadSize(
            round(found.row_groups * factor),
            round(found.all_row_groups * factor),
            round(found.size_bytes * factor),
            round(found.other_row_groups * factor),
        ),
        False,
    )


def _measured(scan: Scan, slice_: FileSlice, cache: SourceCache) -> ReadSize:
    return scan.measure(slice_, cache.get(slice_, lambda: scan.sources(slice_)))


def _size_of(slice_: FileSlice) -> int:
    return sum(file.size_bytes for file in slice_.files)


def _partitions(slices: Iterable[FileSlice]) -> int:
    return len({slice_.group.partition for slice_ in slices})


def _share(share: Share, noun: str) -> str:
    almost = "about " if share.estimated else ""
    return f"{almost}{share.read:,} of {plural(share.total, noun)}"
