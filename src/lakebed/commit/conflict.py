"""Decide which concurrent writes conflict, from the file groups and partitions that they touched.

Two writes overlap if they touch the same bucket of a partition or, if the index looks keys up, the
same file group. If an overlapping write completes after ours has read the table, completing ours
could undo or duplicate its changes. So ours is rejected, and may be retried.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from lakebed.format.names.data_names import BaseFileName, parse_data_name
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.table.config.table_config import ConcurrencyMode
from lakebed.table.config.writer_index import WriterIndex
from lakebed.table.files.file_group import FileGroupId

# Returns whether a file group can hold a row that a predicate selects.
Reads = Callable[[FileGroupId], bool]
_SERVICES = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER"})


@dataclass(frozen=True, slots=True)
class Footprint:
    """The file groups and partitions that a write touched.

    Places identify file groups, or buckets (see `group_place`). `places` are where the write wrote
    or replaced rows, `groups` the file groups that it wrote to in each place, `rewritten` the
    places that got a base file, and `ended` the places whose file groups it replaced. `looked` are
    the other partitions that it read (None: the whole table). `reads` is set if the write
    selected rows by a predicate; it returns whether a file group can hold a matching row, because a
    row written there concurrently could match too. A `blind` write appended rows without reading
    any.
    """

    what: str
    places: frozenset[FileGroupId] = frozenset()
    groups: Mapping[FileGroupId, frozenset[FileGroupId]] = field(default_factory=dict)
    rewritten: frozenset[FileGroupId] = frozenset()
    ended: frozenset[FileGroupId] = frozenset()
    looked: frozenset[str] | None = frozenset()
    blind: bool = False
    service: bool = False
    reads: Reads | None = None

    @property
    def partitions(self) -> frozenset[str]:
        """Return the partitions that the write changed."""
        return frozenset(place.partition for place in self.places)

    @property
    def overwritten(self) -> frozenset[str]:
        """Return the partitions whose rows the write replaced."""
        return frozenset(place.partition for place in self.ended)


def footprint(
    what: str,
    metadata: CommitMetadata,
    index: WriterIndex | None,
    *,
    looked: frozenset[str] | None = frozenset(),
    blind: bool = False,
    reads: Reads | None = None,
    column_groups: Iterable[str] = (),
) -> Footprint:
    """Return the footprint of a commit, derived from its metadata.

    A base file of all columns is one of each of the table's `column_groups`.
    """
    groups: dict[FileGroupId, set[FileGroupId]] = defaultdict(set)
    rewritten = set()
    for stat in metadata.write_stats():
        if not stat.path:
            continue
        partition, _, text = stat.path.lstrip("/").rpartition("/")
        name = parse_data_name(text)
        file_id = stat.file_id or (name.file_id if name else "")
        held: tuple[str, ...] = (name.column_group if name else "",)
        if isinstance(name, BaseFileName) and name.is_wide:
            held = (*column_groups,) or held
        for column_group in held:
            group = FileGroupId(partition, file_id, column_group)
            place = group_place(index, group)
            groups[place].add(group)
            if isinstance(name, BaseFileName):
                rewritten.add(place)
    ended = {group_place(index, FileGroupId(*group)) for group in metadata.replaced_groups()}
    return Footprint(
        what,
        frozenset(groups.keys() | ended),
        {place: frozenset(of) for place, of in groups.items()},
        frozenset(rewritten),
        frozenset(ended),
        looked,
        blind,
        (metadata.operation_type or "") in _SERVICES,
        reads,
    )


def group_place(index: WriterIndex | None, group: FileGroupId) -> FileGroupId:
    """Return the place of a file group: its bucket, or itself if keys are looked up."""
    return group if index is None else replace(group, file_id=index.key_range(group.file_id))


def find_conflict(
    ours: Footprint,
    others: Iterable[Footprint],
    planned: Mapping[FileGroupId, str],
    mode: ConcurrencyMode,
) -> str | None:
    """Return why `ours` must not complete, or None.

    `others` are the writes that completed since ours started. `planned` maps the file groups in
    pending plans of table services to their plan; a plan already fixes the files that it reads.
    """
    for place in sorted(ours.places & planned.keys()):
        plan = planned[place]
        # An appended log stays on top of the compacted base file; if the file group was replaced, #
        # the compacted file is not part of the table.
        if place in ours.rewritten - ours.ended or plan.startswith("clustering"):
            return f"{_name(place)} is in the {plan}, which is pending"
    for other in others:
        if (where := _meets(ours, other, mode)) is not None:
            return f"{other.what} changed {where}"
    return None


def _meets(ours: Footprint, other: Footprint, mode: ConcurrencyMode) -> str | None:
    if other.service:
        # Appended rows stay on top of the files that a table service writes, while their file group
        # exists.
        shared = (ours.rewritten & other.places) | (ours.places & other.ended)
        return _name(min(shared)) if shared else None
    replaced = (ours.overwritten & other.partitions) | (other.overwritten & ours.partitions)
    if replaced:
        return f"partition {min(replaced)!r}"
    if ours.looked is None and other.places:
        return _name(min(other.places))
    seen = other.partitions & (ours.looked or frozenset())
    if seen:
        return f"partition {min(seen)!r}"
    matching = [] if ours.reads is None else list(filter(ours.reads, chain(*other.groups.values())))
    if matching:
        return f"{_name(min(matching))}, where rows may match the predicate"
    split = _split(ours, other)
    if split is not None:
        return _name(split)
    shared = ours.places & other.places
    if mode is ConcurrencyMode.NON_BLOCKING and ours.blind:
        # Both of two appends to one file group are kept. A second file group for the same bucket #
        # would split its keys.
        same = {place for place in shared if ours.groups.get(place) == other.groups.get(place)}
        shared = shared - same | (shared & other.rewritten)
    return _name(min(shared)) if shared else None


def _split(ours: Footprint, other: Footprint) -> FileGroupId | None:
    """Return a place where two writes to different column groups chose different file ids."""
    ids, others = _file_ids(ours), _file_ids(other)
    grouped = {p.whole for p in (*ours.groups, *other.groups) if p.column_group}
    shared = grouped & ids.keys() & others.keys()
    return min((place for place in shared if ids[place] != others[place]), default=None)


def _file_ids(written: Footprint) -> dict[FileGroupId, set[str]]:
    found: dict[FileGroupId, set[str]] = defaultdict(set)
    for place, groups in written.groups.items():
        found[place.whole].update(group.file_id for group in groups)
    return found


def _name(place: FileGroupId) -> str:
    name = f"file group {place.file_id}"
    return f"{name} of partition {place.partition!r}" if place.partition else name
