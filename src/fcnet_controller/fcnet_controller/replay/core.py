"""Lets the controller's core take the steps of a recorded run again: the recording alone decides when it walks."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from builtin_interfaces.msg import Time
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import Imu, JointState

from fcnet_controller.control_core import EMERGENCY_STOP, ControlCore
from fcnet_controller.posture import Mode, Response
from fcnet_controller.replay.bag import ReplayBag, stamp_of
from fcnet_core.arrays import Array
from fcnet_core.command import CommandShaper
from fcnet_core.model_file import PolicyModel
from fcnet_replay.policy_replay import state_rows
from fcnet_replay.run import STALE, ImuRecord, JointRecord, Rows, TargetRecord
from fcnet_replay.steps import Steps, extract_steps
from fcnet_ros.topics import IMU, JOINT_STATES, JOINT_TRAJECTORY

REFUSED = Response(False, "this is a replay: the recording decides what the robot does")


Record = JointRecord | ImuRecord | TargetRecord


class LostStep(Exception):
    """A step that cannot be taken, and why; fault: because the controller is in fault with what it saw."""

    def __init__(self, reason: str, fault: bool = False) -> None:
        super().__init__(reason)
        self.fault = fault


class ReplayCore(ControlCore):
    """A control core for recorded states: give it one by `see`, then call `repeat` or `follow`; from one thread.

    It walks without having stood up. A fault of its watchdogs lasts for one cycle, an emergency stop until ~/reset.
    """

    def stand_up(self, now: float) -> Response:
        """Refuse to."""
        return REFUSED

    def walk(self) -> Response:
        """Refuse to."""
        return REFUSED

    def lie_down(self) -> Response:
        """Refuse to."""
        return REFUSED

    def see(self, joints: bytes, imu: bytes) -> None:
        """Take serialised joint_states and imu/data as received just now."""
        now = time.monotonic()
        self.state.store_joints(deserialize_message(joints, JointState), now)
        self.state.store_imu(deserialize_message(imu, Imu), now)

    def begin(self) -> None:
        """Start cold, as ~/walk does, from the pose just seen."""
        with self._lock:
            self._resume()
            self._walking.begin()
            self._limiter.start(self.state.joint_position)

    def repeat(self, command: Array, last: Array) -> Array:
        """Targets (12,) [rad] of a cycle in which the policy takes a step with a recorded command (16,).

        last: the targets sent before (12,) [rad]. Raises LostStep.
        """
        with self._lock:
            self._walking.repeat_command(command)
            self._limiter.start(last)
        return self._one_cycle()

    def follow(self, setpoint: Array) -> Array:
        """Targets (12,) [rad] of a cycle of the controller's own with recorded setpoints (9,). Raises LostStep."""
        with self._lock:
            self._walking.take_command(setpoint)
        return self._one_cycle()

    def _one_cycle(self) -> Array:
        with self._lock:
            self._resume()
        targets = self.cycle(self.state.received)
        if targets is None:
            fault = self.fault
            with self._lock:
                self._resume()
            raise LostStep(fault, fault=True)
        return targets

    def _resume(self) -> None:
        if self._posture.fault != EMERGENCY_STOP:
            self._posture.reset()
            self._posture.mode = Mode.WALKING


@dataclass(frozen=True)
class ReplayedStep:
    """stamp: of the recorded target; targets (12,) [rad]: what the policy answers now; difference [rad]: the largest
    from what was sent; comparable: whether its memory held what the recorded policy's did.
    """

    stamp: Time
    targets: Array
    difference: float
    comparable: bool


class StepReplay:
    """Takes the recorded steps of a bag, each with the very messages and the command that it had.

    A bag without them is walked over at the controller's rate, from the first state on, with the recorded setpoints.
    `on_cold_start` is given a sentence whenever the policy has to start cold where the recorded one did not: after a
    step that is missing or lost, and when time runs backwards. lost: steps that could not be taken; faults: those among
    them with which the controller was in fault.
    """

    def __init__(self, core: ReplayCore, bag: ReplayBag, rate: float, on_cold_start: Callable[[str], None]) -> None:
        self.lost = self.faults = 0
        self._core = core
        self._run = run = bag.run
        self._on_cold_start = on_cold_start
        self._next = 0
        self._time = -math.inf  # stamp of the newest step, lost ones included
        self._before: float | None = None  # stamp of the step that the memory ends with
        self._known = 0.0  # steps before the next one that the memory holds; infinite since a recorded cold start
        self._begins = False  # the next step is taken without a memory, and that has been reported
        self._steps = extract_steps(run, _shaper(core.model)) if bag.has_steps else None
        if self._steps is not None:
            joints, imu, target = self._steps.joints, self._steps.imu, self._steps.target
            self._rows: dict[str, tuple[Record, Rows]] = {JOINT_TRAJECTORY.name: (run.targets, target)}
        else:
            joints, imu, self._first = state_rows(run, rate)
            self._rows = {}
        self._rows |= {JOINT_STATES.name: (run.joints, joints), IMU.name: (run.imu, imu)}
        self._messages = {
            topic: bag.serialised(topic, set(record.stamp[rows[rows >= 0]].tolist()))
            for topic, (record, rows) in self._rows.items()
        }
        # A step is due when everything that it needs has been received; row -1 is not in the recording.
        received = [np.append(record.received, -np.inf)[rows] for record, rows in self._rows.values()]
        self._due = np.maximum.accumulate(np.max(received, axis=0))

    def advance(self, time: float) -> Iterator[ReplayedStep]:
        """Take every step that is due at a time of reception [s]."""
        while self._next < len(self._due) and self._due[self._next] <= time:
            row, self._next = self._next, self._next + 1
            try:
                yield self._follow(row) if self._steps is None else self._repeat(self._steps, row)
            except LostStep as lost:
                self.lost += 1
                self.faults += lost.fault
                self._start_cold(str(lost))

    def rewind(self) -> None:
        """Begin again with the first step."""
        self._next = 0

    def _repeat(self, steps: Steps, row: int) -> ReplayedStep:
        """Take a recorded step."""
        stamp, command = float(steps.record.target_stamp[row]), steps.record.command[row]
        self._watch_time(stamp)
        joints, imu, target = (self._message(topic.name, row) for topic in (JOINT_STATES, IMU, JOINT_TRAJECTORY))
        if steps.previous[row] < 0:
            raise self._lost_without(JOINT_TRAJECTORY.name)
        sent, last = (self._run.targets.position[rows[row]] for rows in (steps.target, steps.previous))
        if not np.isfinite([*sent, *last, *command]).all():
            raise LostStep(
                f"the step at {stamp:.3f} s had a command or a target that is not finite, or asked for damping"
            )
        self._core.see(joints, imu)
        if steps.record.cold[row]:
            self._begins, self._known = True, math.inf
        elif self._before is None and not self._begins:
            self._start_cold("the recording begins in the middle of a walk")
        elif self._before is not None and steps.missing[row]:
            self._start_cold(f"steps between {self._before:.3f} s and {stamp:.3f} s are missing")
        self._begin_if_cold()
        targets = self._core.repeat(command, last)
        comparable = self._known >= self._core.model.card.memory
        self._before = stamp
        self._known += 1
        return ReplayedStep(stamp_of(target), targets, float(np.abs(targets - sent).max()), comparable)

    def _follow(self, row: int) -> ReplayedStep:
        """Do a cycle of the controller's own with recorded states."""
        (_, joint_rows), (_, imu_rows) = self._rows[JOINT_STATES.name], self._rows[IMU.name]
        stamp, before = float(self._run.joints.stamp[joint_rows[row]]), self._time
        self._watch_time(stamp)
        if self._first[row] and stamp > before > -math.inf:
            self._start_cold(f"there are no joint_states for {stamp - before:.3f} s")
        self._begins |= bool(self._first[row])
        if stamp - self._run.imu.stamp[imu_rows[row]] > STALE:
            raise LostStep("there is no imu/data at the time of a joint_states")
        joints, imu = self._message(JOINT_STATES.name, row), self._message(IMU.name, row)
        self._core.see(joints, imu)
        self._begin_if_cold()
        targets = self._core.follow(self._run.setpoints.at(self._run.joints.received[joint_rows[row]]))
        return ReplayedStep(stamp_of(joints), targets, math.nan, comparable=False)

    def _watch_time(self, stamp: float) -> None:
        before, self._time = self._time, stamp
        if stamp <= before:
            self._start_cold(f"time has jumped back by {before - stamp:.3f} s")

    def _message(self, topic: str, row: int) -> bytes:
        """What a step saw or sent of a topic. Raises LostStep where that is not in the recording."""
        record, rows = self._rows[topic]
        message = self._messages[topic].get(float(record.stamp[rows[row]])) if rows[row] >= 0 else None
        if message is None:
            raise self._lost_without(topic)
        return message

    def _lost_without(self, topic: str) -> LostStep:
        return LostStep(f"the step at {self._time:.3f} s saw a {topic} that is not in the recording")

    def _begin_if_cold(self) -> None:
        if self._begins:
            self._core.begin()
        self._begins = False

    def _start_cold(self, reason: str) -> None:
        self._before, self._known, self._begins = None, 0.0, True
        self._on_cold_start(reason)


def _shaper(model: PolicyModel) -> CommandShaper:
    return CommandShaper(model.command_ranges, model.gait, 1.0 / model.card.control_rate)
