"""The demo: makes a robot stand up and walk a course, by topics and services only, and prints its score.

On the hard course a simulated robot is also pushed over and gets up again.
"""

import math
import time
from dataclasses import asdict
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.srv import SetParameters
from rclpy.client import Client
from rclpy.node import Node
from rclpy.parameter import Parameter
from std_msgs.msg import String
from std_srvs.srv import Trigger

from fcnet_core.control.timing import NEVER
from fcnet_core.errors import DemoFailedError
from fcnet_core.names import PUSH, HealthKey, Mode, Request
from fcnet_core.remote import Source
from fcnet_ros.one_publisher import follow
from fcnet_ros.parameters import SIM_TIME, declare_fixed_parameters
from fcnet_ros.program import GuardedExecutor, Stop, run_program
from fcnet_ros.topics import CMD_POSE, CMD_VEL, DIAGNOSTICS, MODE, ODOM
from fcnet_teleop.commands import CommandPublisher, ModeClient, StyleClient
from fcnet_teleop.controls import Command
from fcnet_teleop.course import COURSES, STANDSTILL, CourseScore, Section, section_at
from fcnet_teleop.parameters import DemoParameters
from fcnet_teleop.terminal import StatusDisplay

START_TIMEOUT = 120.0  # [s] until the robot must walk; a first start compiles
COMMAND_PERIOD = 0.05  # [s]
REQUEST_PERIOD = 1.0  # [s] between two requests for the same
HEALTH_TIMEOUT = 2.0  # [s] two periods of the controller's diagnostics
MIN_PROGRESS = 0.7  # of the course's distance, below which the robot did not follow its commands
PUSHES = (2.0, 2.5, 3.0, 3.0, 3.0)  # [m/s] to the side, until the robot falls
PUSH_HEIGHT = 0.08  # [m] above the trunk's centre
PUSH_TIME = 1.5  # [s] in which a robot falls
RESPONSE_TIMEOUT = 30.0  # [s]
GET_UP_TIMEOUT = 40.0  # [s] from the fall until it walks
STARTING: dict[str, Request] = {Mode.PASSIVE: Request.STAND_UP, Mode.STANDING: Request.WALK}
GETTING_UP: dict[str, Request] = {Mode.FAULT: Request.RESET, Mode.PASSIVE: Request.RECOVER, Mode.STANDING: Request.WALK}


class DemoCourse(Node):
    """Drives a robot over the course by its controller."""

    def __init__(self) -> None:
        super().__init__("demo_course")
        chosen = declare_fixed_parameters(self, DemoParameters)
        self._factor = chosen.real_time_factor
        self._simulated_time = bool(self.get_parameter(SIM_TIME).value)
        self._course = COURSES[chosen.course]
        self._display, self._score, self._stop = StatusDisplay(), CourseScore(), Stop()
        self._section, self._in_section = STANDSTILL, 0.0
        self._mode = ""
        self._health: dict[str, str] = {}
        self._before: dict[str, str] = {}  # health at the start of the course, or the first of the controller after it
        self._executor = GuardedExecutor(self)
        self._commands = CommandPublisher(self, Source("demo", CMD_VEL.name, CMD_POSE.name), stamped=False)
        self._modes = ModeClient(self, chosen.controller, chosen.bridge, report=lambda _response: None)
        self._style = StyleClient(self, chosen.controller, report=self.get_logger().warning)
        self._clearance = STANDSTILL.clearance  # last request to the controller [m]
        self._push = self.create_client(Trigger, f"{chosen.simulator}/{PUSH}")
        self._push_settings = self.create_client(SetParameters, f"{chosen.simulator}/set_parameters")
        follow(self, MODE.of(chosen.controller), self._set_mode)
        ODOM.subscribe(self, lambda now: self._score.update(now, self._now(), self._section, self._in_section))
        DIAGNOSTICS.subscribe(self, self._update_health)

    def run(self, stop: Stop) -> int:
        """Drive until the end of the course or `stop`, and print the result; return the exit code."""
        self._stop = stop
        try:
            print(f"Passed: {self._drive()}.", flush=True)
            return 0
        except DemoFailedError as failure:
            print(f"Failed: {failure}.", flush=True)
            return 1
        except KeyboardInterrupt:
            print("Stopped before the end of the course.", flush=True)
            return 130

    def _drive(self) -> str:
        """Stand up, walk the course, print the table and return the result in words."""
        self._request_walking(STARTING, START_TIMEOUT, "" if self._mode else "waiting for a robot")
        start, self._before = self._now(), dict(self._health)
        try:
            start = self._walk(start)
        finally:
            self._publish(STANDSTILL)
            self._display.print(f"\n{self._score.report(self._now() - start, self._before, self._health)}\n")
        commanded = sum(math.hypot(section.vx, section.vy) * section.duration for section in self._course)
        if self._score.distance < MIN_PROGRESS * commanded:
            raise DemoFailedError(f"the robot walked {self._score.distance:.1f} m of the course's {commanded:.1f} m")
        if self._score.recovery is None:
            return "the robot finished the course without a fall"
        return "the robot was pushed over, got up, and finished the course without a fall of its own"

    def _request_walking(self, ways: dict[str, Request], timeout: float, progress: str) -> None:
        """Send the request of each mode in `ways` until the robot walks."""
        deadline, requested = self._now() + timeout, NEVER
        while self._mode != Mode.WALKING:
            self._spin(0.1)
            self._show(progress)
            if self._mode == Mode.FAULT and Mode.FAULT not in ways:
                raise DemoFailedError(f"the controller is in fault: {self._fault() or 'see its log'}")
            if self._now() > deadline:
                problem = f"the robot is {self._mode.replace('_', ' ')} and does not walk after {timeout:g} s"
                missing = f"no controller has published its mode for {timeout:g} s; start one with ros2 launch"
                raise DemoFailedError(problem if self._mode else missing)
            request = ways.get(self._mode)
            if request and self._now() - requested > REQUEST_PERIOD:
                self._modes.request(request)
                requested = self._now()

    def _walk(self, start: float) -> float:
        """Walk the course from time `start` [s]; return `start` plus the time of falls and recoveries."""
        published, duration = NEVER, sum(section.duration for section in self._course)
        while (place := section_at(self._course, self._now() - start)) is not None:
            if place[0].toppled and self._score.recovery is None:
                self._section, began = STANDSTILL, self._now()
                self._topple()
                fallen = self._now()
                self._request_walking(GETTING_UP, GET_UP_TIMEOUT, "getting up")
                self._score.recovery, self._score.falls = self._now() - fallen, 0
                start += self._now() - began
                continue
            self._section, self._in_section = place
            if self._now() - published >= COMMAND_PERIOD:
                published = self._now()
                self._publish(self._section)
            self._spin(0.01)
            self._show(f"{self._section.name:<8}  {self._now() - start:4.1f}/{duration:.0f} s")
            if self._score.falls:
                raise DemoFailedError(f"the robot fell in section '{self._section.name}'")
            if self._mode != Mode.WALKING:
                where = f"in section '{self._section.name}'"
                raise DemoFailedError(f"the controller went to {self._mode} {where} {self._fault()}".strip())
        return start

    def _topple(self) -> None:
        for speed in PUSHES:
            settings = {"push_speed": speed, "push_height": PUSH_HEIGHT, "push_direction": "left"}
            changes = [Parameter(name, value=value).to_parameter_msg() for name, value in settings.items()]
            self._call(self._push_settings, SetParameters.Request(parameters=changes))
            self._call(self._push, Trigger.Request())
            end = self._now() + PUSH_TIME
            while self._now() < end:
                self._spin(0.02)
                self._show("pushed")
                if self._mode == Mode.FAULT:
                    return
        raise DemoFailedError(f"{len(PUSHES)} pushes of up to {max(PUSHES):g} m/s did not topple the robot")

    def _call(self, service: Client, request: Any) -> None:
        deadline = time.monotonic() + RESPONSE_TIMEOUT
        while not service.service_is_ready() and time.monotonic() < deadline:
            self._spin(0.05)
        response = service.call_async(request)
        while not response.done():
            self._spin(0.01)
            if time.monotonic() > deadline:
                raise DemoFailedError(f"{service.srv_name} does not respond; is the robot a simulated one?")

    def _fault(self) -> str:
        """Return why the controller is in fault, or ""; waits for its diagnostics, which are sent every second."""
        deadline = time.monotonic() + HEALTH_TIMEOUT
        while self._mode == Mode.FAULT and not self._health.get(HealthKey.FAULT) and time.monotonic() < deadline:
            self._spin(0.1)
        return self._health.get(HealthKey.FAULT, "")

    def _spin(self, timeout: float) -> None:
        self._executor.spin_once(timeout_sec=timeout)
        if self._stop.is_set():
            raise KeyboardInterrupt

    def _publish(self, section: Section) -> None:
        setpoint = asdict(section)
        self._commands.publish(Command(velocity=setpoint, pose=setpoint))
        if section.clearance != self._clearance:
            self._clearance = section.clearance
            self._style.request({"clearance": section.clearance})

    def _show(self, progress: str) -> None:
        section = self._section
        self._display.show(
            f"{self._mode:<11} {progress:<19}  falls {self._score.falls}  "
            f"speed {self._score.speed:.2f} m/s  height {self._score.height:.2f} m  "
            f"command {section.vx:.2f} {section.vy:.2f} m/s {section.yaw_rate:.2f} rad/s"
        )

    def _set_mode(self, message: String) -> None:
        self._mode = message.data

    def _update_health(self, message: DiagnosticArray) -> None:
        namespace = self.get_namespace().strip("/")
        for status in message.status:
            if status.name.rpartition("/")[0] == namespace:
                self._health |= {pair.key: pair.value for pair in status.values}
        if HealthKey.LOOP_TIME not in self._before:
            self._before = dict(self._health)

    def _now(self) -> float:
        """Return simulated time [s]: /clock if use_sim_time, else real time multiplied by the factor."""
        if self._simulated_time:
            return float(self.get_clock().now().nanoseconds) * 1e-9
        return time.monotonic() * self._factor


def main() -> int:
    """Drive the course; return the exit code, 0 only if the robot finished it without a fall."""
    return run_program("demo_course", DemoCourse, DemoCourse.run)
