"""Checks `hoodie.properties` first: without it a table cannot be opened."""

from lakebed.errors import ChecksumError, CorruptError, LakebedError, NotFoundError
from lakebed.format.files.properties import parse_properties, table_checksum
from lakebed.services.verify.findings import Code, Finding, Mend, Severity
from lakebed.storage.storage import Storage
from lakebed.table.config.properties_file import BACKUP_PATH, PROPERTIES_PATH
from lakebed.table.config.table_config import TableConfig

CHECKSUM = "hoodie.table.checksum"


def check_properties(storage: Storage) -> tuple[TableConfig | None, list[Finding]]:
    """Return the table's config as far as it can be determined, and the problems of the file.

    Raises NotFoundError if there is no table, and UnsupportedError if this release cannot read it.
    """
    backup = _find(storage, BACKUP_PATH)
    main = _find(storage, PROPERTIES_PATH)
    if main is None and backup is None:
        raise NotFoundError(f"{storage.url}: no table here ({PROPERTIES_PATH} is missing)")
    config, error = _parse(storage, PROPERTIES_PATH, main)
    if config is not None:
        findings = [] if backup is None else [_left_backup()]
        if CHECKSUM not in config.properties:
            findings.append(_checksum(Severity.NOTE, f"{PROPERTIES_PATH} has no {CHECKSUM}"))
        return config, findings
    spare, _ = _parse(storage, BACKUP_PATH, backup)
    if spare is not None:
        return spare, [
            Finding(
                Severity.WARNING,
                Code.PROPERTIES_BACKUP,
                f"{error}; readers use its backup",
                path=PROPERTIES_PATH,
                mend=Mend.RESTORE_PROPERTIES,
            )
        ]
    if isinstance(error, ChecksumError) and main is not None:
        repaired = with_checksum(main, PROPERTIES_PATH)
        return TableConfig.parse(repaired, storage.url), [_checksum(Severity.ERROR, str(error))]
    return None, [
        Finding(
            Severity.ERROR,
            Code.PROPERTIES_BAD,
            str(error),
            path=PROPERTIES_PATH,
            advice="restore the file from a backup; the table cannot be read without it",
        )
    ]


def with_checksum(data: bytes, what: str) -> dict[str, str]:
    """Return the properties with the checksum of their database and table names."""
    properties = parse_properties(data, what)
    database = properties.get("hoodie.database.name", "")
    name = properties.get("hoodie.table.name", "").strip()
    return {**properties, CHECKSUM: table_checksum(database, name)}


def _find(storage: Storage, path: str) -> bytes | None:
    try:
        return storage.read(path)
    except NotFoundError:
        return None


def _parse(
    storage: Storage, path: str, data: bytes | None
) -> tuple[TableConfig | None, LakebedError]:
    where = f"{storage.url}: {path}"
    if data is None:
        return None, NotFoundError(f"{where} is missing")
    if not data.endswith((b"\n", b"\r")):
        return None, CorruptError(f"{where}: the last line has no line end: the file was truncated")
    try:
        return TableConfig.parse(parse_properties(data, where), where), CorruptError("")
    except CorruptError as error:
        return None, error


def _left_backup() -> Finding:
    return Finding(
        Severity.NOTE,
        Code.PROPERTIES_BACKUP,
        f"{BACKUP_PATH} is left over from an interrupted change; {PROPERTIES_PATH} is intact",
        path=BACKUP_PATH,
        mend=Mend.DELETE_BACKUP,
    )


def _checksum(severity: Severity, message: str) -> Finding:
    return Finding(
        severity,
        Code.PROPERTIES_CHECKSUM,
        message,
        path=PROPERTIES_PATH,
        mend=Mend.WRITE_CHECKSUM,
        advice="inspect the file first: it was edited" if severity is Severity.ERROR else "",
    )
