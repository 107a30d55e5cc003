"""The monitor's page in a real browser, without a window: Debian's chromium by way of chromedriver."""

import importlib.util
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Twist
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import String

from fcnet_ros.messages import GroundPatch
from fcnet_ros.testing import TIMEOUT, wait_until
from fcnet_ros.topics import LATCHED

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
SIZES = [(1920, 1080), (1280, 720), (1024, 768), (820, 1180), (390, 844)]  # desktops, tablet lying and standing, phone
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
        self.configure("Emulation.setScriptExecutionDisabled", value=True)

    def resize(self, width, height):
        self.configure(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    def configure(self, command, **parameters):
        """Send a command of Chrome's DevTools protocol."""
        self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

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


def test_an_arrow_key_on_a_stick_drives_until_it_is_lifted(browser, velocities):
    browser.run("document.getElementById('move').focus()")
    browser.press("\ue013")
    wait_until(lambda: any(velocities), "a velocity")
    assert browser.run("return monitor.driver.velocity().slice(1)") == [0, 0]
    browser.release()
    wait_until(lambda: velocities[-1] == 0.0, "a velocity of zero")


def test_the_page_says_why_it_no_longer_drives(browser, velocities):
    drive(browser, velocities)
    browser.run("dispatchEvent(new Event('blur'))")
    assert browser.text("#message") == "the robot is stopped: this window is no longer the one in use"
    browser.release()
    drive(browser, velocities)
    browser.configure("Network.enable")
    browser.configure(
        "Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0
    )
    wait_until(lambda: "lost contact" in browser.text("#message"), "the reason")
    wait_until(lambda: velocities[-1] == 0.0, "a velocity of zero")


def test_a_person_takes_over_from_a_planner_and_gives_way_to_a_joystick(browser, velocities, client):
    joystick = client.node.create_publisher(Twist, "joystick/cmd_vel", 1)
    planner = threading.Thread(target=client.drive, args=(5.0,), kwargs={"vx": 0.3})
    planner.start()
    wait_until(lambda: browser.run("return monitor.snapshot.source") == "cmd_vel", "the planner")
    drive(browser, velocities)
    wait_until(lambda: browser.run("return monitor.snapshot.source") == "monitor", "the person")
    wait_until(lambda: joystick.publish(Twist()) or "joystick drives it" in browser.text("#message"), "the reason")
    wait_until(lambda: velocities[-1] == 0.0, "a velocity of zero")
    planner.join()
    client.node.destroy_publisher(joystick)


# What is left over [px] below the view and to its right, between picture and place, and beyond the window.
GAPS = """
const box = (id) => document.getElementById(id).getBoundingClientRect(), view = box("view"), scene = box("scene");
const beside = innerWidth >= 1600, plots = box("plots"), side = box("side"), main = document.querySelector("main");
const below = beside ? innerHeight - view.bottom : plots.top - view.bottom;
const picture = ["left", "top", "right", "bottom"].map((edge) => Math.abs(view[edge] - scene[edge]));
const canvas = document.getElementById("scene");
return {below: innerWidth < 960 ? 0 : below, right: innerWidth < 960 ? 0 : (beside ? plots : side).left - view.right,
  picture: Math.max(...picture), wide: document.documentElement.scrollWidth - innerWidth,
  drawn: Math.max(Math.abs(canvas.width - scene.width), Math.abs(canvas.height - scene.height)), height: view.height};
"""


def test_the_view_fills_its_place_at_every_size_whatever_is_open(browser):
    for size, panels in itertools.product(SIZES, ("false", "true")):
        browser.resize(*size)
        browser.run(f"document.querySelectorAll('details').forEach((each) => {{ each.open = {panels}; }})")
        wait_until(lambda: browser.run(GAPS)["drawn"] <= 1, "a picture as large as its place")
        gaps = browser.run(GAPS)
        assert max(gaps["below"], gaps["right"]) <= 12, (size, gaps)
        assert gaps["picture"] <= 1, (size, gaps)
        assert gaps["wide"] <= 0, (size, gaps)
        assert gaps["height"] >= 190, (size, gaps)


def test_a_controller_that_ends_is_said_and_the_page_goes_on_with_the_next_one(browser, client):
    def begin():
        publisher = client.node.create_publisher(String, "controller/mode", LATCHED)
        publisher.publish(String(data="walking"))
        wait_until(lambda: browser.text("#mode") == "walking", "the mode")
        assert not browser.run("return document.body.classList.contains('lost')")
        return publisher

    client.node.destroy_publisher(begin())
    wait_until(lambda: browser.text("#mode") == "unknown", "the unknown mode")
    assert "the controller has ended" in browser.text("#faults")
    assert browser.run("return getComputedStyle(document.getElementById('scene')).filter").startswith("grayscale(1)")
    client.node.destroy_publisher(begin())


def test_the_ground_is_drawn_where_a_simulator_knows_it(browser, client):
    publisher = client.node.create_publisher(PointCloud2, "terrain", LATCHED)
    heights = np.zeros((41, 41))
    heights[:, 30:] = 0.1
    publisher.publish(GroundPatch(-2.0, -2.0, 0.1, heights).message(Time()))
    wait_until(lambda: browser.run("return monitor.scene.height(1.5, 0)") == 0.1, "the step")
    drawn = browser.run("return monitor.scene.drawn")
    wait_until(lambda: browser.run("return monitor.scene.drawn") > drawn + 3, "more snapshots")
    assert browser.warnings() == []
    client.node.destroy_publisher(publisher)


def test_plots_show_every_joint_are_paused_and_read(browser):
    browser.run("document.querySelector('#sets [value=joints]').click()")
    words = browser.run("return monitor.plots.describe()")
    assert words.count(" rad") == 12
    assert "FR hip 0.0" in words.replace("−", "")
    browser.run("document.getElementById('pause').click()")
    frozen, kept = (f"return monitor.plots.{name}.length" for name in ("frozen", "snapshots"))
    before = browser.run(frozen)
    wait_until(lambda: browser.run(kept) > before + 3, "snapshots that are kept")
    assert browser.run(frozen) == before
    browser.run("""
        const canvas = document.getElementById("chart"), {right, top} = canvas.getBoundingClientRect();
        canvas.dispatchEvent(new PointerEvent("pointermove", {clientX: right - 10, clientY: top + 20}));
    """)
    assert re.fullmatch(r"at −\d\.\d\d s", browser.text("#cursor"))
    assert browser.warnings() == []


@pytest.mark.parametrize(("browser", "scheme"), [("desktop", "dark"), ("phone", "light")], indirect=["browser"])
def test_no_rule_of_accessibility_is_broken(browser, scheme, address):
    found = importlib.util.find_spec("axe_playwright_python")
    assert found, "pip install --no-deps -r requirements/sdk.txt"
    axe = (Path(found.submodule_search_locations[0]) / "axe.min.js").read_text(encoding="utf-8")
    browser.configure("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    browser.run("const said = document.getElementById('message'); said.textContent = 'stopped'; said.className = 'cut'")
    assert broken_rules(browser, axe) == []
    browser.open(f"{address}/stop")
    assert broken_rules(browser, axe) == []


def broken_rules(browser, axe):
    return browser.run(f"""
        {axe}
        return axe.run(document).then(({{violations}}) => violations.map(
            ({{id, impact, help, nodes}}) => [id, impact, help, ...nodes.map(({{html}}) => html)]));
    """)
