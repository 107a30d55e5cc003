"""Keys and what they command; teleoperation as a process on a pseudo-terminal, and its status line."""

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
import time

import pytest
from geometry_msgs.msg import Pose, Twist
from ros_harness import TIMEOUT, main_command, wait_until
from std_msgs.msg import String

from fcnet_core.names import Request
from fcnet_ros.topics import MODE
from fcnet_teleop.controls import load_remote_control
from fcnet_teleop.teleop_keyboard import KeyboardCommand, describe
from fcnet_teleop.terminal import StatusDisplay

KEYS = load_remote_control().keyboard


@pytest.fixture
def command(robot):
    return KeyboardCommand(KEYS, robot.commands)


def press(command, *keys, now=10.0):
    return [command.press(key, now) for key in keys][-1]


def published(command, now):
    """Whether a velocity, and whether a pose is published."""
    both = command.command(now)
    return both.velocity is not None, both.pose is not None


def test_keys_add_up_and_space_takes_the_velocity_back(command):
    assert press(command, *"waeq", "up", "\x1b[5~") is None
    assert command.setpoint["vx"] == pytest.approx(0.2)
    assert command.setpoint["vy"] == pytest.approx(0.05)
    assert command.setpoint["yaw_rate"] == 0.0
    press(command, "f", "space")
    assert command.setpoint["vx"] == 0.0
    assert command.setpoint["height"] == pytest.approx(-0.01)
    press(command, "c")
    assert command.setpoint["height"] == 0.0


def test_the_command_ends_at_the_robots_ranges(command, robot):
    for field, step in KEYS.steps.items():
        press(command, *[step.higher[0]] * 100)
        assert command.setpoint[field] == robot.commands[field].highest
        press(command, *[step.lower[0]] * 200)
        assert command.setpoint[field] == robot.commands[field].lowest


@pytest.mark.parametrize("request_", [request for request in Request if request is not Request.WALK])
def test_a_request_other_than_to_walk_takes_the_velocity_back(command, request_):
    press(command, "w")
    for key in KEYS.requests[request_.value]:
        assert press(command, key) is request_
    assert command.setpoint["vx"] == 0.0


def test_a_velocity_is_published_until_a_second_after_it_has_become_zero_and_a_pose_for_a_second(command):
    press(command, "2", "0", now=10.0)
    assert published(command, 10.0) == (False, False)
    press(command, "w", now=10.0)
    assert published(command, 10.0) == published(command, 60.0) == (True, False)
    press(command, "space", "f", now=70.0)
    assert published(command, 70.9) == (True, True)
    assert published(command, 71.1) == (False, False)


def test_the_help_names_every_key_and_both_ways_of_a_pair():
    named = set(describe(KEYS).split())
    assert {key for _, keys in KEYS.meanings for key in keys} <= named
    (sideways,) = [line.split() for line in describe(KEYS).splitlines() if line.split()[0] == "a"]
    assert sideways[:6] == ["a", "/", "d", "left", "/", "right,"]


COMMAND = main_command("fcnet_teleop.teleop_keyboard")


class Terminal:
    """A terminal in which teleop_keyboard runs."""

    def __init__(self, domain):
        self._person, program = pty.openpty()
        self._program = program
        self.before = termios.tcgetattr(program)
        environment = os.environ | {"ROS_DOMAIN_ID": str(domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
        self.process = subprocess.Popen(COMMAND, stdin=program, stdout=program, stderr=program, env=environment)
        self.screen = ""
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self):
        while True:
            try:
                self.screen += os.read(self._person, 4096).decode(errors="replace")
            except OSError:
                return

    def press(self, keys):
        os.write(self._person, keys.encode())

    def drive(self, velocities):
        """Press a key until the robot is driven: after a stall of the machine keys do nothing."""

        def is_driven():
            self.press("w")
            time.sleep(0.3)
            return velocities and velocities[-1].linear.x > 0.09

        wait_until(lambda: "Ctrl-C" in self.screen, "the help")
        wait_until(is_driven, "the velocity")

    def hang_up(self):
        os.close(self._person)
        self._person = os.open(os.devnull, os.O_RDWR)  # closed by `close`

    def settings(self):
        return termios.tcgetattr(self._program)

    def waiting(self):
        return struct.unpack("i", fcntl.ioctl(self._program, termios.FIONREAD, bytes(4)))[0]

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._program)
        os.close(self._person)


@pytest.fixture
def terminal(domain):
    terminal = Terminal(domain)
    yield terminal
    terminal.close()


def test_keys_become_commands_and_requests_and_the_terminal_is_restored(terminal, client, services, is_silent):
    velocities, poses = [], []
    services.add("controller/stand_up", "controller/emergency_stop")
    client.subscribe(Twist, "keyboard/cmd_vel", velocities.append, 10)
    client.subscribe(Pose, "keyboard/cmd_pose", poses.append, 10)

    wait_until(lambda: "Ctrl-C" in terminal.screen, "the help")
    services.until("controller/stand_up", lambda: terminal.press("1"))
    wait_until(lambda: "done: controller/stand_up" in terminal.screen, "the response on the screen")
    assert velocities == []

    terminal.press("wwq")
    wait_until(lambda: velocities and velocities[-1].linear.x > 0.19 and velocities[-1].angular.z > 0.09, "velocity")
    wait_until(lambda: "+0.20" in terminal.screen, "the velocity on the screen")
    assert poses == []
    terminal.press("f")
    wait_until(lambda: poses and poses[-1].position.z < -0.005, "the height")
    terminal.press(" ")
    wait_until(lambda: velocities[-1].linear.x == 0.0, "a velocity of zero")
    wait_until(lambda: is_silent(velocities), "silence")

    terminal.press("\x13\x1awx")  # Ctrl-S and Ctrl-Z, which would hold up a terminal, are keys like others
    wait_until(lambda: "controller/emergency_stop" in services.requests, "an emergency stop")
    mode = MODE.of("controller").publisher(client.node)
    for before, after in (("walking", "lying_down"), ("passive", "fault")):
        mode.publish(String(data=before))
        wait_until(lambda before=before: f"{before:<13}" in terminal.screen, "the mode")
        terminal.press("w")
        wait_until(lambda: velocities[-1].linear.x > 0.09, "the velocity")
        mode.publish(String(data=after))
        wait_until(lambda: velocities[-1].linear.x == 0.0, "a velocity of zero after the robot has stopped walking")
        wait_until(lambda after=after: f"the robot is {after.replace('_', ' ')}" in terminal.screen, "the reason")
    client.node.destroy_publisher(mode)
    terminal.press("w")
    wait_until(lambda: velocities[-1].linear.x > 0.09, "the velocity")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.process.wait(TIMEOUT) == 0
    wait_until(lambda: velocities[-1].linear.x == 0.0, "a velocity of zero at the end")
    assert terminal.settings() == terminal.before


def test_the_mode_of_a_second_controller_is_not_shown(terminal, client, make_node):
    mode = MODE.of("controller").publisher(client.node)
    mode.publish(String(data="standing"))
    wait_until(lambda: f"{'standing':<13}" in terminal.screen, "the mode")
    MODE.of("controller").publisher(make_node("stranger")).publish(String(data="walking"))
    wait_until(lambda: "/stranger is ignored" in " ".join(terminal.screen.split()), "a warning")
    assert f"{'walking':<13}" not in terminal.screen
    client.node.destroy_publisher(mode)


def test_after_a_pause_of_the_process_the_robot_stays_and_old_keys_do_nothing_but_stop(terminal, client, services):
    velocities = []
    services.add("controller/walk", "controller/emergency_stop")
    client.subscribe(Twist, "keyboard/cmd_vel", velocities.append, 10)
    terminal.drive(velocities)
    terminal.process.send_signal(signal.SIGSTOP)
    time.sleep(1.0)
    terminal.press(keys := "2" + 100 * "w" + "x")
    wait_until(lambda: terminal.waiting() == len(keys), "the keys in the terminal's queue")
    velocities.clear()
    terminal.process.send_signal(signal.SIGCONT)
    wait_until(lambda: "controller/emergency_stop" in services.requests, "the emergency stop")
    wait_until(lambda: len(velocities) > 3, "zero velocities")
    assert not any(one.linear.x for one in velocities[1:])  # the first can be one that was being sent when it stopped
    assert "controller/walk" not in services.requests


def test_a_terminal_that_is_closed_without_a_signal_stops_the_robot(terminal, client):
    velocities = []
    client.subscribe(Twist, "keyboard/cmd_vel", velocities.append, 10)
    terminal.drive(velocities)
    terminal.hang_up()
    assert terminal.process.wait(TIMEOUT) != 0
    wait_until(lambda: velocities[-1].linear.x == 0.0, "a velocity of zero at the end")


def test_without_a_terminal_or_with_a_file_that_cannot_be_used_it_ends_with_code_2(domain, tmp_path):
    path = tmp_path / "remote.yaml"
    path.write_text("sources: [")
    person, program = pty.openpty()
    for stdin, options in ((subprocess.DEVNULL, []), (program, ["--ros-args", "-p", f"remote_file:={path}"])):
        result = subprocess.run([*COMMAND, *options], stdin=stdin, capture_output=True, text=True, check=False)
        assert result.returncode == 2
        assert "Traceback" not in result.stderr
        assert not options or str(path) in result.stderr
    os.close(person)
    os.close(program)


def test_on_a_terminal_the_status_line_changes_in_place(monkeypatch):
    master, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        StatusDisplay().show("walking")
        shown = os.read(master, 1000).decode()
    os.close(master)
    assert "walking" in shown
    assert "\n" not in shown


def test_elsewhere_the_status_is_a_plain_line_now_and_then(capsys):
    display = StatusDisplay()
    for step in range(100):
        display.show(f"status {step}")
    assert capsys.readouterr().out == "status 0\n"
