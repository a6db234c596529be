"""Packages that are installed by an extra of this one."""

from importlib import import_module
from types import ModuleType

from lakebed.errors import UnsupportedError


def load_extra(package: str, at_least: str, extra: str | None, needer: str) -> ModuleType:
    """Import a package; raise UnsupportedError if it is missing, or older than `at_least`.

    Without an `extra`, the package is installed by itself.
    """
    try:
        module = import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise missing_extra(needer, package, extra) from error
    found = str(getattr(module, "__version__", "0"))
    if _number(found) < _number(at_least):
        raise UnsupportedError(
            f"{needer} needs {package} {at_least} or later, found {found}: "
            f"{_install(package, extra)}"
        )
    return module


def missing_extra(needer: str, package: str, extra: str | None) -> UnsupportedError:
    """Return the error for a package that is not installed."""
    return UnsupportedError(
        f"{needer} needs {package}, which is not installed: {_install(package, extra)}"
    )


def _install(package: str, extra: str | None) -> str:
    return f"pip install {package}" if extra is None else f"pip install 'lakebed[{extra}]'"


def _number(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version.

    >>> _number("1.44.0rc1")
    (1, 44)
    """
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
