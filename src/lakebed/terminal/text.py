"""Sizes as text, and layers drawn with characters."""

from collections.abc import Iterable, Sequence

_BAR_WIDTH = 24

File = tuple[str, str, int]
"""The level, instant and size in bytes of a file."""

Part = tuple[str, Sequence[File]]
"""The files of a file group below a heading, which may be empty."""


def draw_layers(groups: Iterable[tuple[str, str, Sequence[Part]]]) -> str:
    """Draw file groups, given as partition, file id and parts; files are newest first.

    There is a line for each partition, group, heading and file, with a bar for the file's size.
    """
    groups = list(groups)
    sizes = (size for _, _, parts in groups for _, files in parts for _, _, size in files)
    widest = max(sizes, default=1)
    lines: list[str] = []
    last = None
    for partition, file_id, parts in groups:
        if partition != last:
            last = partition
            lines.append(partition or "(not partitioned)")
        total = sum(size for _, files in parts for _, _, size in files)
        lines.append(f"  file group {file_id}   {size_text(total)}")
        for heading, files in parts:
            indent = "    "
            if heading:
                total = sum(size for _, _, size in files)
                lines.append(f"{indent}{heading}   {size_text(total)}")
                indent += "  "
            for level, instant, size in files:
                bar = draw_bar(size, widest, _BAR_WIDTH)
                lines.append(f"{indent}{level} {bar} {size_text(size):>9}  {instant}")
    return "\n".join(lines) or "(no files)"


def draw_bar(size: int, widest: int, width: int) -> str:
    """Draw a bar for a size, padded to `width`, the length of the bar for `widest`.

    >>> draw_bar(1, 4, 8)
    '██      '
    """
    return f"{'█' * max(1, round(width * size / max(widest, 1))):<{width}}"


def column_group_text(name: str) -> str:
    """Return the heading of a column group; the name of the default group is empty.

    >>> column_group_text("risk"), column_group_text(""), column_group_text("*")
    ('column group risk', 'default column group', 'all column groups')
    """
    if name == "*":
        return "all column groups"
    return f"column group {name}" if name else "default column group"


def size_text(size: float) -> str:
    """Return a size in bytes as a string with a unit.

    >>> size_text(1536)
    '1.5 KiB'
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def age_text(age_ms: int | None) -> str:
    """Format an age in its largest unit; an unknown age is a question mark.

    >>> age_text(90_000), age_text(7_200_000), age_text(5 * 86_400_000), age_text(None)
    ('1 min', '2 h', '5 d', '?')
    """
    if age_ms is None:
        return "?"
    seconds = max(0, age_ms) // 1000
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def plural(number: int, noun: str) -> str:
    """Return a number followed by its noun, in the plural if necessary.

    >>> plural(1, "file"), plural(2_000, "key")
    ('1 file', '2,000 keys')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
