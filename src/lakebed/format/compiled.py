"""The compiled kernels and the cache of their machine code on disk.

Importing numba takes 1.8 s in a fresh process even if the cache is full, so kernels are loaded on
first use, and only for large inputs.

The cache is a pickle: anyone who can write it can run code as this user. Its folder is, in this
order, NUMBA_CACHE_DIR, the folder of the kernel's source, or a folder of the user that other users
cannot write; if there is none, nothing is cached. A damaged cache is deleted and rebuilt, because
numba itself would fail every time.
"""

import contextlib
import glob
import os
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TypeVar

_Kernel = TypeVar("_Kernel")
_COMPILING = threading.Lock()


# The choice made by `kernels`; None lets the amount of work decide.
_asked: ContextVar[bool | None] = ContextVar("asked", default=None)


@contextlib.contextmanager
def kernels(use: bool) -> Iterator[None]:
    """Use the kernels, or their plain twins, for all work of this thread in the context."""
    before = _asked.set(use)
    try:
        yield
    finally:
        _asked.reset(before)


def is_numba_imported() -> bool:
    """Return whether numba has been imported in this process."""
    return "numba" in sys.modules


def is_worth_kernel(size: int, cold: int, warm: int) -> bool:
    """Return whether to use a kernel for an input of `size`.

    The threshold is `warm` if numba is imported, otherwise `cold`.
    """
    asked = _asked.get()
    return size >= (warm if is_numba_imported() else cold) if asked is None else asked


class PlainFirst:
    """Selects plain Python for the first `most` units of work, while importing numba costs more."""

    def __init__(self, most: int) -> None:
        self._left = most

    def use_kernel(self, amount: int) -> bool:
        """Return whether to use the kernel for the next `amount` of work; if not, count it."""
        asked = _asked.get()
        if asked is not None:
            return asked
        if is_numba_imported():
            return True
        self._left -= amount
        return self._left < 0


def load_compiled(source: str, compile_: Callable[[bool], _Kernel]) -> _Kernel:
    """Return the result of `compile_(cached)`, using the cache if possible.

    `source` is the `__file__` of the module with the functions to compile. numba caches them next
    to it, under its name.
    """
    # numba's cache folder is a global setting.
    with _COMPILING, _cache_folder(source) as folder:
        if folder is None:
            return compile_(False)
        try:
            return compile_(True)
        except Exception:  # noqa: BLE001 - a damaged pickle can raise anything
            _drop_cache(folder, source)
        try:
            return compile_(True)
        except Exception:  # noqa: BLE001 - a full or unwritable disk: the kernel still works
            return compile_(False)


def private_folder() -> str | None:
    """Return a folder that only this user can write, created if necessary, or None."""
    user = os.getuid()
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    for parent, name in ((home, "lakebed"), (tempfile.gettempdir(), f"lakebed-{user}")):
        folder = os.path.join(parent, name)
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            found = os.lstat(folder)
        except OSError:
            continue
        # In /tmp, another user may have created the folder, or a link in its place.
        ours = stat.S_ISDIR(found.st_mode) and found.st_uid == user
        if ours and not found.st_mode & 0o022 and _is_writable(folder):
            return folder
    return None


@contextlib.contextmanager
def _cache_folder(source: str) -> Iterator[str | None]:
    """Set numba's cache folder in the context and yield it; yield None if there is no cache."""
    import numba as nb  # noqa: PLC0415 - see the module's docstring

    given: str = nb.config.CACHE_DIR
    if given:
        yield given
        return
    beside = _beside(source)
    folder = beside if _is_writable(beside) else private_folder()
    nb.config.CACHE_DIR = folder or ""
    try:
        yield folder
    finally:
        nb.config.CACHE_DIR = given


def _is_writable(folder: str) -> bool:
    """Return whether a file can be created: permission bits do not show read-only mounts."""
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def has_cache(source: str) -> bool:
    """Return whether the kernels of `source` are in the cache, without importing numba."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    folders = [given] if given else [_beside(source), private_folder()]
    return any(_cached_files(folder, source) for folder in folders if folder is not None)


def _beside(source: str) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(source)), "__pycache__")


def _cached_files(folder: str, source: str) -> list[str]:
    # In a folder set by the user, numba creates a subfolder named after the path of the source.
    module = os.path.splitext(os.path.basename(source))[0]
    return [
        path
        for ending in ("nbi", "nbc")
        for path in glob.glob(
            os.path.join(glob.escape(folder), "**", f"{glob.escape(module)}.*-*.{ending}"),
            recursive=True,
        )
    ]


def _drop_cache(folder: str, source: str) -> None:
    for path in _cached_files(folder, source):
        with contextlib.suppress(OSError):
            os.remove(path)
