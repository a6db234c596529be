"""The manifest of an index: its runs, and the commits whose rows they cover.

An index must cover every version that the table may return. The manifest lists the base runs, which
cover one snapshot, and accounts for each later commit: by the runs that the commit lists in its
metadata or, if another engine wrote it, by the file groups that it touched, which must be read
completely. Opening an index accounts for the commits that the manifest does not cover yet
(`account_for`), so an old manifest is usable too. A manifest is replaced only under the table's
lock.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Self, cast
from zlib import crc32

from lakebed.errors import CorruptError, NotFoundError
from lakebed.format.names.instant_name import Action, State
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.format.timeline.plans import PlanKind, parse_plan
from lakebed.model.instant import Instant
from lakebed.storage.storage import Storage
from lakebed.table.files.file_group import FileGroupId
from lakebed.table.files.retention import rewrites
from lakebed.table.snapshot import Snapshot
from lakebed.timeline.archived import read_archived
from lakebed.timeline.timeline import COMMIT_ACTIONS, WRITE_ACTIONS, Timeline

COMMIT_RUNS: Final = "lakebed.index"
"""The key under which a commit's extra metadata lists the runs of each index."""

MANIFEST_NAME: Final = "manifest.json"
_CHECKSUM: Final = "crc32"


@dataclass(frozen=True, slots=True)
class RunFile:
    """A run of entries: its path, the number of entries, and its size."""

    path: str
    entries: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class CommitRuns:
    """The runs that one commit wrote for an index.

    `entries` contain the values of its rows, `open` the keys of rows whose values depend on a
    merge, and `deleted` the keys of rows that it deleted.
    """

    entries: tuple[RunFile, ...] = ()
    open: tuple[RunFile, ...] = ()
    deleted: tuple[RunFile, ...] = ()

    @property
    def files(self) -> tuple[RunFile, ...]:
        """Return the runs of all kinds, without duplicates."""
        return tuple(dict.fromkeys((*self.entries, *self.open, *self.deleted)))

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Self:
        """Parse a dict as returned by `asdict`."""
        return cls(**{kind: _parse_runs(values[kind]) for kind in ("entries", "open", "deleted")})


@dataclass(frozen=True, slots=True)
class MergedRuns:
    """The runs of several commits, merged without looking up their rows.

    If one of the commits is rolled back, its entries remain: they are superfluous candidates.
    """

    commits: frozenset[Instant]
    runs: CommitRuns

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Self:
        """Parse a dict as returned by `values`."""
        return cls(frozenset(map(str, values["commits"])), CommitRuns.parse(values["runs"]))

    def values(self) -> dict[str, Any]:
        """Return the runs as values of JSON."""
        return {"commits": sorted(self.commits), "runs": asdict(self.runs)}


@dataclass(frozen=True, slots=True)
class Manifest:
    """The runs of an index, and the commits that they account for.

    Attributes:
        is_complete: Whether the base runs were built.
        mark: All commits requested before this instant are accounted for, except those of writers
            whose clock was behind.
        first: The start of the active timeline; all commits before it are accounted for.
        covered: The commits of the active timeline that are accounted for.
        settled: The commits of the active timeline whose rows are in the base runs. The runs lack
            the versions that these rows replaced, so the index becomes incomplete if one of these
            commits is rolled back.
        made: The latest instant of the table when the base runs were written.
        base: The base runs, in the order of their keys.
        delta: Runs that a compaction wrote: the entries of rows that changed since the base runs
            were written, and the keys of those rows, whose entries in the base runs are stale. Its
            open runs contain the keys of all rows whose values depend on a merge.
        commits: The runs of commits whose rows are in neither `base` nor `delta`.
        merged: The runs of further such commits, merged.
        whole: The file groups to which commits without runs have written since.
        emptied: The partitions in which file groups were replaced since.
        keeps_hidden: Whether `base` or `delta` may have entries of versions that were hidden when
            they were written: where logs are merged before the base file, such a version may become
            current. A compaction of the table drops the versions, but not their entries.
        retired: Files that the previous manifest listed; a reader may still be using them.
        token: Identifies the build or compaction that wrote the base runs.
    """

    is_complete: bool
    mark: Instant
    first: Instant = ""
    covered: frozenset[Instant] = frozenset()
    settled: frozenset[Instant] = frozenset()
    made: Instant = ""
    base: tuple[RunFile, ...] = ()
    delta: CommitRuns = CommitRuns()
    commits: Mapping[Instant, CommitRuns] = field(default_factory=dict)
    merged: tuple[MergedRuns, ...] = ()
    whole: frozenset[FileGroupId] = frozenset()
    emptied: frozenset[str] = frozenset()
    keeps_hidden: bool = False
    retired: tuple[str, ...] = ()
    token: str = ""

    @classmethod
    def at(cls, timeline: Timeline) -> Self:
        """Return the manifest of an index that is to be built from a snapshot."""
        commits = frozenset(commit.requested for commit in timeline.commits)
        return cls(
            is_complete=False,
            mark=_mark(timeline),
            first=timeline.first_active or "",
            covered=commits,
            settled=commits,
            made=timeline.last_instant or "",
        )

    @classmethod
    def parse(cls, data: bytes, what: str) -> Self:
        """Parse a manifest; raise CorruptError, naming `what`, if it is damaged."""
        try:
            values = _with_checksum(json.loads(data))
            return cls(
                is_complete=bool(values["is_complete"]),
                mark=str(values["mark"]),
                first=str(values["first"]),
                covered=frozenset(map(str, values["covered"])),
                settled=frozenset(map(str, values["settled"])),
                made=str(values["made"]),
                base=_parse_runs(values["base"]),
                delta=CommitRuns.parse(values["delta"]),
                commits={at: CommitRuns.parse(runs) for at, runs in values["commits"].items()},
                merged=tuple(map(MergedRuns.parse, values.get("merged", ()))),
                whole=frozenset(FileGroupId(*map(str, group)) for group in values["whole"]),
                emptied=frozenset(map(str, values["emptied"])),
                # Manifests of earlier versions do not say.
                keeps_hidden=bool(values.get("keeps_hidden", True)),
                retired=tuple(map(str, values["retired"])),
                token=str(values["token"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptError(f"{what}: not the manifest of an index: {error!r}") from error

    def encode(self) -> bytes:
        """Encode the manifest as JSON."""
        values = {
            "is_complete": self.is_complete,
            "mark": self.mark,
            "first": self.first,
            "covered": sorted(self.covered),
            "settled": sorted(self.settled),
            "made": self.made,
            "base": [asdict(run) for run in self.base],
            "delta": asdict(self.delta),
            "commits": {at: asdict(runs) for at, runs in sorted(self.commits.items())},
            "merged": [one.values() for one in self.merged],
            "whole": [[group.partition, group.file_id] for group in sorted(self.whole)],
            "emptied": sorted(self.emptied),
            "keeps_hidden": self.keeps_hidden,
            "retired": list(self.retired),
            "token": self.token,
        }
        values[_CHECKSUM] = _checksum(values)
        return json.dumps(values, ensure_ascii=False, indent=1).encode()

    @property
    def unsettled(self) -> list[CommitRuns]:
        """Return the runs of commits whose rows were not looked up yet, merged or not."""
        return [*(one.runs for one in self.merged), *self.commits.values()]

    @property
    def files(self) -> frozenset[str]:
        """Return the paths of all runs in use."""
        runs = [*self.base, *self.delta.files]
        runs += [run for of in self.unsettled for run in of.files]
        return frozenset(run.path for run in runs)

    def lags(self, snapshot: Snapshot) -> bool:
        """Return whether commits that may not be accounted for have been archived."""
        first = snapshot.timeline.first_active
        return first is not None and first > self.first

    def broken(self, snapshot: Snapshot) -> str | None:
        """Return the reason why the index must be rebuilt, or None."""
        timeline = snapshot.timeline
        restored = [i for i in timeline.select(Action.RESTORE) if i.requested > self.made]
        if restored:
            return "the table was restored since it was built; run repair()"
        undone = self.settled & rolled_back(snapshot)
        undone |= {at for at in self.settled if not timeline.is_committed(at)}
        undone |= self._settled_and_lost(snapshot)
        if undone:
            return f"commit {min(undone)}, whose rows it holds, was rolled back; run repair()"
        return None

    def _settled_and_lost(self, snapshot: Snapshot) -> set[Instant]:
        """Return settled commits that should be in the archive, given their age, but are not.

        Another engine may have rolled them back, and archived its rollback as well.
        """
        first = snapshot.timeline.first_active
        if first is None or first <= self.mark:
            return set()
        return lost_commits(snapshot, self.settled)

    def account_for(
        self,
        snapshot: Snapshot,
        folder: str,
        *,
        key: str = COMMIT_RUNS,
        moves_rows: bool = False,
    ) -> Self:
        """Return the manifest with all commits of the snapshot accounted for.

        `folder` is the name under which commits list the index's runs, in the entry `key` of their
        metadata. With `moves_rows`, a clustering counts as a write, because it moves rows between
        file groups.
        """
        timeline = snapshot.timeline
        commits, whole, emptied = dict(self.commits), set(self.whole), set(self.emptied)
        last = max(self.settled, default="")
        undone = rolled_back(snapshot)
        for at, metadata in self._others(snapshot):
            replaced = metadata.partition_to_replace_file_ids or {}
            gone = {FileGroupId(path, id_) for path, ids in replaced.items() for id_ in ids}
            if rewrites(metadata) and not (moves_rows and gone):
                # If it replaced a file group of `whole`, it moved the rows to new file groups.
                whole |= _written(metadata) if gone & whole else set()
                continue
            emptied |= {group.partition for group in gone}
            listed = runs_of(metadata, f"commit {at}", key).get(folder)
            if listed is None:
                whole |= _written(metadata)
            else:
                commits[at] = as_late(listed) if at < last else listed
        return replace(
            self,
            mark=_mark(timeline),
            first=timeline.first_active or "",
            covered=frozenset(commit.requested for commit in timeline.commits),
            settled=frozenset(at for at in self.settled if timeline.completed(at) is not None),
            commits={
                at: runs
                for at, runs in commits.items()
                if timeline.is_committed(at) and at not in undone
            },
            whole=frozenset(whole),
            emptied=frozenset(emptied),
        )

    def _others(self, snapshot: Snapshot) -> Iterator[tuple[Instant, CommitMetadata]]:
        """Yield the commits that are not covered, in order of completion."""
        timeline = snapshot.timeline
        if self.lags(snapshot):
            # Another engine archived these commits: our own archiving accounts for them first.
            history = snapshot.config.history_path
            known = self.covered | {commit.requested for commit in timeline.commits}
            rows = read_archived(snapshot.storage, history, since=self.first)
            for row in sorted(rows, key=lambda row: row.completion):
                if row.action in COMMIT_ACTIONS and row.requested not in known:
                    what = f"archived {row.action} {row.requested}"
                    if row.metadata is None:
                        raise CorruptError(f"{what}: it has no metadata")
                    yield row.requested, CommitMetadata.parse(row.metadata, what)
        for commit in sorted(timeline.commits, key=lambda commit: commit.completion or ""):
            if commit.requested not in self.covered:
                yield commit.requested, snapshot.commits.read(commit)


def lost_commits(snapshot: Snapshot, commits: Iterable[Instant]) -> set[Instant]:
    """Return those of `commits` that are neither completed on the timeline nor archived."""
    gone = {at for at in commits if snapshot.timeline.completed(at) is None}
    if not gone:
        return gone
    history = snapshot.config.history_path
    rows = read_archived(snapshot.storage, history, columns=(), since=min(gone))
    return gone - {row.requested for row in rows if row.action in COMMIT_ACTIONS}


def rolled_back(snapshot: Snapshot) -> frozenset[Instant]:
    """Return the commits that rollbacks on the timeline, completed or pending, undo.

    By its instant alone, such a commit may look archived, if only a savepoint is left before it.
    """
    active = snapshot.commits.active
    found: set[str] = set()
    for instant in snapshot.timeline.select(Action.ROLLBACK):
        what = f"instant {instant.file_name}"
        if instant.is_completed:
            done = parse_plan(PlanKind.ROLLBACK, active.read(instant), what)
            found.update(cast("list[str]", done["commitsRollback"]))
        else:
            plan = parse_plan(PlanKind.ROLLBACK_PLAN, active.read(instant, State.REQUESTED), what)
            info = cast("dict[str, str] | None", plan["instantToRollback"])
            found.update(() if info is None else (info["commitTime"],))
    return frozenset(found)


def runs_of(
    metadata: CommitMetadata, what: str, key: str = COMMIT_RUNS
) -> Mapping[str, CommitRuns]:
    """Return the runs that a commit lists, by the folder of their index."""
    text = (metadata.extra_metadata or {}).get(key)
    if text is None:
        return {}
    try:
        return {folder: CommitRuns.parse(runs) for folder, runs in json.loads(text).items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptError(f"{what}: {key} does not list index runs: {error!r}") from error


def list_runs(runs: Mapping[str, CommitRuns]) -> Mapping[str, str]:
    """Return extra metadata for a commit that lists the runs of each index."""
    return {COMMIT_RUNS: json.dumps({folder: asdict(of) for folder, of in sorted(runs.items())})}


def read_manifest(storage: Storage, folder: str) -> Manifest | None:
    """Read the manifest in a folder; return None if there is none."""
    path = f"{folder}/{MANIFEST_NAME}"
    try:
        data = storage.read(path)
    except NotFoundError:
        return None
    return Manifest.parse(data, path)


def put_manifest(storage: Storage, folder: str, manifest: Manifest) -> None:
    """Replace the manifest in a folder; the caller holds the table's lock."""
    storage.put(f"{folder}/{MANIFEST_NAME}", manifest.encode())


def _checksum(values: Mapping[str, Any]) -> int:
    """Return the checksum of a manifest's values, independent of their formatting."""
    return crc32(json.dumps(values, sort_keys=True).encode())


def _with_checksum(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values without their checksum; raise ValueError if it does not match."""
    if values.pop(_CHECKSUM) != _checksum(values):
        raise ValueError("the checksum does not match")
    return values


def _parse_runs(values: Any) -> tuple[RunFile, ...]:
    return tuple(
        RunFile(str(run["path"]), int(run["entries"]), int(run["size_bytes"])) for run in values
    )


def _written(metadata: CommitMetadata) -> set[FileGroupId]:
    """Return the file groups that a commit wrote to."""
    return {
        FileGroupId(partition, stat.file_id)
        for partition, stats in metadata.partition_to_write_stats.items()
        for stat in stats
        if stat.file_id
    }


def as_late(runs: CommitRuns) -> CommitRuns:
    """Return the runs of a commit that started before commits whose rows are in the base runs.

    If it deletes the winning version of a row, a superseded version may become current, whose
    values the base runs lack. With some merge rules any row can be a delete, so all its keys are
    open.
    """
    return replace(runs, open=runs.files)


def _mark(timeline: Timeline) -> Instant:
    """Return an instant before which no commit is pending or will be added."""
    pending = [i.requested for i in timeline.pending() if i.action in WRITE_ACTIONS]
    return min(pending, default=timeline.last_instant or "")
