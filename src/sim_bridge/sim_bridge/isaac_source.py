"""What a playback shows of a recording or of a running simulation, and how the targets compare."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core.robot import JOINT_NAMES, SETPOINT_FIELDS, Robot
from fcnet_core.rotation import matrix_from_xyzw, projected_gravity
from fcnet_replay.isaac import Recording, RecordingError, recording_from_columns
from fcnet_replay.isaac.recording import into_body, specific_force
from fcnet_replay.isaac.rollout import (
    HEADER,
    FrameError,
    RolloutHeader,
    columns_from_states,
    one_frame,
    parse_header,
    parse_state,
)
from quadruped_sim.live_robot import GroundTruth, SensorReading
from quadruped_sim.simulation import stand_height

# One step of a recording as the topics of a robot show it.

Array = npt.NDArray[np.float64]
NEARLY_STANDING = 0.5  # [rad] of every joint from the stand pose: the controller accepts a bit more
NEARLY_LEVEL = -0.9  # the downward part of gravity in the body


@dataclass(frozen=True)
class Moment:
    """What sensors and truth say in one step, the setpoint (9,) commanded and the targets (12,) decided in it."""

    reading: SensorReading
    truth: GroundTruth
    setpoint: Array
    target: Array


class RecordedMoments:
    """The rows of a recording, with the trunk's acceleration as the change of its velocity since the row before."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        change = np.diff(recording.linear_velocity, axis=0, prepend=recording.linear_velocity[:1])
        elapsed = np.diff(recording.states.time, prepend=recording.states.time[0] - recording.period)
        self._acceleration = np.where(recording.states.first[:, None], 0.0, change / elapsed[:, None])

    def __len__(self) -> int:
        return len(self._recording)

    def __getitem__(self, row: int) -> Moment:
        return moment(self._recording, row, self._acceleration[row])


def moment(recording: Recording, row: int, acceleration: Array) -> Moment:
    """Row `row` of a recording; acceleration (3,) [m/s^2] of the trunk in the world.

    No accelerometer was recorded: what one would have felt is derived. Efforts are unknown, and empty.
    """
    state = recording.states.at(row)
    world_from_body = matrix_from_xyzw(state.orientation)
    reading = SensorReading(
        joint_position=state.joint_position,
        joint_velocity=state.joint_velocity,
        joint_effort=np.empty(0),
        orientation=state.orientation,
        angular_velocity=state.angular_velocity,
        linear_acceleration=specific_force(state.orientation, acceleration),
    )
    truth = GroundTruth(
        position=recording.position[row],
        orientation=state.orientation,
        linear_velocity=into_body(world_from_body, recording.linear_velocity[row]),
        angular_velocity=state.angular_velocity,
    )
    return Moment(reading, truth, recording.states.setpoint[row], recording.target[row])


def held_moment(recording: Recording, robot: Robot) -> Moment:
    """A robot that stands still: as the recording begins where that is nearly so, else in its stand pose."""
    state = recording.states.at(0)
    near = np.abs(state.joint_position - robot.stand_pose).max() <= NEARLY_STANDING
    if not (near and projected_gravity(state.orientation)[2] <= NEARLY_LEVEL):
        return standing_moment(robot)
    return _still(state.joint_position, state.orientation, recording.position[0])


def standing_moment(robot: Robot) -> Moment:
    """A robot that stands still in its stand pose at the origin."""
    return _still(robot.stand_pose, np.array([0.0, 0.0, 0.0, 1.0]), np.array([0.0, 0.0, stand_height(robot)]))


def _still(joint_position: Array, orientation: Array, position: Array) -> Moment:
    nothing = np.zeros(3)
    reading = SensorReading(
        joint_position=joint_position,
        joint_velocity=np.zeros_like(joint_position),
        joint_effort=np.empty(0),
        orientation=orientation,
        angular_velocity=nothing,
        linear_acceleration=specific_force(orientation, nothing),
    )
    truth = GroundTruth(position=position, orientation=orientation, linear_velocity=nothing, angular_velocity=nothing)
    return Moment(reading, truth, np.zeros(len(SETPOINT_FIELDS)), np.full(len(joint_position), np.nan))


# Receives the states of a running simulation, one frame a datagram; see fcnet_replay/isaac/rollout.py.

LARGEST_DATAGRAM = 65536
SILENCE = 1.0  # [s] after which another sender is listened to


@dataclass
class LiveCounters:
    """What became of the datagrams received. bad: no frame, or one that says impossible things; early: states that
    came before their header; foreign: of a second sender; lost: states that never came, by their numbers.
    """

    states: int = 0
    bad: int = 0
    early: int = 0
    foreign: int = 0
    lost: int = 0


class LiveSource:
    """A UDP socket at `address` ("host:port"); used by one thread. Raises ValueError when it cannot be opened."""

    def __init__(self, address: str) -> None:
        self.counters = LiveCounters()
        self._sender: tuple[str, int] | None = None
        self._heard = float("-inf")
        self._header: RolloutHeader | None = None
        self._step: int | None = None
        host, _, port = address.rpartition(":")
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.bind((host, int(port)))
        except (OSError, ValueError, OverflowError) as error:
            self._socket.close()
            raise ValueError(
                f"nothing can be received at live:={address} ({error}); give a free port of this machine, "
                "such as 127.0.0.1:9870"
            ) from error
        self._socket.setblocking(False)

    @property
    def port(self) -> int:
        """The port in use, for an address that left the choice to the system."""
        return int(self._socket.getsockname()[1])

    def receive(self, patience: float) -> Recording | None:
        """The next state as a recording of one row, waiting at most `patience` seconds for it."""
        deadline = time.monotonic() + patience
        while True:
            remaining = max(deadline - time.monotonic(), 0.0)
            if not select.select([self._socket], [], [], remaining)[0]:
                return None
            try:
                datagram, sender = self._socket.recvfrom(LARGEST_DATAGRAM)
            except OSError:  # a datagram with a wrong checksum wakes select and is then not there
                continue
            if (state := self._take(datagram, sender)) is not None:
                return state

    def close(self) -> None:
        """Stop receiving."""
        self._socket.close()

    def _take(self, datagram: bytes, sender: tuple[str, int]) -> Recording | None:
        now = time.monotonic()
        if sender != self._sender and now - self._heard < SILENCE:
            self.counters.foreign += 1
            return None
        try:
            magic, payload = one_frame(datagram)
            if sender != self._sender:
                self._sender, self._header, self._step = sender, None, None
            self._heard = now
            if magic != HEADER:
                return self._state(payload)
            self._learn(payload)
        except (FrameError, RecordingError):
            self.counters.bad += 1
        return None

    def _learn(self, payload: bytes) -> None:
        header = parse_header(payload)
        if header != self._header:
            self._header, self._step = header, None

    def _state(self, payload: bytes) -> Recording | None:
        if self._header is None:
            self.counters.early += 1
            return None
        states = parse_state(payload, self._header)
        recording = recording_from_columns(columns_from_states(self._header, states), "a live state")
        step = int(states["step"][0])
        if self._step is not None and step > self._step + 1:
            self.counters.lost += step - self._step - 1
        self._step = step
        self.counters.states += 1
        return recording


# How far the targets that a controller sends are from those that were recorded, step by step as they come.

THINKING_TIME = 200_000  # [ns] an answer sooner after a state than this was to the state before
MEMORY = 8  # steps for which an answer is still awaited


class PlaybackComparison:
    """Matches answers with the step that was the newest when the controller began to think about it.

    Times are nanoseconds of one clock. Any thread may call any method.
    """

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._awaited: deque[_Step] = deque(maxlen=MEMORY)
        self._squares: Array = np.zeros(len(JOINT_NAMES))
        self._largest: Array = np.zeros(len(JOINT_NAMES))
        self._compared = 0
        self._answers = 0
        self._played = 0
        self._repeated = 0
        self._damped = 0

    def played(self, target: Array, stamp: int) -> None:
        """A step with the recorded targets (12,) [rad], NaN where unknown, was published at `stamp`."""
        with self._lock:
            if len(self._awaited) == MEMORY:
                self._settle(self._awaited.popleft())
            self._awaited.append(_Step(target, stamp))
            self._played += 1

    def answered(self, target: Array | None, stamp: int) -> None:
        """The controller sent position targets (12,) [rad], or None for damping, at `stamp`."""
        with self._lock:
            if target is None:
                self._damped += 1
                return
            self._answers += 1
            for step in reversed(self._awaited):
                if step.stamp <= stamp - THINKING_TIME:
                    self._repeated += step.answer is not None
                    step.answer = target
                    self._lock.notify_all()
                    return

    @property
    def answers(self) -> int:
        """How many position targets have come."""
        return self._answers

    def wait_for_answer(self, patience: float) -> bool:
        """Wait until the step played last is answered, but not longer than `patience` [s]; whether it is."""
        with self._lock:
            newest = self._awaited[-1] if self._awaited else None
            return newest is None or self._lock.wait_for(lambda: newest.answer is not None, patience)

    def finish(self) -> None:
        """Count the steps for which answers were still awaited."""
        with self._lock:
            while self._awaited:
                self._settle(self._awaited.popleft())

    def summary(self) -> dict[str, Any]:
        """Figures so far, numbers and names alone: of the steps played, how many were answered and how well."""
        with self._lock:
            known = self._compared > 0
            rmse = np.sqrt(self._squares / max(self._compared, 1))
            return {
                "steps": self._played,
                "compared": self._compared,
                "repeated_answers": self._repeated,
                "damping_answers": self._damped,
                "rmse_rad": _by_joint(rmse) if known else None,
                "largest_rad": _by_joint(self._largest) if known else None,
                "rmse_all_rad": float(np.sqrt(np.mean(rmse**2))) if known else None,
            }

    def _settle(self, step: _Step) -> None:
        if step.answer is None or not np.isfinite(step.target).all():
            return
        error = np.abs(step.answer - step.target)
        self._squares += error**2
        self._largest = np.maximum(self._largest, error)
        self._compared += 1


class _Step:
    def __init__(self, target: Array, stamp: int) -> None:
        self.target = target
        self.stamp = stamp
        self.answer: Array | None = None


def summary_text(summary: dict[str, Any]) -> str:
    """A summary for a terminal."""
    lines = [
        f"{summary['compared']} of {summary['steps']} steps compared with the recorded targets, "
        f"{summary['repeated_answers']} answered more than once"
    ]
    if summary["rmse_rad"] is not None:
        lines.append(f"RMSE over all joints {summary['rmse_all_rad']:.4f} rad")
        lines.append(f"{'joint':16}{'RMSE':>10}{'largest':>10}  [rad]")
        lines += [
            f"{joint:16}{rmse:10.4f}{summary['largest_rad'][joint]:10.4f}"
            for joint, rmse in summary["rmse_rad"].items()
        ]
    return "\n".join(lines)


def _by_joint(values: Array) -> dict[str, float]:
    return dict(zip(JOINT_NAMES, values.tolist(), strict=True))
