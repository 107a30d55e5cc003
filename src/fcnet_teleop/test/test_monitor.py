"""The monitor as a process, between a real controller and a client that speaks HTTP."""

import http.client
import json
import re
import signal
import threading
import time

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import Pose, Twist
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String
from std_srvs.srv import SetBool

PATIENCE = 30.0


class Client:
    """A page, without a browser."""

    def __init__(self, host):
        self._host = host
        self._number = 0
        self.picture, self.news, self.pictures = {}, {}, 0
        self._watching = None

    def post(self, path, content=None, status=200):
        connection = http.client.HTTPConnection(self._host, timeout=PATIENCE)
        connection.request("POST", path, None if content is None else json.dumps(content))
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        assert answer.status == status, body
        return json.loads(body)["sentence"] if body.startswith(b"{") else ""

    def refused(self, path, content=None):
        """The sentence with which something is forbidden."""
        return self.post(path, content, status=403)

    def watch(self):
        """Receive pictures and news from now on."""
        self._watching = http.client.HTTPConnection(self._host, timeout=PATIENCE)
        self._watching.request("GET", "/stream")
        threading.Thread(target=self._read, args=(self._watching.getresponse(),), daemon=True).start()

    def _read(self, stream):
        try:
            while line := stream.readline():
                if line.startswith(b"event: "):
                    content = json.loads(stream.readline()[6:])
                    if b"picture" in line:
                        self.picture, self.pictures = content, self.pictures + 1
                    else:
                        self.news = content
        except (OSError, ValueError):
            return

    def order(self, vx, pose=None, seen=None):
        self._number += 1
        seen = self.picture["t"] if seen is None else seen
        velocity = [vx, 0, 0]
        order = {"page": "test", "number": self._number, "seen": seen, "velocity": velocity, "pose": pose}
        return self.post("/order", order)

    def drive(self, vx, until):
        """Drive until something is so."""
        self.order(0)
        deadline = time.monotonic() + PATIENCE
        while not until():
            assert time.monotonic() < deadline
            if "let go" in self.order(vx):
                self.order(0)
            time.sleep(0.05)


def open_monitor(start, bench, **parameters):
    program = start("fcnet_teleop.monitor.node", port=0, **parameters)
    line = program.process.stdout.readline()
    address = re.search(r"http://(\S+) in a browser", line)
    assert address, line
    client = Client(address[1])
    client.watch()
    bench.until(lambda: client.picture.get("joints") and not client.picture["problem"], "a picture of the robot")
    return program, client


@pytest.fixture(scope="module")
def opened(start, bench):
    program, client = open_monitor(start, bench)
    yield client
    end(program)


@pytest.fixture
def monitor(opened, bench):
    """The page of a robot that lies on its belly."""
    bench.restore()
    lying = bench.robot.lie_pose.tolist()
    bench.until(lambda: opened.picture["joints"] == pytest.approx(lying, abs=1e-3), "a picture of the robot lying")
    return opened


@pytest.fixture
def velocities(bench):
    received = []
    subscription = bench.node.create_subscription(Twist, "monitor/cmd_vel", lambda m: received.append(m.linear.x), 10)
    yield received
    bench.node.destroy_subscription(subscription)


def test_pictures_show_where_the_robot_is_and_what_is_commanded(monitor, bench, robot):
    height = monitor.picture["trunk"][2]
    assert height == pytest.approx(robot.geometry.trunk[2], abs=0.1)  # it lies
    bench.position = dict(zip(bench.position, robot.stand_pose.tolist(), strict=True))
    bench.until(lambda: monitor.picture["trunk"][2] > 0.3, "the robot standing on its feet")
    bench.drive(0.5, 0.3)
    bench.until(lambda: monitor.picture["source"] == "", "the end of the drive")
    received = monitor.pictures
    bench.until(lambda: monitor.pictures > received + 30, "more pictures")
    bench.silent = True
    bench.until(lambda: "old" in monitor.picture["problem"], "words about a robot that fell silent")


def test_faults_are_told_in_words(monitor, bench):
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    publisher = bench.node.create_publisher(String, "robot_fault", latched)
    publisher.publish(String(data="temperature: FR_calf_joint has 95 deg C"))
    bench.until(lambda: monitor.news.get("faults") == ["robot: temperature: FR_calf_joint has 95 deg C"], "the fault")
    publisher.publish(String(data=""))
    bench.until(lambda: monitor.news.get("faults") == [], "no fault")
    bench.node.destroy_publisher(publisher)


def test_the_health_of_another_robot_is_not_this_ones(monitor, bench):
    publisher = bench.node.create_publisher(DiagnosticArray, "/diagnostics", 10)
    names = ("other/controller: control", "joy_node: Joystick")
    message = DiagnosticArray(status=[DiagnosticStatus(name=name, message="broken", level=b"\x02") for name in names])

    def told():
        publisher.publish(message)
        time.sleep(0.1)
        return monitor.news["faults"]

    bench.until(told, "the joystick's fault")
    assert monitor.news["faults"] == ["joy_node: broken"]
    message.status = [DiagnosticStatus(name=names[1], message="works", level=b"\x00")]
    bench.until(lambda: not told(), "no fault")
    bench.node.destroy_publisher(publisher)


def test_a_page_drives_and_a_page_that_vanishes_stops_the_robot(monitor, bench, velocities):
    monitor.drive(0.4, until=lambda: 0.4 in velocities)
    bench.until(lambda: velocities[-1] == 0.0, "a velocity of zero")  # no more orders came: the page was closed
    bench.until(lambda: is_silent(velocities), "silence")
    assert "let go" in monitor.order(0.4)


def test_who_sees_no_pictures_does_not_drive(monitor, bench, velocities):
    monitor.drive(0.4, until=lambda: 0.4 in velocities)
    old = monitor.picture["t"] - 1.0
    monitor.order(0)
    velocities.clear()
    assert "picture" in monitor.order(0.4, seen=old)
    bench.until(lambda: velocities, "a velocity")
    assert 0.4 not in velocities


def test_the_end_of_the_monitor_stops_the_robot(start, bench, velocities):
    program, client = open_monitor(start, bench)
    client.drive(0.4, until=lambda: velocities and velocities[-1] == 0.4)
    program.process.send_signal(signal.SIGINT)
    assert program.process.wait(PATIENCE) == 0
    bench.until(lambda: velocities[-1] == 0.0, "a velocity of zero at the end")


def test_a_pose_is_published(monitor, bench):
    poses = []
    subscription = bench.node.create_subscription(Pose, "monitor/cmd_pose", poses.append, 10)
    bench.until(lambda: monitor.order(0, pose=[-0.1, 0, 0]) == "" and poses, "a pose")
    assert poses[0].position.z == pytest.approx(-0.1)
    bench.node.destroy_subscription(subscription)


def test_buttons_move_a_real_controller_and_the_stop_needs_no_page(monitor, start, bench, model_path):
    controller = start(policy=model_path, runtime="numpy", auto_activate=True, stand_up_time=0.5, state_timeout=1.0)
    bench.until(lambda: monitor.news.get("mode") == "passive", "the mode")
    bench.until(lambda: press(monitor, bench, "stand_up") and bench.mode == "standing", "the robot standing")
    bench.until(lambda: "standing up" in " ".join(monitor.news["answers"]), "the controller's answer")
    monitor.post("/stop")
    bench.until_mode("fault")
    bench.until(lambda: any("emergency stop" in fault for fault in monitor.news["faults"]), "the reason in words")
    assert "let go" in monitor.order(0.4)
    end(controller)


def press(monitor, bench, request):
    """Services may not be discovered yet: press again until the mode changes."""
    if bench.mode == "passive":
        monitor.post(f"/request/{request}")
        time.sleep(0.3)
    return True


def test_a_stop_is_repeated_until_a_controller_that_comes_later_has_heard_it(monitor, bench):
    stops = []

    def stop(request, response):
        stops.append(request.data)
        response.success, response.message = True, "stopped"
        return response

    monitor.post("/request/emergency_stop")
    time.sleep(0.5)
    service = bench.node.create_service(SetBool, "controller/emergency_stop", stop)
    bench.until(lambda: stops == [True], "the stop")
    bench.until(lambda: "stopped" in monitor.news["answers"], "the answer")
    bench.node.destroy_service(service)


def test_a_recording_is_only_watched(start, bench):
    bench.restore()
    publishers = bench.node.count_publishers("monitor/cmd_vel")  # another test's monitor may be there
    program, client = open_monitor(start, bench, watch_only=True)
    for path, content in (("/stop", None), ("/request/stand_up", None), ("/order", {})):
        assert "only watches" in client.refused(path, content)
    assert bench.node.count_publishers("monitor/cmd_vel") == publishers
    end(program)


def test_another_address_than_this_computers_is_warned_of(start):
    program = start("fcnet_teleop.monitor.node", port=0, host="0.0.0.0")
    output = program.process.stdout.readline() + program.process.stdout.readline()
    assert "everybody who can reach this computer" in output
    end(program)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"port": 99999}, "port"),
        ({"frame_rate": 0.0}, "frame_rate"),
        ({"host": "nowhere.example.invalid"}, "cannot listen"),
    ],
)
def test_a_parameter_that_cannot_be_used_ends_it_with_one_sentence(start, parameters, words):
    code, output = start("fcnet_teleop.monitor.node", **{"port": 0, **parameters}).wait()
    assert code == 2
    assert words in output
    assert "Traceback" not in output


def end(program):
    """Now, so that it does not meddle with the next test."""
    program.process.kill()
    program.process.wait()


def is_silent(messages):
    before = len(messages)
    time.sleep(0.3)
    return len(messages) == before
