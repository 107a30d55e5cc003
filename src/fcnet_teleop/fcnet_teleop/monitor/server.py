"""Serves the monitor's page and its pictures, and takes what it asks for."""

from __future__ import annotations

import ipaddress
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fcnet_teleop.monitor.driver import Order, parse_order
from fcnet_teleop.remote import Request

# Decides whether a request may come in: a page of somebody else, open in the same browser, shall not move a robot.

def reason_to_refuse(headers: Message) -> str:
    """One sentence why a request with these headers is refused; empty where it is not.

    Host must be an address, localhost or this computer's name: a foreign name that was made to lead here (DNS
    rebinding) is none of them. Origin, which browsers send with whatever could do something, must be that of our page.
    A program that is no browser sends none.
    """
    host = headers.get("Host", "")
    if not _is_ours(host):
        return f"this monitor is not {host!r}; open it by its address, or as localhost"
    origin = headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != host:
        return f"a page of {origin} asked; only the monitor's own page may"
    if headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
        return "a page of another site asked; only the monitor's own page may"
    return ""


def is_loopback(host: str) -> bool:
    """Whether only programs on this computer can reach a server at `host`."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_ours(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    ours = socket.gethostname().lower()
    if name in ("localhost", ours, f"{ours}.local"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


# Hands pictures and news to every page that watches.

Events = dict[str, bytes]  # by kind


class MonitorFeed:
    """Events by their kind. Of each kind a watcher gets the newest: one that is slow misses pictures, but none is late.

    Kinds that are `lasting` are told to whoever comes later, too.
    """

    def __init__(self, most: int = 16) -> None:
        self._condition = threading.Condition()
        self._watchers: list[Events] = []
        self._lasting: Events = {}
        self._most = most
        self._closed = False

    @property
    def watchers(self) -> int:
        """How many watch now."""
        return len(self._watchers)

    def tell(self, kind: str, content: bytes, lasting: bool = False) -> None:
        """Give an event to everybody who watches."""
        with self._condition:
            if lasting:
                self._lasting[kind] = content
            for watcher in self._watchers:
                watcher[kind] = content
            self._condition.notify_all()

    def close(self) -> None:
        """End every watch."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    @contextmanager
    def watch(self, patience: float) -> Iterator[Iterator[Events]]:
        """Iterate over what is new, by kind; over nothing when `patience` seconds went by without news.

        Raises FeedError where there are too many watchers.
        """
        with self._condition:
            if len(self._watchers) >= self._most:
                raise FeedError(f"{self._most} pages watch already; close one")
            watcher = dict(self._lasting)
            self._watchers.append(watcher)
        try:
            yield self._news(watcher, patience)
        finally:
            with self._condition:
                self._watchers = [other for other in self._watchers if other is not watcher]

    def _news(self, watcher: Events, patience: float) -> Iterator[Events]:
        while True:
            with self._condition:
                if not watcher and not self._closed:
                    self._condition.wait(patience)
                if self._closed:
                    return
                news = dict(watcher)
                watcher.clear()
            yield news


class FeedError(RuntimeError):
    """Nobody more can watch."""


# Serves the monitor's page, its pictures, and takes what it asks for. HTTP only, with nothing but Python's library.
#
# Pictures go out as server-sent events, everything else comes in as requests of its own: an emergency stop needs no
# session, and reaches the robot while the page is being reloaded, from a second page, or by `curl -X POST .../stop`.

PAGE_FOLDER = Path(__file__).parent / "page"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
LONGEST_REQUEST = 4096  # [bytes]
STREAM_BUFFER = 8192  # [bytes] of pictures under way, so that a slow connection gets few, not late ones
POLL_INTERVAL = 0.1  # [s] within which the end of the server is noticed
IDLE_TIMEOUT = 60.0  # [s]
HEARTBEAT = 0.25  # [s]
WATCHING = "this monitor only watches: what it shows is a recording, and no robot hears it"
PROTECTION = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; form-action 'self'; base-uri 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True)
class MonitorActions:
    """What pages can do; called by the server's threads. drive: obey an order, tell why not; ask: a change of mode."""

    drive: Callable[[Order], str]
    ask: Callable[[Request], None]


class MonitorServer:
    """The HTTP server in threads of its own. `facts` is what a page has to know of the robot, as JSON; without actions
    it refuses whatever would do something.

    Raises OSError where the address cannot be had.
    """

    def __init__(
        self, host: str, port: int, feed: MonitorFeed, actions: MonitorActions | None, facts: dict[str, Any]
    ) -> None:
        self._server = _Server(host, port, feed, actions, json.dumps(facts).encode())
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(POLL_INTERVAL,), name="monitor_server", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port it listens at."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """End; pages that watch are told by the end of their streams."""
        self._server.feed.close()
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, host: str, port: int, feed: MonitorFeed, actions: MonitorActions | None, facts: bytes) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.feed, self.actions, self.facts = feed, actions, facts
        self.files = {
            f"/{path.name}": (TYPES[path.suffix], path) for path in PAGE_FOLDER.iterdir() if path.suffix in TYPES
        }
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Bind without looking up a name, which can take seconds."""
        socket.socket.bind(self.socket, self.server_address)
        self.server_address = self.socket.getsockname()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that went away is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = IDLE_TIMEOUT
    wbufsize = 1 << 16  # so that an answer leaves in one packet
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        if self._refused():
            return
        path = self.path.partition("?")[0]
        if path == "/stream":
            self._stream()
        elif path == "/facts.json":
            self._answer(HTTPStatus.OK, "application/json", self.server.facts)
        else:
            self._file({"/": "/index.html", "/stop": "/stop.html"}.get(path, path))

    def do_POST(self) -> None:
        content = self._content()
        if content is None or self._refused():
            return
        actions = self.server.actions
        if actions is None:
            self._tell(HTTPStatus.FORBIDDEN, WATCHING)
            return
        path = self.path.partition("?")[0]
        if path == "/stop":
            actions.ask(Request.EMERGENCY_STOP)
            self._file("/stopped.html")
        elif path == "/order":
            self._order(content, actions)
        elif path.startswith("/request/"):
            self._request(path.removeprefix("/request/"), actions)
        else:
            self._tell(HTTPStatus.NOT_FOUND, f"there is no {path}")

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: ten orders a second are no news."""

    def _refused(self) -> bool:
        reason = reason_to_refuse(self.headers)
        if reason:
            self._tell(HTTPStatus.FORBIDDEN, reason)
        return bool(reason)

    def _content(self) -> bytes | None:
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > LONGEST_REQUEST or "Transfer-Encoding" in self.headers:
            self.close_connection = True
            self._tell(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a request has up to {LONGEST_REQUEST} bytes")
            return None
        return self.rfile.read(int(length))

    def _order(self, content: bytes, actions: MonitorActions) -> None:
        try:
            order = parse_order(json.loads(content))
        except (ValueError, RecursionError) as error:
            self._tell(HTTPStatus.BAD_REQUEST, str(error))
            return
        self._tell(HTTPStatus.OK, actions.drive(order))

    def _request(self, name: str, actions: MonitorActions) -> None:
        if name not in {request.value for request in Request}:
            self._tell(HTTPStatus.NOT_FOUND, f"there is no request {name!r}")
            return
        actions.ask(Request(name))
        self._tell(HTTPStatus.OK, "")

    def _file(self, name: str) -> None:
        if name not in self.server.files:
            self._tell(HTTPStatus.NOT_FOUND, f"there is no {name}")
            return
        kind, path = self.server.files[name]
        self._answer(HTTPStatus.OK, f"{kind}; charset=utf-8", path.read_bytes())

    def _tell(self, status: HTTPStatus, sentence: str) -> None:
        self._answer(status, "application/json", json.dumps({"sentence": sentence}).encode())

    def _answer(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self._begin(status, kind, {"Content-Length": str(len(content))})
        self.wfile.write(content)

    def _begin(self, status: HTTPStatus, kind: str, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in ({"Content-Type": kind} | PROTECTION | headers).items():
            self.send_header(name, value)
        self.end_headers()

    def _stream(self) -> None:
        """Send events until the page goes away, or does not read for a while."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, STREAM_BUFFER)
        try:
            with self.server.feed.watch(HEARTBEAT) as news:
                self._begin(HTTPStatus.OK, "text/event-stream", {"Connection": "close"})
                self.wfile.flush()
                for events in news:
                    self.connection.sendall(_encoded(events))
        except FeedError as error:
            self._tell(HTTPStatus.SERVICE_UNAVAILABLE, str(error))


def _encoded(events: dict[str, bytes]) -> bytes:
    """Server-sent events; a comment where there is no news, which finds out pages that have gone."""
    return b"".join(b"event: %s\ndata: %s\n\n" % (kind.encode(), data) for kind, data in events.items()) or b":\n\n"
