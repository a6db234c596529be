"""The options of `df.write.format("lakebed")`, as values under the names that a table stores."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from lakebed.errors import OptionError
from lakebed.model.datasource_options import STORED_NAMES, check_write, split_storage
from lakebed.model.options import canonical, is_stored
from lakebed.model.read_options import path_of

OPERATION: Final = "hoodie.datasource.write.operation"
PARTITIONS_TO_DELETE: Final = "hoodie.datasource.write.partitions.to.delete"
MERGE_SCHEMA: Final = "mergeschema"
_INDEX: Final = "hoodie.index.type"
_MOVES: Final = "hoodie.simple.index.update.partition.path"
_BLOOM_MOVES: Final = "hoodie.bloom.index.update.partition.path"
# These look in base files for keys, as ours does: other ways to the same rows.
_SAME_INDEX: Final = {"BLOOM": "SIMPLE", "GLOBAL_BLOOM": "GLOBAL_SIMPLE"}


@dataclass(frozen=True, slots=True)
class SaveOptions:
    """What one write asks for.

    `properties` are those that a table stores, under the names of `hoodie.properties`: the caller
    creates the table with them, or compares them with what it has. `given` has the name under
    which the user gave each.
    """

    path: str
    operation: str | None = None
    partitions_to_delete: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, str] | None = None
    given: Mapping[str, str] = field(default_factory=dict)
    merge_schema: bool = True

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> tuple[Self, list[str]]:
        """Check the options of one write; give them, and a line for each that changes nothing."""
        options, storage = split_storage(given)
        path = path_of(options)
        lines = check_write(options)
        operation = options.get(OPERATION)
        properties = _properties(options)
        return cls(
            path,
            None if operation is None else canonical(OPERATION, operation).lower(),
            names(options.get(PARTITIONS_TO_DELETE, "")),
            {stored: value for stored, (_, value) in properties.items()},
            storage or None,
            {stored: name for stored, (name, _) in properties.items()},
            options.get(MERGE_SCHEMA, "true").lower() == "true",
        ), lines

    def names(self, stored: str) -> tuple[str, ...]:
        """Return the columns that a property names."""
        return names(self.properties.get(stored, ""))


def names(text: str) -> tuple[str, ...]:
    """Split the names that an option lists."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _properties(options: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return each property that the options make, with the option's name."""
    settled: dict[str, tuple[str, str]] = {}
    for name, text in options.items():
        stored = STORED_NAMES.get(name, name)
        if not is_stored(stored):
            continue
        value = canonical(stored, text.strip())
        if stored == _INDEX:
            value = _SAME_INDEX.get(value.upper(), value)
        before = settled.get(stored)
        if before is not None and before[1] != value:
            raise OptionError(
                f"options {before[0]}={before[1]} and {name}={value} say the same thing in two ways: "
                "give one of them"
            )
        settled[stored] = (name, value)
    if options.get(_INDEX, "").upper() == "GLOBAL_BLOOM" and _BLOOM_MOVES in options:
        settled.setdefault(_MOVES, (_BLOOM_MOVES, options[_BLOOM_MOVES].lower()))
    return settled
