"""moto's S3 server, one request at a time.

moto looks whether an object exists and then stores it, with nothing in between to keep others
out, so of two conditional puts at the same moment both can win. S3 is linearizable: here a lock
makes moto so too.

Below a folder `paged` listings come in pages of three objects, and before the second page of one
is made, all objects below `between-pages/` move to where the rest of their name says.
"""

import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs

from moto.core import DEFAULT_ACCOUNT_ID
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import run_simple

_WAITING = "between-pages/"


def one_at_a_time(app: Callable[..., Iterable[bytes]]) -> Callable[..., list[bytes]]:
    """Return the application behind a lock, its answer made whole within it."""
    lock = threading.Lock()

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        with lock:
            asked = parse_qs(environ["QUERY_STRING"])
            if "/paged/" in f"/{asked.get('prefix', [''])[0]}":
                environ["QUERY_STRING"] += "&max-keys=3"
                if "continuation-token" in asked:
                    publish(environ["PATH_INFO"].strip("/"))
            return list(app(environ, start_response))

    return serve


def publish(bucket: str) -> None:
    """Move what waits for the second page of a listing to its place."""
    backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    for name, key in list(backend.buckets[bucket].keys.items()):
        if name.startswith(_WAITING):
            backend.put_object(bucket, name.removeprefix(_WAITING), key.value)
            backend.delete_object(bucket, name)


if __name__ == "__main__":
    application = DomainDispatcherApplication(create_backend_app)
    run_simple("127.0.0.1", int(sys.argv[1]), one_at_a_time(application), threaded=True)
