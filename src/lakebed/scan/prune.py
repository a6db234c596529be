"""Selects the file slices and keys that a predicate requires: by partition, key and bucket.

Nothing is read here. A skipped slice cannot hold a row that satisfies the predicate, provided that
the folder and the record key of each row are derived from its own columns; if that is in doubt for
a table or a value, nothing is skipped.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import pyarrow as pa

from lakebed.errors import CorruptError, LakebedError
from lakebed.expr.constraints import (
    Allowed,
    Constraints,
    Value,
    column_value,
    constraints_of,
)
from lakebed.expr.predicate import Predicate
from lakebed.format.names.java_text import column_text
from lakebed.format.names.meta_columns import META_FIELDS, RECORD_KEY
from lakebed.format.names.partition_path import parse_partition_path
from lakebed.format.names.record_key import EMPTY_PART
from lakebed.index.key_format import may_differ
from lakebed.index.kinds import strategy_of
from lakebed.scan.prune_step import PruneStep, allowed_text
from lakebed.table.config.partitions import time_level
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.file_group import FileSlice
from lakebed.table.read.key_filter import KeyFilter
from lakebed.table.snapshot import Snapshot

MAX_KEYS = 10_000
MAX_RANGED = 100
"""Up to this many keys are compared with the key ranges of all files."""

_GENERATORS = ("hoodie.table.keygenerator.type", "hoodie.table.keygenerator.class")
_SLASHED_DATES = "hoodie.datasource.write.slash.separated.date.partitioning"
_MOVES_ROWS = ".index.update.partition.path"


@dataclass(frozen=True, slots=True)
class Pruned:
    """The slices left to read, and the keys that their wanted rows can have.

    A `key_filter` applies to every slice; None means all keys. The predicate itself must still be
    evaluated. `steps` lists the conditions that were used.
    """

    slices: tuple[FileSlice, ...]
    key_filter: KeyFilter | None
    steps: tuple[PruneStep, ...] = ()


def prune_slices(
    config: TableConfig,
    schema: pa.Schema,
    predicate: Predicate | None,
    slices: Iterable[FileSlice],
) -> Pruned:
    """Return the slices, in their order, and keys that can satisfy `predicate`.

    `schema` is the table's schema, with or without meta columns.
    """
    meta = [field for field in META_FIELDS if field.name not in schema.names]
    constraints = constraints_of(predicate, pa.schema([*meta, *schema]))
    if constraints.is_impossible:
        step = PruneStep("predicate", ("no row can satisfy it",), 0)
        return Pruned((), KeyFilter(keys=()), (step,))
    keys = key_filter(config, schema, constraints)
    held = tuple(slices)
    kept = prune_partitions(config, schema, constraints, held)
    left = prune_by_index(config, schema, constraints, keys, kept)
    steps = []
    if len(kept) < len(held):
        stated = constraints.stated(config.partition_fields)
        steps.append(PruneStep("partition", _conditions(stated), len(kept)))
    by_key = constraints.stated((*config.record_key_fields, RECORD_KEY))
    if len(left) < len(kept):
        steps.append(PruneStep(f"writer index ({config.index})", _conditions(by_key), len(left)))
    if keys is not None:
        steps.append(PruneStep("record key", _conditions(by_key), len(left)))
    return Pruned(left, keys, tuple(steps))


def _conditions(stated: Mapping[str, Allowed]) -> tuple[str, ...]:
    return tuple(allowed_text(column, allowed) for column, allowed in stated.items())


def prune_partitions(
    config: TableConfig, schema: pa.Schema, constraints: Constraints, slices: Iterable[FileSlice]
) -> tuple[FileSlice, ...]:
    """Leave out the slices whose folder cannot hold a row that satisfies `constraints`.

    The default folder holds null and the empty string, so a default folder excludes nothing.
    """
    kept = tuple(slices)
    may_hold = folder_test(config, schema, constraints)
    if may_hold is None:
        return kept
    folders = {slice_.group.partition for slice_ in kept}
    open_ = set(filter(may_hold, folders))
    return tuple(slice_ for slice_ in kept if slice_.group.partition in open_)


def folder_test(
    config: TableConfig, schema: pa.Schema, constraints: Constraints
) -> Callable[[str], bool] | None:
    """Return a function that checks whether a folder can hold a matching row; None if all can."""
    tests = {
        field: test
        for field in config.partition_fields
        if (allowed := constraints.columns.get(field)) is not None
        and (test := _FolderTest.of(field, schema, allowed, config)) is not None
    }
    if not tests or not folders_follow_columns(config):
        return None
    return lambda folder: _may_hold(folder, tests, config)


def within_predicate(snapshot: Snapshot, predicate: Predicate | None) -> Snapshot:
    """Return the snapshot of the partitions that can satisfy `predicate`, if they are known.

    Returns `snapshot` itself if the table has already been listed: nothing would be saved.
    """
    if predicate is None or snapshot.is_listed:
        return snapshot
    config, schema = snapshot.config, snapshot.schema
    meta = [field for field in META_FIELDS if field.name not in schema.names]
    constraints = constraints_of(predicate, pa.schema([*meta, *schema]))
    if constraints.is_impossible:
        return snapshot
    may_hold = folder_test(config, schema, constraints)
    keys = key_filter(config, schema, constraints)
    texts = None
    # Keys in another format are recognised only by samples of the whole table.
    is_ours = not may_differ(schema, config.record_key_fields)
    if is_ours and keys is not None and keys.keys is not None and len(keys.keys) <= MAX_RANGED:
        texts = [key.decode() for key in keys.keys]
    if may_hold is None and texts is None:
        return snapshot
    partitions = snapshot.partitions_with(texts)
    if partitions is None:
        return snapshot
    return snapshot.within(partitions if may_hold is None else filter(may_hold, partitions))


def key_filter(
    config: TableConfig, schema: pa.Schema, constraints: Constraints
) -> KeyFilter | None:
    """Return the record keys that rows satisfying `constraints` can have; None for all keys.

    The filter has exact keys if there are at most MAX_KEYS of them; otherwise, for a composite key,
    prefixes of as many leading fields as that limit allows. A value that contains a `,` may make a
    prefix that other keys share, but never a prefix that misses a key.
    """
    if not _has_keys(config):
        return None
    stated = constraints.values(RECORD_KEY)
    if stated is not None and len(stated) <= MAX_KEYS:
        return KeyFilter.of(keys=list(map(str, stated)))
    fields = config.record_key_fields
    if not fields or not _is_generator_known(config):
        return None
    leading = _leading_values(fields, constraints)
    parts = [_texts(values, schema, field) for field, values in zip(fields, leading, strict=False)]
    if len(parts) == len(fields):
        # Every writer rejects a key without any value.
        rows = [row for row in product(*parts) if any(row)]
        return KeyFilter.of(keys=[key for row in rows for key in _spellings(config, row)])
    if not parts or not config.composite_key:
        return None
    return KeyFilter.of(prefixes=[f"{_join(fields, row)}," for row in product(*parts)])


def prune_by_index(
    config: TableConfig,
    schema: pa.Schema,
    constraints: Constraints,
    keys: KeyFilter | None,
    slices: Iterable[FileSlice],
) -> tuple[FileSlice, ...]:
    """Leave out the slices that hold none of the keys, as far as the table's index can tell.

    `keys` is the result of `key_filter`.
    """
    kept = tuple(slices)
    index = config.index
    if index is None or not _is_generator_known(config):
        return kept
    if keys is not None and keys.keys is not None:
        texts: Sequence[str] | None = [key.decode() for key in keys.keys]
    else:
        texts = _stand_in_keys(config, index.hash_fields, schema, constraints)
    return kept if texts is None else tuple(strategy_of(index).prune(config, texts, kept))


@dataclass(frozen=True, slots=True)
class _FolderTest:
    """The folder names allowed for one partition field: `texts` or, if None, those of `allowed`."""

    allowed: Allowed
    kind: pa.DataType
    texts: frozenset[str] | None

    @classmethod
    def of(
        cls, field: str, schema: pa.Schema, allowed: Allowed, config: TableConfig
    ) -> "_FolderTest | None":
        if allowed.null:
            return None  # writers use folders of several names for null
        if field in config.timestamp_fields:
            spelled = _time_texts(field, schema, allowed, config)
            return None if spelled is None else cls(allowed, schema.field(field).type, spelled)
        if allowed.values is None:
            return cls(allowed, schema.field(field).type, None)
        texts = frozenset(_texts(allowed.values, schema, field))
        # Storage drops empty and dotted folder names, so such a value's folder has another name.
        plain = config.partition_style.url_encode or not any(map(_changes_as_path, texts))
        return cls(allowed, schema.field(field).type, texts) if plain else None

    def passes(self, text: str | None) -> bool:
        """Return whether the folder of `text` can hold a matching row; None is the default folder."""
        if text is None:
            return True
        if self.texts is not None:
            return text in self.texts
        value = column_value(text, self.kind)
        return value is None or self.allowed.holds(value)


def _time_texts(
    field: str, schema: pa.Schema, allowed: Allowed, config: TableConfig
) -> frozenset[str] | None:
    """Return the folder names of the allowed times; None if they cannot be determined.

    A range of times need not be a range of strings. Rows with null are in the folder of a fixed
    time.
    """
    if allowed.values is None:
        return None
    column = pa.array(list(allowed.values), schema.field(field).type)
    try:
        paths = time_level(column, field, config).to_pylist()
    except LakebedError:
        return None  # a value that no writer turns into a folder
    style = config.partition_style
    return frozenset(str(parse_partition_path(path, [field], style)[0]) for path in paths)


def _changes_as_path(text: str) -> bool:
    return text != "" and any(part in ("", ".", "..") for part in text.split("/"))


def _may_hold(folder: str, tests: dict[str, _FolderTest], config: TableConfig) -> bool:
    fields = config.partition_fields
    try:
        texts = parse_partition_path(folder, fields, config.partition_style)
    except CorruptError:
        return True  # not in the format of this table's folders
    levels = zip(fields, texts, strict=True)
    return all(tests[field].passes(text) for field, text in levels if field in tests)


def folders_follow_columns(config: TableConfig) -> bool:
    """Return whether each row is in the folder that is derived from its own partition columns."""
    keygen = config.timestamp_keygen
    unsure = keygen is None or not keygen.is_zone_known
    if not _is_generator_known(config) or (config.timestamp_fields and unsure):
        return False
    properties, index = config.properties, config.index
    # A global index that does not move rows leaves them in the folder of their first write.
    stays = [text for name, text in properties.items() if name.endswith(_MOVES_ROWS)]
    is_moved = all(text.strip().lower() == "true" for text in stays)
    if index is not None and index.is_global:
        is_moved = is_moved and strategy_of(index).moves_rows(config)
    return is_moved and properties.get(_SLASHED_DATES, "false").strip().lower() == "false"


def has_known_keys(config: TableConfig) -> bool:
    """Return whether every row stores its record key and the key generator is known."""
    return _has_keys(config) and _is_generator_known(config)


def _is_generator_known(config: TableConfig) -> bool:
    """Return whether the table's properties name a key generator, and it is known."""
    return config.key_generator is not None and any(map(config.properties.get, _GENERATORS))


def _has_keys(config: TableConfig) -> bool:
    """Return whether every row of the table stores its record key."""
    properties = config.properties
    populate = properties.get("hoodie.populate.meta.fields", "true").strip().lower()
    mode = properties.get("hoodie.meta.fields.mode", "ALL").strip().upper()
    return populate == "true" and mode == "ALL"


def _leading_values(fields: Sequence[str], constraints: Constraints) -> list[frozenset[Value]]:
    """Return the allowed values of the leading fields, as far as their combinations are few."""
    found: list[frozenset[Value]] = []
    count = 1
    for field in fields:
        values = constraints.values(field)
        count *= MAX_KEYS + 1 if values is None else len(values)
        if values is None or count > MAX_KEYS:
            break
        found.append(values)
    return found


def _texts(values: Iterable[Value], schema: pa.Schema, field: str) -> list[str]:
    """Return values of a column as writers format them in keys and folders."""
    column = pa.array(list(values), schema.field(field).type)
    texts: list[str] = column_text(column, field).to_pylist()
    return texts


def _join(fields: Sequence[str], row: Sequence[str]) -> str:
    pairs = zip(fields, row, strict=False)
    return ",".join(f"{field}:{text or EMPTY_PART}" for field, text in pairs)


def _spellings(config: TableConfig, row: Sequence[str]) -> list[str]:
    fields = config.record_key_fields
    if not config.composite_key:
        return list(row)
    # Some releases of Hudi wrote the bare value of a single field, as if the key were not
    # composite.
    return [_join(fields, row), *(row if len(fields) == 1 else ())]


def _stand_in_keys(
    config: TableConfig, hashed: Sequence[str], schema: pa.Schema, constraints: Constraints
) -> list[str] | None:
    """Return keys that have the same hashes as all matching keys, whose other fields are unknown.

    The hashed fields have every combination of their allowed values, the unknown fields a dummy
    value, which is not hashed. Returns None if such keys cannot be built.

    Hudi extracts the hashed values from the key's string, so an unknown field must not be able to
    contain a `,`: `n` = "x,id:7" would add an id to the key.
    """
    fields = config.record_key_fields
    if not config.composite_key or not hashed or not set(hashed) <= set(fields):
        return None
    if any("," in field or ":" in field for field in fields):
        return None
    known = {field: values for field in fields if (values := constraints.values(field)) is not None}
    others = [field for field in fields if field not in known]
    if not set(hashed) <= known.keys() or not all(_is_free_of_commas(schema, f) for f in others):
        return None
    if math.prod(map(len, known.values())) > MAX_KEYS:
        return None
    parts = [_texts(known[f], schema, f) if f in known else ["0"] for f in fields]
    return [_join(fields, row) for row in product(*parts)]


def _is_free_of_commas(schema: pa.Schema, field: str) -> bool:
    if field not in schema.names:
        return False
    kind = schema.field(field).type
    fits = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    times = (pa.types.is_date, pa.types.is_timestamp)
    return any(is_kind(kind) for is_kind in (*fits, *times))
