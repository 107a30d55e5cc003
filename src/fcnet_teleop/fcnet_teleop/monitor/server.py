"""The monitor's HTTP server: page, snapshots as server-sent events, commands and requests. No ROS.

Events are sent on one stream per page. Each command and request is a separate HTTP request: an emergency stop needs no
open connection, and works while the page reloads, from a second page, and by `curl`.
"""

import asyncio
import hmac
import ipaddress
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec
from aiohttp import web
from aiohttp.http import HttpProcessingError

from fcnet_core.document import scene
from fcnet_core.names import Request
from fcnet_teleop.monitor.driver import PageCommand, PageRequest

Content = TypeVar("Content")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
PAGE = Path(__file__).parent / "page"
MAX_WATCHERS = 16
MAX_CONNECTIONS = 256  # besides those of watchers; half-open ones must not use up the files that a process may open
MAX_CONTENT = 4096  # [bytes] of a request
SEND_BUFFER = 8192  # [bytes] in the kernel per page: a slow connection gets fewer snapshots, not late ones
DRAIN_POLL = 0.01  # [s]
STALLED = 60.0  # [s] after which a page that does not read is dropped
SHUTDOWN_TIMEOUT = 0.5  # [s] for pending responses
TOKEN = "token"  # in an address
NO_TOKEN = "this monitor listens beyond its own computer and needs a token: open the link that it printed at start"
SOMEWHERE = ("192.0.2.1", 9)  # in the network for documentation (RFC 5737); no packet is sent
WATCH_ONLY = "this monitor is read-only: it shows a recording, not a robot"
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; form-action 'self'; base-uri 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Controls(NamedTuple):
    """What pages can do; both functions are called in the server's thread and return why it is rejected, or "".

    command: called with a command. request: called with a request for a change of mode and its content. An emergency
    stop is never rejected, and has no content.
    """

    command: Callable[[PageCommand], str]
    request: Callable[[Request, PageRequest | None], str]

    async def post_stop(self, _request: web.Request) -> web.StreamResponse:
        """Stop the robot and return a page with the button to stop it again."""
        self.request(Request.EMERGENCY_STOP, None)
        return web.FileResponse(PAGE / "stopped.html")

    async def post_command(self, request: web.Request) -> web.StreamResponse:
        """Handle a page's command."""
        return _message(200, self.command(await _content(request, PageCommand)))

    async def post_request(self, request: web.Request) -> web.StreamResponse:
        """Handle the request for a change of mode that the path names."""
        name = request.match_info["name"]
        if name not in {known.value for known in Request}:
            return _message(404, f"unknown request {name!r}")
        page = None if name == Request.EMERGENCY_STOP.value else await _content(request, PageRequest)
        rejection = self.request(Request(name), page)
        return _message(409 if rejection else 200, rejection)


class _Watcher(asyncio.Event):
    """The newest event of each type that a page has not received yet; set while there is one."""

    pending: dict[str, bytes]
    connection: asyncio.BaseTransport | None


class MonitorServer:
    """The server in its own thread, from construction until `close`.

    facts: constants of the robot for the pages, as JSON types. controls: None rejects all commands and requests. token:
    if not empty, every request must carry it: in its address (?token=), as a bearer token, or in the cookie that is set
    after a request with the token in its address. Raises OSError if it cannot listen at the address.
    """

    def __init__(self, host: str, port: int, facts: dict[str, Any], controls: Controls | None, token: str = "") -> None:
        self._facts, self._controls, self._token = msgspec.json.encode(facts), controls, token
        self._watchers: set[_Watcher] = set()
        self._retained: dict[str, bytes] = {}
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=64)
        self.port = int(self._socket.getsockname()[1])
        self._cookie = f"monitor_{self.port}"  # browsers keep one jar for all ports of a host
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        serve = self._loop.run_until_complete
        self._thread = threading.Thread(target=serve, args=(self._serve(),), name="monitor_server", daemon=True)
        self._thread.start()

    @property
    def watchers(self) -> int:
        """Number of connected pages."""
        return len(self._watchers)

    def publish(self, event: str, content: Any, retained: bool = False) -> None:
        """Send content as JSON to all connected pages; retained: also to pages that connect later.

        A slow page receives only the newest event of each type.
        """
        self._loop.call_soon_threadsafe(self._publish, event, msgspec.json.encode(content), retained)

    def close(self) -> None:
        """End all streams and the server."""
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> None:
        app = web.Application(middlewares=[self._protect], client_max_size=MAX_CONTENT)
        app.add_routes([web.get("/", _file(PAGE / "index.html")), web.get("/stop", _file(PAGE / "stop.html"))])
        app.add_routes([web.get(f"/{path.name}", _file(path)) for path in (*scene.SCRIPTS, scene.STYLE)])
        app.add_routes([web.get("/facts.json", self._send_facts), web.get("/events", self._stream)])
        if self._controls is not None:
            stop, command, request = self._controls.post_stop, self._controls.post_command, self._controls.post_request
            app.add_routes([web.post("/stop", stop), web.post("/command", command)])
            app.add_routes([web.post("/request/{name}", request)])
        app.add_routes([web.static("/", PAGE)])
        logger = logging.getLogger(__name__)  # of errors with traceback, but not of invalid HTTP
        logger.addFilter(lambda record: not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError)))
        runner = web.AppRunner(app, access_log=None, logger=logger, shutdown_timeout=SHUTDOWN_TIMEOUT)
        await runner.setup()
        listener = await self._loop.create_server(lambda: self._accept(runner), sock=self._socket, backlog=64)
        await self._closing.wait()
        listener.close()
        for watcher in self._watchers:
            watcher.set()
        await runner.cleanup()
        rest = asyncio.all_tasks() - {asyncio.current_task()}  # of connections that have just ended
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def _accept(self, runner: web.AppRunner) -> asyncio.Protocol:
        """Return the protocol of a new connection; end the oldest ones that are too many."""
        assert runner.server is not None
        watched = {watcher.connection for watcher in self._watchers}
        others = [each.transport for each in runner.server.connections if each.transport not in watched]
        for transport in others[:-MAX_CONNECTIONS]:
            if transport is not None:
                transport.abort()
        return runner.server()

    def _publish(self, event: str, content: bytes, retained: bool) -> None:
        if retained:
            self._retained[event] = content
        for watcher in self._watchers:
            watcher.pending[event] = content
            watcher.set()

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        """Send events until the page disconnects."""
        if len(self._watchers) >= MAX_WATCHERS:
            return _message(503, f"{MAX_WATCHERS} pages are connected, the maximum; close one")
        watcher = _Watcher()
        watcher.pending, watcher.connection = dict(self._retained), request.transport
        watcher.set()
        self._watchers.add(watcher)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **HEADERS})
        try:
            request.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
            await response.prepare(request)
            while not self._closing.is_set():
                await watcher.wait()
                await asyncio.wait_for(_drain(request), STALLED)
                events, watcher.pending = watcher.pending, {}
                watcher.clear()
                await response.write(b"".join(b"event: %s\ndata: %s\n\n" % (k.encode(), c) for k, c in events.items()))
            return response
        except ConnectionResetError:  # the page has disconnected
            return response
        finally:
            self._watchers.discard(watcher)

    async def _send_facts(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._facts, content_type="application/json")

    @web.middleware
    async def _protect(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Reject requests of other sites, without token, too long, or to a recording; add protective headers."""
        response: web.StreamResponse
        if reason := reason_to_refuse(request.headers):
            response = _message(403, reason)
        elif not self._is_allowed(request):
            response = _message(401, NO_TOKEN)
        elif (request.content_length or 0) > MAX_CONTENT:
            response = _message(413, f"a request has up to {MAX_CONTENT} bytes")
        elif request.method == "POST" and self._controls is None:
            response = _message(403, WATCH_ONLY)
        else:
            try:
                response = await handler(request)
            except web.HTTPException as error:
                response = _message(error.status, f"{error.text}: {request.method} {request.path}")
        if not response.prepared:
            response.headers.update(HEADERS)
            if self._token and response.status < 400 and TOKEN in request.query:
                response.set_cookie(self._cookie, self._token, httponly=True, samesite="Strict")
        return response

    def _is_allowed(self, request: web.Request) -> bool:
        """Return whether the request carries the token, if there is one; compares in constant time."""
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        shown = (request.query.get(TOKEN, ""), bearer, request.cookies.get(self._cookie, ""))
        token = self._token.encode()
        matches = [hmac.compare_digest(one.encode(errors="replace"), token) for one in shown]
        return not self._token or any(matches)


def reason_to_refuse(headers: Mapping[str, str]) -> str:
    """Return why a request with these headers is rejected, or "".

    A page of another site in the same browser must not move the robot. Host must be an address, localhost or this
    computer's name, which excludes foreign names that resolve to it (DNS rebinding). Origin, which browsers send with
    every request that can have an effect, must be the monitor's own page. Other programs send no Origin.
    """
    host, origin = headers.get("Host", ""), headers.get("Origin")
    if not _is_this_computer(host):
        return f"this monitor is not {host!r}; open it by its address, or as localhost"
    if origin is not None and urlsplit(origin).netloc != host:
        return f"only the monitor's own page may send requests, and {origin} is another"
    if headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
        return "only the monitor's own page may send requests, and this one comes from another site"
    return ""


def is_loopback(host: str) -> bool:
    """Return whether only programs on this computer can reach a server at `host`."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def own_address(host: str) -> str:
    """Return the address of a server at `host` for other computers: this computer's own if `host` is any address."""
    if host in ("", "0.0.0.0", "::"):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(SOMEWHERE)  # selects the route, sends no packet
                return str(probe.getsockname()[0])
            except OSError:  # no network
                return socket.gethostname()
    return f"[{host}]" if ":" in host else host


def _is_this_computer(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    own = socket.gethostname().lower()
    return name in ("localhost", own, f"{own}.local") or _address(name) is not None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _file(path: Path) -> Handler:
    async def send(_request: web.Request) -> web.StreamResponse:
        return web.FileResponse(path)

    return send


async def _content(request: web.Request, kind: type[Content]) -> Content:
    try:
        return msgspec.json.decode(await request.read(), type=kind)
    except (ValueError, RecursionError, ConnectionResetError) as error:
        raise web.HTTPBadRequest(text=f"rejected: {error}") from error


def _message(status: int, message: str) -> web.Response:
    return web.json_response({"message": message}, status=status)


async def _drain(request: web.Request) -> None:
    """Wait until all data are sent: the flow control of aiohttp would queue 64 KiB of old snapshots."""
    while request.transport is not None and request.transport.get_write_buffer_size():
        await asyncio.sleep(DRAIN_POLL)
