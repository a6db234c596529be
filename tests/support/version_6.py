"""A table of ours as Hudi 0.15 would have left it: table version 6, timeline layout 1."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from lakebed.format.files.properties import encode_properties
from lakebed.format.names.instant_name import InstantName, State
from lakebed.format.timeline.commit_metadata import CommitMetadata, WriteStat
from lakebed.storage.storage import Storage
from lakebed.table.config.properties_file import PROPERTIES_PATH
from lakebed.table.files.file_group import join_path
from lakebed.table.snapshot import Snapshot, load_snapshot
from lakebed.timeline.timeline import COMMIT_ACTIONS
from support.tables import contents, copy_of, reopen

_NEWER_PROPERTIES = (
    "hoodie.table.initial.version",
    "hoodie.timeline.path",
    "hoodie.timeline.history.path",
    "hoodie.table.format",
    "hoodie.table.storage.layout",
    "hoodie.table.ordering.fields",
    "hoodie.table.keygenerator.type",
    "hoodie.record.merge.mode",
    "hoodie.record.merge.strategy.id",
    "hoodie.table.timeline.timezone",
)
_PAYLOAD = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"


def as_version_6(storage: Storage, digits: int = 17) -> Storage:
    """Return a copy: instants in `.hoodie`, commits as JSON, logs named after their slice.

    With 14 `digits` instants are those of Hudi before 0.10, in names only: for base files.
    """
    objects = contents(storage)
    snapshot = load_snapshot(storage, reopen(storage).config)
    renamed: dict[str, str] = {}
    for commit in snapshot.timeline.commits:
        # A file group that was replaced since still counts as of then.
        then = load_snapshot(storage, snapshot.config, commit.requested)
        renamed |= _logs_by_slice(then)
    found: dict[str, bytes] = {}
    for path, data in objects.items():
        folder, _, name = path.rpartition("/")
        instant = InstantName.parse(name) if folder == ".hoodie/timeline" else None
        if path == PROPERTIES_PATH:
            found[path] = encode_properties(_properties(snapshot), ())
        elif instant is not None:
            completed = instant.state is State.COMPLETED
            told = f"{instant.requested}.{instant.action}" if completed else name
            is_commit = completed and instant.action in COMMIT_ACTIONS
            found[f".hoodie/{told}"] = (
                _json(CommitMetadata.parse(data, path), renamed) if is_commit else data
            )
        elif not path.startswith(".hoodie/"):
            found[renamed.get(path, path)] = data
    if digits == 14:
        found = _shortened(found, [instant.requested for instant in snapshot.timeline.instants])
    return copy_of(found)


def _logs_by_slice(snapshot: Snapshot) -> Mapping[str, str]:
    renamed = {}
    for slices in snapshot.groups.values():
        for slice_ in slices:
            for version, log in enumerate(slice_.log_files, 1):
                name = f".{log.name.file_id}_{slice_.instant}.log.{version}_{log.name.write_token}"
                renamed[log.path] = join_path(log.partition, name)
    return renamed


def _properties(snapshot: Snapshot) -> Mapping[str, str]:
    config = snapshot.config
    kept = {n: v for n, v in config.properties.items() if n not in _NEWER_PROPERTIES}
    kept |= {
        "hoodie.table.version": "6",
        "hoodie.timeline.layout.version": "1",
        "hoodie.archivelog.folder": "archived",
        "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    }
    if config.ordering_fields:
        kept["hoodie.table.precombine.field"] = config.ordering_fields[0]
        kept["hoodie.compaction.payload.class"] = _PAYLOAD
        # What Hudi 0.x writes whatever the payload: it is not trusted.
        kept["hoodie.compaction.record.merger.strategy"] = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
    return kept


def _json(metadata: CommitMetadata, renamed: Mapping[str, str]) -> bytes:
    stats = {
        partition: [_stat(stat, renamed) for stat in of]
        for partition, of in metadata.partition_to_write_stats.items()
    }
    values: dict[str, Any] = {
        "partitionToWriteStats": stats,
        "compacted": bool(metadata.compacted),
        "extraMetadata": dict(metadata.extra_metadata),
        "operationType": metadata.operation_type,
    }
    if metadata.partition_to_replace_file_ids is not None:
        values["partitionToReplaceFileIds"] = metadata.partition_to_replace_file_ids
    return json.dumps(values, indent=2).encode()


def _stat(stat: WriteStat, renamed: Mapping[str, str]) -> dict[str, Any]:
    values = {_camel(name): value for name, value in dataclasses.asdict(stat).items()}
    path = (stat.path or "").lstrip("/")
    values["path"] = renamed.get(path, path)
    if path in renamed:
        values["recordsStats"] = {"val": None}
        values["logFiles"] = [values["path"].rpartition("/")[2]]
    if runtime := values["runtimeStats"]:
        values["runtimeStats"] = {_camel(name): value for name, value in runtime.items()}
    return values


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


def _shortened(objects: Mapping[str, bytes], instants: list[str]) -> dict[str, bytes]:
    found = {}
    for path, data in objects.items():
        name, content = path, data
        for instant in instants:
            name = name.replace(instant, instant[:14])
            if path.startswith(".hoodie/"):
                content = content.replace(instant.encode(), instant[:14].encode())
        found[name] = content
    return found
