"""Plays a rollout of another simulator as a robot on the usual topics.

The robot does what was recorded, whatever it is told (open loop): joint_trajectory is received and compared with the
recorded targets of the same step. Until the controller walks, a standing robot is shown, so that it can get there.
From then on the two keep step: the controller's clock sets the pace, one step for each of its answers. Two clocks would
drift apart, and a gait that is off by two steps out of twenty is another gait.
"""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import Pose, Twist
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from rclpy.time import Time
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from fcnet_core.control_clock import Pacer
from fcnet_core.files import write_whole
from fcnet_core.limiter import RefusedCommandError, joint_command
from fcnet_core.robot import SETPOINT_FIELDS, load_robot
from fcnet_replay.isaac import Recording, read_recording
from fcnet_ros.program import run_program, spin_beside
from sim_bridge.isaac_source import (
    LiveSource,
    Moment,
    PlaybackComparison,
    RecordedMoments,
    held_moment,
    moment,
    standing_moment,
    summary_text,
)
from sim_bridge.parameter_declaration import declare, declare_number
from sim_bridge.publishers import OdomPublisher, StatePublisher

# The parameters of the playback of Isaac Gym recordings, declared with description and range.

@dataclass(frozen=True)
class PlaybackSettings:
    """What is played and how; see the descriptions below."""

    robot: str
    recording: str
    mapping: str
    live: str
    rate: float
    loop: bool
    wait_for_controller: bool
    control_rate: float
    publish_commands: bool
    summary: str


def declare_playback_settings(node: Node) -> PlaybackSettings:
    """Declare the parameters of `node` and read them. Raises ValueError with a sentence for what cannot be."""
    settings = PlaybackSettings(
        robot=declare(node, "robot", "aliengo", "robot that is played, a file in config/robots"),
        recording=declare(node, "recording", "", "file to play: .rollout, .npz, .pt, .h5"),
        mapping=declare(node, "mapping", "", "YAML file that says what the recording's arrays are called"),
        live=declare(node, "live", "", "host:port at which a running simulation's states are received instead"),
        rate=declare_number(node, "rate", 1.0, (0.05, 20.0), "recorded seconds per second"),
        loop=declare(node, "loop", False, "begin again at the end"),
        wait_for_controller=declare(
            node, "wait_for_controller", True, "play a standing robot until the controller walks, then the recording"
        ),
        control_rate=declare_number(
            node, "control_rate", 50.0, (0.0, 500.0), "the controller's [Hz]; a recording of that rate is kept in step"
        ),
        publish_commands=declare(node, "publish_commands", True, "send the recorded commands as cmd_vel and cmd_pose"),
        summary=declare(node, "summary", "", "JSON file to write the comparison to; must not exist"),
    )
    if bool(settings.recording) == bool(settings.live):
        raise ValueError("give either a recording (recording:=FILE) or the address of a live one (live:=HOST:PORT)")
    return settings


Array = npt.NDArray[np.float64]
HOLD_PERIOD = 0.02  # [s] between two states of the robot that waits
HEALTH_PERIOD = 1.0  # [s]
PATIENCE = 0.1  # [s] to wait for a live state before looking for a signal to end
LONGEST_WAIT = 1.0  # [s] for an answer, after which the recording goes on without
# Of a period between an answer and the next step: well before the controller's next cycle, well after the last one.
PAUSE = 0.4
SAME_RATE = 1e-3  # relative difference within which a recording has the controller's rate
WALKING, FAULT = "walking", "fault"
VELOCITY = [SETPOINT_FIELDS.index(field) for field in ("vx", "vy", "yaw_rate")]
POSE = [SETPOINT_FIELDS.index(field) for field in ("height", "roll", "pitch")]


class IsaacPlayback(Node):
    """The node; `passed` tells after its end whether the controller stayed out of fault."""

    def __init__(self) -> None:
        super().__init__("isaac_playback")
        self.settings = declare_playback_settings(self)
        self.passed = True
        self._robot = load_robot(self.settings.robot)
        self._recording = self._read() if self.settings.recording else None
        self._live = LiveSource(self.settings.live) if self.settings.live else None
        self._comparison = PlaybackComparison()
        self._mode = ""
        self._pose: Array = np.zeros(3)
        self._states, self._odom = StatePublisher(self), OdomPublisher(self)
        self._cmd_vel = self.create_publisher(Twist, "cmd_vel", QoSProfile(depth=1))
        self._cmd_pose = self.create_publisher(Pose, "cmd_pose", QoSProfile(depth=1))
        self._health = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.create_subscription(String, "controller/mode", self._see_mode, latched)
        self.create_subscription(JointTrajectory, "joint_trajectory", self._receive, qos_profile_sensor_data)
        self.create_timer(HEALTH_PERIOD, self._tell_health)

    def simulate(self, stop: threading.Event, spinning: Future[None]) -> None:
        """Play until the recording ends, `stop` is set or `spinning` is done; then say how it compared."""

        def ended() -> bool:
            return stop.is_set() or spinning.done()

        try:
            self._wait_for_controller(ended)
            if self._recording is not None:
                self._play(self._recording, ended)
            else:
                self._relay(ended)
        finally:
            if self._live is not None:
                self._live.close()
            self._conclude()

    def _read(self) -> Recording:
        recording = read_recording(self.settings.recording, self.settings.mapping or None)
        if recording.robot not in ("", self._robot.name):
            raise ValueError(
                f"recording {self.settings.recording} is of the robot {recording.robot}, not {self._robot.name}; "
                f"play it with robot:={recording.robot}"
            )
        for note in recording.notes:
            self.get_logger().warning(note)
        if not recording.has_targets:
            self.get_logger().warning("the recording holds no targets: it is played, but there is nothing to compare")
        seconds = len(recording) * recording.period
        self.get_logger().info(f"{len(recording)} steps, {seconds:.1f} s; the accelerometer is derived from velocities")
        return recording

    def _wait_for_controller(self, ended: Callable[[], bool]) -> None:
        if not self.settings.wait_for_controller:
            return
        self.get_logger().info("standing still until the controller walks")
        still = held_moment(self._recording, self._robot) if self._recording else standing_moment(self._robot)
        pacer = Pacer(HOLD_PERIOD)
        while not ended() and self._mode != WALKING:
            self._publish(still)
            if self._live is None:
                pacer.wait()
            else:
                self._live.receive(HOLD_PERIOD)

    def _play(self, recording: Recording, ended: Callable[[], bool]) -> None:
        moments = RecordedMoments(recording)
        in_step = abs(recording.period * self.settings.control_rate - 1.0) < SAME_RATE
        self.get_logger().info("playing, in step with the controller" if in_step else "playing at its own pace")
        while not ended():
            row = self._play_in_step(moments, recording.period, ended) if in_step else 0
            self._play_at_own_pace(moments, row, recording.period, ended)
            if not self.settings.loop:
                return
            self.get_logger().info("beginning again: the states jump, and the controller does not know it")

    def _play_in_step(self, moments: RecordedMoments, period: float, ended: Callable[[], bool]) -> int:
        """Show one moment for each answer of a controller that walks; return the row at which that came to an end.

        A controller that has answered twice between two moments has gone on by two steps: so does the recording.
        """
        row, before = 0, self._comparison.answers
        while row < len(moments) and self._mode == WALKING and not ended():
            shown = moments[row]
            self._show(shown)
            if not self._await_answer(shown, period):
                return row + 1
            self._command(moments[min(row + 1, len(moments) - 1)].setpoint)
            time.sleep(PAUSE * period / self.settings.rate)
            row = max(row + 1, self._comparison.answers - before)
        return row

    def _await_answer(self, shown: Moment, period: float) -> bool:
        """Whether the moment shown last is answered within LONGEST_WAIT; until then it is shown again and again."""
        give_up = time.monotonic() + LONGEST_WAIT
        while self._mode == WALKING and time.monotonic() < give_up:
            if self._comparison.wait_for_answer(2 * period / self.settings.rate):
                return True
            self._publish(shown)
        return False

    def _play_at_own_pace(self, moments: RecordedMoments, first: int, period: float, ended: Callable[[], bool]) -> None:
        pacer = Pacer(period / self.settings.rate)
        for row in range(first, len(moments)):
            if ended():
                return
            shown = moments[row]
            self._command(shown.setpoint)
            self._show(shown)
            pacer.wait()

    def _relay(self, ended: Callable[[], bool]) -> None:
        """Publish live states as they come."""
        assert self._live is not None
        self.get_logger().info(f"waiting for states at {self.settings.live}")
        before: Recording | None = None
        while not ended():
            state = self._live.receive(PATIENCE)
            if state is None:
                continue
            shown = moment(state, 0, _acceleration(before, state))
            self._command(shown.setpoint)
            self._show(shown)
            before = state

    def _show(self, shown: Moment) -> None:
        self._comparison.played(shown.target, self._publish(shown))

    def _publish(self, shown: Moment) -> int:
        """Publish a moment; return its stamp [ns]."""
        now = self.get_clock().now()
        self._odom.publish(shown.truth, now.to_msg())
        self._states.publish(shown.reading, now.to_msg())
        return now.nanoseconds

    def _command(self, setpoint: Array) -> None:
        if not self.settings.publish_commands:
            return
        twist = Twist()
        twist.linear.x, twist.linear.y, twist.angular.z = setpoint[VELOCITY].tolist()
        self._cmd_vel.publish(twist)
        if not np.array_equal(setpoint[POSE], self._pose):
            self._pose = setpoint[POSE]
            self._cmd_pose.publish(_pose(*self._pose.tolist()))

    def _receive(self, message: JointTrajectory) -> None:
        try:
            point = message.points[0]
            command = joint_command(message.joint_names, point.positions, point.velocities, point.effort)
        except (IndexError, RefusedCommandError) as refusal:
            self.get_logger().warning(f"answer refused: {refusal}", throttle_duration_sec=2.0)
            return
        self._comparison.answered(command.targets, Time.from_msg(message.header.stamp).nanoseconds)

    def _see_mode(self, message: String) -> None:
        self._mode = message.data
        if message.data == FAULT:
            self.passed = False
            self.get_logger().error("the controller is in fault: what it answers from now on is not compared")

    def _tell_health(self) -> None:
        summary = self._summary()
        poor = not self.passed
        status = DiagnosticStatus(
            name=f"{self.get_fully_qualified_name().lstrip('/')}: playback",
            level=DiagnosticStatus.WARN if poor else DiagnosticStatus.OK,
            message="the controller is in fault" if poor else f"{summary['steps']} steps played",
            values=[KeyValue(key=key, value=str(value)) for key, value in _flat(summary).items()],
        )
        message = DiagnosticArray(status=[status])
        message.header.stamp = self.get_clock().now().to_msg()
        self._health.publish(message)

    def _summary(self) -> dict[str, Any]:
        facts = {"robot": self._robot.name, "source": self.settings.recording or self.settings.live}
        live = {} if self._live is None else {"live": asdict(self._live.counters)}
        return facts | self._comparison.summary() | live | {"controller_fault": not self.passed}

    def _conclude(self) -> None:
        self._comparison.finish()
        summary = self._summary()
        print(summary_text(summary), flush=True)
        if self.settings.summary:
            write_whole(Path(self.settings.summary), (json.dumps(summary, indent=1) + "\n").encode())


def _acceleration(before: Recording | None, state: Recording) -> Array:
    """The trunk's acceleration (3,) [m/s^2] between two live states; zero where they do not follow each other."""
    if before is None or state.states.first[0]:
        return np.zeros(3)
    elapsed = float(state.states.time[0] - before.states.time[0])
    if not 0.0 < elapsed <= 2.0 * state.period:
        return np.zeros(3)
    return (state.linear_velocity[0] - before.linear_velocity[0]) / elapsed


def _pose(height: float, roll: float, pitch: float) -> Pose:
    pose = Pose()
    pose.position.z = height
    sine_roll, cosine_roll, sine_pitch, cosine_pitch = (
        part for angle in (roll, pitch) for part in (math.sin(angle / 2), math.cos(angle / 2))
    )
    pose.orientation.x, pose.orientation.y = sine_roll * cosine_pitch, cosine_roll * sine_pitch
    pose.orientation.z, pose.orientation.w = -sine_roll * sine_pitch, cosine_roll * cosine_pitch
    return pose


def _flat(summary: dict[str, Any]) -> dict[str, Any]:
    """Nested figures under names such as rmse_rad/FR_hip_joint."""
    flat: dict[str, Any] = {}
    for key, value in summary.items():
        flat |= {f"{key}/{name}": part for name, part in value.items()} if isinstance(value, dict) else {key: value}
    return flat


def main() -> int:
    """Run the playback; 0 when it reached its end, 1 when the controller was in fault meanwhile."""
    return run_program("isaac_playback", IsaacPlayback, _run)


def _run(node: IsaacPlayback, stop: threading.Event) -> int:
    spin_beside(node, stop, node.simulate)
    return 0 if node.passed else 1


if __name__ == "__main__":
    sys.exit(main())
