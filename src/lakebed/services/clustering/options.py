"""The clustering options of a table."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Self

from lakebed.table.config.property_values import LARGE, option_number

_STRATEGY = "hoodie.clustering.plan.strategy."
_TARGET = f"{_STRATEGY}target.file.max.bytes"
_SMALL = f"{_STRATEGY}small.file.limit"
_GROUPS = f"{_STRATEGY}max.num.groups"
_GROUP_BYTES = f"{_STRATEGY}max.bytes.per.group"

_number = partial(option_number, most=LARGE)


@dataclass(frozen=True, slots=True)
class ClusteringOptions:
    """Hudi's settings under short names, with Hudi's defaults. Sizes are in bytes.

    File groups with a base file below `small_limit` are merged into files of `target_bytes`. One
    task takes up to `group_bytes` of them, and one plan holds up to `max_groups` tasks.
    """

    target_bytes: int = 1 << 30
    small_limit: int = 300 << 20
    max_groups: int = 30
    group_bytes: int = 2 << 30

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> Self:
        """Parse `properties`; raise OptionError for an invalid value."""
        default = cls()
        return cls(
            _number(properties, _TARGET, default.target_bytes, least=1),
            _number(properties, _SMALL, default.small_limit),
            _number(properties, _GROUPS, default.max_groups, least=1),
            _number(properties, _GROUP_BYTES, default.group_bytes, least=1),
        )
