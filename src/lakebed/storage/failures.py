"""Translate obstore's exceptions to Lakebed's errors."""

import contextlib
import re
from collections.abc import Iterator

from obstore import exceptions

from lakebed.errors import (
    ChangedError,
    ExistsError,
    InvalidError,
    LakebedError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)

# obstore raises builtin exceptions for missing objects and unsupported operations, and ValueError
# for invalid paths.
STORE_FAILURES = (exceptions.BaseError, OSError, NotImplementedError, ValueError)

_KINDS: tuple[tuple[type[Exception], type[LakebedError], str], ...] = (
    (FileNotFoundError, NotFoundError, "no such object"),
    (exceptions.AlreadyExistsError, ExistsError, "exists already"),
    (exceptions.PreconditionError, ChangedError, "changed since it was read"),
    (exceptions.PermissionDeniedError, InvalidError, "permission denied"),
    (exceptions.UnauthenticatedError, InvalidError, "credentials not accepted"),
    (exceptions.InvalidPathError, InvalidError, "an invalid key"),
    (exceptions.NotSupportedError, UnsupportedError, "not supported by the store"),
    (NotImplementedError, UnsupportedError, "not supported by the store"),
    (ValueError, InvalidError, "rejected by the store"),
)


# The user and password of a URL, and what signs it.
_SECRETS = re.compile(
    r"(?<=//)[^/\s@]*:[^/\s@]*(?=@)|(?<=[?&])(?:sig|[^=&\s]*(?:signature|credential|token))=[^&\s)]*",
    re.IGNORECASE,
)


def first_line(error: BaseException) -> str:
    """Return the first line of an error of the store's client, without the secrets of its URLs."""
    return _SECRETS.sub("***", str(error).partition("\n")[0])


def failure(name: str, error: Exception) -> LakebedError:
    """Return Lakebed's error for an exception of obstore about the object `name`."""
    text = first_line(error)
    for kind, ours, meaning in _KINDS:
        if isinstance(error, kind):
            return ours(f"{name}: {meaning} ({text})")
    return UnavailableError(f"{name}: the store did not answer ({text})")


@contextlib.contextmanager
def without_panics(what: str) -> Iterator[None]:
    """Convert a panic of the client, which `except Exception` would not catch, to an error."""
    try:
        yield
    except BaseException as error:
        # The exception class cannot be imported, because each pyo3 extension has its own.
        if type(error).__name__ != "PanicException":
            raise
        raise UnavailableError(
            f"{what}: the object store client failed ({first_line(error)})"
        ) from error


@contextlib.contextmanager
def translated(name: str) -> Iterator[None]:
    """Raise Lakebed's errors in place of obstore's."""
    try:
        with without_panics(name):
            yield
    except STORE_FAILURES as error:
        raise failure(name, error) from error
