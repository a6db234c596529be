"""What one task wrote."""

from dataclasses import dataclass

from lakebed.format.commit_metadata import WriteStat


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """What one task wrote to one file group: a write stat for each of its files.

    Only files that a status names count.
    """

    partition: str
    file_id: str
    stats: tuple[WriteStat, ...]
