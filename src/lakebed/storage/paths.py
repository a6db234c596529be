"""Check object paths, and split URLs."""

import re
from typing import NamedTuple

from lakebed.errors import InvalidError

_MAX_PATH_BYTES = 1024  # the longest key that S3, GCS and Azure all accept
_MAX_SEGMENT_BYTES = 255  # the longest file name on Linux

TEMPORARY_PREFIX = ".lakebed-tmp-"
LOCK_NAME = ".lakebed-lock"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):/")


class Location(NamedTuple):
    """The parts of a URL `scheme://authority/path`; the path has no leading or trailing slashes."""

    scheme: str
    authority: str
    path: str


def check_path(path: str) -> str:
    r"""Return `path`; raise InvalidError if it is not a valid path of an object below a root.

    A backslash is an ordinary character. Names of Lakebed's temporary and lock files are rejected
    in every store, so that a table can be moved between stores.

    >>> check_path("dt=2024-01-01/a b.parquet")
    'dt=2024-01-01/a b.parquet'
    """
    fault = _fault(path)
    if fault:
        raise InvalidError(
            f"path {path!r}: expected a relative path below the table, found {fault}"
        )
    return path


def _fault(path: str) -> str | None:
    if path.startswith("/"):
        return "an absolute path"
    if len(path) > _MAX_PATH_BYTES or len(path.encode("utf-8", "replace")) > _MAX_PATH_BYTES:
        return f"more than {_MAX_PATH_BYTES} bytes"
    return next(filter(None, map(_segment_fault, path.split("/"))), None)


def _segment_fault(segment: str) -> str | None:
    if segment in ("", ".", ".."):
        return f"the segment {segment!r}"
    if "\0" in segment:
        return "a NUL character"
    if is_reserved(segment):
        return f"the reserved name {segment!r}"
    try:
        size_bytes = len(segment.encode())
    except UnicodeEncodeError:
        return "a string that is not UTF-8"
    return f"a segment of {size_bytes} bytes" if size_bytes > _MAX_SEGMENT_BYTES else None


def is_reserved(name: str) -> bool:
    """Return whether `name` is reserved for the storage's own files, which listings omit."""
    return name.startswith(TEMPORARY_PREFIX) or name == LOCK_NAME


def join(folder: str, name: str) -> str:
    """Return the path of `name` in `folder`; "" is the root."""
    return f"{folder}/{name}" if folder else name


def parse_location(url: str) -> Location:
    """Split a URL or an absolute local path into its parts.

    Nothing is percent-decoded, because Hadoop writes paths into metadata without encoding them.
    """
    match = _SCHEME.match(url)
    if match is None:
        return Location("file", "", url.strip("/"))
    scheme, rest = match[1].lower(), url[match.end() :]
    if not rest.startswith("/"):  # file:/base/f
        return Location(scheme, "", rest.strip("/"))
    authority, _, path = rest[1:].partition("/")
    return Location(scheme, authority, path.strip("/"))
