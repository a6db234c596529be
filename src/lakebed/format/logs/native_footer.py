"""The Parquet footer entries of a native log file (log format version 2).

    hudi.log.format.metadata    JSON of strings: {"VERSION": "2", "INSTANT_TIME": ..., "SCHEMA": ...},
                                names as in HeaderKey; read by Hudi's code
    hudi.log.format.<NAME>      one entry per name; a form that Hudi has abandoned
    hudi.log.format_version     the form of the RFC: lower case, without the schema
    hudi.log.instant_time ...
    hudi.log.block_type         parquet_data, delete, cdc or command
    hudi.log.is_ordered         `true`: sorted by record key, each key once

The first and the third form are written. If a file has several forms, the first in this list is
read. Unknown names are ignored, as in Hudi (NativeLogFooterMetadata); an unknown version is
rejected.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from lakebed.errors import CorruptError, InvalidError, UnknownFormatError
from lakebed.format.files.footer import FOOTER_IS_ORDERED
from lakebed.format.logs.log_block import HeaderKey
from lakebed.format.names.data_names import LogKind

NATIVE_VERSION: Final = 2
FOOTER_JSON: Final = "hudi.log.format.metadata"
_ENTRY_PREFIX: Final = "hudi.log.format."
_SEED_VERSION: Final = "hudi.log.format_version"
_SEED_KIND: Final = "hudi.log.block_type"
_VERSION: Final = "VERSION"
_SEED_KEYS: Final = {
    HeaderKey.INSTANT_TIME: "hudi.log.instant_time",
    HeaderKey.TARGET_INSTANT_TIME: "hudi.log.target_instant_time",
    HeaderKey.COMMAND_BLOCK_TYPE: "hudi.log.command_block_type",
    HeaderKey.COMPACTED_BLOCK_TIMES: "hudi.log.compacted_block_times",
    HeaderKey.RECORD_POSITIONS: "hudi.log.record_positions",
    HeaderKey.BLOCK_IDENTIFIER: "hudi.log.block_identifier",
    HeaderKey.IS_PARTIAL: "hudi.log.is_partial",
    HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS: "hudi.log.base_file_instant_of_positions",
}
_NAMED: Final = frozenset({HeaderKey.INSTANT_TIME, HeaderKey.SCHEMA})
_COMMAND: Final = (HeaderKey.COMMAND_BLOCK_TYPE, HeaderKey.TARGET_INSTANT_TIME)


class FooterKind(StrEnum):
    """The content that a native log's footer states. Stored on disk: do not change the values."""

    PARQUET_DATA = "parquet_data"
    DELETE = "delete"
    CDC = "cdc"
    COMMAND = "command"


FOOTER_KINDS: Final[Mapping[LogKind, FooterKind]] = {
    LogKind.LOG: FooterKind.PARQUET_DATA,
    LogKind.DELETES: FooterKind.DELETE,
    LogKind.CDC: FooterKind.CDC,
}
"""The kind of a native file by its name; no name stands for a command."""


@dataclass(frozen=True, slots=True)
class LogFooter:
    """The footer of one native log file.

    `headers` are the entries other than the instant and the schema. `kind` and `instant` are None
    if only the file's name states them; `is_ordered` is None if the footer does not state it. The
    schema of a delete file is the table's.
    """

    kind: FooterKind | None
    instant: str | None = None
    schema: str | None = None
    headers: Mapping[HeaderKey, str] = field(default_factory=dict)
    is_ordered: bool | None = None
    version: int = NATIVE_VERSION

    @property
    def is_partial(self) -> bool:
        """Return whether the rows contain only the columns that changed."""
        return self.headers.get(HeaderKey.IS_PARTIAL, "").lower() == "true"


def encode_log_footer(footer: LogFooter) -> dict[str, str]:
    """Return the entries of the Parquet footer, in the first and third form.

    >>> encode_log_footer(LogFooter(FooterKind.DELETE, "1"))["hudi.log.format.metadata"]
    '{"VERSION":"2","INSTANT_TIME":"1"}'
    """
    if footer.kind is None:
        raise InvalidError("native log footer: expected a kind, found none")
    if doubled := _NAMED & footer.headers.keys():
        raise InvalidError(
            f"native log footer: {_names(doubled)} must be given as a field, not in headers"
        )
    if missing := _missing_of_command(footer.kind, footer.headers):
        raise InvalidError(f"native log footer of a command: expected {missing}")
    fields = ((HeaderKey.INSTANT_TIME, footer.instant), (HeaderKey.SCHEMA, footer.schema))
    present = {key: text for key, text in fields if text is not None}
    ordered = sorted({**footer.headers, **present}.items())
    named = {_VERSION: str(footer.version), **{key.name: text for key, text in ordered}}
    entries = {
        FOOTER_JSON: json.dumps(named, ensure_ascii=False, separators=(",", ":")),
        _SEED_VERSION: str(footer.version),
        _SEED_KIND: footer.kind.value,
    }
    for key, text in ordered:
        if key in _SEED_KEYS:
            entries[_SEED_KEYS[key]] = text
    if footer.is_ordered is not None:
        entries[FOOTER_IS_ORDERED] = "true" if footer.is_ordered else "false"
    return entries


def parse_log_footer(metadata: Mapping[str, str], what: str) -> LogFooter | None:
    """Parse the key-value metadata of a Parquet file; return None if it has no log footer.

    A kind that is not stored is None, except for a command, which its headers reveal.
    """
    forms = [form for form in (_json(metadata, what), _entries(metadata), _seed(metadata)) if form]
    if not forms:
        return None
    # Check the version of every form: a newer writer may also write an older form.
    versions = [_parse_version(form.get(_VERSION), what) for form in forms]
    named = forms[0]
    headers = {key: named[key.name] for key in HeaderKey if key.name in named}
    instant = headers.pop(HeaderKey.INSTANT_TIME, None)
    schema = headers.pop(HeaderKey.SCHEMA, None)
    kind = _parse_kind(metadata, headers, what)
    if missing := _missing_of_command(kind, headers):
        raise CorruptError(f"{what}: native log footer of a command: expected {missing}")
    ordered = metadata.get(FOOTER_IS_ORDERED)
    return LogFooter(
        kind,
        instant,
        schema,
        headers,
        None if ordered is None else ordered.lower() == "true",
        versions[0],
    )


def _json(metadata: Mapping[str, str], what: str) -> dict[str, str]:
    """Return the entries of the JSON form, with scalars as strings, as Hudi reads them."""
    text = metadata.get(FOOTER_JSON)
    if text is None:
        return {}
    try:
        found = json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise CorruptError(
            f"{what}: footer {FOOTER_JSON}: expected a JSON object: {error}"
        ) from error
    if not isinstance(found, dict):
        raise CorruptError(
            f"{what}: footer {FOOTER_JSON}: expected a JSON object, found {text[:40]!r}"
        )
    # A form that is present but empty still marks the file as a log.
    named = {_VERSION: str(NATIVE_VERSION)}
    for name, value in found.items():
        if isinstance(value, bool):
            named[name] = "true" if value else "false"
        elif isinstance(value, str):
            named[name] = _check_text(value, name, what)
        elif value is not None and (name == _VERSION or name in HeaderKey.__members__):
            raise CorruptError(f"{what}: footer {FOOTER_JSON}: expected a string for {name}")
    return named


def _entries(metadata: Mapping[str, str]) -> dict[str, str]:
    known = (_VERSION, *HeaderKey.__members__)
    return {
        name: metadata[_ENTRY_PREFIX + name] for name in known if _ENTRY_PREFIX + name in metadata
    }


def _seed(metadata: Mapping[str, str]) -> dict[str, str]:
    found = {key.name: metadata[name] for key, name in _SEED_KEYS.items() if name in metadata}
    if _SEED_VERSION in metadata:
        found[_VERSION] = metadata[_SEED_VERSION]
    elif _SEED_KIND in metadata:
        found[_VERSION] = str(NATIVE_VERSION)
    return found


def _parse_version(text: str | None, what: str) -> int:
    if text is None:
        return NATIVE_VERSION
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise CorruptError(f"{what}: expected a number as log format version, found {text[:40]!r}")
    if int(text) > NATIVE_VERSION:
        raise UnknownFormatError(
            f"{what}: log format version {text}, expected at most {NATIVE_VERSION}"
        )
    return int(text)


def _parse_kind(
    metadata: Mapping[str, str], headers: Mapping[HeaderKey, str], what: str
) -> FooterKind | None:
    word = metadata.get(_SEED_KIND)
    if word is None:
        # If a rollback were read as a data file without rows, it would have no effect.
        return FooterKind.COMMAND if HeaderKey.COMMAND_BLOCK_TYPE in headers else None
    try:
        return FooterKind(word)
    except ValueError:
        wanted = ", ".join(FooterKind)
        raise UnknownFormatError(
            f"{what}: footer {_SEED_KIND}: expected one of {wanted}, found {word[:40]!r}"
        ) from None


def _missing_of_command(kind: FooterKind | None, headers: Mapping[HeaderKey, str]) -> str:
    if kind is not FooterKind.COMMAND:
        return ""
    return _names({key for key in _COMMAND if key not in headers})


def _check_text(text: str, name: str, what: str) -> str:
    """Raise CorruptError for an unpaired surrogate, which JSON allows and UTF-8 does not."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CorruptError(f"{what}: footer {FOOTER_JSON}: {name} is not a string") from error
    return text


def _refuse_constant(word: str) -> str:
    raise ValueError(f"{word} is not JSON")


def _names(keys: frozenset[HeaderKey] | set[HeaderKey]) -> str:
    return " and ".join(key.name for key in sorted(keys))
