"""The monitor's server as a browser, and as somebody hostile, meets it; without ROS."""

import http.client
import json
import socket
import threading
import time

import pytest

from fcnet_teleop.monitor.server import MonitorActions, MonitorFeed, MonitorServer
from fcnet_teleop.remote import Request

ORDER = {"page": "one", "number": 1, "seen": 0.0, "velocity": [0, 0, 0], "pose": None}


class Served:
    """A server, what was asked of it, and a client."""

    def __init__(self):
        self.orders, self.requests = [], []
        self.feed = MonitorFeed(most=3)
        actions = MonitorActions(self._drive, self.requests.append)
        self.server = MonitorServer("127.0.0.1", 0, self.feed, actions, {"robot": "aliengo"})
        self.host = f"127.0.0.1:{self.server.port}"

    def _drive(self, order):
        self.orders.append(order)
        return "no" if order.velocity[0] else ""

    def ask(self, method, path, body=None, **headers):
        """Status, headers and body of the answer."""
        connection = http.client.HTTPConnection(self.host, timeout=10)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        answer = connection.getresponse()
        result = answer.status, dict(answer.getheaders()), answer.read()
        connection.close()
        return result

    def raw(self, request):
        """What comes back for these very bytes."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(4096), b""))

    def watch(self):
        connection = http.client.HTTPConnection(self.host, timeout=10)
        connection.request("GET", "/stream")
        return connection.getresponse()


@pytest.fixture
def served():
    served = Served()
    yield served
    served.server.close()


def event(stream):
    """The next event of a stream: kind and content."""
    while not (line := stream.readline()).startswith(b"event"):
        assert line, "the stream has ended"
    return line[7:].strip().decode(), json.loads(stream.readline()[6:])


def test_the_page_and_everything_it_names_is_served_from_here(served):
    status, headers, page = served.ask("GET", "/")
    assert status == 200
    assert "default-src 'self'" in headers["Content-Security-Policy"]
    assert headers["X-Frame-Options"] == "DENY"
    for name in ("page.js", "driver.js", "scene.js", "chart.js", "page.css", "icon.svg"):
        status, _, content = served.ask("GET", f"/{name}")
        assert status == 200
        assert b"http://" not in content.replace(b"http://www.w3.org/2000/svg", b"")
        assert b"https://" not in content
    assert b"https://" not in page
    assert json.loads(served.ask("GET", "/facts.json")[2]) == {"robot": "aliengo"}


def test_an_emergency_stop_needs_neither_page_nor_script(served):
    status, _, page = served.ask("GET", "/stop")
    assert status == 200
    assert b'method="post" action="/stop"' in page
    assert b"<script" not in page
    assert b'method="post" action="/stop"' in served.ask("GET", "/")[2]
    assert served.requests == []
    form = {"Content_Type": "application/x-www-form-urlencoded", "Origin": f"http://{served.host}"}
    status, _, page = served.ask("POST", "/stop", b"", **form)
    assert status == 200
    assert b"STOP AGAIN" in page
    assert served.requests == [Request.EMERGENCY_STOP]


def test_requests_and_orders_arrive(served):
    for request in Request:
        assert served.ask("POST", f"/request/{request.value}")[0] == 200
    assert served.requests == list(Request)
    assert served.ask("POST", "/request/dance")[0] == 404
    assert served.ask("POST", "/order", json.dumps(ORDER))[0] == 200
    _, _, refused = served.ask("POST", "/order", json.dumps({**ORDER, "velocity": [1, 0, 0]}))
    assert json.loads(refused) == {"sentence": "no"}
    assert [order.velocity[0] for order in served.orders] == [0.0, 1.0]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:8088"},
        {"Host": ""},
        {"Host": "[::1"},
    ],
)
@pytest.mark.parametrize("path", ["/stop", "/order", "/request/walk"])
def test_a_page_of_somebody_else_cannot_reach_the_robot(served, headers, path):
    status, _, content = served.ask("POST", path, json.dumps(ORDER), **headers)
    assert status == 403
    assert json.loads(content)["sentence"]
    assert served.requests == served.orders == []


def test_a_foreign_page_cannot_look_either(served):
    assert served.ask("GET", "/stream", Host="evil.example")[0] == 403
    assert served.ask("GET", "/facts.json", Sec_Fetch_Site="cross-site")[0] == 403


@pytest.mark.parametrize("path", ["/nothing", "/../monitor.py", "/..%2fmonitor.py", "//etc/passwd", "/stopped.htm"])
def test_only_the_pages_files_are_served(served, path):
    assert served.ask("GET", path)[0] == 404


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 4000, b'{"page": 1}', b"NaN"])
def test_what_is_no_order_is_answered_in_words(served, content):
    status, _, answer = served.ask("POST", "/order", content)
    assert status == 400
    assert json.loads(answer)["sentence"]
    assert served.orders == []


@pytest.mark.parametrize(
    "request_line",
    [
        b"POST /order HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999\r\n\r\n",
        b"POST /order HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST /order HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"PUT /order HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00nonsense\r\n\r\n",
        b"GET /" + b"x" * 70000 + b" HTTP/1.1\r\n\r\n",
    ],
)
def test_nonsense_is_answered_and_harms_nobody(served, request_line):
    assert served.raw(request_line)
    assert served.ask("GET", "/")[0] == 200
    assert served.requests == served.orders == []


def test_watchers_get_the_last_news_and_then_what_comes(served):
    served.feed.tell("news", b'{"mode": "passive"}', lasting=True)
    served.feed.tell("picture", b'{"t": 0}')
    stream = served.watch()
    assert event(stream) == ("news", {"mode": "passive"})
    served.feed.tell("picture", b'{"t": 1}')
    assert event(stream) == ("picture", {"t": 1})
    stream.close()


def test_too_many_watchers_are_told_so_and_those_that_have_gone_make_room(served):
    streams = [served.watch() for _ in range(3)]
    while served.feed.watchers < 3:
        time.sleep(0.01)
    refused = served.watch()
    assert refused.status == 503
    assert "close one" in json.loads(refused.read())["sentence"]
    assert served.ask("POST", "/stop")[0] == 200  # whoever watches, a stop gets through
    for stream in (refused, *streams):
        stream.close()
    deadline = time.monotonic() + 10
    while served.feed.watchers and time.monotonic() < deadline:
        time.sleep(0.05)
    assert served.feed.watchers == 0


def test_who_reads_slowly_misses_pictures_instead_of_seeing_old_ones(served):
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", served.server.port))
        connection.sendall(f"GET /stream HTTP/1.1\r\nHost: {served.host}\r\n\r\n".encode())
        while not served.feed.watchers:
            time.sleep(0.01)
        for number in range(300):
            served.feed.tell("picture", json.dumps({"t": number, "fill": "x" * 2000}).encode())
            time.sleep(0.001)
        stream = connection.makefile("rb")
        numbers = [event(stream)[1]["t"]]
        while numbers[-1] < 299:
            numbers.append(event(stream)[1]["t"])
    assert len(numbers) < 100


def test_the_end_of_the_server_ends_streams(served):
    stream = served.watch()
    closing = threading.Thread(target=served.server.close)
    closing.start()
    assert b"picture" not in stream.read()
    closing.join(10)
    assert not closing.is_alive()


def test_a_taken_port_is_an_error(served):
    with pytest.raises(OSError, match="in use"):
        MonitorServer("127.0.0.1", served.server.port, served.feed, MonitorActions(served._drive, print), {})
