"""Repeats the steps of a recorded run with a controller: the recording decides when it walks."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np

from fcnet_core import counted
from fcnet_core.arrays import Array, Rows
from fcnet_core.control.controller import Controller
from fcnet_core.errors import FcnetError
from fcnet_core.model_file import PolicyModel
from fcnet_replay.metrics import AGREEMENT
from fcnet_replay.policy_replay import MemoryTracker
from fcnet_replay.run import ImuRecord, JointRecord, Run, TargetRecord
from fcnet_replay.steps import extract_steps, steps_over_states
from fcnet_ros.serialized import seconds, stamp_of
from fcnet_ros.state_messages import StateBuffer
from fcnet_ros.topics import IMU, JOINT_STATES, JOINT_TRAJECTORY

REFUSED = "this is a replay: the recording decides what the robot does"


class LostStep(Exception):
    """A step that cannot be taken, with the reason; fault: the controller is in fault with the recorded state."""

    def __init__(self, reason: str, fault: bool = False) -> None:
        super().__init__(reason)
        self.fault = fault


class RecordingController(Controller):
    """A controller whose mode the recording decides: it refuses requests, except for an emergency stop and a reset."""

    def _refuse(self, now: float = 0.0) -> str:
        raise FcnetError(REFUSED)

    stand_up = recover = walk = lie_down = _refuse


@dataclass(frozen=True)
class ReplayedStep:
    """stamp [ns]: of the recorded target; targets (12,) [rad]: of the policy now; difference [rad]: maximum from the
    targets that were sent; comparable: whether its memory equalled the recorded policy's.
    """

    stamp: int
    targets: Array
    difference: float
    comparable: bool


@dataclass
class ReplayResult:
    """Counts of a replay.

    steps: taken; lost: could not be taken; faults: lost steps with the controller in fault; restarts: cold starts that
    the recorded policy did not have; compared: steps whose memory equalled the recorded policy's; largest_difference
    [rad]: their maximum. same_policy: whether the policy is the recorded one.
    """

    same_policy: bool
    steps: int = 0
    lost: int = 0
    faults: int = 0
    restarts: int = 0
    compared: int = 0
    largest_difference: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether steps were taken and the recorded policy, if it was replayed, gave the same targets again."""
        return self.steps > 0 and not (self.same_policy and self.largest_difference > AGREEMENT)

    def sentence(self) -> str:
        lost = f"{self.lost} lost, {self.faults} of them by a fault" if self.faults else f"{self.lost} lost"
        starts = counted(self.restarts, "cold start")
        counts = f"{counted(self.steps, 'step')} replayed, {lost}, {starts} not recorded"
        if not self.steps:
            why = "the bag has no steps of a policy, or lacks the states that they saw"
            return f"no step replayed ({counted(self.lost, 'step')} lost): {why}"
        if not self.compared:
            return f"{counts}; none can be compared with the sent targets"
        compared = counted(self.compared, "step")
        found = f"maximum difference from the sent targets: {self.largest_difference:.2g} rad in {compared}"
        if not self.same_policy:
            return f"{counts}; {found}, of another policy"
        return f"{counts}; {found}, {'as it should be' if self.passed else f'more than {AGREEMENT:g} rad'}"

    def as_json(self) -> str:
        return json.dumps(asdict(self) | {"passed": self.passed}, indent=2)


class StepReplay:
    """Takes the recorded steps of a run, each with the messages and the command that it had; counts in `result`.

    The controller walks without having stood up. A fault of its watchdogs lasts for one step, an emergency stop until
    ~/reset. state: the controller's, which the recorded messages fill. A run without recorded steps is walked over at
    the policy's rate, from the first state, with the recorded setpoints.
    `on_cold_start` is called with the reason for each cold start that the recorded policy did not have: a step is
    missing or lost, or time runs backwards.
    """

    def __init__(
        self,
        controller: Controller,
        state: StateBuffer,
        model: PolicyModel,
        run: Run,
        on_cold_start: Callable[[str], None],
    ) -> None:
        self.result = ReplayResult(model.fingerprint == run.notes.model_fingerprint)
        self._controller, self._state, self._run, self._on_cold_start = controller, state, run, on_cold_start
        self._next = 0
        self._time = -math.inf  # stamp of the newest step, lost ones included
        self._memory = MemoryTracker(model.card.memory)
        recorded = len(run.steps.target_stamp) > 0
        self._steps = (extract_steps if recorded else steps_over_states)(run, model.command_shaper())
        # The record and its rows for each step, by topic; the last one has the stamp of its targets.
        self._records: dict[str, tuple[JointRecord | ImuRecord | TargetRecord, Rows]] = {
            IMU.name: (run.imu, self._steps.imu),
            JOINT_STATES.name: (run.joints, self._steps.joints),
        }
        if recorded:
            self._records[JOINT_TRAJECTORY.name] = (run.targets, self._steps.target)
        self._messages: dict[str, dict[float, bytes | None]] = {  # by their stamps, None until they are received
            topic: dict.fromkeys(record.stamp[rows[rows >= 0]].tolist())
            for topic, (record, rows) in self._records.items()
        }
        # A step is due when all of its messages have been received; row -1 is not in the recording.
        received = [np.append(record.received, -np.inf)[rows] for record, rows in self._records.values()]
        self._due = np.maximum.accumulate(np.max(received, axis=0))

    def receive(self, received: float, topic: str, message: bytes) -> None:
        """Take a serialised message of the bag and its time of reception [s]."""
        if awaited := self._messages.get(topic):
            stamp = seconds(stamp_of(message)) or received
            if stamp in awaited:
                awaited[stamp] = message

    def advance(self, received: float) -> Iterator[ReplayedStep]:
        """Yield every step whose messages were received by this time [s]."""
        while self._next < len(self._due) and self._due[self._next] <= received:
            row, self._next = self._next, self._next + 1
            try:
                step = self._take(row)
            except LostStep as lost:
                self.result.lost += 1
                self.result.faults += lost.fault
                self._start_cold(str(lost))
            else:
                self.result.steps += 1
                if step.comparable:
                    self.result.compared += 1
                    self.result.largest_difference = max(self.result.largest_difference, step.difference)
                yield step

    def rewind(self) -> None:
        """Restart with the first step."""
        self._next = 0

    def _take(self, row: int) -> ReplayedStep:
        """Return a step. Raises LostStep."""
        steps, before, command = self._steps, self._time, self._steps.record.command[row]
        self._time = stamp = float(steps.record.target_stamp[row])
        if stamp <= before:
            self._start_cold(f"time has jumped back by {before - stamp:.3f} s")
        messages = {topic: self._message(topic, row) for topic in self._records}
        sent = last = None
        if steps.basis == "recorded":
            if steps.previous[row] < 0:
                raise self._lost_without(JOINT_TRAJECTORY.name)
            sent, last = (self._run.targets.position[rows[row]] for rows in (steps.target, steps.previous))
            if not np.isfinite([*sent, *last, *command]).all():
                why = "had a command or a target that is not finite, or asked for damping"
                raise LostStep(f"the step at {stamp:.3f} s {why}")
        if not steps.record.cold[row]:
            if before == -math.inf:
                self._start_cold("the recording begins in the middle of a walk")
            elif steps.missing[row] and self._memory.holds:
                self._start_cold(f"steps between {before:.3f} s and {stamp:.3f} s are missing")
        cold, comparable = self._memory.take(bool(steps.record.cold[row]), missing=False)
        targets = self._repeat(messages[JOINT_STATES.name], messages[IMU.name], command, last, cold)
        difference = math.nan if sent is None else float(np.abs(targets - sent).max())
        return ReplayedStep(stamp_of(list(messages.values())[-1]), targets, difference, comparable and sent is not None)

    def _repeat(self, joints: bytes, imu: bytes, command: Array, last: Array | None, cold: bool) -> Array:
        """Return the targets (12,) [rad] of a cycle in which the policy takes a step with a command (16,).

        joints, imu: serialised messages, as if received now. last (12,) [rad]: the targets sent before, None for the
        controller's own. cold: the policy starts without memory, in the measured pose. Raises LostStep.
        """
        controller, now = self._controller, time.monotonic()
        self._state.store_joints(joints, now)
        self._state.store_imu(imu, now)
        controller.walk_on(cold)
        controller.runner.repeat_command(command)
        if last is not None:
            controller.runner.limiter.start(last)
        targets = controller.cycle(now)
        if targets is None:
            fault = controller.fault
            controller.walk_on(cold=False)
            raise LostStep(fault, fault=True)
        return targets

    def _message(self, topic: str, row: int) -> bytes:
        """Return the message of a topic that a step saw or sent. Raises LostStep if the recording lacks it."""
        record, rows = self._records[topic]
        message = self._messages[topic].get(float(record.stamp[rows[row]])) if rows[row] >= 0 else None
        if message is None:
            raise self._lost_without(topic)
        return message

    def _lost_without(self, topic: str) -> LostStep:
        return LostStep(f"the step at {self._time:.3f} s saw a {topic} that is not in the recording")

    def _start_cold(self, reason: str) -> None:
        self._memory.lose()
        self.result.restarts += 1
        self._on_cold_start(reason)
