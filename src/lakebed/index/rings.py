"""The rings of a table with consistent hashing, one for each partition.

    .hoodie/.bucket_index/consistent_hashing_metadata/<partition>/<instant>.hashing_meta
    .hoodie/.bucket_index/consistent_hashing_metadata/<partition>/<instant>.commit

A clustering that resizes buckets writes a new ring, which becomes valid when the clustering
completes; until then, the previous ring is valid. The next writer marks the new ring as committed
by an empty file beside it, so that the ring stays valid after the instant is archived.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from lakebed.errors import ConflictError, CorruptError, ExistsError, UnsupportedError
from lakebed.format.names.consistent_hashing import FIRST_INSTANT, HashingMetadata
from lakebed.format.names.instant_name import Action
from lakebed.index.hash_locator import BucketId
from lakebed.model.executor import LocalExecutor, TaskId
from lakebed.storage.storage import Storage
from lakebed.table.config.table_config import TableConfig, TableType
from lakebed.table.files.file_group import join_path
from lakebed.table.files.pending_plans import planned_groups
from lakebed.table.snapshot import Snapshot

HASHING_FOLDER = ".hoodie/.bucket_index/consistent_hashing_metadata"
"""The folder for the rings of a table with consistent hashing."""
_RING, _COMMITTED = ".hashing_meta", ".commit"
# Many threads, because reading small files is mostly waiting for storage.
_READERS = 16

Rings = Mapping[str, HashingMetadata]


@dataclass(frozen=True, slots=True)
class LoadedRings:
    """The valid rings by partition, and the paths of markers to be written.

    `resizing` are the buckets that a pending clustering may change, each with its instant.
    `refused` are the partitions whose files do not match their ring, each with the reason.
    """

    rings: Rings = field(default_factory=dict)
    markers: tuple[str, ...] = ()
    resizing: Mapping[BucketId, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def buckets(self) -> int | None:
        """Return the initial number of buckets of all rings; None if it differs between them."""
        counts = {ring.num_buckets for ring in self.rings.values()}
        return counts.pop() if len(counts) == 1 else None

    def mark_committed(self, storage: Storage) -> None:
        """Write the missing markers, as Hudi's writers do."""
        for path in self.markers:
            try:
                storage.put_if_absent(path, b"")
            except ExistsError:
                continue


@dataclass(frozen=True, slots=True)
class _Folder:
    """The content of one partition's folder, by instant."""

    rings: tuple[str, ...]
    markers: frozenset[str]


@lru_cache(maxsize=1024)
def first_ring(partition: str, buckets: int) -> HashingMetadata:
    """Return the first ring of a partition."""
    return HashingMetadata.first(partition, buckets)


def check_table_type(config: TableConfig) -> None:
    """Raise an error for a copy-on-write table: as in Hudi, moving rows requires logs."""
    if config.table_type is not TableType.MERGE_ON_READ:
        raise UnsupportedError(
            f"table {config.name!r} is {config.table_type}: consistent hashing needs a "
            'MERGE_ON_READ table; name index="bucket" instead'
        )


def load_rings(snapshot: Snapshot) -> LoadedRings:
    """Return the rings of a table, checked against its file groups."""
    check_table_type(snapshot.config)
    folders = _folders(snapshot.storage)
    ids: dict[str, set[str]] = defaultdict(set)
    for group in snapshot.groups:
        ids[group.partition].add(group.file_id)
    tasks = [
        _Choice(snapshot, partition, folder, frozenset(ids[partition]))
        for partition, folder in sorted(folders.items())
    ]
    rings: dict[str, HashingMetadata] = {}
    markers: list[str] = []
    for ring, due in LocalExecutor(_READERS).run(_choose, tasks, "read rings"):
        rings[ring.partition] = ring
        markers += due
    refused = {}
    for partition in sorted(ids.keys() | snapshot.replaced.keys()):
        gone = snapshot.replaced.get(partition, frozenset())
        reason = _misfit(rings.get(partition), partition, ids[partition], gone)
        if reason is not None:
            refused[partition] = reason
    return LoadedRings(rings, tuple(markers), _resizing(snapshot, rings, ids), refused)


def ensure_ring(storage: Storage, ring: HashingMetadata) -> None:
    """Store the first ring of a partition.

    Raises ConflictError if another writer has stored a different ring.
    """
    path = _path(ring.partition, ring.instant, _RING)
    try:
        storage.put_if_absent(path, ring.encode())
    except ExistsError:
        found = HashingMetadata.parse(storage.read(path), path)
        if found.nodes != ring.nodes:
            raise ConflictError(
                f"{storage.url}: another writer created partition {ring.partition!r} with "
                f"{len(found.nodes)} buckets, we with {len(ring.nodes)}; retry the write"
            ) from None


@dataclass(frozen=True, slots=True)
class _Choice:
    """A partition whose valid ring is to be chosen, with its file groups."""

    snapshot: Snapshot
    partition: str
    folder: _Folder
    file_ids: frozenset[str]


def _choose(choice: _Choice, task: TaskId) -> tuple[HashingMetadata, list[str]]:
    """Return the valid ring of a partition, and the markers to be written."""
    del task
    timeline = choice.snapshot.timeline
    pending = {instant.requested for instant in timeline.pending()}
    markers, rings = choice.folder.markers, choice.folder.rings
    for at in range(len(rings) - 1, -1, -1):
        instant = rings[at]
        if instant == FIRST_INSTANT or instant in markers:
            return _read(choice, instant), []
        if instant in pending:
            continue
        if timeline.completed(instant) is None:
            _check_forgotten(choice, at)
        newest = max(markers, default="")
        due = [one for one in rings[: at + 1] if one > newest and _is_settled(choice, one, instant)]
        return _read(choice, instant), [_path(choice.partition, one, _COMMITTED) for one in due]
    raise UnsupportedError(
        f"partition {choice.partition!r}: all of its hashing metadata ({', '.join(rings)}) is of "
        "clusterings that are pending; finish or roll them back with Apache Hudi"
    )


def _is_settled(choice: _Choice, instant: str, chosen: str) -> bool:
    known = choice.snapshot.timeline.completed(instant) is not None
    return known or instant in (FIRST_INSTANT, chosen)


def _check_forgotten(choice: _Choice, at: int) -> None:
    """Raise an error if it is unknown whether a ring is valid.

    The clustering of the ring is not on the timeline: it was archived before the ring was marked,
    or rolled back. Hudi then accepts any file group of the ring as proof that the clustering
    completed, even one that existed before.
    """
    rings = choice.folder.rings
    newer = {node.file_id for node in _read(choice, rings[at]).nodes}
    older = {node.file_id for node in _read(choice, rings[at - 1]).nodes} if at else set()
    if (newer - older) & choice.file_ids and not (older - newer) & choice.file_ids:
        return
    path = _path(choice.partition, rings[at], _RING)
    raise UnsupportedError(
        f"{path}: the timeline does not show whether the clustering {rings[at]} completed, and the "
        "files do not either; if it was rolled back, delete this file, else write once with "
        "Apache Hudi"
    )


def _read(choice: _Choice, instant: str) -> HashingMetadata:
    path = _path(choice.partition, instant, _RING)
    ring = HashingMetadata.parse(choice.snapshot.storage.read(path), path)
    if ring.partition != choice.partition:
        raise CorruptError(
            f"{path}: expected the ring of partition {choice.partition!r}, found {ring.partition!r}"
        )
    return ring


def _folders(storage: Storage) -> dict[str, _Folder]:
    rings: dict[str, list[str]] = defaultdict(list)
    markers: dict[str, set[str]] = defaultdict(set)
    for entry in storage.list(HASHING_FOLDER):
        folder, _, name = entry.path.rpartition("/")
        partition = folder.removeprefix(HASHING_FOLDER).lstrip("/")
        if name.endswith(_RING) and not name.startswith("."):
            rings[partition].append(name.removesuffix(_RING))
        elif name.endswith(_COMMITTED) and not name.startswith("."):
            markers[partition].add(name.removesuffix(_COMMITTED))
    return {
        partition: _Folder(tuple(sorted(of)), frozenset(markers[partition]))
        for partition, of in rings.items()
    }


def _misfit(
    ring: HashingMetadata | None, partition: str, held: Collection[str], gone: Collection[str]
) -> str | None:
    """Return why a partition cannot be written, if its file groups do not match its ring.

    Hudi writes such partitions: its insert_overwrite creates file groups outside the ring, whose
    keys later writes do not find, and its upserts after a delete_partition are hidden.
    """
    if ring is None:
        return (
            f"partition {partition!r} has no hashing metadata below {HASHING_FOLDER}: its rows were not "
            "written with consistent hashing"
            if held
            else None
        )
    nodes = [node.file_id for node in ring.nodes]
    where = f"partition {partition!r}, ring {_path(partition, ring.instant, _RING)}"
    strangers = sorted(set(held).difference(nodes))
    if strangers:
        return f"{where}: file group {strangers[0]} has no node, so hashing does not find its keys"
    lost = sorted(set(nodes).intersection(gone))
    if lost:
        return (
            f"{where}: file group {lost[0]} of a node was replaced, so readers would hide what is "
            "written there"
        )
    return None


def _resizing(
    snapshot: Snapshot, rings: Rings, held: Mapping[str, Collection[str]]
) -> dict[BucketId, str]:
    """Return the nodes that a pending clustering may split or merge.

    A plan lists file groups. A node without a file group may be merged with its neighbours, so all
    such nodes of the partition are included.
    """
    planned: dict[str, dict[str, str]] = defaultdict(dict)
    kinds = (Action.CLUSTERING, Action.REPLACECOMMIT)
    for one in planned_groups(snapshot.commits.active, snapshot.timeline, *kinds):
        planned[one.group.partition][one.group.file_id] = one.instant.requested
    return {
        BucketId(partition, number): groups.get(node.file_id, max(groups.values()))
        for partition, groups in planned.items()
        if partition in rings
        for number, node in enumerate(rings[partition].nodes)
        if node.file_id in groups or node.file_id not in held.get(partition, ())
    }


def _path(partition: str, instant: str, ending: str) -> str:
    return f"{HASHING_FOLDER}/{join_path(partition, instant + ending)}"
