"""The headers of the blocks of one log file, for display."""

from collections.abc import Iterator

from lakebed.format.logs.log_block import BlockType, CorruptSpan
from lakebed.format.logs.log_scan import BlockSpan, scan_blocks
from lakebed.format.logs.native_footer import FooterKind, parse_log_footer
from lakebed.storage.storage import Storage
from lakebed.table.read.parquet_source import open_parquet

_MAGIC = b"PAR1"
_KINDS = {
    FooterKind.DELETE: BlockType.DELETE,
    FooterKind.COMMAND: BlockType.COMMAND,
    FooterKind.CDC: BlockType.CDC_DATA,
}


def log_headers(storage: Storage, path: str) -> Iterator[BlockSpan | CorruptSpan]:
    """Yield the blocks of an inline log, or a native log as one block."""
    what = f"log file {path!r}"
    with storage.open_read(path) as file:
        size = file.size()
        if file.read_at(min(size, len(_MAGIC)), 0) != _MAGIC:
            yield from scan_blocks(lambda at, length: file.read_at(length, at), size, what)
            return
    with open_parquet(storage, path, what) as parquet:
        footer = parse_log_footer(parquet.key_values, what)
    kind = BlockType.PARQUET_DATA
    if footer is not None and footer.kind is not None:
        kind = _KINDS.get(footer.kind, kind)
    yield BlockSpan(kind, {} if footer is None else footer.headers, 0, size, 0, size)
