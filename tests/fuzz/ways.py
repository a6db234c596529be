"""What is asked of a damaged table: every way to read it, and what only writers read."""

from collections.abc import Callable
from pathlib import Path

from lakebed import Table, open_table
from lakebed.errors import LakebedError
from lakebed.index.rings import load_rings
from lakebed.table.config.writer_index import ConsistentHashingIndex
from lakebed.table.snapshot import load_snapshot

Rows = list[str]
_SOME_KEYS = 3


def _snapshot(table: Table) -> Rows:
    return _sorted(table.read().read_all().to_pylist())


def _read_optimized(table: Table) -> Rows:
    return _sorted(table.read(mode="read_optimized").read_all().to_pylist())


def _since(table: Table) -> Rows:
    return _sorted(table.read(since="earliest").read_all().to_pylist())


def _changes(table: Table) -> Rows:
    return _sorted(table.read(since="earliest", mode="cdc").read_all().to_pylist())


def _history(table: Table) -> Rows:
    table.history()
    table.layers()
    # Damage may change the sizes, which are what is on the disk.
    return sorted(table.files().column("path").to_pylist())


def _verify(table: Table) -> Rows:
    # What it finds is the point of it; it says so and does not raise.
    table.verify()
    return []


def _rings(table: Table) -> Rows:
    if not isinstance(table.config.index, ConsistentHashingIndex):
        return []
    rings = load_rings(load_snapshot(table._storage, table.config))
    return [repr(rings.buckets)]


WAYS: dict[str, Callable[[Table], Rows]] = {
    "snapshot": _snapshot,
    "read optimized": _read_optimized,
    "since the earliest": _since,
    "changes": _changes,
    "history": _history,
    "verify": _verify,
    "rings": _rings,
}
WEIGHTS = (60, 5, 10, 10, 5, 3, 2)


def ask(folder: Path, way: str, keys: list[dict[str, object]] | None = None) -> Rows:
    """Open the table at `folder` and read it one way; with `keys` look them up."""
    table = open_table(None, str(folder))
    if keys is not None:
        return _sorted(table.lookup(keys).to_pylist())
    return WAYS[way](table)


def ask_or_refusal(
    folder: Path, way: str, keys: list[dict[str, object]] | None = None
) -> Rows | None:
    """Return the rows, or None if the table is refused by name."""
    try:
        return ask(folder, way, keys)
    except LakebedError:
        return None


def some_keys(folder: Path) -> list[dict[str, object]]:
    """Return the keys of a few rows; none where the table is refused."""
    try:
        table = open_table(None, str(folder))
        fields = list(table.config.record_key_fields)
        return table.read(columns=fields).read_all().slice(0, _SOME_KEYS).to_pylist()
    except LakebedError:
        return []


def _sorted(rows: list[dict[str, object]]) -> Rows:
    return sorted(repr(row) for row in rows)
