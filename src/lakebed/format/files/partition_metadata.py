"""`.hoodie_partition_metadata`, the file that marks a folder as a partition.

    #partition metadata
    commitTime=<instant of the first write into the partition>
    partitionDepth=<folder levels below the table; 0 for a table without partitions>

Hudi 1.2 returns no rows from a folder without this file, whatever its content. Agrees with Hudi's
HoodiePartitionMetadata.
"""

import re
from dataclasses import dataclass
from typing import Final, Self

from lakebed.errors import CorruptError, InvalidError
from lakebed.format.files.properties import encode_properties, parse_properties

PARTITION_METADATA_NAME: Final = ".hoodie_partition_metadata"
_COMMIT_TIME: Final = "commitTime"
_DEPTH: Final = "partitionDepth"


def is_partition_metadata_name(name: str) -> bool:
    """Return whether `name` is that of partition metadata, as text or in a base file format."""
    stem, _, extension = name.removeprefix(".").partition(".")
    return f".{stem}" == PARTITION_METADATA_NAME and extension in {"", "parquet", "orc"}


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """The instant of the first write to a partition, and its depth below the table."""

    commit_time: str
    depth: int

    def __post_init__(self) -> None:
        if self.depth < 0:
            raise InvalidError(f"{self}: expected a depth of 0 or more")

    @classmethod
    def of(cls, commit_time: str, partition_path: str) -> Self:
        """Return the metadata of the partition at `partition_path` (empty if not partitioned).

        >>> PartitionMetadata.of("20240101000000001", "2024/01/1").depth
        3
        """
        return cls(commit_time, len([level for level in partition_path.split("/") if level]))

    @classmethod
    def parse(cls, data: bytes, what: str) -> Self:
        """Parse the text form; raise CorruptError, naming `what`, if it is invalid."""
        found = parse_properties(data, what)
        commit_time, depth = found.get(_COMMIT_TIME), found.get(_DEPTH, "")
        if commit_time is None or not re.fullmatch(r"[0-9]{1,9}", depth):
            raise CorruptError(
                f"{what}: expected {_COMMIT_TIME}=<instant> and {_DEPTH}=<number>, found {found}"
            )
        return cls(commit_time, int(depth))

    def encode(self) -> bytes:
        """Encode the text form."""
        values = {_COMMIT_TIME: self.commit_time, _DEPTH: str(self.depth)}
        return encode_properties(values, ["partition metadata"])
