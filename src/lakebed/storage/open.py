"""Open the storage at a URL."""

import os
import threading
from collections.abc import Mapping
from datetime import timedelta

from obstore import exceptions
from obstore.store import MemoryStore, from_url

from lakebed.errors import InvalidError, OptionError
from lakebed.storage.failures import without_panics
from lakebed.storage.local import LocalStorage
from lakebed.storage.object_streams import ObjectStore
from lakebed.storage.objects import ObjectStorage
from lakebed.storage.options import client_environment, split_options
from lakebed.storage.paths import check_path, parse_location
from lakebed.storage.storage import Storage

_CLOUD_SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss")
# With these, a refused connection fails after a second, and an outage after half a minute.
_RETRIES = {
    "max_retries": 4,
    "retry_timeout": timedelta(seconds=30),
    "backoff": {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=2),
        "base": 2,
    },
}
_TIMEOUTS = {"connect_timeout": "5s", "timeout": "60s"}

_memories: dict[str, MemoryStore] = {}
_memories_lock = threading.Lock()


def open_storage(url: str, options: Mapping[str, str] | None = None) -> Storage:
    """Open the storage of the table at `url`, without reading or creating anything.

    A plain path or `file:` URL is a folder; a relative path is made absolute, but nothing is
    expanded or percent-decoded. `memory://name` is an in-memory store, shared within the process.
    `s3`, `s3a`, `gs`, `az`, `abfs` and `abfss` are object stores; `options` have obstore's names
    (`endpoint`, `region`, `access_key_id`, ...; `allow_http`, `timeout`, ... for its HTTP client).
    Without options, credentials come from the environment or the machine's role.
    """
    if not url or "\0" in url:
        raise InvalidError(f"table path {url!r}: expected a path or a URL")
    scheme, authority, path = parse_location(url)
    options = options or {}
    if scheme == "file":
        return _open_folder(url, authority, path, options)
    if path:
        check_path(path)
    if scheme != "memory" and scheme not in _CLOUD_SCHEMES:
        known = ", ".join(("a plain path", "file", "memory", *_CLOUD_SCHEMES))
        raise InvalidError(f"table path {url!r}: scheme {scheme!r} is not one of {known}")
    if not authority:
        raise InvalidError(f"table path {url!r}: expected {scheme}://name/path, found no name")
    root = f"{scheme}://{authority}"
    store = (
        _memory(url, authority, options) if scheme == "memory" else _cloud(root, scheme, options)
    )
    return ObjectStorage(store, f"{root}/{path}" if path else root, path)


def _open_folder(url: str, authority: str, path: str, options: Mapping[str, str]) -> LocalStorage:
    _refuse_options(url, options)
    if authority not in ("", "localhost"):
        raise InvalidError(f"table path {url!r}: {authority!r} is not this machine")
    is_plain = not url.lower().startswith("file:/")
    return LocalStorage(os.path.abspath(url) if is_plain else f"/{path}")


def _memory(url: str, name: str, options: Mapping[str, str]) -> MemoryStore:
    _refuse_options(url, options)
    with _memories_lock:
        return _memories.setdefault(name, MemoryStore())


def _refuse_options(url: str, options: Mapping[str, str]) -> None:
    if options:
        raise OptionError(f"storage options {sorted(options)}: {url} accepts none")


def _cloud(root: str, scheme: str, options: Mapping[str, str]) -> ObjectStore:
    config, client = split_options(root, scheme, options)
    client_options = _TIMEOUTS | client_environment(scheme) | client
    try:
        with without_panics(f"storage options {sorted(options)} for {root}"):
            return from_url(
                root, config=config, client_options=client_options, retry_config=_RETRIES
            )
    except (exceptions.BaseError, ValueError, TypeError) as error:
        first_line = str(error).partition("\n")[0]
        raise OptionError(f"storage options {sorted(options)} for {root}: {first_line}") from error
