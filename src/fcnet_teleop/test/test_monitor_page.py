"""The monitor's page in a real browser, without a window: Debian's chromium by way of chromedriver."""

import itertools
import re
import threading
import time

import numpy as np
import pytest
from browser import PHONE, Browser, broken_rules, chromedriver, needs_browser
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Twist
from ros_harness import wait_until
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import String

from fcnet_ros.state_messages import GroundPatch
from fcnet_ros.topics import LATCHED

SIZES = [(1920, 1080), (1280, 720), (1024, 768), (820, 1180), (390, 844)]  # desktops, tablet lying and standing, phone

pytestmark = needs_browser


@pytest.fixture(scope="module")
def driver():
    with chromedriver() as address:
        yield address


@pytest.fixture(scope="module")
def browsers(driver, tmp_path_factory):
    """Browsers that tests share, by their kind."""
    kinds = {"desktop": False, "phone": True}
    browsers = {kind: Browser(driver, tmp_path_factory.mktemp(kind), phone) for kind, phone in kinds.items()}
    yield browsers
    for browser in browsers.values():
        browser.close()


@pytest.fixture(params=["desktop"])
def browser(request, driver, browsers, address, tmp_path):
    """The page in a browser that tests share, or, "own", in one whose settings a test changes, or that it ends."""
    own = request.param == "own"
    browser = Browser(driver, tmp_path, phone=False) if own else browsers[request.param]
    browser.warnings()  # of earlier pages
    browser.open(address)
    wait_until(lambda: browser.run("return monitor.snapshot && monitor.scene.drawn > 3"), "snapshots")
    yield browser
    if own:
        browser.close()
    else:
        browser.release()


own = pytest.mark.parametrize("browser", ["own"], indirect=True)


@pytest.fixture(scope="module")
def address(start):
    return start("fcnet_teleop.monitor.node", port=0).until_printed(r"(http://\S+) in a browser")[1]


@pytest.fixture(autouse=True)
def lying(ideal_robot):
    ideal_robot.lie()


@pytest.fixture
def controller(services):
    """The services of a controller."""
    services.add(*(f"controller/{name}" for name in ("stand_up", "walk", "emergency_stop")))
    return services


PIXELS = "return document.getElementById('scene').toDataURL()"


@pytest.mark.parametrize("browser", ["desktop", "phone"], indirect=True)
def test_the_page_shows_a_robot_that_moves(browser, ideal_robot):
    before = browser.run(PIXELS)
    ideal_robot.stand()
    wait_until(lambda: browser.run("return monitor.snapshot.trunk[2]") > 0.3, "the robot standing")
    wait_until(lambda: browser.run(PIXELS) != before, "another image")
    drawn = browser.run("return monitor.scene.drawn")
    wait_until(lambda: browser.run("return monitor.scene.drawn") > drawn + 10, "more snapshots")
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out sideways"
    assert not browser.phone or browser.run("return innerWidth") == PHONE["width"], "nothing widens a phone's page"
    stop = browser.run("return document.querySelector('#stop button').getBoundingClientRect().toJSON()")
    assert 0 <= stop["top"] < stop["bottom"] <= browser.run("return innerHeight")
    assert browser.warnings() == []


def test_buttons_and_keys_send_requests_to_the_controller(browser, controller):
    controller.until("controller/stand_up", lambda: browser.click("[data-request=stand_up]"))
    wait_until(lambda: "done: controller/stand_up" in browser.text("#message"), "the response on the page")
    browser.press("2")
    wait_until(lambda: "controller/walk" in controller.requests, "walking")
    browser.release()
    browser.click("#stop button")
    wait_until(lambda: "controller/emergency_stop" in controller.requests, "the emergency stop")
    assert browser.run("return location.pathname") == "/"
    controller.requests.clear()
    browser.press("\ue00c")
    wait_until(lambda: "controller/emergency_stop" in controller.requests, "the emergency stop by the Escape key")


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


@pytest.mark.parametrize(
    ("browser", "how"),
    [("own" if how in ("hiding", "crashing") else "desktop", how) for how in LEAVING],
    indirect=["browser"],
    ids=LEAVING,
)
def test_the_velocity_ends_with(browser, velocities, how):
    drive(browser, velocities)
    LEAVING[how](browser)
    wait_until(lambda: velocities[-1] == 0.0, "a velocity of zero")
    time.sleep(0.7)
    assert velocities[-1] == 0.0


def test_a_slider_held_does_not_go_on_after_the_snapshots_stopped(browser, velocities):
    browser.run("monitor.driver.hold('vx', 0.3)")
    wait_until(lambda: 0.3 in velocities, "a velocity")
    browser.run("Object.defineProperty(monitor.driver, 'seen', {get: () => 1, set: () => {}})")  # no new snapshot
    wait_until(lambda: velocities[-1] == 0.0, "a velocity of zero")
    assert browser.run("return monitor.driver.held.vx") == 0
    assert "snapshot" in browser.text("#message")


@pytest.mark.parametrize("browser", ["phone", "desktop"], indirect=True)
def test_a_finger_or_an_arrow_key_on_the_stick_drives_until_it_is_lifted(browser, velocities):
    if browser.phone:
        browser.run("document.getElementById('move').scrollIntoView({block: 'center'})")
        browser.push("#move", 0, -60)
    else:
        browser.run("document.getElementById('move').focus()")
        browser.press("\ue013")
    wait_until(lambda: any(velocities), "a velocity")
    assert max(velocities) > 0.2 or not browser.phone
    assert browser.run("return monitor.driver.velocity().slice(2)") == [0]
    browser.release()
    wait_until(lambda: velocities[-1] == 0.0, "a velocity of zero")


@own
def test_the_page_says_why_it_no_longer_drives(browser, velocities):
    drive(browser, velocities)
    browser.run("dispatchEvent(new Event('blur'))")
    assert browser.text("#message") == "the robot is stopped: this window is no longer the one in use"
    browser.release()
    drive(browser, velocities)
    browser.configure("Network.enable")
    conditions = dict.fromkeys(("latency", "downloadThroughput", "uploadThroughput"), 0)
    browser.configure("Network.emulateNetworkConditions", offline=True, **conditions)
    wait_until(lambda: "lost contact" in browser.text("#message"), "the reason")
    wait_until(lambda: velocities[-1] == 0.0, "a velocity of zero")
    browser.click("[data-request=stand_up]")
    wait_until(lambda: "does not respond" in browser.text("#message"), "the missing response")


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


@own
def test_the_view_fills_its_place_at_every_size_whatever_is_open(browser):
    for size, panels in itertools.product(SIZES, ("false", "true")):
        browser.resize(*size)
        browser.run(f"document.querySelectorAll('details').forEach((each) => {{ each.open = {panels}; }})")
        wait_until(lambda: browser.run(GAPS)["drawn"] <= 1, "a picture as large as its place")
        gaps = browser.run(GAPS)
        assert max(gaps["below"], gaps["right"]) <= 12 and gaps["picture"] <= 1, (size, gaps)
        assert gaps["wide"] <= 0 and gaps["height"] >= 190, (size, gaps)


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


@pytest.mark.parametrize(("browser", "scheme"), [("own", "dark"), ("phone", "light")], indirect=["browser"])
def test_no_rule_of_accessibility_is_broken(browser, scheme, address):
    browser.configure("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    browser.run("const said = document.getElementById('message'); said.textContent = 'stopped'; said.className = 'cut'")
    assert broken_rules(browser) == []
    browser.open(f"{address}/stop")
    assert broken_rules(browser) == []
