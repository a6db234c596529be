"""Where the machine code of the kernels is kept.

numba costs 1.8 s in a fresh process even with a full cache, so kernels are compiled on first
use and only for large inputs; nothing here imports numba before.

The cache is a pickle: whoever can write it runs code as us. It goes, in this order, where
NUMBA_CACHE_DIR says, beside the kernel's source, into a folder of the user that nobody else may
write, or nowhere. A damaged cache is deleted and built again; numba itself would fail for ever.
"""

import contextlib
import glob
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import TypeVar

_Kernel = TypeVar("_Kernel")


def is_numba_imported() -> bool:
    """Return whether this process has paid for numba already, here or elsewhere."""
    return "numba" in sys.modules


class PlainFirst:
    """Keeps the first work of a process in plain Python: importing numba costs as much as `most`."""

    def __init__(self, most: int) -> None:
        self._left = most

    def use_kernel(self, amount: int) -> bool:
        """Return whether so much more work is worth the kernel, and count it if not."""
        if is_numba_imported():
            return True
        self._left -= amount
        return self._left < 0


def load_compiled(source: str, compile_: Callable[[bool], _Kernel]) -> _Kernel:
    """Return what `compile_(cached)` gives, from the cache if it can be used.

    `source` is the `__file__` of the module whose functions are compiled: the cache lies beside
    it and is named after it.
    """
    with _cache_folder(source) as folder:
        if folder is None:
            return compile_(False)
        try:
            return compile_(True)
        except Exception:  # noqa: BLE001 - a damaged pickle raises whatever it likes
            _drop_cache(folder, source)
        try:
            return compile_(True)
        except Exception:  # noqa: BLE001 - a full or unwritable disk: the kernel still works
            return compile_(False)


def private_folder() -> str | None:
    """Return a folder that only this user can write, made if need be; None if there is none."""
    user = os.getuid()
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    for parent, name in ((home, "lakebed"), (tempfile.gettempdir(), f"lakebed-{user}")):
        folder = os.path.join(parent, name)
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            found = os.lstat(folder)
        except OSError:
            continue
        # Another user may have made the folder in /tmp before us, or a link in its place.
        ours = stat.S_ISDIR(found.st_mode) and found.st_uid == user
        if ours and not found.st_mode & 0o022 and _is_writable(folder):
            return folder
    return None


@contextlib.contextmanager
def _cache_folder(source: str) -> Iterator[str | None]:
    """Point numba to a cache folder while it decorates; give the folder, None for no cache."""
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
    """Try it: permission bits say nothing about a read-only mount."""
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def has_cache(source: str) -> bool:
    """Return, without loading numba, whether the kernels of `source` were compiled before."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    folders = [given] if given else [_beside(source), private_folder()]
    return any(_cached_files(folder, source) for folder in folders if folder is not None)


def _beside(source: str) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(source)), "__pycache__")


def _cached_files(folder: str, source: str) -> list[str]:
    # numba puts a user-given folder's files one level down, named after the source's place.
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
