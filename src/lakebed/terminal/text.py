"""Sizes and ages as text, and layers drawn with characters."""

from collections.abc import Iterable, Sequence
from typing import Protocol

_BAR_WIDTH = 24


class File(Protocol):
    """A file of a file group that is drawn."""

    @property
    def level(self) -> str:
        """Return its level: `L0` or `L1`."""
        ...

    @property
    def instant(self) -> str:
        """Return the instant that wrote it."""
        ...

    @property
    def size_bytes(self) -> int:
        """Return its size."""
        ...


class Group(Protocol):
    """A file group that is drawn."""

    @property
    def partition(self) -> str:
        """Return its partition; empty if the table has none."""
        ...

    @property
    def file_id(self) -> str:
        """Return its id."""
        ...

    @property
    def size_bytes(self) -> int:
        """Return the size of its files together."""
        ...

    @property
    def layers(self) -> Sequence[File]:
        """Return its files, newest first."""
        ...


def draw_layers(groups: Iterable[Group]) -> str:
    """Draw file groups: a line for each partition, group and file, with a bar for its size."""
    groups = list(groups)
    widest = max((layer.size_bytes for group in groups for layer in group.layers), default=1)
    lines: list[str] = []
    partition = None
    for group in groups:
        if group.partition != partition:
            partition = group.partition
            lines.append(partition or "(not partitioned)")
        lines.append(f"  file group {group.file_id}   {size_text(group.size_bytes)}")
        for layer in group.layers:
            bar = draw_bar(layer.size_bytes, widest, _BAR_WIDTH)
            lines.append(
                f"    {layer.level} {bar} {size_text(layer.size_bytes):>9}  {layer.instant}"
            )
    return "\n".join(lines) or "(no files)"


def draw_bar(size: int, widest: int, width: int) -> str:
    """Draw a bar for a size, padded to `width`, which is the length for `widest`.

    >>> draw_bar(1, 4, 8)
    '██      '
    """
    return f"{'█' * max(1, round(width * size / max(widest, 1))):<{width}}"


def size_text(size: float) -> str:
    """Spell a number of bytes for people.

    >>> size_text(1536)
    '1.5 KiB'
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
