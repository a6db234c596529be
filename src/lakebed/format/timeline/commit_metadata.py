"""The metadata of a commit: HoodieCommitMetadata and HoodieReplaceCommitMetadata.

The file is an Avro container of one record (`ocf`, `avro_models`) or, in timeline layout 1, JSON
with the same fields (`json_record`). Attributes are Hudi's fields in snake_case; null is None.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Final, Self, cast

from lakebed.format.names.instant_name import LAYOUT_1, LAYOUT_2
from lakebed.format.timeline.avro_models import (
    COMMIT_METADATA,
    NAMESPACE,
    REPLACE_COMMIT_METADATA,
    WRITE_STAT,
)
from lakebed.format.timeline.json_record import JSON_MARK, decode_json_record
from lakebed.format.timeline.ocf import Record, Schema, decode_record, encode_record

NO_PREVIOUS_COMMIT: Final = "null"
"""`prev_commit` of the first file of a file group: the string "null", not Avro's null."""

RESERVED_KEYS: Final = ("schema", "latest_schema", "ROLLING_STAT")
"""Keys of the extra metadata that Hudi writes; ours begin with `lakebed.`."""
KEEPS_COMMIT_TIMES: Final = "lakebed.keeps.commit.times"
"""A key in the extra metadata of our log compactions: rows keep their original commit times."""

_COMMIT: Final = f"{NAMESPACE}.HoodieCommitMetadata"
_REPLACE: Final = f"{NAMESPACE}.HoodieReplaceCommitMetadata"
_REPLACED: Final = "partitionToReplaceFileIds"
_READERS: Final[Mapping[str, Schema]] = {
    _COMMIT: COMMIT_METADATA,
    _REPLACE: REPLACE_COMMIT_METADATA,
}


@dataclass(frozen=True, slots=True)
class RuntimeStats:
    """The time spent on one file, in milliseconds."""

    total_scan_time: int | None = None
    total_create_time: int | None = None
    total_upsert_time: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStat:
    """A commit's statistics of one file; `path` is relative to the table's base path.

    `key_range`, the smallest and greatest record key, is not stored in commits: only the writer of
    the file knows it.
    """

    file_id: str | None = None
    path: str | None = None
    prev_commit: str | None = None
    num_writes: int | None = None
    num_deletes: int | None = None
    num_update_writes: int | None = None
    total_write_bytes: int | None = None
    total_write_errors: int | None = None
    partition_path: str | None = None
    total_log_records: int | None = None
    total_log_files: int | None = None
    total_updated_records_compacted: int | None = None
    num_inserts: int | None = None
    total_log_blocks: int | None = None
    total_corrupt_log_block: int | None = None
    total_rollback_blocks: int | None = None
    file_size_in_bytes: int | None = None
    log_version: int | None = None
    log_offset: int | None = None
    base_file: str | None = None
    log_files: tuple[str, ...] | None = None
    cdc_stats: Mapping[str, int] | None = None
    prev_base_file: str | None = None
    min_event_time: int | None = None
    max_event_time: int | None = None
    runtime_stats: RuntimeStats | None = None
    total_log_files_compacted: int | None = None
    total_log_read_time_ms: int | None = None
    total_log_size_compacted: int | None = None
    temp_path: str | None = None
    num_updates: int | None = None
    key_range: tuple[str, str] | None = field(default=None, compare=False)


def is_reserved(key: str) -> bool:
    """Return whether a key of the extra metadata belongs to the table format, not to users.

    >>> is_reserved("schema"), is_reserved("streamer.checkpoint.key.v2")
    (True, False)
    """
    return key in RESERVED_KEYS or key.startswith("lakebed.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMetadata:
    """The metadata of one completed commit, with its write statistics per partition.

    `partition_to_replace_file_ids` lists the file groups that the commit replaces. None means a
    commit that cannot replace file groups, which is stored as another Avro record.
    """

    partition_to_write_stats: Mapping[str, tuple[WriteStat, ...]] = field(default_factory=dict)
    compacted: bool | None = False
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    operation_type: str | None = None
    partition_to_replace_file_ids: Mapping[str, tuple[str, ...]] | None = None
    version: int | None = None

    @classmethod
    def of(
        cls,
        operation_type: str,
        schema_text: str | None,
        stats: Iterable[WriteStat] = (),
        replaced: Mapping[str, tuple[str, ...]] | None = None,
    ) -> Self:
        """Return the metadata of a commit that wrote the files of `stats` and ended file groups."""
        written: dict[str, list[WriteStat]] = defaultdict(list)
        for stat in stats:
            written[stat.partition_path or ""].append(stat)
        return cls(
            partition_to_write_stats={p: tuple(of) for p, of in sorted(written.items())},
            extra_metadata={"schema": schema_text} if schema_text else {},
            operation_type=operation_type,
            partition_to_replace_file_ids=replaced,
        )

    def with_extra(self, more: Mapping[str, str]) -> Self:
        """Return the metadata with these entries added to the extra metadata."""
        return replace(self, extra_metadata={**self.extra_metadata, **more}) if more else self

    @classmethod
    def parse(cls, data: bytes, what: str, layout: int = LAYOUT_2) -> Self:
        """Parse the file of a commit; raise CorruptError, naming `what`, if it is invalid.

        A null map becomes an empty one. Fields may be missing, and unknown fields are ignored. Like
        Hudi, accept JSON in timeline layout 1 only.
        """
        name, values = _decode(data, what, layout)
        stats = cast("dict[str, list[dict[str, object]]]", values["partitionToWriteStats"] or {})
        replaced = cast("dict[str, list[str]]", values.get(_REPLACED) or {})
        return cls(
            partition_to_write_stats={p: tuple(map(_parse_stat, of)) for p, of in stats.items()},
            compacted=cast("bool | None", values["compacted"]),
            extra_metadata=cast("dict[str, str]", values["extraMetadata"] or {}),
            operation_type=cast("str | None", values["operationType"]),
            partition_to_replace_file_ids=(
                {p: tuple(ids) for p, ids in replaced.items()} if name == _REPLACE else None
            ),
            version=cast("int | None", values["version"]),
        )

    def encode(self) -> bytes:
        """Encode the file of a completed commit, delta commit or replace commit."""
        stats = {
            partition: [_encode_stat(stat) for stat in of]
            for partition, of in self.partition_to_write_stats.items()
        }
        values: dict[str, object] = {
            "partitionToWriteStats": ("map", stats),
            "compacted": self.compacted,
            "extraMetadata": dict(self.extra_metadata),
            "version": self.version,
            "operationType": self.operation_type,
        }
        replaced = self.partition_to_replace_file_ids
        if replaced is None:
            return encode_record(COMMIT_METADATA, values)
        values[_REPLACED] = {p: list(ids) for p, ids in replaced.items()}
        return encode_record(REPLACE_COMMIT_METADATA, values)

    def write_stats(self) -> Iterable[WriteStat]:
        """Yield the statistics of all partitions."""
        return (stat for stats in self.partition_to_write_stats.values() for stat in stats)

    def replaced_groups(self) -> Iterator[tuple[str, str]]:
        """Yield partition and file id of each file group that the commit replaced."""
        for partition, ids in (self.partition_to_replace_file_ids or {}).items():
            yield from ((partition, file_id) for file_id in ids)


def _decode(data: bytes, what: str, layout: int) -> tuple[str, Record]:
    """Return the full name and the values of the record, which is stored as Avro or JSON."""
    if layout == LAYOUT_1 and data.startswith(JSON_MARK):
        values = decode_json_record(data, what, REPLACE_COMMIT_METADATA)
        # JSON does not name the record; only one of the two has this field.
        return (_COMMIT if values[_REPLACED] is None else _REPLACE), values
    return decode_record(data, what, _READERS)


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


def _branch(record: Schema, name: str) -> str:
    """Return fastavro's name for the non-null branch of an optional field."""
    assert isinstance(record, dict)
    found = cast("list[dict[str, list[Schema]]]", record["fields"])
    branch = next(field["type"] for field in found if cast("object", field["name"]) == name)[1]
    return str(branch["type"] if isinstance(branch, dict) else branch)


_STAT_FIELDS: Final = {f.name: _camel(f.name) for f in fields(WriteStat) if f.name != "key_range"}
_RUNTIME_FIELDS: Final = {f.name: _camel(f.name) for f in fields(RuntimeStats)}
_NULL: Final = ("null", None)
_STAT_BRANCHES: Final = {ours: _branch(WRITE_STAT, theirs) for ours, theirs in _STAT_FIELDS.items()}


def _encode_stat(stat: WriteStat) -> dict[str, object]:
    # Naming the branches of unions saves fastavro from matching values against each branch.
    values: dict[str, object] = {}
    for ours, theirs in _STAT_FIELDS.items():
        value = getattr(stat, ours)
        values[theirs] = _NULL if value is None else (_STAT_BRANCHES[ours], value)
    if stat.runtime_stats is not None:
        values["runtimeStats"] = {
            theirs: getattr(stat.runtime_stats, ours) for ours, theirs in _RUNTIME_FIELDS.items()
        }
    return values


def _parse_stat(values: dict[str, object]) -> WriteStat:
    found = {ours: values[theirs] for ours, theirs in _STAT_FIELDS.items()}
    if (log_files := cast("list[str] | None", found["log_files"])) is not None:
        found["log_files"] = tuple(log_files)
    if (runtime := cast("dict[str, int | None] | None", found["runtime_stats"])) is not None:
        found["runtime_stats"] = RuntimeStats(
            **{ours: runtime[theirs] for ours, theirs in _RUNTIME_FIELDS.items()}
        )
    return WriteStat(**cast("dict[str, None]", found))
