"""Every error that Lakebed raises on purpose.

Catch one of the five kinds, which differ in what the caller should do next. The message names the
table, file, key or option, what was expected and what was found.

* LakebedError
  x ConflictError        another writer won; read the timeline again and retry
    + ExistsError        the table or object already exists
    + ChangedError       the object changed since it was read
    + LockedError        another writer holds the lock of the table
      - TakenError       another process is executing this plan
    + UnfinishedError    an interrupted rollback or restore must be completed first
  x UnavailableError     storage did not answer; retry the same call
  x CorruptError         bytes on storage violate the format; stop and investigate
    + FileNameError      a file name that no Hudi writer produces
    + ChecksumError      a checksum does not match
  x UnsupportedError     valid Hudi, but a version or feature that Lakebed does not handle
    + UnknownFormatError the file was written by a newer release, or is damaged
  x InvalidError         an argument, schema, option or row of the caller is invalid
    + NotFoundError      the table or object does not exist
    + OptionError        an option is unknown, or its value is invalid
    + SchemaError        columns or types do not match the table
    + KeyValueError      a record key, partition or ordering value that cannot be stored

DamageWarning is not an error: it lists what a read with `on_damage="skip"` left out.
"""


class LakebedError(Exception):
    """The base class of all errors that Lakebed raises."""


class ConflictError(LakebedError):
    """Another writer won; read the timeline again and retry."""


class ExistsError(ConflictError):
    """The table or object already exists."""


class ChangedError(ConflictError):
    """The object changed since it was read."""


class LockedError(ConflictError):
    """Another writer holds the lock of the table."""


class TakenError(LockedError):
    """Another process is executing this plan; leave it to that process."""


class UnfinishedError(ConflictError):
    """An interrupted rollback or restore must be completed first."""


class UnavailableError(LakebedError):
    """Storage did not answer; retry the same call."""


class CorruptError(LakebedError):
    """Bytes on storage violate the format; stop and investigate."""


class DamageWarning(UserWarning):
    """A read with `on_damage="skip"` left out damaged file slices."""


class FileNameError(CorruptError):
    """A file name that no Hudi writer produces."""


class ChecksumError(CorruptError):
    """A checksum does not match the bytes or names that it covers."""


class UnsupportedError(LakebedError):
    """Valid Hudi, but a version or feature that Lakebed does not handle."""


class UnknownFormatError(UnsupportedError):
    """A version, type or key that no known release writes: the file is newer, or damaged."""

    def __str__(self) -> str:
        return f"{super().__str__()}; a newer release wrote it, or it is damaged"


class InvalidError(LakebedError):
    """An argument, schema, option or row of the caller is invalid."""


class NotFoundError(InvalidError):
    """The table or object does not exist."""


class OptionError(InvalidError):
    """An option is unknown, or its value is invalid."""


class SchemaError(InvalidError):
    """Columns or types do not match the table."""


class KeyValueError(InvalidError):
    """A record key, partition or ordering value that cannot be stored."""


DAMAGE_ERRORS = (CorruptError, NotFoundError, UnknownFormatError)
"""The errors raised for a file slice that is damaged or may be damaged."""
