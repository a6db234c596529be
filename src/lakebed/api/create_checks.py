"""Check that the arguments of a new table are consistent."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lakebed.errors import InvalidError, OptionError, SchemaError
from lakebed.format.names.bucket_hash import MAX_BUCKETS
from lakebed.format.names.partition_path import PartKind, parse_part_kinds
from lakebed.format.names.record_key import KeyGenerator
from lakebed.format.names.timestamp_keygen import TimestampKeygen
from lakebed.index.kinds import strategy_of
from lakebed.model.options import table
from lakebed.model.spelling import nearest
from lakebed.table.config.table_config import ConcurrencyMode, TableConfig
from lakebed.table.config.writer_index import BUCKET_ENGINE, DEFAULT_BUCKETS, INDEXES, hashes_keys

AUTO = "auto"
"""The value of `buckets` that lets the first write determine the number."""
GENERATOR = table.GENERATOR.name
"""The option that names the key generator."""


def check_used(index: str, buckets: int | str | None, options: Mapping[str, str]) -> None:
    """Raise an error for options that have no effect with this index and the other options.

    Only `create_table` checks this. Jobs migrated from Hudi pass the same options to
    `format("lakebed")`, and Hudi ignores options that have no effect.
    """
    word = index.lower()
    if buckets not in (None, AUTO) and word in INDEXES and not hashes_keys(word):
        raise InvalidError(
            f"buckets={buckets!r}: index={index!r} has no buckets; omit buckets, or use "
            "index='bucket'"
        )
    generator = options.get(GENERATOR, "").upper()
    marks = {table.DELETE_FIELD.name, table.DELETE_MARKER.name}
    needs = {
        "hoodie.bucket.index.": ("index='bucket'", hashes_keys(word)),
        "hoodie.index.bucket.": ("index='bucket'", hashes_keys(word)),
        "hoodie.simple.index.": ("index='global_simple'", word.startswith("global_")),
        "hoodie.index.bloom.": ("index='bloom'", word.endswith("bloom")),
        "hoodie.keygen.timebased.": (
            f"{GENERATOR}=TIMESTAMP",
            generator in ("TIMESTAMP", "CUSTOM"),
        ),
        "hoodie.payload.delete.": (" and ".join(sorted(marks)), marks <= options.keys()),
    }
    for name in options:
        for prefix, (wanted, there) in needs.items():
            if name.startswith(prefix) and not there:
                raise OptionError(
                    f"option {name} has no effect without {wanted}: use both or neither"
                )


def checked_buckets(
    buckets: int | str | None, index: str, options: Mapping[str, str]
) -> int | None:
    """Return the number of buckets per partition; None if the first write determines it.

    `"auto"` means Hudi's default number with consistent hashing or non-blocking writers.
    """
    if buckets in (None, AUTO):
        mode = options.get("hoodie.write.concurrency.mode", "").upper()
        fixed = INDEXES[index](None, ()).is_settled or mode == ConcurrencyMode.NON_BLOCKING.value
        return DEFAULT_BUCKETS if fixed or buckets is None else None
    if type(buckets) is not int or not 1 <= buckets <= MAX_BUCKETS:
        raise InvalidError(
            f"buckets={buckets!r}: expected a number from 1 to {MAX_BUCKETS}, or {AUTO!r}"
        )
    return buckets


def checked_expected_rows(rows: int | None, buckets: int | str | None) -> int | None:
    """Return the expected number of rows, which is only used to choose the number of buckets."""
    if rows is None:
        return None
    if type(rows) is not int or rows < 1:
        raise InvalidError(f"expected_rows={rows!r}: expected a positive number of rows")
    if buckets != AUTO:
        raise InvalidError(
            f"expected_rows={rows} has no effect with buckets={buckets!r}; omit one of the two"
        )
    return rows


def partition_columns(
    partition_by: Sequence[str], properties: Mapping[str, str], word: str
) -> tuple[str, ...]:
    """Return the partition columns, without their kinds if the key generator is custom."""
    if properties.get(GENERATOR) != KeyGenerator.CUSTOM.value:
        return tuple(partition_by)
    kinds = parse_part_kinds(",".join(partition_by))
    if kinds is None:
        right = ",".join(f"{name.partition(':')[0]}:SIMPLE" for name in partition_by)
        raise OptionError(
            f"option {word}={','.join(partition_by)}: the custom key generator needs the kind of each "
            f"field, SIMPLE or TIMESTAMP, as in {right}"
        )
    return tuple(kinds)


def check_names(schema: pa.Schema, columns: Mapping[str, Sequence[str]]) -> None:
    """Raise an error for an invalid key, partition or ordering column.

    `columns` maps the name of each argument to its columns.
    """
    for what, names in columns.items():
        for name in names:
            if name not in schema.names:
                raise SchemaError(
                    f"{what}: no column {name!r}{nearest(name, schema.names)} in the schema, which has "
                    f"{', '.join(schema.names) or 'no columns'}"
                )
            if "," in name:
                raise SchemaError(
                    f"{what}: column {name!r} contains a comma, which separates names"
                )
        if len(set(names)) != len(names):
            raise InvalidError(f"{what}: a column is named twice in {', '.join(names)}")
        for name in names:
            if pa.types.is_nested(schema.field(name).type):
                raise SchemaError(
                    f"{what}: column {name!r} has the type {schema.field(name).type}; use a column "
                    "with a single value in each row"
                )


def check_ordering(schema: pa.Schema, ordering: Sequence[str]) -> None:
    """Raise an error for binary ordering columns, whose values Hudi cannot read."""
    for name in ordering:
        if pa.types.is_binary(schema.field(name).type):
            raise SchemaError(
                f"ordering: column {name!r} is binary, and Apache Hudi cannot read deletes ordered by it; "
                "use a number, a string, a date or a timestamp"
            )


def check_settled(
    settled: Mapping[str, str], key: Sequence[str], partition_by: Sequence[str], word: str
) -> None:
    """Raise an error for options that are valid individually but contradict each other."""
    hashed = settled.get("hoodie.bucket.index.hash.field", "")
    for name in hashed.split(",") if hashed else ():
        if name not in key:
            raise OptionError(
                f"option hoodie.bucket.index.hash.field: {name!r} is not one of the key columns "
                f"{', '.join(key)}"
            )
    generator = KeyGenerator.parse(settled[GENERATOR])
    named = settled.get("hoodie.table.keygenerator.class")
    if named is not None and KeyGenerator.parse(named) is not generator:
        raise OptionError(
            f"option hoodie.table.keygenerator.class={named} contradicts {GENERATOR}="
            f"{generator.value}"
        )
    any_number = (KeyGenerator.COMPLEX, KeyGenerator.CUSTOM)
    wanted = 0 if generator is KeyGenerator.NON_PARTITION else 1
    if len(partition_by) != wanted and generator not in any_number:
        raise OptionError(
            f"option {GENERATOR}={generator.value}: expected {wanted} columns in "
            f"{word}, found {len(partition_by)}"
        )
    generator.is_composite(key)
    if generator is KeyGenerator.TIMESTAMP or _has_times(settled, generator):
        TimestampKeygen.parse(settled)


def _has_times(settled: Mapping[str, str], generator: KeyGenerator) -> bool:
    text = settled.get("hoodie.table.partition.fields", "")
    kinds = parse_part_kinds(text) if generator is KeyGenerator.CUSTOM else None
    return PartKind.TIMESTAMP in (kinds or {}).values()


def check_engine(config: TableConfig, index: str) -> None:
    """Raise an error if the bucket engine contradicts `index`, or the table does not support it."""
    if config.index is not None:
        strategy_of(config.index).check_table(config)
    word = str(index).lower()
    if word == "consistent_hashing" and config.properties[BUCKET_ENGINE].upper() != word.upper():
        raise OptionError(f"option {BUCKET_ENGINE} contradicts the keyword {index=}")
