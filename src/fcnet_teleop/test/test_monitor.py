"""The monitor as a process, between a real controller and an HTTP client."""

import http.client
import json
import signal
import threading
import time
from contextlib import closing, suppress

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import Pose
from nav_msgs.msg import Odometry
from ros_harness import TIMEOUT, wait_until
from sensor_msgs.msg import Imu
from std_msgs.msg import String

from fcnet_core.legs.kinematics import LegKinematics
from fcnet_core.names import Mode
from fcnet_ros.topics import DIAGNOSTICS, ODOM, ROBOT_FAULT

MONITOR = "fcnet_teleop.monitor.node"


class Page:
    """A page, without a browser: its newest events, and the number of snapshots."""

    def __init__(self, host):
        self._host, self._number = host, 0
        self.snapshot, self.status, self.snapshots = {}, {}, 0
        threading.Thread(target=self._read, daemon=True).start()

    def post(self, path, content=None, status=200):
        with closing(http.client.HTTPConnection(self._host, timeout=TIMEOUT)) as connection:
            connection.request("POST", path, None if content is None else json.dumps(content))
            response = connection.getresponse()
            body = response.read()
        assert response.status == status, body
        return json.loads(body)["message"] if body.startswith(b"{") else ""

    def _read(self):
        connection = http.client.HTTPConnection(self._host, timeout=TIMEOUT)
        connection.request("GET", "/events")
        with connection.getresponse() as stream, suppress(OSError, ValueError, http.client.HTTPException):
            while line := stream.readline().decode():
                if line.startswith("event: "):
                    setattr(self, line[7:-1], json.loads(stream.readline()[6:]))
                    self.snapshots += "snapshot" in line

    def command(self, vx, pose=None, seen=None, style=None):
        self._number += 1
        seen = self.snapshot["t"] if seen is None else seen
        command = {"page": "test", "number": self._number, "seen": seen, "velocity": [vx, 0, 0], "pose": pose}
        return self.post("/command", command | {"style": style or {}})

    def drive(self, vx, until):
        """Drive until something is so."""
        self.command(0)

        def is_reached():
            if "let go" in self.command(vx):
                self.command(0)
            time.sleep(0.05)
            return until()

        wait_until(is_reached, "the drive")


@pytest.fixture(scope="module")
def program(start):
    return start(MONITOR, port=0)


@pytest.fixture(scope="module")
def page(program, ideal_robot):
    page = Page(program.until_printed(r"http://(\S+) in a browser")[1])
    wait_until(
        lambda: page.snapshot.get("joints") and not page.snapshot["problem"],
        lambda: f"a snapshot of the robot; of {page.snapshots} the last is {page.snapshot}; {program.output}",
    )
    return page


@pytest.fixture
def monitor(page, ideal_robot, robot):
    """The page of a robot that lies on its belly."""
    ideal_robot.lie()
    lying = pytest.approx(robot.lie_pose.tolist(), abs=1e-3)
    wait_until(lambda: page.snapshot["joints"] == lying, "a snapshot of the robot lying")
    return page


def test_snapshots_show_where_the_robot_is_and_what_is_commanded(monitor, ideal_robot, robot, client):
    assert monitor.snapshot["trunk"][2] == pytest.approx(robot.geometry.trunk[2], abs=0.1)  # it lies
    ideal_robot.stand()
    wait_until(lambda: monitor.snapshot["trunk"][2] > 0.3, "the robot standing on its feet")

    def is_commanded():
        client.drive(0.1, vx=0.3)
        return monitor.snapshot["source"] == "cmd_vel" and monitor.snapshot["commanded"][0] == 0.3

    wait_until(is_commanded, "the command")
    wait_until(lambda: monitor.snapshot["source"] == "", "the end of the drive")
    ideal_robot.silent = True
    wait_until(lambda: monitor.snapshot["problem"], "the problem of a robot that publishes nothing")


def test_torques_contacts_height_and_attitude_are_shown_where_they_are_measured(monitor, ideal_robot, robot):
    assert monitor.snapshot["torques"] is None
    assert monitor.snapshot["contacts"] is None
    ideal_robot.stand()
    _, jacobians = LegKinematics(robot).feet(robot.stand_pose.reshape(4, 3))
    loads = 9.81 * robot.mass * np.array([0.5, 0.0, 0.02, 0.5])  # [N] on the feet
    ideal_robot.effort = (-jacobians[:, 2] * loads[:, None]).ravel().tolist()
    wait_until(lambda: monitor.snapshot["contacts"] == [1, 0, 0, 1], "the loaded feet")
    assert monitor.snapshot["torques"] == pytest.approx(ideal_robot.effort, abs=1e-3)
    assert monitor.snapshot["body"] == pytest.approx([monitor.snapshot["trunk"][2], 0.0, 0.0], abs=1e-3)
    ideal_robot.effort = []


@pytest.mark.parametrize("imu", [{"w": 0.0}, {"w": 0.8}, {"covariance": -1.0}], ids=["zeros", "short", "not measured"])
def test_an_attitude_that_is_not_measured_is_unknown(monitor, ideal_robot, imu):
    upright, ideal_robot.imu = ideal_robot.imu, Imu()
    ideal_robot.imu.orientation.w = imu.get("w", 1.0)
    ideal_robot.imu.orientation_covariance[0] = imu.get("covariance", 0.0)
    try:
        wait_until(lambda: "orientation" in monitor.snapshot["problem"], "the problem")
        assert [monitor.snapshot[name] for name in ("trunk", "body", "contacts")] == [None] * 3
    finally:
        ideal_robot.imu = upright
    wait_until(lambda: not monitor.snapshot["problem"] and monitor.snapshot["body"], "the attitude")


def test_an_odometry_without_orientation_moves_no_robot(monitor, ideal_robot):
    odometry = ODOM.publisher(ideal_robot.node)

    def places(x, w):
        message = Odometry()
        message.pose.pose.position.x, message.pose.pose.orientation.w = x, w
        odometry.publish(message)
        return monitor.snapshot["trunk"][0]

    wait_until(lambda: places(7.0, 1.0) == 7.0, "the odometry")
    wait_until(lambda: places(9.0, 0.0) == 0.0, "the end of the odometry, after which the robot walks on the spot")


def test_the_robots_fault_is_shown(monitor, client):
    publisher = ROBOT_FAULT.publisher(client.node)
    for fault, shown in (("temperature: FR_calf has 95 deg C", ["robot: temperature: FR_calf has 95 deg C"]), ("", [])):
        publisher.publish(String(data=fault))
        wait_until(lambda shown=shown: monitor.status.get("faults") == shown, "the fault, and its end")


def test_the_health_of_another_robot_is_not_this_ones(monitor, client):
    publisher = DIAGNOSTICS.publisher(client.node)
    names = ("other/controller: control", "joy_node: Joystick")
    message = DiagnosticArray(status=[DiagnosticStatus(name=name, message="broken", level=b"\x02") for name in names])

    def faults():
        publisher.publish(message)
        time.sleep(0.1)
        return monitor.status.get("faults")

    wait_until(faults, "the joystick's fault")
    assert monitor.status["faults"] == ["joy_node: broken"]
    message.status = [DiagnosticStatus(name=names[1], message="works", level=b"\x00")]
    wait_until(lambda: not faults(), "no fault")


def test_a_page_drives_and_a_page_that_vanishes_stops_the_robot(monitor, velocities, is_silent):
    monitor.drive(0.4, until=lambda: 0.4 in velocities)
    wait_until(lambda: velocities[-1] == 0.0, "a velocity of zero")  # no more commands came: the page was closed
    wait_until(lambda: is_silent(velocities), "silence")
    assert "let go" in monitor.command(0.4)


def test_buttons_move_a_real_controller_and_the_stop_needs_no_page(monitor, start, client):
    module = "fcnet_controller.controller_node"
    controller = start(module, auto_activate=True, stand_up_time=0.5, state_timeout=1.0)
    wait_until(lambda: monitor.status.get("mode") == Mode.PASSIVE, "the mode")

    def is_standing():
        if client.mode == Mode.PASSIVE:  # services may not be discovered yet: press again
            monitor.post("/request/stand_up", {"seen": monitor.snapshot["t"]})
            time.sleep(0.3)
        return client.mode == Mode.STANDING

    wait_until(is_standing, "the robot standing")
    wait_until(lambda: "standing up" in " ".join(monitor.status["responses"]), "the controller's response")
    assert monitor.command(0, style={"width": 0.1, "frequency": -0.2}) == ""
    stride = {"stance_width": "0.1", "foot_clearance": "0", "stride_frequency": "-0.2"}
    wait_until(
        lambda: any(stride.items() <= one["values"].items() for one in monitor.status["statuses"]),
        "the stride in the controller's diagnostics",
    )
    monitor.post("/stop")
    client.until_mode(Mode.FAULT)
    wait_until(lambda: any("emergency stop" in fault for fault in monitor.status["faults"]), "the reason in words")
    assert "let go" in monitor.command(0.4)
    controller.end(signal.SIGKILL)
    wait_until(lambda: monitor.status["lost"] and monitor.status["mode"] == "unknown", "the controller's end")
    assert "controller has ended" in monitor.status["faults"][0]


def test_what_a_network_held_up_changes_nothing_but_a_stop(monitor, services, client):
    poses = []
    client.subscribe(Pose, "monitor/cmd_pose", poses.append, 10)
    services.add(*(f"controller/{name}" for name in ("walk", "emergency_stop")))
    old = {"seen": monitor.snapshot["t"] - 4.0}
    assert "s old, the limit is 1 s" in monitor.post("/request/walk", old, status=409)
    assert "s old, the limit is 1 s" in monitor.command(0, pose=[-0.1, 0, 0], seen=old["seen"])
    monitor.post("/request/emergency_stop", old)
    wait_until(lambda: services.requests, "the stop")
    assert set(services.requests) == {"controller/emergency_stop"}
    assert poses == []
    wait_until(lambda: monitor.command(0, pose=[-0.1, 0, 0]) == "" and poses, "a pose of now")
    assert poses[0].position.z == pytest.approx(-0.1)


def test_a_stop_is_repeated_until_a_controller_that_comes_later_has_confirmed_it(monitor, services):
    monitor.post("/request/emergency_stop")
    time.sleep(0.5)
    services.add("controller/emergency_stop")
    wait_until(lambda: set(services.requests) == {"controller/emergency_stop"}, "the stop, once or repeated")
    wait_until(lambda: "done: controller/emergency_stop" in monitor.status["responses"], "the response")


def test_beyond_this_computer_a_link_with_a_token_is_printed(start):
    program = start(MONITOR, port=0, host="0.0.0.0")
    program.until_printed("everybody who has the link")
    port, link = program.until_printed(r"http://\S+:(\d+)(/\?token=\S{20,}) in a browser").groups()
    for path, status in (("/facts.json", 401), (link, 200)):
        with closing(http.client.HTTPConnection(f"127.0.0.1:{port}", timeout=TIMEOUT)) as connection:
            connection.request("GET", path)
            assert connection.getresponse().status == status
    program.end(signal.SIGKILL)


def test_the_end_of_the_monitor_stops_the_robot(monitor, program, velocities):
    monitor.drive(0.4, until=lambda: velocities and velocities[-1] == 0.4)
    assert program.end() == 0
    wait_until(lambda: velocities[-1] == 0.0, "a velocity of zero at the end")
