"""Names of data files: base files, inline log files and native log files.

    base    <file_id>_<token>_<instant>[_<group>].<extension>
    inline  .<file_id>_<instant>[_<group>].log.<version>[_<token>[.cdc]]
    native  <file_id>_<token>_<instant>[_<group>]_<version>.<kind>.<extension>

    file_id    no `_`, `.` or `/`            token      <partition>-<stage>-<attempt>
    instant    14 to 20 digits               version    decimal, no leading zero
    group      a column group: no `_`, `.` or `/`, and not digits only (unlike a version)
    kind       log | deletes | cdc           extension  lower-case letters and digits

The forms do not overlap: an inline name begins with a dot, a native name contains two dots and a
base name one. Agrees with Hudi's FileNameParser and FSUtils.LOG_FILE_PATTERN. The column group is
that of RFC-80, which no released version of Hudi implements.

A base file that holds the columns of all column groups has no group in its name, and a write token
whose partition begins with an additional zero: `00-61-78`. To Hudi it is a name like any other.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from lakebed.errors import FileNameError, InvalidError

_WORD_SHAPE: Final = r"[^._/\x00-\x1f]+"
_TOKEN_SHAPE: Final = "-".join(["[0-9]+"] * 3)
_INSTANT_SHAPE: Final = r"[0-9]{14,20}"
_GROUP_SHAPE: Final = r"(?![0-9]+(?:[._]|$))[^._/\x00-\x1f]+"
_VERSION_SHAPE: Final = r"0|[1-9][0-9]{0,8}"
_EXTENSION_SHAPE: Final = r"[a-z0-9]+"

BASE_EXTENSIONS: Final = frozenset({"parquet", "orc", "hfile", "lance"})
"""The extensions of base files; Hudi ignores files with other extensions."""


class LogKind(StrEnum):
    """The content of a native log file. Stored on disk: do not change the values."""

    LOG = "log"
    DELETES = "deletes"
    CDC = "cdc"


TOMBSTONE_VERSION: Final = 0
"""The version of a log that stores deletes beside a base file, in `lsm_tree` tables.

All other logs, including Hudi's, have versions from 1 on, so this log is replayed first among those
of its instant.
"""

_KIND_ORDER: Final = {LogKind.LOG: 0, LogKind.DELETES: 1, LogKind.CDC: 2}


@dataclass(frozen=True, slots=True)
class BaseFileName:
    """Name of a base file: `<file_id>_<token>_<instant>[_<group>].<extension>`.

    >>> BaseFileName.parse("f1-0_2-61-78_20261115060917636.parquet").instant
    '20261115060917636'
    """

    file_id: str
    write_token: str
    instant: str
    extension: str = "parquet"
    column_group: str = ""

    def __post_init__(self) -> None:
        _check_parts(self, self.file_id, self.write_token, self.instant, self.column_group)
        if self.extension not in BASE_EXTENSIONS:
            raise InvalidError(f"{self}: expected an extension of {sorted(BASE_EXTENSIONS)}")

    @classmethod
    def parse(cls, name: str) -> Self:
        """Parse `name`, or raise FileNameError with the expected form."""
        match = _BASE.fullmatch(name)
        if match is None:
            raise FileNameError(
                f"base file {name!r}: expected <file_id>_<write_token>_<instant>[_<group>].<extension>"
                f" with an extension of {sorted(BASE_EXTENSIONS)}"
            )
        return cls(match["id"], match["token"], match["instant"], match["ext"], _group(match))

    def encode(self) -> str:
        """Return the name as a string."""
        group = f"_{self.column_group}" if self.column_group else ""
        return f"{self.file_id}_{self.write_token}_{self.instant}{group}.{self.extension}"

    @property
    def is_wide(self) -> bool:
        """Return whether the file holds the columns of all column groups, if the table has any."""
        return self.write_token[0] == "0" and self.write_token[1] != "-" and not self.column_group


@dataclass(frozen=True, slots=True)
class InlineLogName:
    """Name of a log of blocks: `.<file_id>_<instant>[_<group>].log.<version>[_<token>[.cdc]]`.

    `write_token` is empty if the name has no token, as in tables from before Hudi 0.5.

    >>> InlineLogName.parse(".f1-0_20261115060920861.log.1_0-75-102").version
    1
    """

    file_id: str
    instant: str
    version: int
    write_token: str
    cdc: bool = False
    column_group: str = ""

    def __post_init__(self) -> None:
        _check_parts(
            self, self.file_id, self.write_token or "0-0-0", self.instant, self.column_group
        )
        _check_version(self, self.version)
        if self.cdc and not self.write_token:
            raise InvalidError(f"{self}: expected a write token in a .cdc name")

    @classmethod
    def parse(cls, name: str) -> Self:
        """Parse `name`, or raise FileNameError with the expected form."""
        match = _INLINE.fullmatch(name)
        if match is None:
            raise FileNameError(
                f"inline log {name!r}: expected .<file_id>_<instant>[_<group>].log.<version>"
                "_<write_token>[.cdc]"
            )
        return cls(
            match["id"],
            match["instant"],
            int(match["version"]),
            match["token"] or "",
            match["cdc"] is not None,
            _group(match),
        )

    def encode(self) -> str:
        """Return the name as a string."""
        group = f"_{self.column_group}" if self.column_group else ""
        token = f"_{self.write_token}" if self.write_token else ""
        cdc = ".cdc" if self.cdc else ""
        return f".{self.file_id}_{self.instant}{group}.log.{self.version}{token}{cdc}"


@dataclass(frozen=True, slots=True)
class NativeLogName:
    """Name of a native log file: `<file_id>_<token>_<instant>[_<group>]_<version>.<kind>.<ext>`.

    Any extension is accepted: to Hudi, the name makes the file a log, so one that cannot be read
    must be rejected when it is opened, instead of being ignored here.

    >>> NativeLogName.parse("f1-0_0-1-2_20261115060920861_1.deletes.parquet").kind
    <LogKind.DELETES: 'deletes'>
    """

    file_id: str
    write_token: str
    instant: str
    version: int
    kind: LogKind
    extension: str = "parquet"
    column_group: str = ""

    def __post_init__(self) -> None:
        _check_parts(self, self.file_id, self.write_token, self.instant, self.column_group)
        _check_version(self, self.version)
        if self.kind not in _KIND_ORDER or not re.fullmatch(_EXTENSION_SHAPE, self.extension):
            raise InvalidError(f"{self}: expected a kind of {list(LogKind)} and a plain extension")
        object.__setattr__(self, "kind", LogKind(self.kind))

    @classmethod
    def parse(cls, name: str) -> Self:
        """Parse `name`, or raise FileNameError with the expected form."""
        match = _NATIVE.fullmatch(name)
        if match is None:
            raise FileNameError(
                f"native log {name!r}: expected <file_id>_<write_token>_<instant>[_<group>]_<version>"
                ".<log|deletes|cdc>.<extension>"
            )
        return cls(
            match["id"],
            match["token"],
            match["instant"],
            int(match["version"]),
            LogKind(match["kind"]),
            match["ext"],
            _group(match),
        )

    def encode(self) -> str:
        """Return the name as a string."""
        group = f"_{self.column_group}" if self.column_group else ""
        stem = f"{self.file_id}_{self.write_token}_{self.instant}{group}_{self.version}"
        return f"{stem}.{self.kind}.{self.extension}"


LogName = InlineLogName | NativeLogName
DataName = BaseFileName | InlineLogName | NativeLogName


def wide_token(write_token: str) -> str:
    """Return the write token of a base file with the columns of all column groups.

    >>> BaseFileName("f1-0", wide_token("2-61-78"), "20261115060917636").is_wide
    True
    """
    return f"0{write_token}"


def parse_data_name(name: str) -> DataName | None:
    """Parse the name of a data file; return None for any other file in a partition folder.

    Other files are partition metadata, `.crc` sidecars, temporary files, and files with names that
    Hudi does not recognize.
    """
    if _NATIVE.fullmatch(name):
        return NativeLogName.parse(name)
    if _INLINE.fullmatch(name):
        return InlineLogName.parse(name)
    if _BASE.fullmatch(name):
        return BaseFileName.parse(name)
    return None


def replay_key(name: LogName) -> tuple[str, int, str, int]:
    """Return the sort key of the log files of a file slice: instant, version, token, kind.

    Deletes come after the data of the same write. Agrees with Hudi's LogFileComparator, which uses
    the requested instant, not the completion time.
    """
    if isinstance(name, NativeLogName):
        return name.instant, name.version, name.write_token, _KIND_ORDER[name.kind]
    kind = LogKind.CDC if name.cdc else LogKind.LOG
    return name.instant, name.version, name.write_token, _KIND_ORDER[kind]


_BASE: Final = re.compile(
    rf"(?P<id>{_WORD_SHAPE})_(?P<token>{_TOKEN_SHAPE})_(?P<instant>{_INSTANT_SHAPE})(?:_(?P<group>{_GROUP_SHAPE}))?"
    rf"\.(?P<ext>{'|'.join(sorted(BASE_EXTENSIONS))})"
)
_INLINE: Final = re.compile(
    rf"\.(?P<id>{_WORD_SHAPE})_(?P<instant>{_INSTANT_SHAPE})(?:_(?P<group>{_GROUP_SHAPE}))?"
    rf"\.log\.(?P<version>{_VERSION_SHAPE})(?:_(?P<token>{_TOKEN_SHAPE})(?P<cdc>\.cdc)?)?"
)
_NATIVE: Final = re.compile(
    rf"(?P<id>{_WORD_SHAPE})_(?P<token>{_TOKEN_SHAPE})_(?P<instant>{_INSTANT_SHAPE})(?:_(?P<group>{_GROUP_SHAPE}))?"
    rf"_(?P<version>{_VERSION_SHAPE})\.(?P<kind>log|deletes|cdc)\.(?P<ext>{_EXTENSION_SHAPE})"
)


def _group(match: re.Match[str]) -> str:
    return match["group"] or ""


def _check_parts(name: DataName, file_id: str, token: str, instant: str, group: str) -> None:
    """Raise InvalidError if parsing the encoded name would return other parts."""
    if not re.fullmatch(_WORD_SHAPE, file_id):
        raise InvalidError(f"{name}: expected a file id without '_', '.' or '/'")
    if not re.fullmatch(_TOKEN_SHAPE, token):
        raise InvalidError(f"{name}: expected a write token <partition>-<stage>-<attempt>")
    if not re.fullmatch(_INSTANT_SHAPE, instant):
        raise InvalidError(f"{name}: expected an instant of 14 to 20 digits")
    if group and not re.fullmatch(_GROUP_SHAPE, group):
        raise InvalidError(
            f"{name}: expected a column group without '_', '.' or '/', and not digits only"
        )


def _check_version(name: LogName, version: int) -> None:
    if not 0 <= version < 10**9:
        raise InvalidError(f"{name}: expected a log version of 0 to 999999999")
