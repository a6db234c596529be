"""The layers of a table as values that draw themselves."""

from collections.abc import Iterator
from dataclasses import dataclass

from lakebed.table.files.file_group import BaseFile, FileSlice


@dataclass(frozen=True, slots=True)
class Layer:
    """One file of a file group: `L1` is its base file, `L0` a log on top."""

    level: str
    path: str
    instant: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class FileGroupLayers:
    """The files that a snapshot reads of one file group, newest on top."""

    partition: str
    file_id: str
    layers: tuple[Layer, ...]

    @property
    def size_bytes(self) -> int:
        """Add up the sizes of the layers."""
        return sum(layer.size_bytes for layer in self.layers)


@dataclass(frozen=True, slots=True)
class Layers:
    """All file groups of a table; `print` it to see them."""

    groups: tuple[FileGroupLayers, ...]

    def __iter__(self) -> Iterator[FileGroupLayers]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def __str__(self) -> str:
        widest = max((layer.size_bytes for g in self.groups for layer in g.layers), default=1)
        lines: list[str] = []
        partition = None
        for group in self.groups:
            if group.partition != partition:
                partition = group.partition
                lines.append(partition or "(not partitioned)")
            lines.append(f"  file group {group.file_id}   {size_text(group.size_bytes)}")
            for layer in group.layers:
                bar = "█" * max(1, round(24 * layer.size_bytes / max(widest, 1)))
                lines.append(
                    f"    {layer.level} {bar:<24} {size_text(layer.size_bytes):>9}  {layer.instant}"
                )
        return "\n".join(lines) or "(no files)"


def layers_of(slices: tuple[FileSlice, ...]) -> Layers:
    """Return the layers of the slices that a snapshot reads."""
    return Layers(tuple(_group(slice_) for slice_ in slices))


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


def _group(slice_: FileSlice) -> FileGroupLayers:
    layers = [
        Layer(
            "L1" if isinstance(file, BaseFile) else "L0",
            file.path,
            file.name.instant,
            file.size_bytes,
        )
        for file in reversed(slice_.files)
    ]
    return FileGroupLayers(slice_.group.partition, slice_.group.file_id, tuple(layers))
