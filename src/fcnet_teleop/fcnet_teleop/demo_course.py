"""The demo: stands a robot up, walks it over a course by topics and services alone, and tells how it did."""

from __future__ import annotations

import math
import threading
import time

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import Pose, Twist
from nav_msgs.msg import Odometry
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from std_msgs.msg import String
from std_srvs.srv import Trigger

from fcnet_ros.program import run_program
from fcnet_teleop.course import (
    CourseScore,
    Section,
    Sighting,
    course_distance,
    course_length,
    course_report,
    section_at,
    slowness,
)
from fcnet_teleop.terminal import StatusDisplay

PATIENCE = 120.0  # [s] until a robot that does not answer or does not get up is given up; a first start compiles
COMMAND_INTERVAL = 0.05  # [s]
ASK_INTERVAL = 1.0  # [s] between two requests for the same
HEALTH_PATIENCE = 2.0  # [s] for two reports of the controller's health
ENOUGH = 0.7  # of the course's length, below which the robot did not follow it
REST = Section("rest", 0.0)


class DemoFailedError(RuntimeError):
    """The robot did not finish the course; the sentence says why."""


class DemoCourse(Node):
    """Drives one controller over the course until it ends or is stopped."""

    def __init__(self) -> None:
        super().__init__("demo_course")
        controller = self.declare_parameter("controller", "controller").value
        terminal = self.declare_parameter("status_terminal", "").value
        self._factor = self.declare_parameter("real_time_factor", 1.0).value
        self._display = StatusDisplay(terminal)
        self._score = CourseScore()
        self._stop = threading.Event()
        self._section, self._in_section = REST, 0.0
        self._mode = ""
        self._health: dict[str, str] = {}
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self)
        self._velocity = self.create_publisher(Twist, "cmd_vel", 10)
        self._pose = self.create_publisher(Pose, "cmd_pose", 10)
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.create_subscription(String, f"{controller}/mode", self._hear_mode, latched)
        self.create_subscription(Odometry, "odom", self._see, qos_profile_sensor_data)
        self.create_subscription(DiagnosticArray, "/diagnostics", self._hear_health, 10)
        self._requests = {name: self.create_client(Trigger, f"{controller}/{name}") for name in ("stand_up", "walk")}

    def drive(self, stop: threading.Event) -> None:
        """Stand up, walk the course, print the table. Raises DemoFailedError, or KeyboardInterrupt after `stop`."""
        self._stop = stop
        self._get_walking()
        started = self._now()
        self._health.pop("slowest_factor", None)
        try:
            self._walk(started)
        finally:
            self._command(REST)
            self._display.say(f"\n{course_report(self._score, self._now() - started, self._health)}\n")
            if sentence := slowness(self._health):
                self._display.say(f"  {sentence}\n")
        if self._score.distance < ENOUGH * course_distance():
            raise DemoFailedError(
                f"the robot went {self._score.distance:.1f} m of the course's {course_distance():.1f} m"
            )

    def _get_walking(self) -> None:
        deadline, asked = self._now() + PATIENCE, float("-inf")
        while self._mode != "walking":
            self._listen(0.1)
            self._show("" if self._mode else "waiting for a robot")
            if self._mode == "fault":
                raise DemoFailedError(f"the controller is in fault: {self._reason() or 'see its log'}")
            if self._now() > deadline:
                raise DemoFailedError(
                    f"the robot is {self._mode.replace('_', ' ')} and does not walk after {PATIENCE:g} s"
                    if self._mode
                    else f"no controller has answered for {PATIENCE:g} s; start one with ros2 launch"
                )
            wanted = {"passive": "stand_up", "standing": "walk"}.get(self._mode)
            if wanted and self._now() - asked > ASK_INTERVAL and self._requests[wanted].service_is_ready():
                self._requests[wanted].call_async(Trigger.Request())
                asked = self._now()

    def _walk(self, started: float) -> None:
        commanded = float("-inf")
        while (place := section_at(self._now() - started)) is not None:
            self._section, self._in_section = place
            if self._now() - commanded >= COMMAND_INTERVAL:
                commanded = self._now()
                self._command(self._section)
            self._listen(0.01)
            self._show(f"{self._section.name:<8}  {self._now() - started:4.1f}/{course_length():.0f} s")
            if self._score.falls:
                raise DemoFailedError(f"the robot fell in section '{self._section.name}'")
            if self._mode != "walking":
                raise DemoFailedError(
                    f"the controller went to {self._mode} in section '{self._section.name}' {self._reason()}".strip()
                )

    def _reason(self) -> str:
        """Why the controller is in fault, in words, if it is; its health is told once a second."""
        deadline = time.monotonic() + HEALTH_PATIENCE
        while self._mode == "fault" and not self._health.get("fault") and time.monotonic() < deadline:
            self._listen(0.1)
        return self._health.get("fault", "")

    def _listen(self, timeout: float) -> None:
        self._executor.spin_once(timeout_sec=timeout)
        if self._stop.is_set():
            raise KeyboardInterrupt

    def _command(self, section: Section) -> None:
        velocity, pose = Twist(), Pose()
        velocity.linear.x, velocity.linear.y, velocity.angular.z = section.vx, section.vy, section.yaw_rate
        pose.position.z = section.height
        pose.orientation.x, pose.orientation.y = math.sin(section.roll / 2), math.sin(section.pitch / 2)
        pose.orientation.w = math.sqrt(1.0 - pose.orientation.x**2 - pose.orientation.y**2)
        self._velocity.publish(velocity)
        self._pose.publish(pose)

    def _show(self, progress: str) -> None:
        section = self._section
        self._display.show(
            f"{self._mode:<11} {progress:<19}  falls {self._score.falls}  "
            f"speed {self._score.speed:.2f} m/s  height {self._score.height:.2f} m  "
            f"command {section.vx:.2f} {section.vy:.2f} m/s {section.yaw_rate:.2f} rad/s"
        )

    def _hear_mode(self, message: String) -> None:
        self._mode = message.data

    def _see(self, message: Odometry) -> None:
        place, motion = message.pose.pose, message.twist.twist
        sighting = Sighting(
            time=self._now(),
            position=np.array([place.position.x, place.position.y, place.position.z]),
            orientation=np.array([getattr(place.orientation, axis) for axis in "xyzw"]),
            velocity=np.array([motion.linear.x, motion.linear.y, motion.angular.z]),
        )
        self._score.see(sighting, None if self._section is REST else self._section, self._in_section)

    def _hear_health(self, message: DiagnosticArray) -> None:
        namespace = self.get_namespace().strip("/")
        for status in message.status:
            if status.name.rpartition("/")[0] == namespace:
                self._health.update({pair.key: pair.value for pair in status.values})
        if "real_time_factor" in self._health:
            slowest = min(float(self._health["real_time_factor"]), float(self._health.get("slowest_factor", "inf")))
            self._health["slowest_factor"] = str(slowest)

    def _now(self) -> float:
        """Simulated seconds, or with a real robot just seconds."""
        return time.monotonic() * self._factor


def main() -> int:
    """Drive the course; the exit code is 0 only where the robot finished it without a fall."""
    return run_program("demo_course", DemoCourse, _run)


def _run(node: DemoCourse, stop: threading.Event) -> int:
    try:
        node.drive(stop)
    except DemoFailedError as failure:
        print(f"Failed: {failure}.", flush=True)
        return 1
    except KeyboardInterrupt:
        print("Stopped before the end of the course.", flush=True)
        return 130
    print("Passed: the robot finished the course without a fall.", flush=True)
    return 0
