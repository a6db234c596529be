"""The HTTP server of the page: it answers requests from this machine, or those with the token.

A browser lets any web page send requests to this server. So requests must name a host that the
server was given (a page of another site cannot, even if it makes its own name point here), answers
may not be framed or read by other sites, and only GET and HEAD are answered. A server that other
machines reach also asks for a token, which the printed address contains and a cookie then holds.
"""

import hmac
import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from ipaddress import ip_address
from socket import AF_INET6
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from lakebed.errors import InvalidError, UnavailableError
from lakebed.model.clock import Clock, SystemClock
from lakebed.ui.pages import Page, answer
from lakebed.ui.site import Site

log = logging.getLogger(__name__)

_COOKIE: Final = "lakebed_token"
_STATIC: Final = {"style.css": "text/css", "script.js": "text/javascript"}
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Access:
    """Who may read: requests to one of `hosts`, or to any host if they know the token."""

    hosts: frozenset[str]
    token: str | None = None

    @classmethod
    def on(cls, host: str) -> "Access":
        """Return the access to a server on `host`; only on a loopback address without a token."""
        if is_loopback(host):
            return cls(frozenset({"localhost", "127.0.0.1", "[::1]", host, f"[{host}]"}))
        return cls(frozenset(), secrets.token_urlsafe(24))

    def knows(self, given: str | None) -> bool:
        """Return whether `given` is the token, or no token is needed."""
        return self.token is None or hmac.compare_digest(
            (given or "").encode(), self.token.encode()
        )


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach `host`."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class PageServer(ThreadingHTTPServer):
    """Serves the pages of a site until `shutdown`."""

    daemon_threads = True

    def __init__(self, site: Site, host: str, port: int, clock: Clock | None = None) -> None:
        """Listen on `host` and `port`; 0 takes a free port."""
        self.site = site
        self.clock = clock or SystemClock()
        self.access = Access.on(host)
        if ":" in host:
            self.address_family = AF_INET6
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise UnavailableError(f"cannot listen on {host}:{port}: {error}") from error

    @property
    def url(self) -> str:
        """Return the address to open in a browser, with the token if one is needed."""
        host, port = str(self.server_address[0]), self.server_address[1]
        shown = f"[{host}]" if ":" in host else host
        token = self.access.token
        query = "" if token is None else "?" + urlencode({"token": token})
        return f"http://{shown}:{port}/{query}"


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    server_version = "lakebed"
    sys_version = ""
    timeout = 60

    def do_GET(self) -> None:
        """Answer a read."""
        split = urlsplit(self.path)
        access = self.server.access
        if access.token is None and _host(self.headers.get("Host")) not in access.hosts:
            self._send(Page(403, "This server answers requests to this machine only."))
            return
        query = dict(parse_qsl(split.query, keep_blank_values=True))
        if access.token is not None and "token" in query:
            self._take_token(query, split.path)
            return
        if not access.knows(_cookies(self.headers.get("Cookie")).get(_COOKIE)):
            self._send(Page(403, "Open the address that the server printed: it has a token."))
            return
        name = split.path.removeprefix("/static/")
        if split.path.startswith("/static/") and name in _STATIC:
            body = (files("lakebed.ui") / "static" / name).read_bytes()
            self._send_bytes(200, body, _STATIC[name])
            return
        self._send(self._answered())

    do_HEAD = do_GET  # noqa: N815 - the base class names it

    def _answered(self) -> Page:
        try:
            return answer(self.server.site, self.server.clock, self.path)
        except Exception:
            # The trace may hold paths and values that the page must not show.
            log.exception("cannot answer %s", urlsplit(self.path).path)
            return Page(500, "The server failed to make this page; its log has the reason.")

    def _take_token(self, query: Mapping[str, str], path: str) -> None:
        """Move a valid token from the address to a cookie."""
        token = query["token"]
        if not self.server.access.knows(token):
            self._send(
                Page(403, "This token is not valid. Open the address that the server printed.")
            )
            return
        rest = urlencode({key: value for key, value in query.items() if key != "token"})
        cookie = f"{_COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/"
        location = "/" + path.lstrip("/") + (f"?{rest}" if rest else "")
        self._send(Page(302, location=location), {"Set-Cookie": cookie})

    def _send(self, page: Page, headers: Mapping[str, str] | None = None) -> None:
        more = dict(headers or {})
        if page.location is not None:
            more["Location"] = page.location
        self._send_bytes(page.status, page.body.encode(), "text/html", more)

    def _send_bytes(
        self, status: int, body: bytes, kind: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        given = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body))}
        for name, value in {**_HEADERS, **given, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log requests for debugging only, without their parameters."""
        log.debug("%s %s", self.command, urlsplit(self.path).path)


def _host(header: str | None) -> str:
    """Return the host of a Host header, without its port."""
    name = (header or "").strip().lower()
    if name.startswith("["):
        return name.partition("]")[0] + "]"
    return name.partition(":")[0]


def _cookies(header: str | None) -> dict[str, str]:
    try:
        held = SimpleCookie(header or "")
    except CookieError:
        return {}
    return {name: morsel.value for name, morsel in held.items()}


def checked_port(port: int) -> int:
    """Return a port; raise InvalidError if it is not one."""
    if not 0 <= port <= 65_535:
        raise InvalidError(f"--port {port}: expected a number from 0 to 65,535")
    return port
