"""The joystick teleoperation as a process, between a joystick's messages and a controller's services."""

import signal
import threading
import time

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import Pose, Twist
from rclpy.duration import Duration
from ros_harness import wait_until
from sensor_msgs.msg import Joy

from fcnet_core.names import BUTTONS

PERIOD = 0.02  # [s]
TELEOP = "fcnet_teleop.teleop_joy"
BOTH = ("emergency_stop", "recover", "reset")  # services of controller and bridge


class Remote:
    """Unitree's remote in a person's hands, published as the bridge does; keeps what teleop_joy publishes."""

    def __init__(self, client):
        self.velocities, self.poses = [], []
        self.state, self.muted = ((), [0.0] * 5), True  # buttons held and axes, replaced together
        self.clock, self.age = client.node.get_clock(), 0.0  # [s]; None: without a stamp
        self._publisher = client.node.create_publisher(Joy, "joy", 10)
        client.subscribe(Twist, "joystick/cmd_vel", self.velocities.append, 50)
        client.subscribe(Pose, "joystick/cmd_pose", self.poses.append, 50)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._publish)
        self._thread.start()

    def _publish(self):
        while not self._end.wait(PERIOD):
            if not self.muted:
                self.send(*self.state)

    def send(self, held, axes):
        self.publish("unitree_remote", axes, [int(name in held) for name in BUTTONS])

    def publish(self, frame_id, axes, buttons):
        message = Joy(axes=axes, buttons=buttons)
        message.header.frame_id = frame_id
        if self.age is not None:
            message.header.stamp = (self.clock.now() - Duration(seconds=self.age)).to_msg()
        self._publisher.publish(message)

    def hold(self, *buttons, ly=0.0):
        self.state = buttons, [0.0, ly, 0.0, 0.0, 0.0]
        self.muted = False

    def hold_ready(self, *buttons, ly=0.0):
        """Hold buttons, the deadman among them, until the robot is driven."""
        self.hold(*buttons, ly=ly)
        wait_until(lambda: self.velocities and (self.velocities[-1].linear.x > 0.0) == (ly > 0.0), "a velocity")

    def close(self):
        self._end.set()
        self._thread.join()


@pytest.fixture(scope="module")
def remote(client, module_services):
    module_services.add(*(f"{node}/{name}" for node in ("controller", "aliengo_bridge") for name in BOTH))
    module_services.add(*(f"controller/{name}" for name in ("stand_up", "walk", "lie_down")))
    remote = Remote(client)
    yield remote
    remote.close()


@pytest.fixture(scope="module")
def teleop(start, remote):
    program = start(TELEOP, bridge="aliengo_bridge")
    program.until_printed("waiting for a joystick on /joy")
    remote.hold("L1", ly=1.0)
    program.until_printed("L1 is held since before")
    remote.hold()
    time.sleep(5 * PERIOD)
    remote.hold_ready("L1")
    return program


@pytest.fixture(scope="module")
def requests(module_services):
    """Requests that controller and bridge receive."""
    return module_services.requests


@pytest.fixture
def released(remote, teleop, requests, module_services, is_silent):
    """The remote with no button held, and nothing under way."""
    remote.age = 0.0
    remote.hold()
    module_services.refused.clear()
    wait_until(lambda: is_silent(remote.velocities), "silence")
    for record in (remote.velocities, remote.poses, requests):
        record.clear()
    return remote


def test_the_stick_drives_while_the_deadman_is_held_and_letting_go_stops_the_robot_and_is_silent(released):
    released.hold(ly=1.0)
    time.sleep(0.3)
    assert released.velocities == []
    released.hold("L1", ly=1.0)
    wait_until(lambda: len(released.velocities) > 3, "velocities")
    assert released.velocities[-1].linear.x == pytest.approx(1.0)
    released.hold(ly=1.0)
    wait_until(lambda: released.velocities[-1].linear.x == 0.0, "a velocity of zero")
    time.sleep(0.3)
    assert [message.linear.x for message in released.velocities].count(0.0) == 1


@pytest.mark.parametrize("end", ["silence", "NaN"])
def test_a_remote_that_falls_silent_or_sends_nonsense_stops_the_robot(released, end):
    released.hold_ready("L1", ly=1.0)
    if end == "silence":
        released.muted = True
    else:
        released.state = ("L1",), [float("nan")] * 5
    wait_until(lambda: released.velocities[-1].linear.x == 0.0, "a velocity of zero")


@pytest.mark.parametrize(("age", "words"), [(3.0, "3.0 s old"), (-3.0, "3.0 s ahead"), (None, "have no stamp")])
def test_what_is_not_of_now_drives_nothing_and_still_stops(released, teleop, requests, age, words):
    """As of a bag that is played beside a robot."""
    released.hold_ready("L1", ly=1.0)
    released.age = age
    wait_until(lambda: released.velocities[-1].linear.x == 0.0, "a velocity of zero")
    teleop.until_printed(words)
    released.hold("L1", "A", ly=1.0)
    time.sleep(0.3)
    assert requests == []
    assert released.velocities[-1].linear.x == 0.0
    released.hold("B")
    wait_until(lambda: "controller/emergency_stop" in requests, "the emergency stop")


def test_messages_of_another_pad_command_nothing_and_diagnostics_name_counts_and_layouts(
    released, teleop, requests, client
):
    """A DualShock 4, whose L1 and R2 held together would be a reset of an Xbox pad."""
    statuses = []
    subscription = client.node.create_subscription(
        DiagnosticArray, "/diagnostics", lambda m: statuses.extend(m.status), 10
    )

    def has_status(level, *words):
        released.publish("joy", [0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0], [int(i in (4, 7)) for i in range(13)])
        return any(one.level == level and all(word in one.message for word in words) for one in statuses)

    wait_until(lambda: has_status(DiagnosticStatus.WARN, "13 buttons", "11 or 12 buttons", "layout:=ps,"), "a warning")
    teleop.until_printed("layout:=ps,")
    assert requests == released.velocities == released.poses == []
    released.publish("joy", [0.0] * 8, [int(i == 1) for i in range(13)])
    wait_until(lambda: "controller/emergency_stop" in requests, "the emergency stop")
    wait_until(lambda: statuses[-1].level == DiagnosticStatus.OK, "an end of the warning when the pad is silent")
    client.node.destroy_subscription(subscription)


def test_after_a_pause_of_the_process_nothing_that_is_held_moves_the_robot_again(released, teleop, requests):
    released.hold_ready("L1", ly=1.0)
    warnings = teleop.output.count("L1 is held since before")
    teleop.send(signal.SIGSTOP)
    try:
        released.hold("L1", "A", ly=1.0)
        time.sleep(1.0)
    finally:
        teleop.send(signal.SIGCONT)
    wait_until(lambda: released.velocities[-1].linear.x == 0.0, "a velocity of zero")
    released.velocities.clear()
    wait_until(lambda: teleop.output.count("L1 is held since before") > warnings, "the button that is still held")
    time.sleep(0.3)
    assert requests == released.velocities == []


def test_the_check_names_what_is_pressed_and_commands_nothing(start, released, client):
    assert client.node.count_publishers("joystick/cmd_vel") == 1
    check = start(TELEOP, check=True)
    check.until_printed("check: nothing is commanded")
    released.hold("A", ly=1.0)
    check.until_printed("button 8 is A: stand up")
    check.until_printed("axis 1 is ly .1: vx")
    assert client.node.count_publishers("joystick/cmd_vel") == 1
    assert check.end() == 0


@pytest.mark.parametrize(
    ("button", "wanted"), [("A", ["controller/stand_up"]), ("start", ["aliengo_bridge/reset", "controller/reset"])]
)
def test_a_button_sends_one_request_and_a_reset_goes_to_the_bridge_first(released, requests, button, wanted):
    released.hold_ready("L1")
    released.hold("L1", button)
    wait_until(lambda: len(requests) == len(wanted), "the request")
    time.sleep(0.3)
    assert requests == wanted


def test_a_recovery_goes_to_the_bridge_and_where_that_agrees_to_the_controller(released, requests, module_services):
    module_services.refused.append("aliengo_bridge/recover")
    released.hold_ready("L1", "L2")
    released.hold("L1", "L2", "A")
    wait_until(lambda: requests, "a request")
    released.hold("L1", "L2")
    time.sleep(0.6)
    assert requests == ["aliengo_bridge/recover"]
    module_services.refused.clear()
    released.hold("L1", "L2", "A")
    wait_until(lambda: len(requests) == 3, "two more requests")
    assert requests[1:] == ["aliengo_bridge/recover", "controller/recover"]


def test_one_short_press_stops_both_nodes_and_is_repeated_until_confirmed(released, requests, module_services):
    module_services.refused.append("controller/emergency_stop")
    released.hold_ready("L1")
    released.hold("L1", "A")
    released.muted = True
    released.send(("B",), [0.0] * 5)
    stops = {"controller/emergency_stop", "aliengo_bridge/emergency_stop"}
    wait_until(lambda: stops <= set(requests), "both stops")
    repeated = requests.count("controller/emergency_stop")
    wait_until(lambda: requests.count("controller/emergency_stop") > repeated + 1, "repeated stops")
    assert requests.count("aliengo_bridge/emergency_stop") == 1
    module_services.refused.clear()
    wait_until(lambda: requests.count("controller/emergency_stop") > repeated + 2, "an accepted stop")
    time.sleep(0.5)
    accepted = len(requests)
    time.sleep(0.5)
    assert len(requests) == accepted


def test_a_signal_stops_a_driven_robot_and_ends_the_process_with_code_0(released, teleop):
    released.hold_ready("L1", ly=1.0)
    assert teleop.end(signal.SIGTERM) == 0
    output = teleop.output
    wait_until(lambda: released.velocities[-1].linear.x == 0.0, "a velocity of zero")
    assert "silent for 0.5 s" in output
    assert "nan, not within -1 to 1" in output
    assert "done: controller/stand_up" in output
    assert "Traceback" not in output
