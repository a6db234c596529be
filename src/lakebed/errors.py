"""Every error that Lakebed raises on purpose.

Branch on the five kinds: each says what the caller can do. The message says the
rest: which thing, what was wanted, what was found.

* LakebedError
  x ConflictError        another writer won; read the timeline again and retry
    + ExistsError        the object is there already
    + ChangedError       the object is not the version that was read
    + LockedError        another writer holds the table
      - TakenError       another process is carrying this plan out
    + UnfinishedError    a rollback or restore of a dead process must be finished first
  x UnavailableError     storage did not answer; retry the same call
  x CorruptError         bytes on storage break the format; stop and look
    + FileNameError      a name that no Hudi writer makes
    + ChecksumError      a checksum that does not fit
  x UnsupportedError     valid Hudi, but a version or feature we do not handle
    + UnknownFormatError a newer release wrote the file, or it is damaged: the bytes cannot tell
  x InvalidError         the caller's argument, schema, data or option is wrong
    + NotFoundError      the table or object does not exist
    + OptionError        an option that we do not know, or a value that it cannot take
    + SchemaError        columns or types that do not fit the table
    + KeyValueError      a record key, partition or ordering value that no table can hold

A DamageWarning, which is no error, says what a read left out because its caller asked for that.
"""


class LakebedError(Exception):
    """The root of all errors of this package."""


class ConflictError(LakebedError):
    """Another writer won; read the timeline again and retry."""


class ExistsError(ConflictError):
    """The object is there already."""


class ChangedError(ConflictError):
    """The object is not the version that was read."""


class LockedError(ConflictError):
    """Another writer holds the table."""


class TakenError(LockedError):
    """Another process is carrying this plan out; leave it to that one."""


class UnfinishedError(ConflictError):
    """A rollback or restore is half done; it must be finished first."""


class UnavailableError(LakebedError):
    """Storage did not answer; retry the same call."""


class CorruptError(LakebedError):
    """Bytes on storage break the format; stop and look."""


class DamageWarning(UserWarning):
    """A read left out file slices that are damaged, as its caller asked."""


class FileNameError(CorruptError):
    """A file name that no Hudi writer makes."""


class ChecksumError(CorruptError):
    """A checksum that does not fit the bytes or names it covers."""


class UnsupportedError(LakebedError):
    """Valid Hudi, but a version or feature that we do not handle."""


class UnknownFormatError(UnsupportedError):
    """A version, type or key that no release we know writes: a newer one, or damage."""

    def __str__(self) -> str:
        return f"{super().__str__()}; a newer release wrote it, or it is damaged"


class InvalidError(LakebedError):
    """The caller's argument, schema, data or option is wrong."""


class NotFoundError(InvalidError):
    """The table or object does not exist."""


class OptionError(InvalidError):
    """An option that we do not know, or a value that it cannot take."""


class SchemaError(InvalidError):
    """Columns or types that do not fit the table."""


class KeyValueError(InvalidError):
    """A record key, partition or ordering value that no table can hold."""


DAMAGE_ERRORS = (CorruptError, NotFoundError, UnknownFormatError)
"""What a file slice raises that is damaged, or may be: who is asked to leaves it out, or ends it."""
