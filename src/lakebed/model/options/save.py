"""Parse the options of `df.write.format("lakebed")` to the names that a table stores."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from lakebed.errors import OptionError
from lakebed.model.options import data_source as of
from lakebed.model.options.hudi import METADATA_TABLE
from lakebed.model.options.option import Scope
from lakebed.model.options.read import path_of
from lakebed.model.options.registry import check_given
from lakebed.model.options.table import INDEX_TYPE, UPDATE_PARTITION

# Indexes with their own option for whether rows move between partitions.
_MOVES: Final = {
    "GLOBAL_BLOOM": of.BLOOM_MOVES,
    "RECORD_INDEX": of.RECORD_MOVES,
    "GLOBAL_RECORD_LEVEL_INDEX": of.RECORD_MOVES,
}


@dataclass(frozen=True, slots=True)
class SaveOptions:
    """The options of one write.

    `properties` are the options that a table stores, by name: the caller creates the table with
    them, or compares them with the table's properties. `given` maps each property to the name that
    the user gave.
    """

    path: str
    operation: str | None = None
    partitions_to_delete: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    given: Mapping[str, str] = field(default_factory=dict)
    merge_schema: bool = True
    gives_up_indexes: bool = False

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> tuple[Self, tuple[str, ...]]:
        """Parse the options of one write; also return a log line for each that has no effect."""
        options = {str(name).lower(): value for name, value in given.items()}
        path = path_of(options)
        if of.AS_OF.name in options:
            raise OptionError(
                f"option {of.AS_OF.name} cannot be given with a write, which always changes the "
                "current table; to go back to an earlier state, call t.restore(savepoint)"
            )
        checked = check_given({name: text.strip() for name, text in options.items()}, Scope.WRITE)
        held, properties, used = checked.values, checked.stored, dict(checked.names)
        moves = _MOVES.get(options.get(INDEX_TYPE.name, "").strip().upper())
        if moves is not None and moves.name in held and UPDATE_PARTITION.name not in held:
            properties[UPDATE_PARTITION.name] = held[moves.name]
            used[UPDATE_PARTITION.name] = moves.name
        return cls(
            path,
            of.OPERATION.value(held) or None,
            of.PARTITIONS_TO_DELETE.value(held),
            properties,
            checked.of_family(of.STORAGE) or None,
            {name: used[name] for name in properties},
            of.MERGE_SCHEMA.value(held),
            not METADATA_TABLE.value(held),
        ), checked.lines
