"""The monitor's server as a browser and an attacker use it; without ROS."""

import http.client
import json
import socket
import time
from contextlib import ExitStack, closing, suppress

import pytest
from ros_harness import wait_until

from fcnet_core.names import Request
from fcnet_teleop.monitor.server import MAX_CONNECTIONS, MAX_WATCHERS, Controls, MonitorServer

COMMAND = {"page": "one", "number": 1, "seen": 0.0, "velocity": [0, 0, 0], "pose": None}
SEEN = json.dumps({"seen": 0.0})


class Served:
    """A server, the commands and requests that it received, and a client."""

    def __init__(self, token=""):
        self.commands, self.requests = [], []
        self.controls = Controls(self._drive, self._request)
        self.server = MonitorServer("127.0.0.1", 0, {"robot": "aliengo"}, self.controls, token)
        self.host = f"127.0.0.1:{self.server.port}"

    def _drive(self, command):
        self.commands.append(command)
        return "no" if command.velocity[0] else ""

    def _request(self, request, page):
        self.requests.append(request)
        return "no" if page and page.seen < 0 else ""

    def send(self, method, path, body=None, **headers):
        """Status, headers and body of the response."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(http.client.HTTPConnection(self.host, timeout=10)) as connection:
            connection.request(method, path, body, named)
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()

    def connect(self, content):
        """A connection on which these bytes have been sent."""
        connection = socket.create_connection(("127.0.0.1", self.server.port), timeout=10)
        connection.sendall(content)
        return connection

    def watch(self):
        connection = http.client.HTTPConnection(self.host, timeout=10)
        connection.request("GET", "/events", headers={"Connection": "close"})
        return connection.getresponse()


@pytest.fixture(params=[""])
def served(request):
    served = Served(request.param)
    yield served
    with suppress(RuntimeError):  # it is closed
        served.server.close()


TOKEN = "a-token"
with_token = pytest.mark.parametrize("served", [TOKEN], indirect=True)


def event(stream):
    """The next event of a stream: kind and content."""
    while not (line := stream.readline()).startswith(b"event"):
        assert line, "the stream has ended"
    return line[7:].strip().decode(), json.loads(stream.readline()[6:])


def test_the_page_and_everything_it_names_is_served_from_here(served):
    scripts = ("page.js", "driver.js", "scene.js", "robot.js", "canvas.js", "chart.js")
    for name in ("", *scripts, "page.css", "icon.svg"):
        status, headers, content = served.send("GET", f"/{name}")
        assert status == 200
        assert "default-src 'self'" in headers["Content-Security-Policy"]
        assert headers["X-Frame-Options"] == "DENY"
        assert b"http://" not in content.replace(b"http://www.w3.org/2000/svg", b"")
        assert b"https://" not in content
    assert json.loads(served.send("GET", "/facts.json")[2]) == {"robot": "aliengo"}


def test_an_emergency_stop_needs_neither_page_nor_script(served):
    for path in ("/", "/stop"):
        assert b'method="post" action="/stop"' in served.send("GET", path)[2]
    assert b"<script" not in served.send("GET", "/stop")[2]
    assert served.requests == []
    form = {"Content_Type": "application/x-www-form-urlencoded", "Origin": f"http://{served.host}"}
    status, _, page = served.send("POST", "/stop", b"", **form)
    assert status == 200
    assert b"STOP AGAIN" in page
    assert served.requests == [Request.EMERGENCY_STOP]


def test_requests_and_commands_arrive_and_a_refusal_says_why(served):
    for request in Request:
        assert served.send("POST", f"/request/{request.value}", SEEN)[0] == 200
    assert served.requests == list(Request)
    assert served.send("POST", "/request/dance")[0] == 404
    status, _, refused = served.send("POST", "/request/walk", json.dumps({"seen": -1.0}))
    assert (status, json.loads(refused)) == (409, {"message": "no"})
    assert served.send("POST", "/command", json.dumps(COMMAND))[0] == 200
    _, _, refused = served.send("POST", "/command", json.dumps({**COMMAND, "velocity": [1, 0, 0]}))
    assert json.loads(refused) == {"message": "no"}
    assert [command.velocity[0] for command in served.commands] == [0.0, 1.0]


def test_a_stop_arrives_although_its_sender_does_not_wait_for_the_response(served):
    for count in range(1, 21):
        served.connect(f"POST /stop HTTP/1.1\r\nHost: {served.host}\r\nContent-Length: 0\r\n\r\n".encode()).close()
        wait_until(lambda count=count: len(served.requests) == count, "the stop")


@pytest.mark.parametrize(
    "headers",
    [
        *({"Origin": origin} for origin in ("http://evil.example", "null", "http://127.0.0.1:1")),
        *({"Sec_Fetch_Site": site} for site in ("cross-site", "same-site")),
        *({"Host": host} for host in ("evil.example", "127.0.0.1.evil.example:8088", "", "[::1")),
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/stop"), ("POST", "/command"), ("POST", "/request/walk"), ("GET", "/events"), ("GET", "/facts.json")],
)
def test_another_sites_page_can_neither_reach_the_robot_nor_look(served, headers, method, path):
    status, _, content = served.send(method, path, json.dumps(COMMAND) if method == "POST" else None, **headers)
    assert status == 403
    assert json.loads(content)["message"]
    assert served.requests == served.commands == []


@pytest.mark.parametrize("path", ["/nothing", "/../monitor.py", "/..%2fmonitor.py", "//etc/passwd", "/stopped.htm"])
def test_only_the_pages_files_are_served(served, path):
    assert served.send("GET", path)[0] == 404


@pytest.mark.parametrize(
    ("path", "content"),
    [
        *(("/command", content) for content in (b"", b"{", b"[]", b"\xff\xfe", b"[" * 4000, b'{"page": 1}', b"NaN")),
        *(("/request/stand_up", content) for content in (None, b"", b"{}", b'{"seen": "now"}', b'{"seen": NaN}')),
        ("/request/stand_up", b"[" * 2000),
    ],
)
def test_what_is_no_command_and_no_request_is_refused_with_a_message_and_a_stop_is_not(served, path, content):
    status, _, body = served.send("POST", path, content)
    assert status == 400
    assert json.loads(body)["message"]
    assert served.send("POST", "/request/emergency_stop", content)[0] == 200
    assert (served.commands, served.requests) == ([], [Request.EMERGENCY_STOP])


@pytest.mark.parametrize(
    "request_line",
    [
        b"POST /command HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999\r\n\r\n",
        b"POST /command HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST /command HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"PUT /command HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00nonsense\r\n\r\n",
        b"GET /" + b"x" * 70000 + b" HTTP/1.1\r\n\r\n",
    ],
)
def test_nonsense_is_refused_and_the_server_goes_on(served, request_line, caplog):
    with served.connect(request_line) as connection:
        assert connection.recv(4096).split()[1].startswith(b"4")
    assert caplog.records == []
    assert served.send("GET", "/")[0] == 200
    assert served.requests == served.commands == []


def test_watchers_receive_the_retained_status_and_then_what_comes_until_the_server_ends(served):
    served.server.publish("status", {"mode": "passive"}, retained=True)
    served.server.publish("snapshot", {"t": 0})
    stream = served.watch()
    assert event(stream) == ("status", {"mode": "passive"})
    served.server.publish("snapshot", {"t": 1})
    assert event(stream) == ("snapshot", {"t": 1})
    served.server.close()
    assert stream.read() in (b"", b"\n")  # the rest of the event


def test_too_many_watchers_are_refused_and_those_that_have_gone_make_room(served):
    streams = [served.watch() for _ in range(MAX_WATCHERS)]
    wait_until(lambda: served.server.watchers == MAX_WATCHERS, "all watchers")
    refused = served.watch()
    assert refused.status == 503
    assert "close one" in json.loads(refused.read())["message"]
    assert served.send("POST", "/stop")[0] == 200  # whoever watches, a stop gets through
    for stream in (refused, *streams):
        stream.close()

    def is_empty():
        served.server.publish("status", {})
        time.sleep(0.05)
        return served.server.watchers == 0

    wait_until(is_empty, "no watcher")


@pytest.mark.parametrize("opening", [b"", b"POST /command HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"])
def test_a_stop_gets_through_any_number_of_half_open_connections_and_pages_stay_connected(served, opening):
    served.server.publish("status", {}, retained=True)
    page = served.watch()
    event(page)
    with ExitStack() as opened:
        oldest, *_ = [opened.enter_context(served.connect(opening)) for _ in range(MAX_CONNECTIONS + 80)]
        with suppress(ConnectionResetError):
            assert oldest.recv(1) == b""
        assert served.send("POST", "/stop")[0] == 200
        served.server.publish("snapshot", {"t": 1})
        assert event(page) == ("snapshot", {"t": 1})
    page.close()


def test_a_slow_watcher_misses_snapshots_instead_of_receiving_old_ones(served):
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", served.server.port))
        connection.sendall(f"GET /events HTTP/1.1\r\nHost: {served.host}\r\n\r\n".encode())
        wait_until(lambda: served.server.watchers, "the watcher")
        for number in range(300):
            served.server.publish("snapshot", {"t": number, "fill": "x" * 2000})
            time.sleep(0.001)
        stream = connection.makefile("rb")
        numbers = [event(stream)[1]["t"]]
        while numbers[-1] < 299:
            numbers.append(event(stream)[1]["t"])
    assert len(numbers) < 100


def test_without_controls_everything_that_moves_a_robot_is_refused_and_the_page_is_served(served):
    server = MonitorServer("127.0.0.1", 0, {}, None)
    served.host = f"127.0.0.1:{server.port}"
    assert [served.send("POST", path)[0] for path in ("/stop", "/command", "/request/walk")] == [403] * 3
    assert served.send("GET", "/")[0] == 200
    server.close()


UNAUTHORIZED = [{"Authorization": shown} for shown in ("Bearer another", "Bearer \xe4", TOKEN[:-1])]


@with_token
@pytest.mark.parametrize("shown", [{}, {"Cookie": f"monitor={TOKEN}"}, *UNAUTHORIZED])
def test_without_the_token_every_request_is_refused_in_a_sentence(served, shown):
    posts = [("POST", path) for path in ("/stop", "/command", "/request/walk", "/command?token=another")]
    gets = [("GET", path) for path in ("/", "/stop", "/page.js", "/facts.json", "/events", "/nothing", "/?token=")]
    for method, path in (*posts, *gets):
        status, headers, content = served.send(method, path, json.dumps(COMMAND) if method == "POST" else None, **shown)
        assert status == 401, path
        assert "link" in json.loads(content)["message"]
        assert "Set-Cookie" not in headers
    assert served.requests == served.commands == []
    assert served.server.watchers == 0


@with_token
def test_who_opens_the_link_needs_the_token_no_more(served):
    status, headers, _ = served.send("GET", f"/?token={TOKEN}")
    assert status == 200
    assert "HttpOnly" in headers["Set-Cookie"]
    assert "SameSite=Strict" in headers["Set-Cookie"]
    cookie = headers["Set-Cookie"].partition(";")[0]
    assert served.send("GET", "/page.js", Cookie=cookie)[0] == 200
    assert served.send("POST", "/request/walk", SEEN, Cookie=cookie)[0] == 200
    assert served.send("POST", "/stop", Authorization=f"Bearer {TOKEN}")[0] == 200
    assert served.send("POST", f"/stop?token={TOKEN}")[0] == 200
    assert served.requests == [Request.WALK, Request.EMERGENCY_STOP, Request.EMERGENCY_STOP]
    assert served.send("POST", f"/stop?token={TOKEN}", Origin="http://evil.example")[0] == 403
