"""The joystick teleoperation as a process, between a joystick's messages and a controller's services."""

import signal
import threading
import time

import pytest
from geometry_msgs.msg import Pose, Twist
from sensor_msgs.msg import Joy
from std_srvs.srv import SetBool, Trigger

from fcnet_core.remote import REMOTE_FILE
from fcnet_teleop.remote import UNITREE_BUTTONS

PERIOD = 0.02  # [s]


class Desk:
    """Unitree's remote, published as the bridge does, and the services of a controller and a bridge."""

    def __init__(self, bench):
        self.bench = bench
        self.velocities, self.poses, self.requests = [], [], []
        self.held, self.axes, self.muted = (), [0.0] * 5, True
        self.refused = []
        self._publisher = bench.node.create_publisher(Joy, "joy", 10)
        bench.node.create_subscription(Twist, "joystick/cmd_vel", self.velocities.append, 50)
        bench.node.create_subscription(Pose, "joystick/cmd_pose", self.poses.append, 50)
        for node in ("controller", "aliengo_bridge"):
            self._serve(SetBool, f"{node}/emergency_stop")
            self._serve(Trigger, f"{node}/reset")
        for name in ("stand_up", "walk", "lie_down"):
            self._serve(Trigger, f"controller/{name}")
        self._end = threading.Event()
        threading.Thread(target=self._publish, daemon=True).start()

    def _serve(self, kind, name):
        def answer(_request, response):
            self.requests.append(name)
            response.success, response.message = name not in self.refused, f"done: {name}"
            return response

        self.bench.node.create_service(kind, name, answer)

    def _publish(self):
        while not self._end.wait(PERIOD):
            if not self.muted:
                self.say(self.held, self.axes)

    def say(self, held, axes):
        message = Joy(axes=axes, buttons=[int(name in held) for name in UNITREE_BUTTONS])
        message.header.frame_id = "unitree_remote"
        self._publisher.publish(message)

    def hold(self, *buttons, ly=0.0):
        self.held, self.axes, self.muted = buttons, [0.0, ly, 0.0, 0.0, 0.0], False

    def close(self):
        self._end.set()


@pytest.fixture(scope="module")
def desk(bench):
    desk = Desk(bench)
    yield desk
    desk.close()


@pytest.fixture(scope="module")
def teleop(start, desk, bench):
    program = start("fcnet_teleop.teleop_joy", bridge="aliengo_bridge")
    desk.hold("L1")
    bench.until(lambda: desk.velocities, "the first velocity")
    return program


@pytest.fixture
def released(desk, teleop, bench):
    """The desk with a remote that nobody holds, and nothing on its way."""
    desk.hold()
    desk.refused.clear()
    time.sleep(0.3)
    for record in (desk.velocities, desk.poses, desk.requests):
        record.clear()
    return desk


def test_the_stick_drives_while_the_deadman_is_held_and_letting_go_stops_the_robot_and_is_silent(released, bench):
    released.hold(ly=1.0)
    time.sleep(0.3)
    assert released.velocities == []
    released.hold("L1", ly=1.0)
    bench.until(lambda: len(released.velocities) > 3, "velocities")
    assert released.velocities[-1].linear.x == pytest.approx(1.0)
    released.hold(ly=1.0)
    bench.until(lambda: released.velocities[-1].linear.x == 0.0, "a velocity of zero")
    time.sleep(0.3)
    assert [message.linear.x for message in released.velocities].count(0.0) == 1


def test_a_remote_that_falls_silent_stops_the_robot(released, bench):
    released.hold("L1", ly=1.0)
    bench.until(lambda: released.velocities, "velocities")
    released.muted = True
    bench.until(lambda: released.velocities[-1].linear.x == 0.0, "a velocity of zero")


def test_a_message_that_cannot_be_right_stops_the_robot(released, bench):
    released.hold("L1", ly=1.0)
    bench.until(lambda: released.velocities, "velocities")
    released.axes = [float("nan")] * 5
    bench.until(lambda: released.velocities[-1].linear.x == 0.0, "a velocity of zero")


def test_the_cross_gives_poses(released, bench):
    released.hold("L1", "down")
    bench.until(lambda: released.poses and released.poses[-1].position.z < -0.005, "a lower pose")
    released.hold("L1", "select")
    bench.until(lambda: released.poses[-1].position.z == 0.0, "a level pose")


def test_a_button_asks_the_controller_once(released, bench):
    released.hold("L1")
    time.sleep(0.2)
    released.hold("L1", "A")
    bench.until(lambda: released.requests, "a request")
    time.sleep(0.3)
    assert released.requests == ["controller/stand_up"]


def test_a_reset_goes_to_the_bridge_and_then_to_the_controller(released, bench):
    released.hold("L1")
    time.sleep(0.2)
    released.hold("L1", "start")
    bench.until(lambda: len(released.requests) == 2, "two requests")
    assert released.requests == ["aliengo_bridge/reset", "controller/reset"]


def test_one_short_press_stops_controller_and_bridge_and_is_repeated_until_each_has_confirmed_it(released, bench):
    released.refused.append("controller/emergency_stop")
    released.hold("L1")
    time.sleep(0.2)
    released.hold("L1", "A")
    released.muted = True
    released.say(("B",), [0.0] * 5)
    stops = {"controller/emergency_stop", "aliengo_bridge/emergency_stop"}
    bench.until(lambda: stops <= set(released.requests), "both stops")
    repeated = released.requests.count("controller/emergency_stop")
    bench.until(lambda: released.requests.count("controller/emergency_stop") > repeated + 1, "repeated stops")
    assert released.requests.count("aliengo_bridge/emergency_stop") == 1
    released.refused.clear()
    bench.until(lambda: released.requests.count("controller/emergency_stop") > repeated + 2, "an accepted stop")
    time.sleep(0.5)
    accepted = len(released.requests)
    time.sleep(0.5)
    assert len(released.requests) == accepted


def test_a_signal_stops_a_driven_robot_and_ends_the_process_with_code_0(released, bench, teleop):
    released.hold("L1", ly=1.0)
    bench.until(lambda: released.velocities, "velocities")
    code, output = teleop.end(signal.SIGTERM)
    assert code == 0, output
    bench.until(lambda: released.velocities[-1].linear.x == 0.0, "a velocity of zero")
    assert "silent for 0.5 s" in output
    assert "not a finite number" in output
    assert "done: controller/stand_up" in output
    assert "Traceback" not in output


def half_written(tmp_path):
    path = tmp_path / "remote.yaml"
    path.write_text(REMOTE_FILE.read_text()[:2500])
    return {"remote_file": path}


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (lambda _: {"layout": "wii"}, "no joystick layout 'wii'"),
        (lambda _: {"joy_timeout": 60.0}, "0.05 to 5"),
        (half_written, "cannot be used"),
    ],
)
def test_a_parameter_or_a_file_that_cannot_be_used_ends_it_with_one_sentence(start, tmp_path, parameters, words):
    code, output = start("fcnet_teleop.teleop_joy", **parameters(tmp_path)).wait()
    assert code == 2
    assert words in output
    assert "Traceback" not in output
