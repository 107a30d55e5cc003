"""Shows a robot in browsers and lets people drive it from there: a page on 127.0.0.1 that works on topics alone."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.msg import ParameterDescriptor
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String

from fcnet_core.remote import REMOTE_FILE
from fcnet_core.robot import load_robot
from fcnet_ros.program import run_program, spin
from fcnet_teleop.commands import CommandPublisher, ModeClient
from fcnet_teleop.monitor.driver import MonitorControls
from fcnet_teleop.monitor.picture import MonitorNews, MonitorReceiver, facts, picture
from fcnet_teleop.monitor.server import MonitorActions, MonitorFeed, MonitorServer, is_loopback
from fcnet_teleop.remote import RemoteControl, load_remote_control

SOURCE = "monitor"
FAULT = "fault"
NEWS_PERIOD = 0.2  # [s]
PARAMETERS = {
    "robot": ("aliengo", "robot to show and drive: the name of a file in config/robots"),
    "host": ("127.0.0.1", "address to listen at; 0.0.0.0 lets every computer on the network drive the robot"),
    "port": (8088, "TCP port to listen at; 0 takes a free one"),
    "frame_rate": (30.0, "pictures per second"),
    "controller": ("controller", "name of the controller's node"),
    "bridge": ("", "name of the bridge's node of a real robot, to stop and reset it as well; empty for none"),
    "use_stamped_cmd_vel": (False, "send TwistStamped instead of Twist; as the controller's parameter of that name"),
    "watch_only": (False, "the page has no controls, and nothing can be asked of it; for a recording that is played"),
    "remote_file": (str(REMOTE_FILE), "YAML file that says which keys mean what, and who is heard first"),
}


class Monitor(Node):
    """Between topics and services and the pages' server. Raises ValueError for a parameter that cannot be used."""

    def __init__(self) -> None:
        super().__init__("monitor")
        values = {
            name: self.declare_parameter(name, default, ParameterDescriptor(description=description)).value
            for name, (default, description) in PARAMETERS.items()
        }
        _check(values)
        self._robot = load_robot(values["robot"])
        remote = load_remote_control(values["remote_file"])
        self._news, self._feed = MonitorNews(), MonitorFeed()
        self._controls = None if values["watch_only"] else self._make_controls(values, remote)
        self._receiver = MonitorReceiver(self, values["controller"], remote, values["use_stamped_cmd_vel"])
        self._listen(values["controller"])
        self._start_timers(values["frame_rate"])
        self._server = _serve(values, self._feed, _actions(self._controls), self._facts(remote))
        self._announce(values["host"])

    def close(self) -> None:
        """Let go of the robot and end the server."""
        self._server.close()
        if self._controls is not None:
            self._controls.close()

    def _make_controls(self, values: dict[str, Any], remote: RemoteControl) -> MonitorControls:
        publisher = CommandPublisher(self, remote.source(SOURCE), values["use_stamped_cmd_vel"])
        modes = ModeClient(self, values["controller"], values["bridge"], self._news.answer)
        return MonitorControls(self, self._robot.commands, publisher, modes)

    def _listen(self, controller: str) -> None:
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.create_subscription(String, f"{controller}/mode", self._hear_mode, latched)
        self.create_subscription(String, "robot_fault", lambda m: self._news.set_robot_fault(m.data), latched)
        self.create_subscription(DiagnosticArray, "/diagnostics", self._hear_health, 10)

    def _start_timers(self, frame_rate: float) -> None:
        steady = Clock(clock_type=ClockType.STEADY_TIME)  # goes on where simulated time stands still
        self.create_timer(1 / frame_rate, self._show, clock=steady)
        self.create_timer(NEWS_PERIOD, self._tell_news, clock=steady)

    def _facts(self, remote: RemoteControl) -> dict[str, Any]:
        keys = remote.keyboard
        return {
            **facts(self._robot),
            "watch_only": self._controls is None,
            "steps": {field: [step.lower, step.higher, step.size] for field, step in keys.steps.items()},
            "halt": keys.halt,
            "level": keys.level,
            "requests": {request.value: names for request, names in keys.requests.items()},
        }

    def _announce(self, host: str) -> None:
        shown = f"[{host}]" if ":" in host else host
        self.get_logger().info(f"open http://{shown}:{self._server.port} in a browser")
        if self._controls is not None and not is_loopback(host):
            self.get_logger().warning(
                f"host is {host}: everybody who can reach this computer can move the robot, there is no password; use "
                "a network of your own, or host 127.0.0.1 and an ssh tunnel"
            )

    def _show(self) -> None:
        if self._feed.watchers:
            told = picture(self._robot, self._receiver.receive(), time.monotonic())
            self._feed.tell("picture", json.dumps(told, separators=(",", ":")).encode())

    def _tell_news(self) -> None:
        self._feed.tell("news", json.dumps(self._news.told(time.monotonic())).encode(), lasting=True)

    def _hear_mode(self, message: String) -> None:
        self._news.set_mode(message.data)
        if message.data == FAULT and self._controls is not None:
            self._controls.let_go()

    def _hear_health(self, message: DiagnosticArray) -> None:
        now, ours = time.monotonic(), ("", self.get_namespace().strip("/"))
        for status in message.status:
            if status.name.partition(":")[0].strip("/").rpartition("/")[0] not in ours:
                continue  # of another robot; a driver's has no namespace
            level = status.level[0] if isinstance(status.level, bytes) else int(status.level)
            values = [(pair.key, pair.value) for pair in status.values]
            self._news.set_status(status.name, level, status.message, values, now)


def _check(values: dict[str, Any]) -> None:
    if not 0 <= values["port"] <= 65535:
        raise ValueError(f"parameter port is {values['port']}; give 0 (any free one) to 65535")
    if not 1.0 <= values["frame_rate"] <= 60.0:
        raise ValueError(f"parameter frame_rate is {values['frame_rate']:g}; give 1 to 60 pictures per second")


def _actions(controls: MonitorControls | None) -> MonitorActions | None:
    return None if controls is None else MonitorActions(controls.drive, controls.ask)


def _serve(
    values: dict[str, Any], feed: MonitorFeed, actions: MonitorActions | None, told: dict[str, Any]
) -> MonitorServer:
    host, port = values["host"], values["port"]
    try:
        return MonitorServer(host, port, feed, actions, told)
    except (OSError, UnicodeError) as error:
        raise ValueError(
            f"cannot listen at {host} port {port} ({error}); stop the other monitor, or choose another port, or an "
            "address of this computer as host"
        ) from error


def main() -> int:
    """Run the monitor until a signal; the exit code is 2 where a parameter is wrong or the port is taken."""
    return run_program("monitor", Monitor, _run)


def _run(node: Monitor, stop: threading.Event) -> int:
    try:
        spin(node, stop)
    finally:
        node.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
