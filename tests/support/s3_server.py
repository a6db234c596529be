"""moto's S3 server, one request at a time.

moto looks whether an object exists and then stores it, with nothing in between to keep others
out, so of two conditional puts at the same moment both can win. S3 is linearizable: here a lock
makes moto so too.
"""

import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple


def one_at_a_time(app: Callable[..., Iterable[bytes]]) -> Callable[..., list[bytes]]:
    """Give the application behind a lock, its answer made whole within it."""
    lock = threading.Lock()

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        with lock:
            return list(app(environ, start_response))

    return serve


if __name__ == "__main__":
    application = DomainDispatcherApplication(create_backend_app)
    run_simple("127.0.0.1", int(sys.argv[1]), one_at_a_time(application), threaded=True)
