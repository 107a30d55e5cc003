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
    """Unitree's remote in a person's hands, published as the bridge does; keeps what teleop_joy publishes and requests.

    refused: names of the services that refuse a request.
    """

    def __init__(self, client, services):
        self.velocities, self.poses = [], []
        self.requests, self.refused = services.requests, services.refused
        services.add(*(f"{node}/{name}" for node in ("controller", "aliengo_bridge") for name in BOTH))
        services.add(*(f"controller/{name}" for name in ("stand_up", "walk", "lie_down")))
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

    def until_stopped(self):
        wait_until(lambda: self.velocities[-1].linear.x == 0.0, "a velocity of zero")

    def until_requested(self, *names):
        wait_until(lambda: {*names} <= {*self.requests}, f"the requests {names}")

    def close(self):
        self._end.set()
        self._thread.join()


@pytest.fixture(scope="module")
def remote(client, module_services):
    remote = Remote(client, module_services)
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


@pytest.fixture
def released(remote, teleop, is_silent):
    """The remote with no button held, and nothing under way."""
    remote.age = 0.0
    remote.hold()
    remote.refused.clear()
    wait_until(lambda: is_silent(remote.velocities), "silence")
    for record in (remote.velocities, remote.poses, remote.requests):
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
    released.until_stopped()
    time.sleep(0.3)
    assert [message.linear.x for message in released.velocities].count(0.0) == 1


def test_a_remote_that_falls_silent_stops_the_robot(released, teleop):
    released.hold_ready("L1", ly=1.0)
    released.muted = True
    released.until_stopped()
    teleop.until_printed("silent for 0.5 s")


@pytest.mark.parametrize(("age", "words"), [(3.0, "3.0 s old"), (-3.0, "3.0 s ahead"), (None, "have no stamp")])
def test_what_is_not_of_now_drives_nothing_and_still_stops(released, teleop, age, words):
    """As of a bag that is played beside a robot."""
    released.hold_ready("L1", ly=1.0)
    released.age = age
    released.until_stopped()
    teleop.until_printed(words)
    released.hold("L1", "A", ly=1.0)
    time.sleep(0.3)
    assert released.requests == []
    assert released.velocities[-1].linear.x == 0.0
    released.hold("B")
    released.until_requested("controller/emergency_stop")


def test_messages_of_another_pad_command_nothing_and_diagnostics_name_counts_and_layouts(released, teleop, client):
    """A DualShock 4, whose L1 and R2 held together would be a reset of an Xbox pad."""
    statuses = []
    client.subscribe(DiagnosticArray, "/diagnostics", lambda m: statuses.extend(m.status), 10)

    def has_status(level, *words):
        released.publish("joy", [0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0], [int(i in (4, 7)) for i in range(13)])
        return any(one.level == level and all(word in one.message for word in words) for one in statuses)

    wait_until(lambda: has_status(DiagnosticStatus.WARN, "13 buttons", "11 or 12 buttons", "layout:=ps,"), "a warning")
    wait_until(lambda: has_status(DiagnosticStatus.WARN) and "layout:=ps," in teleop.output, "a warning in the log")
    assert released.requests == released.velocities == released.poses == []
    released.publish("joy", [0.0] * 8, [int(i == 1) for i in range(13)])
    released.until_requested("controller/emergency_stop")
    wait_until(lambda: statuses[-1].level == DiagnosticStatus.OK, "an end of the warning when the pad is silent")


def test_after_a_pause_of_the_process_nothing_that_is_held_moves_the_robot_again(released, teleop):
    released.hold_ready("L1", ly=1.0)
    warnings = teleop.output.count("L1 is held since before")
    teleop.send(signal.SIGSTOP)
    try:
        released.hold("L1", "A", ly=1.0)
        time.sleep(1.0)
    finally:
        teleop.send(signal.SIGCONT)
    released.until_stopped()
    released.velocities.clear()
    wait_until(lambda: teleop.output.count("L1 is held since before") > warnings, "the button that is still held")
    time.sleep(0.3)
    assert released.requests == released.velocities == []


def test_the_check_names_what_is_pressed_and_commands_nothing(start, released, client):
    check = start(TELEOP, check=True)
    check.until_printed("check: nothing is commanded")
    released.hold("A", ly=1.0)
    check.until_printed("button 8 is A: stand up")
    check.until_printed("axis 1 is ly .1: vx")
    assert client.node.count_publishers("joystick/cmd_vel") == 1  # the other process
    assert check.end() == 0


BRIDGE_FIRST = ["aliengo_bridge/reset", "controller/reset"]


@pytest.mark.parametrize(("button", "expected"), [("A", ["controller/stand_up"]), ("start", BRIDGE_FIRST)])
def test_a_button_sends_one_request_and_a_reset_goes_to_the_bridge_first(released, button, expected):
    released.hold_ready("L1")
    released.hold("L1", button)
    released.until_requested(*expected)
    time.sleep(0.3)
    assert released.requests == expected


def test_a_recovery_goes_to_the_bridge_and_where_that_agrees_to_the_controller(released):
    released.refused.append("aliengo_bridge/recover")
    released.hold_ready("L1", "L2")
    released.hold("L1", "L2", "A")
    released.until_requested("aliengo_bridge/recover")
    released.hold("L1", "L2")
    time.sleep(0.6)
    assert released.requests == ["aliengo_bridge/recover"]
    released.refused.clear()
    released.hold("L1", "L2", "A")
    released.until_requested("controller/recover")
    assert released.requests == ["aliengo_bridge/recover"] * 2 + ["controller/recover"]


def test_one_short_press_stops_both_nodes_and_is_repeated_until_confirmed(released):
    stops = ["controller/emergency_stop", "aliengo_bridge/emergency_stop"]
    released.refused.append(stops[0])
    released.hold_ready("L1")
    released.hold("L1", "A")
    released.muted = True
    released.send(("B",), [0.0] * 5)
    released.until_requested(*stops)
    wait_until(lambda: released.requests.count(stops[0]) > 2, "repeated stops")
    assert released.requests.count(stops[1]) == 1
    released.refused.clear()
    repeated = len(released.requests)
    wait_until(lambda: len(released.requests) > repeated, "an accepted stop")
    time.sleep(0.5)
    accepted = len(released.requests)
    time.sleep(0.5)
    assert len(released.requests) == accepted


def test_a_signal_stops_a_driven_robot_and_ends_the_process_with_code_0(released, teleop):
    released.hold_ready("L1", ly=1.0)
    assert teleop.end(signal.SIGTERM) == 0
    released.until_stopped()
    assert "done: controller/stand_up" in teleop.output
    assert "Traceback" not in teleop.output
