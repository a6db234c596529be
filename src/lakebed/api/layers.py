"""The layers of a table as printable values."""

from collections.abc import Iterator
from dataclasses import dataclass

from lakebed.table.files.file_group import ALL_GROUPS, BaseFile, FileSlice, shown_group
from lakebed.terminal.html import bar_html, rows_html
from lakebed.terminal.text import Part, column_group_text, draw_layers, plural, size_text


@dataclass(frozen=True, slots=True)
class Layer:
    """One file of a file group: level `L1` is a base file, `L0` a log file.

    `column_group` is the name of the file's column group, empty for the default group.
    """

    level: str
    path: str
    instant: str
    size_bytes: int
    column_group: str = ""


@dataclass(frozen=True, slots=True)
class FileGroupLayers:
    """The files of one file group that a snapshot reads, newest first.

    In a table with column groups, each group has its own layers, the default group first.
    """

    partition: str
    file_id: str
    layers: tuple[Layer, ...]

    @property
    def size_bytes(self) -> int:
        """Return the total size of the layers."""
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
        named = any(layer.column_group for group in self.groups for layer in group.layers)
        return draw_layers(
            (group.partition, group.file_id, _parts(group, named=named)) for group in self.groups
        )

    def _repr_html_(self) -> str:
        widest = max(
            (layer.size_bytes for group in self.groups for layer in group.layers), default=1
        )
        rows = (
            (
                group.partition or "(not partitioned)",
                group.file_id,
                layer.column_group,
                layer.level,
                bar_html(layer.size_bytes, widest),
                size_text(layer.size_bytes),
                layer.instant,
            )
            for group in self.groups
            for layer in group.layers
        )
        names = ("partition", "file group", "column group", "level", "", "size", "instant")
        return rows_html(plural(len(self.groups), "file group"), names, rows)


def layers_of(slices: tuple[FileSlice, ...]) -> Layers:
    """Return the layers of the slices that a snapshot reads."""
    return Layers(tuple(_group(slice_) for slice_ in slices))


def _group(slice_: FileSlice) -> FileGroupLayers:
    layers = [
        Layer(
            "L1" if isinstance(file, BaseFile) else "L0",
            file.path,
            file.name.instant,
            file.size_bytes,
            shown_group(file, name),
        )
        for name, part in slice_.by_group.items()
        for file in reversed(part.files)
    ]
    # A base file of all columns is a layer of each group.
    layers = list({layer.path: layer for layer in layers}.values())
    layers.sort(key=lambda layer: layer.column_group != ALL_GROUPS)
    return FileGroupLayers(slice_.group.partition, slice_.group.file_id, tuple(layers))


def _parts(group: FileGroupLayers, *, named: bool) -> list[Part]:
    """Return the layers of each column group, below its name if `named`."""
    names = dict.fromkeys(layer.column_group for layer in group.layers)
    return [
        (
            column_group_text(name) if named else "",
            [
                (layer.level, layer.instant, layer.size_bytes)
                for layer in group.layers
                if layer.column_group == name
            ],
        )
        for name in names
    ]
