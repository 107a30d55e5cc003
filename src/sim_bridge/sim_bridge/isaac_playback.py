"""Plays a rollout of another simulator as a robot on the usual topics.

The robot repeats the recording and ignores commands (open loop): joint_trajectory is received and compared with the
recorded targets of the same step. A standing robot is shown until the controller walks. From then on the recording
follows the controller's clock, one row for each of its responses: two clocks would drift apart, and a gait that is off
by two steps out of twenty is a different gait.
"""

import json
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from geometry_msgs.msg import Point, Pose, Twist, Vector3
from rclpy.node import Node
from std_msgs.msg import String

from fcnet_core.control.timing import Pacer
from fcnet_core.errors import RefusedCommandError
from fcnet_core.files import write_whole
from fcnet_core.names import CONTROLLER, PLAYBACK, Mode
from fcnet_core.observation import SensorReading, TrunkPose
from fcnet_core.robot import load_robot
from fcnet_core.rotation import xyzw_from_roll_pitch
from fcnet_replay.isaac import read_recording
from fcnet_replay.recording_notes import robot_of
from fcnet_replay.run import Run
from fcnet_ros import topics
from fcnet_ros.health import OK, PERIOD, WARN, HealthPublisher
from fcnet_ros.one_publisher import Company, follow
from fcnet_ros.parameters import declare_fixed_parameters, policy_rate
from fcnet_ros.program import Stop, run_program, spin_beside
from fcnet_ros.state_messages import OdomPublisher, StatePublisher, fill_quaternion
from fcnet_ros.targets import TargetReader
from sim_bridge.isaac_source import LiveSource, PlaybackComparison, still_run, summary_text
from sim_bridge.parameters import PlaybackParameters

PATIENCE = 0.1  # [s] to wait for a live state before looking for a signal to end
LONGEST_WAIT = 1.0  # [s] for a response, after which the recording continues without one
PAUSE = 0.4  # of a period between a response and the next step: well between two cycles of the controller
SAME_RATE = 1e-3  # relative difference within which a recording has the controller's rate


class IsaacPlayback(Node):
    """The node. passed: whether the controller has never been in fault."""

    def __init__(self) -> None:
        super().__init__("isaac_playback")
        self.parameters = declare_fixed_parameters(self, PlaybackParameters)
        company = Company(self, topics.JOINT_STATES, topics.IMU)
        self.passed = True
        self._robot = load_robot(self.parameters.robot)
        rate = self.parameters.control_rate or policy_rate(self.parameters.robot, self.parameters.policy)
        self._period = 1.0 / rate  # [s] of the controller, and between two states of the robot that waits
        self._recording = self._read() if self.parameters.recording else None
        warn = partial(self.get_logger().error, throttle_duration_sec=topics.WARNING_PERIOD)
        self._live = LiveSource(self.parameters.live, self._robot, warn) if self.parameters.live else None
        self._comparison = PlaybackComparison(self._robot.joint_names)
        self._target_reader = TargetReader(self._robot.joint_names)
        self._mode = ""
        company.refuse()
        self._states, self._odom = StatePublisher(self, self._robot.joint_names), OdomPublisher(self)
        topics.publish_description(self, self._robot)
        self._cmd_vel, self._cmd_pose = topics.CMD_VEL.publisher(self), topics.CMD_POSE.publisher(self)
        self._health = HealthPublisher(self, PLAYBACK)
        follow(self, topics.MODE.of(CONTROLLER), self._take_mode)
        # Reliable, because a missed response would put the recording out of step for good.
        replace(topics.JOINT_TRAJECTORY, requested=topics.RELIABLE).create_subscription(self, self._take_targets)
        self.create_timer(PERIOD, self._publish_health)

    def play(self, stop: Stop, spinning: Future[None]) -> None:
        """Play until the recording ends, `stop` is set or `spinning` is done; then print the comparison."""

        def ended() -> bool:
            return stop.is_set() or spinning.done()

        try:
            self._wait_for_controller(ended)
            if self._recording is not None:
                self._play_recording(self._recording, ended)
            elif self._live is not None:
                self._relay(self._live, ended)
        finally:
            if self._live is not None:
                self._live.close()
            self._comparison.settle()
            summary = self._summary()
            print(summary_text(summary), flush=True)
            if self.parameters.summary:
                write_whole(Path(self.parameters.summary), (json.dumps(summary, indent=1) + "\n").encode())

    def _read(self) -> Run:
        path, log = self.parameters.recording, self.get_logger()
        run = read_recording(path, self.parameters.mapping or None, self._robot.joint_names)
        robot_of(path, run.notes, self.parameters.robot)  # raises ReplayError for another robot
        for problem in run.problems:
            log.warning(problem.sentence)
        if not np.isfinite(run.targets.position).any():
            log.warning("the recording has no targets to compare with; it is only played")
        time = run.joints.stamp
        log.info(f"{len(time)} steps, {np.ptp(time):.1f} s; the accelerometer is derived from velocities")
        return run

    def _wait_for_controller(self, ended: Callable[[], bool]) -> None:
        if not self.parameters.wait_for_controller:
            return
        self.get_logger().info("standing still until the controller walks")
        still, pacer = still_run(self._robot, self._period, self._recording), Pacer(self._period)
        while not ended() and self._mode != Mode.WALKING:
            self._publish(still, 0)
            if self._live is None:
                pacer.wait()
            else:
                self._live.receive(self._period)

    def _play_recording(self, run: Run, ended: Callable[[], bool]) -> None:
        """Play one row for each response of a controller that walks at the recording's rate, else by the clock.

        If the controller has responded twice between two rows, the recording also advances by two rows.
        """
        period, rows = run.period or self._period, len(run.joints.stamp)
        same_rate = abs(period / self._period - 1.0) < SAME_RATE
        period /= self.parameters.rate
        self.get_logger().info("playing, in step with the controller" if same_rate else "playing at its own pace")
        while not ended():
            row, before, in_step, pacer = 0, self._comparison.responses, same_rate, Pacer(period)
            while row < rows and not ended():
                self._show(run, row)
                in_step = in_step and self._await_response(run, row, period)
                self._command(run, min(row + 1, rows - 1))
                if in_step:
                    time.sleep(PAUSE * period)
                    row = max(row + 1, self._comparison.responses - before)
                else:
                    pacer.wait()
                    row += 1
            if not self.parameters.loop:
                return
            self.get_logger().info("restarting: the states jump, and the controller is not reset")

    def _await_response(self, run: Run, row: int, period: float) -> bool:
        """Return whether the last row gets a response within LONGEST_WAIT; until then it is published repeatedly."""
        give_up = time.monotonic() + LONGEST_WAIT
        while self._mode == Mode.WALKING and time.monotonic() < give_up:
            if self._comparison.wait_for_response(2 * period):
                return True
            self._publish(run, row)
        return False

    def _relay(self, live: LiveSource, ended: Callable[[], bool]) -> None:
        """Publish live states as they come."""
        self.get_logger().info(f"waiting for states at {self.parameters.live}")
        while not ended():
            if (run := live.receive(PATIENCE)) is not None:
                self._command(run, -1)
                self._show(run, -1)

    def _show(self, run: Run, row: int) -> None:
        self._comparison.played(run.targets.position[row], self._publish(run, row))

    def _publish(self, run: Run, row: int) -> int:
        """Publish one row of a run; return its stamp [ns]."""
        joints, imu, odom, stamp = run.joints, run.imu, run.odometry, int(self.get_clock().now().nanoseconds)
        pose = odom.position, odom.orientation, odom.velocity, odom.angular_velocity
        self._odom.publish(TrunkPose(*(values[row] for values in pose)), stamp)
        trunk = imu.orientation[row], imu.angular_velocity[row], imu.linear_acceleration[row]
        self._states.publish(SensorReading(joints.position[row], joints.velocity[row], np.empty(0), *trunk), stamp)
        return stamp

    def _command(self, run: Run, row: int) -> None:
        if not self.parameters.publish_commands:
            return
        vx, vy, yaw_rate, height, roll, pitch = run.setpoints.value[row, :6].tolist()  # as in SETPOINT_FIELDS
        self._cmd_vel.publish(Twist(linear=Vector3(x=vx, y=vy), angular=Vector3(z=yaw_rate)))
        pose = Pose(position=Point(z=height))
        fill_quaternion(pose.orientation, xyzw_from_roll_pitch(roll, pitch))
        self._cmd_pose.publish(pose)

    def _take_targets(self, content: bytes) -> None:
        try:
            stamp, targets = self._target_reader.read(content)
        except RefusedCommandError as refusal:
            self.get_logger().warning(f"targets refused: {refusal}", throttle_duration_sec=topics.WARNING_PERIOD)
            return
        self._comparison.received(targets, stamp)

    def _take_mode(self, message: String) -> None:
        self._mode = message.data
        if message.data == Mode.FAULT:
            self.passed = False
            self.get_logger().error("the controller is in fault: its targets are no longer compared")

    def _publish_health(self) -> None:
        summary = self._summary()
        values: dict[str, str] = {}
        for key, value in summary.items():  # nested figures under names such as rmse_rad/FR_hip_joint
            parts = {f"{key}/{name}": part for name, part in value.items()} if isinstance(value, dict) else {key: value}
            values |= {name: str(part) for name, part in parts.items()}
        played = (OK, f"{summary['steps']} steps played") if self.passed else (WARN, "the controller is in fault")
        self._health.publish(*played, values)

    def _summary(self) -> dict[str, Any]:
        facts = {"robot": self._robot.name, "source": self.parameters.recording or self.parameters.live}
        live = {} if self._live is None else {"live": self._live.counts}
        return facts | self._comparison.summary() | live | {"controller_fault": not self.passed}


def main() -> int:
    """Run the playback; return 0 at its end, 1 if the controller was in fault."""
    return run_program("isaac_playback", IsaacPlayback, _run)


def _run(node: IsaacPlayback, stop: Stop) -> int:
    spin_beside(node, stop, node.play)
    return 0 if node.passed else 1
