"""The monitor's page in a real browser, without a window: Debian's chromium by way of chromedriver."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import suppress

import pytest

from fcnet_ros.testing import TIMEOUT, wait_until

PROGRAMS = ("chromium", "chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key that WebDriver's specification gives elements
PHONE = {"width": 390, "height": 844, "pixelRatio": 2, "touch": True}

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, PROGRAMS)),
    reason="needs chromium and chromedriver (apt install chromium chromium-driver)",
)


class Browser:
    """A browser that is controlled by the WebDriver protocol, which is JSON over HTTP."""

    def __init__(self, driver, folder, phone):
        options = {"args": [*FLAGS, f"--user-data-dir={folder}", "--window-size=1280,1000"], "binary": _chromium()}
        options |= {"mobileEmulation": {"deviceMetrics": PHONE}} if phone else {}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self._base, self.phone = driver, phone
        session = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._base += f"/session/{session['sessionId']}"
        self._process = session["capabilities"]["goog:processID"]

    def _call(self, method, path, body=None):
        content = json.dumps(body or {}).encode() if method == "POST" else None
        request = urllib.request.Request(
            self._base + path, content, {"Content-Type": "application/json"}, method=method
        )
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

    def disable_scripts(self):
        command = {"cmd": "Emulation.setScriptExecutionDisabled", "params": {"value": True}}
        self._call("POST", "/goog/cdp/execute", command)

    def kill(self):
        """End it at once, as a crash or an empty battery does."""
        os.kill(self._process, signal.SIGKILL)

    def warnings(self):
        """Errors and warnings of the page."""
        return [entry["message"] for entry in self._call("POST", "/se/log", {"type": "browser"})]

    def close(self):
        with suppress(AssertionError):  # it was killed
            self._call("DELETE", "")


def _chromium():
    return shutil.which("chromium")


@pytest.fixture(scope="module")
def driver():
    program = subprocess.Popen(
        ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    port = next(filter(None, (re.search(r"started successfully on port (\d+)", line) for line in program.stdout)))[1]
    yield f"http://127.0.0.1:{port}"
    program.terminate()
    program.wait()
    program.stdout.close()


@pytest.fixture(params=["desktop"])
def browser(request, driver, tmp_path, address):
    browser = Browser(driver, tmp_path, phone=request.param == "phone")
    browser.open(address)
    wait_until(lambda: browser.run("return monitor.snapshot && monitor.scene.drawn > 3"), "snapshots")
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def address(start):
    program = start("fcnet_teleop.monitor.node", port=0)
    wait_until(lambda: "in a browser" in program.output, "the address")
    return re.search(r"http://\S+", program.output)[0]


@pytest.fixture(autouse=True)
def lying(ideal_robot):
    ideal_robot.lie()


@pytest.fixture
def requests(services):
    """Requests that a controller receives."""
    names = ("stand_up", "walk", "lie_down", "recover", "reset", "emergency_stop")
    services.add(*(f"controller/{name}" for name in names))
    return services.requests


def pixels(browser):
    return browser.run("return document.getElementById('scene').toDataURL()")


@pytest.mark.parametrize("browser", ["desktop", "phone"], indirect=True)
def test_the_page_shows_a_robot_that_moves(browser, ideal_robot):
    before = pixels(browser)
    ideal_robot.stand()
    wait_until(lambda: browser.run("return monitor.snapshot.trunk[2]") > 0.3, "the robot standing")
    wait_until(lambda: pixels(browser) != before, "another image")
    drawn = browser.run("return monitor.scene.drawn")
    wait_until(lambda: browser.run("return monitor.scene.drawn") > drawn + 10, "more snapshots")
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out sideways"
    assert not browser.phone or browser.run("return innerWidth") == PHONE["width"], "nothing widens a phone's page"
    stop = browser.run("return document.querySelector('#stop button').getBoundingClientRect().toJSON()")
    assert stop["top"] >= 0
    assert stop["bottom"] <= browser.run("return innerHeight")
    assert browser.warnings() == []


def test_buttons_and_keys_send_requests_to_the_controller(browser, requests):
    stand_up = "controller/stand_up"
    wait_until(lambda: try_it(lambda: browser.click("[data-request=stand_up]"), stand_up, requests), "standing up")
    wait_until(lambda: "done: controller/stand_up" in browser.text("#message"), "the response on the page")
    browser.press("2")
    wait_until(lambda: "controller/walk" in requests, "walking")
    browser.release()
    browser.click("#stop button")
    wait_until(lambda: "controller/emergency_stop" in requests, "the emergency stop")
    assert browser.run("return location.pathname") == "/"
    requests.clear()
    browser.press("\ue00c")
    wait_until(lambda: "controller/emergency_stop" in requests, "the emergency stop by the Escape key")


def try_it(action, wanted, requests):
    """Services may not be discovered yet: try again until the request has come."""
    if wanted not in requests:
        action()
        time.sleep(0.3)
    return wanted in requests


def test_the_stop_button_works_where_no_script_runs(driver, tmp_path, address, requests):
    browser = Browser(driver, tmp_path, phone=False)
    browser.disable_scripts()
    browser.open(address)
    browser.click("#stop button")
    wait_until(lambda: "controller/emergency_stop" in requests, "the emergency stop")
    assert "STOP AGAIN" in browser.text("button.stop")
    browser.close()


def drive(browser, velocities):
    velocities.clear()

    def moving():
        if not any(velocities):
            browser.release()
            browser.press("w")
            time.sleep(0.5)
        return any(velocities)

    wait_until(moving, "a velocity")


LEAVING = {
    "letting go": lambda browser: browser.release(),
    "reloading": lambda browser: browser.reload(),
    "leaving": lambda browser: browser.open("about:blank"),
    "hiding": lambda browser: browser.new_tab(),
    "crashing": lambda browser: browser.kill(),
}


@pytest.mark.parametrize("how", LEAVING)
def test_the_velocity_ends_with(browser, velocities, how):
    drive(browser, velocities)
    LEAVING[how](browser)
    wait_until(lambda: velocities[-1] == 0.0, "a velocity of zero")
    time.sleep(0.7)
    assert velocities[-1] == 0.0


def test_a_slider_held_does_not_go_on_after_the_snapshots_stopped(browser, velocities):
    browser.run("monitor.driver.hold('vx', 0.3)")
    wait_until(lambda: 0.3 in velocities, "a velocity")
    browser.run("monitor.driver.seen -= 10")  # what it would be if snapshots no longer came
    browser.run("Object.defineProperty(monitor.driver, 'seen', {get: () => 1, set: () => {}})")
    wait_until(lambda: velocities[-1] == 0.0, "a velocity of zero")
    assert browser.run("return monitor.driver.held.vx") == 0
    assert "snapshot" in browser.text("#message")


@pytest.mark.parametrize("browser", ["phone"], indirect=True)
def test_a_finger_on_the_stick_drives_until_it_is_lifted(browser, velocities):
    browser.run("document.getElementById('move').scrollIntoView({block: 'center'})")
    browser.push("#move", 0, -60)
    wait_until(lambda: any(velocities), "a velocity")
    assert max(velocities) > 0.2
    browser.release()
    wait_until(lambda: velocities[-1] == 0.0, "a velocity of zero")
