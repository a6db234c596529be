"""Turn what obstore raises into our errors."""

import contextlib
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

# A missing object and what a store cannot do come as builtins, bad paths as ValueError.
STORE_FAILURES = (exceptions.BaseError, OSError, NotImplementedError, ValueError)

_KINDS: tuple[tuple[type[Exception], type[LakebedError], str], ...] = (
    (FileNotFoundError, NotFoundError, "no such object"),
    (exceptions.AlreadyExistsError, ExistsError, "exists already"),
    (exceptions.PreconditionError, ChangedError, "changed since it was read"),
    (exceptions.PermissionDeniedError, InvalidError, "no right to do this"),
    (exceptions.UnauthenticatedError, InvalidError, "credentials not accepted"),
    (exceptions.InvalidPathError, InvalidError, "a key that is no path"),
    (exceptions.NotSupportedError, UnsupportedError, "the store cannot do this"),
    (NotImplementedError, UnsupportedError, "the store cannot do this"),
    (ValueError, InvalidError, "refused by the store"),
)


def failure(name: str, error: Exception) -> LakebedError:
    """Return our error for what obstore raised about the object `name`."""
    first_line = str(error).partition("\n")[0]
    for kind, ours, meaning in _KINDS:
        if isinstance(error, kind):
            return ours(f"{name}: {meaning} ({first_line})")
    return UnavailableError(f"{name}: the store did not answer ({first_line})")


@contextlib.contextmanager
def without_panics(what: str) -> Iterator[None]:
    """Raise an error of ours for a panic of the client, which `except Exception` does not catch."""
    try:
        yield
    except BaseException as error:
        # Its class cannot be imported; there is one for each extension that is built with pyo3.
        if type(error).__name__ != "PanicException":
            raise
        first_line = str(error).partition("\n")[0]
        raise UnavailableError(f"{what}: the object store client failed ({first_line})") from error


@contextlib.contextmanager
def translated(name: str) -> Iterator[None]:
    """Raise our errors instead of obstore's."""
    try:
        with without_panics(name):
            yield
    except STORE_FAILURES as error:
        raise failure(name, error) from error
