"""Finds the runs of a file slice, oldest first, from headers and footers alone.

Hudi's rules (BaseHoodieLogRecordReader): log files replay by requested instant, version and token;
a block is visible if its own instant is; a rollback command removes the earlier blocks of its
target; a log-compacted block replaces the instants that it lists, at the position of the newest of
them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from lakebed.errors import CorruptError, LakebedError, UnsupportedError
from lakebed.format.files.footer import FOOTER_IS_ORDERED
from lakebed.format.logs.delete_instants import recorded_instants
from lakebed.format.logs.log_block import ROLLBACK_COMMAND, BlockType, CorruptSpan, HeaderKey
from lakebed.format.logs.log_scan import BlockSpan, scan_blocks
from lakebed.format.logs.native_footer import FOOTER_KINDS, FooterKind, LogFooter, parse_log_footer
from lakebed.format.logs.order_mark import is_marked_ordered
from lakebed.format.names.data_names import NativeLogName, replay_key
from lakebed.storage.storage import Storage
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.damage import check_whole
from lakebed.table.files.file_group import BaseFile, FileSlice, LogFile
from lakebed.table.read.parquet_source import open_parquet
from lakebed.table.read.run_source import RunKind, RunSource
from lakebed.table.read.torn_log import TornLog, check_torn
from lakebed.table.view import TableView

_PARQUET_MAGIC = b"PAR1"
_READ = frozenset({BlockType.AVRO_DATA, BlockType.PARQUET_DATA, BlockType.DELETE})
_NATIVE_SORTED = 10
"""The table version from which on `lsm_tree` guarantees that native files are sorted."""


@dataclass(frozen=True, slots=True)
class _Found:
    """One block or native file: a run, a rollback of `target`, or its problem."""

    instant: str
    source: RunSource | None = None
    compacted: tuple[str, ...] = ()
    target: str | None = None
    refusal: LakebedError | None = None
    torn: TornLog | None = None


def slice_sources(view: TableView, slice_: FileSlice) -> list[RunSource]:
    """Return the runs of `slice_` in replay order, the base file first.

    The logs of an `lsm_tree` table replay in the order of the slice: tombstones, then slice by
    slice while a compaction is pending. In other tables the logs of both slices are sorted
    together, as in Hudi.

    Change data is left out. A torn block is skipped, as in Hudi, if its writer was rolled back or
    wrote all of its rows again after it; otherwise it raises CorruptError. Visible blocks and files
    that this release does not support raise UnsupportedError.
    """
    check_whole([slice_])
    storage, config = view.storage, view.config
    logs: Sequence[LogFile] = (*slice_.tombstones, *slice_.log_files)
    if not config.is_lsm_tree:
        logs = sorted(logs, key=lambda log: replay_key(log.name))
    found: list[_Found] = []
    for log in logs:
        # An inline log may contain a rollback command, which is applied whatever its instant.
        unseen = isinstance(log.name, NativeLogName) and not view.is_visible(log.name.instant)
        if not log.is_cdc and not unseen:
            found.extend(_read_log(storage, log, config))
    counted = _without_rolled_back(found, view.is_visible)
    at_own_place = config.is_lsm_tree and all(isinstance(log.name, NativeLogName) for log in logs)
    sources = []
    for item in _without_replaced(counted, at_own_place=at_own_place):
        if item.refusal is not None:
            raise item.refusal
        if item.torn is not None:
            check_torn(storage, config, item.torn)
        if item.source is not None:
            sources.append(_settle_order(storage, item.source))
    if slice_.base_file is not None:
        sources.insert(0, _base_source(storage, slice_.base_file, config))
    return sources


def _base_source(storage: Storage, file: BaseFile, config: TableConfig) -> RunSource:
    if file.name.extension != "parquet":
        raise UnsupportedError(f"base file {file.path!r}: this release reads Parquet files only")
    ordered = _sorts_native(config) and config.initial_version >= _NATIVE_SORTED
    source = RunSource(
        file.path, RunKind.DATA, file.name.instant, ordered, is_base=True, serves=file.serves
    )
    return source if ordered else _look_for_mark(storage, source)


def _read_log(storage: Storage, log: LogFile, config: TableConfig) -> Iterator[_Found]:
    what = f"log file {log.path!r}"
    if isinstance(log.name, NativeLogName):
        if log.name.extension != "parquet":
            refusal = UnsupportedError(f"{what}: this release reads native logs of Parquet only")
            yield _Found(log.name.instant, refusal=refusal)
            return
        yield from _read_native(storage, log, FOOTER_KINDS[log.name.kind], config)
        return
    with storage.open_read(log.path) as file:
        size = file.size()
        if size < log.size_bytes:
            # A file truncated at the end of a block would look intact.
            raise CorruptError(
                f"{what}: found {size} bytes, expected {log.size_bytes} as listed before: it was truncated; "
                "restore it from a backup, or see repair(drop_lost=True)"
            )
        # A native log as in the RFC: a Parquet file under the name of an inline log.
        if file.read_at(min(size, len(_PARQUET_MAGIC)), 0) != _PARQUET_MAGIC:
            places = list(scan_blocks(lambda at, length: file.read_at(length, at), size, what))
            for place in places:
                yield from _read_block(log, place, what)
            if torn := TornLog.of(log, places):
                yield _Found(log.name.instant, torn=torn)
            return
    yield from _read_native(storage, log, None, config)


def _read_native(
    storage: Storage, log: LogFile, named: FooterKind | None, config: TableConfig
) -> Iterator[_Found]:
    what = f"log file {log.path!r}"
    with open_parquet(storage, log.path, what) as file:
        footer = parse_log_footer(file.key_values, what) or LogFooter(None)
        parquet = file.footer
    kind = footer.kind or named
    if kind is None:
        raise CorruptError(f"{what}: a Parquet file named like an inline log, without a block type")
    if named is not None and kind is not named:
        raise CorruptError(f"{what}: expected {named} as its name says, found {kind} in its footer")
    instant = footer.instant or log.name.instant
    if kind is FooterKind.CDC:
        return
    if kind is FooterKind.COMMAND:
        command = footer.headers[HeaderKey.COMMAND_BLOCK_TYPE]
        yield _command(instant, command, footer.headers[HeaderKey.TARGET_INSTANT_TIME], what)
        return
    ordered = footer.is_ordered
    if ordered is None:
        ordered = named is not None and _sorts_native(config)
    run = RunKind.DELETES if kind is FooterKind.DELETE else RunKind.DATA
    source = RunSource(log.path, run, instant, ordered, footer.is_partial, footer=parquet)
    times = footer.headers.get(HeaderKey.COMPACTED_BLOCK_TIMES, "")
    yield _Found(instant, source, _instants(times))


def _read_block(log: LogFile, place: BlockSpan | CorruptSpan, what: str) -> Iterator[_Found]:
    where = f"{what}, block at byte {place.offset}"
    if isinstance(place, CorruptSpan):
        return
    headers = place.headers
    instant = headers.get(HeaderKey.INSTANT_TIME)
    if instant is None:
        raise CorruptError(f"{where}: {place.type.name} block without a header INSTANT_TIME")
    if place.type is BlockType.COMMAND:
        target = headers.get(HeaderKey.TARGET_INSTANT_TIME)
        if target is None:
            raise CorruptError(f"{where}: command without a header TARGET_INSTANT_TIME")
        yield _command(instant, headers.get(HeaderKey.COMMAND_BLOCK_TYPE, ""), target, where)
    elif place.type in _READ:
        times = headers.get(HeaderKey.COMPACTED_BLOCK_TIMES, "")
        yield _Found(instant, _block_source(log, place, instant, where), _instants(times))
    elif place.type is not BlockType.CDC_DATA:
        refusal = UnsupportedError(
            f"{where}: a block of type {place.type.name}; this release reads Avro and Parquet "
            "blocks (hoodie.logfile.data.block.format) and delete blocks"
        )
        yield _Found(instant, refusal=refusal)


def _block_source(log: LogFile, place: BlockSpan, instant: str, where: str) -> RunSource:
    schema = place.headers.get(HeaderKey.SCHEMA)
    deletes = place.type is BlockType.DELETE
    avro = place.type is BlockType.AVRO_DATA
    if avro and schema is None:
        raise CorruptError(f"{where}: Avro block without a header SCHEMA")
    return RunSource(
        log.path,
        RunKind.DELETES if deletes else RunKind.DATA,
        instant,
        # A Parquet block has the marker in its own footer.
        ordered=(deletes or avro) and schema is not None and is_marked_ordered(schema, where),
        partial=place.headers.get(HeaderKey.IS_PARTIAL, "").lower() == "true",
        offset=place.content_offset,
        length=place.content_length,
        delete_instants=recorded_instants(schema, where) if deletes and schema else None,
        avro_schema=schema if avro else None,
    )


def _command(instant: str, command: str, target: str, what: str) -> _Found:
    if command != ROLLBACK_COMMAND:
        raise UnsupportedError(
            f"{what}: command {command!r}; expected {ROLLBACK_COMMAND}, a rollback"
        )
    return _Found(instant, target=target)


def _settle_order(storage: Storage, source: RunSource) -> RunSource:
    """Look for the sort marker of a Parquet block in its own footer; other runs are unchanged."""
    if source.length is None or not source.is_parquet:
        return source
    return _look_for_mark(storage, source)


def _look_for_mark(storage: Storage, source: RunSource) -> RunSource:
    with open_parquet(
        storage, source.path, source.name, offset=source.offset, length=source.length
    ) as file:
        ordered = file.key_values.get(FOOTER_IS_ORDERED, "").lower() == "true"
        return replace(source, ordered=ordered, footer=file.footer)


def _sorts_native(config: TableConfig) -> bool:
    return config.version >= _NATIVE_SORTED and config.is_lsm_tree


def _instants(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _without_rolled_back(
    found: Sequence[_Found], is_visible: Callable[[str], bool]
) -> list[_Found]:
    """Keep the visible runs; a rollback command applies to preceding runs, whatever its instant."""
    kept: list[_Found] = []
    for item in found:
        if item.target is not None:
            kept = [earlier for earlier in kept if earlier.instant != item.target]
        elif is_visible(item.instant):
            kept.append(item)
    return kept


def _without_replaced(found: list[_Found], *, at_own_place: bool) -> list[_Found]:
    """Leave out runs that a log compaction replaced, and put its blocks at their replay position.

    This is the position of the newest original run, so that a write between the originals and the
    compaction stays newer than the compacted rows. Native files stay `at_own_place`: Hudi's LSM
    reader replays them at their own instant.
    """
    final = _replacements(found)
    if not final:
        return found
    own = {item.instant for item in found if item.compacted}
    place: dict[str, int] = {}
    for at, item in enumerate(found):
        if item.instant in final and item.instant not in own:
            place[final[item.instant]] = at
    ordered = []
    for at, item in enumerate(found):
        if item.instant in final:
            continue
        moved = item.instant in own and not at_own_place
        ordered.append((place.get(item.instant, at) if moved else at, at, item))
    ordered.sort(key=lambda entry: entry[:2])
    return [item for _, _, item in ordered]


def _replacements(found: Sequence[_Found]) -> dict[str, str]:
    """Return the final replacement of each replaced instant; a replacement may be replaced too."""
    final: dict[str, str] = {}
    for item in reversed(found):
        for original in item.compacted:
            if original != item.instant:
                final.setdefault(original, final.get(item.instant, item.instant))
    return final
