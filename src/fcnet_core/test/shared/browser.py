"""A real browser without a window for tests of pages: Debian's chromium by way of chromedriver."""

import base64
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

TIMEOUT = 60.0  # [s] of an answer, on a busy machine
PROGRAMS = ("chromium", "chromedriver")
FLAGS = ("--headless=new", "--no-sandbox", "--no-first-run")
DISABLED = ("gpu", "quic", "background-networking", "component-update", "sync", "dev-shm-usage")
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key that WebDriver's specification gives elements
PHONE = {"width": 390, "height": 844, "pixelRatio": 2, "touch": True}

needs_browser = pytest.mark.skipif(
    not all(map(shutil.which, PROGRAMS)),
    reason="needs chromium and chromedriver (apt install chromium chromium-driver)",
)


class Browser:
    """A browser that is controlled by the WebDriver protocol, which is JSON over HTTP."""

    def __init__(self, driver, folder, phone):
        arguments = [*FLAGS, *(f"--disable-{name}" for name in DISABLED)]
        arguments += [f"--user-data-dir={folder}", "--window-size=1280,1000"]
        options = {"args": arguments, "binary": shutil.which("chromium")}
        options |= {"mobileEmulation": {"deviceMetrics": PHONE}} if phone else {}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self._base, self.phone = driver, phone
        session = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._base += f"/session/{session['sessionId']}"
        self._process = session["capabilities"]["goog:processID"]

    def _call(self, method, path, body=None):
        content = json.dumps(body or {}).encode() if method == "POST" else None
        head = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._base + path, content, head, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()[:500]) from error

    def open(self, address):
        self._call("POST", "/url", {"url": address})

    def run(self, script):
        """What a piece of JavaScript returns."""
        return self._call("POST", "/execute/sync", {"script": script, "args": []})

    def find(self, selector):
        return self._call("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def text(self, selector):
        return self._call("GET", f"/element/{self.find(selector)}/text")

    def click(self, selector):
        self._call("POST", f"/element/{self.find(selector)}/click", {})

    def press(self, key):
        """Press a key and hold it."""
        keys = {"type": "key", "id": "keyboard", "actions": [{"type": "keyDown", "value": key}]}
        self._call("POST", "/actions", {"actions": [keys]})

    def push(self, selector, x, y):
        """Put a finger on the middle of something, move it by x, y [pixels] and leave it there."""
        place = {"type": "pointerMove", "origin": {ELEMENT: self.find(selector)}, "duration": 0}
        moves = [{**place, "x": 0, "y": 0}, {"type": "pointerDown", "button": 0}, {**place, "x": x, "y": y}]
        finger = {"type": "pointer", "id": "finger", "parameters": {"pointerType": "touch"}, "actions": moves}
        self._call("POST", "/actions", {"actions": [finger]})

    def release(self):
        self._call("DELETE", "/actions")

    def reload(self):
        self._call("POST", "/refresh", {})

    def new_tab(self):
        """Open a tab in front of the present one, which is hidden by it."""
        self._call("POST", "/window", {"handle": self._call("POST", "/window/new", {"type": "tab"})["handle"]})

    def resize(self, width, height):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.configure("Emulation.setDeviceMetricsOverride", **size)

    def configure(self, command, **parameters):
        """Send a command of Chrome's DevTools protocol."""
        self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def print(self):
        """The page on A4 as PDF."""
        settings = {"page": {"width": 21.0, "height": 29.7}, "margin": dict.fromkeys(("top", "bottom"), 1.4)}
        settings["margin"] |= dict.fromkeys(("left", "right"), 1.2)
        return base64.b64decode(self._call("POST", "/print", settings))

    def kill(self):
        """End it at once, as a crash or an empty battery does."""
        os.kill(self._process, signal.SIGKILL)

    def warnings(self):
        """Errors and warnings of the page."""
        return [entry["message"] for entry in self._call("POST", "/se/log", {"type": "browser"})]

    def close(self):
        with suppress(AssertionError):  # it was killed
            self._call("DELETE", "")


@contextmanager
def chromedriver():
    """The address of a program that starts browsers."""
    command, pipe = ["chromedriver", "--port=0"], subprocess.PIPE
    program = subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True)
    port = next(filter(None, (re.search(r"started successfully on port (\d+)", line) for line in program.stdout)))[1]
    yield f"http://127.0.0.1:{port}"
    program.terminate()
    program.wait()
    program.stdout.close()


def broken_rules(browser):
    """What axe-core finds on the page: rule, impact, help, and the elements."""
    found = importlib.util.find_spec("axe_playwright_python")
    assert found, "pip install --no-deps -r requirements/sdk.txt"
    axe = (Path(found.submodule_search_locations[0]) / "axe.min.js").read_text(encoding="utf-8")
    return browser.run(f"""
        {axe}
        return axe.run(document).then(({{violations}}) => violations.map(
            ({{id, impact, help, nodes}}) => [id, impact, help, ...nodes.map(({{html}}) => html)]));
    """)
