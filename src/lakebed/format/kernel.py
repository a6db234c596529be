"""The compiled hash of many texts, and where its machine code is kept.

numba costs 1.8 s in a fresh process even with a full cache, so it is imported on first use
and only for large inputs (`bucket.KERNEL_MIN_BYTES`).

The cache is a pickle: whoever can write it runs code as us. It goes, in this order, where
NUMBA_CACHE_DIR says, beside this file, into a folder of the user that nobody else may write,
or nowhere. A damaged cache is deleted and built again; numba itself would fail for ever.
"""

import contextlib
import glob
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import numpy.typing as npt

Fold = Callable[[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int32]], None]


def is_numba_imported() -> bool:
    """Tell whether this process has paid for numba already, here or elsewhere."""
    return "numba" in sys.modules


@cache
def load_fold() -> Fold:
    """Compile the kernel, or load it from the cache; once per process.

    The result takes UTF-8 bytes, len + 1 offsets into them, and one hash per text; it sets each
    hash to `31 * hash + Java's String.hashCode(text)` in 32 bits. The offsets must rise and stay
    inside the bytes: nothing checks them.
    """
    with _cache_folder() as folder:
        if folder is None:
            return _compile(cached=False)
        try:
            return _compile(cached=True)
        except Exception:  # noqa: BLE001 - a damaged pickle raises whatever it likes
            _drop_cache(folder)
        try:
            return _compile(cached=True)
        except Exception:  # noqa: BLE001 - a full or unwritable disk: the kernel still works
            return _compile(cached=False)


def _compile(*, cached: bool) -> Fold:
    import numba as nb  # noqa: PLC0415 - see the module's docstring

    data = nb.types.Array(nb.uint8, 1, "C", readonly=True)
    offsets = nb.types.Array(nb.int64, 1, "C", readonly=True)
    kernel = nb.njit(nb.void(data, offsets, nb.int32[::1]), cache=cached, nogil=True)(_fold)
    fold: Fold = kernel
    return fold


def _fold(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], hashes: npt.NDArray[np.int32]
) -> None:
    """Decode UTF-8 into UTF-16 units on the way; 64 bit wrap-around agrees in the low 32 bits."""
    for row in range(hashes.shape[0]):
        at = offsets[row]
        end = offsets[row + 1]
        value = np.int64(0)
        while at < end:
            lead = np.int64(data[at])
            if lead < 0x80:
                value = value * 31 + lead
                at += 1
                continue
            size = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            if at + size > end:
                break  # not UTF-8: stop inside the text rather than read the next one
            code = lead & (0xFF >> (size + 1))
            for step in range(1, size):
                code = (code << 6) | (np.int64(data[at + step]) & 0x3F)
            if size == 4:
                code -= 0x10000
                value = value * 31 + (0xD800 + (code >> 10))
                code = 0xDC00 + (code & 0x3FF)
            value = value * 31 + code
            at += size
        total = (np.int64(hashes[row]) * 31 + value) & 0xFFFFFFFF
        hashes[row] = np.int32(total - 0x100000000 if total >= 0x80000000 else total)


@contextlib.contextmanager
def _cache_folder() -> Iterator[str | None]:
    """Point numba to a cache folder while it decorates; give the folder, None for no cache."""
    import numba as nb  # noqa: PLC0415 - see the module's docstring

    given: str = nb.config.CACHE_DIR
    if given:
        yield given
        return
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__pycache__")
    folder = beside if _is_writable(beside) else private_folder()
    nb.config.CACHE_DIR = folder or ""
    try:
        yield folder
    finally:
        nb.config.CACHE_DIR = given


def private_folder() -> str | None:
    """Give a folder that only this user can write, made if need be; None if there is none."""
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


def _is_writable(folder: str) -> bool:
    """Try it: permission bits say nothing about a read-only mount."""
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _drop_cache(folder: str) -> None:
    # numba puts a user-given folder's files one level down, named after the source's place.
    for ending in ("nbi", "nbc"):
        pattern = os.path.join(glob.escape(folder), "**", f"kernel._fold-*.{ending}")
        for path in glob.glob(pattern, recursive=True):
            with contextlib.suppress(OSError):
                os.remove(path)
