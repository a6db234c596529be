"""Hudi's option names that we know, and what becomes of each.

An option that changes rows, keys, layout or guarantees is honoured or refused; one that
changes only speed is accepted with a line of information; one that nobody knows is
refused with the nearest name, because a typing error must not pass for a setting.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from lakebed.errors import OptionError


class Fate(Enum):
    """What becomes of an option."""

    HONOURED = "honoured"
    INFORMATION = "accepted, changes nothing here"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name, its fate, the values it takes (none listed: any), and a note."""

    name: str
    fate: Fate
    values: tuple[str, ...] = ()
    note: str = ""


_FLAG = ("true", "false")
_H, _I, _R = Fate.HONOURED, Fate.INFORMATION, Fate.REFUSED

TABLE_OPTIONS: tuple[Option, ...] = (
    Option("hoodie.database.name", _H),
    Option("hoodie.table.name", _H, note="the keyword name="),
    Option("hoodie.table.type", _H, ("COPY_ON_WRITE", "MERGE_ON_READ"), "the keyword table_type="),
    Option("hoodie.table.version", _H, ("8", "9", "10"), "the keyword table_version="),
    Option("hoodie.table.recordkey.fields", _H, note="the keyword key="),
    Option("hoodie.table.partition.fields", _H, note="the keyword partition_by="),
    Option("hoodie.table.ordering.fields", _H, note="the keyword ordering="),
    Option("hoodie.table.precombine.field", _H, note="older name of hoodie.table.ordering.fields"),
    Option("hoodie.table.storage.layout", _H, ("default", "lsm_tree"), "the keyword layout="),
    Option("hoodie.record.merge.mode", _H, ("COMMIT_TIME_ORDERING", "EVENT_TIME_ORDERING")),
    Option(
        "hoodie.table.keygenerator.type", _H, ("SIMPLE", "COMPLEX", "NON_PARTITION", "TIMESTAMP")
    ),
    Option("hoodie.table.keygenerator.class", _H),
    Option("hoodie.datasource.write.hive_style_partitioning", _H, _FLAG),
    Option("hoodie.datasource.write.partitionpath.urlencode", _H, _FLAG),
    Option("hoodie.table.timeline.timezone", _H, ("UTC", "LOCAL")),
    Option("hoodie.index.type", _H, ("BUCKET", "SIMPLE", "GLOBAL_SIMPLE"), "the keyword index="),
    Option("hoodie.index.bucket.engine", _H, ("SIMPLE",)),
    Option("hoodie.bucket.index.num.buckets", _H, note="the keyword buckets="),
    Option("hoodie.bucket.index.hash.field", _H),
    Option("hoodie.keygen.timebased.timestamp.type", _H),
    Option("hoodie.keygen.timebased.output.dateformat", _H),
    Option("hoodie.keygen.timebased.input.dateformat", _H),
    Option("hoodie.keygen.timebased.input.dateformat.list.delimiter.regex", _H),
    Option("hoodie.keygen.timebased.input.timezone", _H),
    Option("hoodie.keygen.timebased.output.timezone", _H),
    Option("hoodie.keygen.timebased.timezone", _H),
    Option("hoodie.keygen.timebased.timestamp.scalar.time.unit", _H),
    Option("hoodie.populate.meta.fields", _H, ("true",), "tables without meta columns: read only"),
    Option("hoodie.table.base.file.format", _H, ("PARQUET",)),
    Option("hoodie.table.cdc.enabled", _H, ("false",), "change data capture: not written yet"),
    Option(
        "hoodie.datasource.write.drop.partition.columns", _H, ("false",), "columns stay in files"
    ),
    Option("hoodie.write.concurrency.mode", _H, ("SINGLE_WRITER",), "several writers: not yet"),
    Option("hoodie.table.create.schema", _R, note="follows from the schema argument"),
    Option("hoodie.table.checksum", _R, note="follows from the table's name"),
    Option("hoodie.timeline.layout.version", _R, note="always 2"),
    Option("hoodie.table.metadata.partitions", _R, note="Hudi's metadata table is not written"),
    Option("hoodie.compaction.payload.class", _R, note="use hoodie.record.merge.mode"),
    Option("hoodie.metadata.enable", _I, _FLAG, "this release writes no metadata table"),
    Option("hoodie.bulkinsert.shuffle.parallelism", _I),
    Option("hoodie.insert.shuffle.parallelism", _I),
    Option("hoodie.upsert.shuffle.parallelism", _I),
    Option("hoodie.delete.shuffle.parallelism", _I),
    Option("hoodie.datasource.write.row.writer.enable", _I, _FLAG, "rows never leave Arrow"),
    Option("hoodie.parquet.small.file.limit", _H, note="bytes; not with a bucket index"),
    Option("hoodie.parquet.max.file.size", _H, note="bytes; a bucket is one file, however large"),
    Option("hoodie.simple.index.update.partition.path", _H, _FLAG, "with index=global_simple"),
    Option("hoodie.payload.delete.field", _H, note="a row with the marker there is a delete"),
    Option("hoodie.payload.delete.marker", _H),
    Option("hoodie.logfile.data.block.format", _H, ("parquet",), "Avro blocks: not written yet"),
    Option("write.distribution-mode", _H, ("none", "hash"), "without it chosen by size"),
    Option(
        "compaction_log_streaming_read_buffer",
        _H,
        note="what a merge holds of each run: bytes, or 512KB, 10MB (the default), 1GB",
    ),
    Option(
        "compaction_with_merge_sort_enable",
        _I,
        _FLAG,
        "runs are always sorted and merged; the rows are the same",
    ),
    Option("hoodie.embed.timeline.server", _I, _FLAG),
)


def check_options(given: Mapping[str, str], known: Iterable[Option] = TABLE_OPTIONS) -> list[str]:
    """Refuse what we do not know or cannot honour; give a line for each that changes nothing."""
    by_name = {option.name: option for option in known}
    lines = []
    for name, value in given.items():
        if not isinstance(name, str):
            raise OptionError(f"option {name!r}: want a name as text")
        option = by_name.get(name)
        if option is None:
            raise OptionError(_unknown(name, by_name))
        if option.fate is Fate.REFUSED:
            raise OptionError(f"option {name} cannot be given: {option.note}")
        _check_value(option, value)
        if option.fate is Fate.INFORMATION:
            lines.append(f"option {name}={value} changes nothing here" + _tail(option))
    return lines


def stored_name(name: str) -> str:
    """Give the property that an option becomes: Hudi keeps what steers a merge under a prefix."""
    prefixed = name.startswith("hoodie.payload.delete.")
    return f"hoodie.record.merge.property.{name}" if prefixed else name


def is_stored(name: str) -> bool:
    """Tell whether an option becomes a property of the table; one that changes nothing does not."""
    return any(option.name == name and option.fate is Fate.HONOURED for option in TABLE_OPTIONS)


def canonical(name: str, value: str, known: Iterable[Option] = TABLE_OPTIONS) -> str:
    """Spell `value` as Hudi does, where the values of an option are words.

    >>> canonical("hoodie.table.timeline.timezone", "utc")
    'UTC'
    """
    values = next((option.values for option in known if option.name == name), ())
    return next((word for word in values if word.lower() == value.lower()), value)


def _check_value(option: Option, value: str) -> None:
    if not isinstance(value, str):
        raise OptionError(
            f"option {option.name}: want text, found {type(value).__name__} {value!r}"
        )
    if option.values and value.lower() not in {known.lower() for known in option.values}:
        raise OptionError(
            f"option {option.name}={value}: want {' or '.join(option.values)}{_tail(option)}"
        )


def _tail(option: Option) -> str:
    return f" ({option.note})" if option.note else ""


def _unknown(name: str, known: Mapping[str, Option]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else "; docs/options.md lists those we know"
    return f"unknown option {name!r}{hint}"
