"""Sources of a playback: a running simulation or a standing robot; and the comparison of targets."""

import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.errors import ReplayError
from fcnet_core.robot import Robot
from fcnet_core.rotation import projected_gravity
from fcnet_replay import isaac as rollout
from fcnet_replay.run import Run
from quadruped_sim.physics.mjcf import stand_height

NEARLY_STANDING = 0.5  # [rad] of every joint from the stand pose: the controller accepts a bit more
NEARLY_LEVEL = -0.9  # z component of gravity in the body
LARGEST_DATAGRAM = 65536
SILENCE = 1.0  # [s] after which another sender is accepted
REACTION_TIME = 200_000  # [ns] a target sooner after a state than this answers the state before
MEMORY = 8  # steps for which targets are still awaited


def still_run(robot: Robot, period: float, recording: Run | None = None) -> Run:
    """Return one state of a robot that stands still: the start of the recording if the robot nearly stands there, else
    its stand pose at the origin.
    """
    joints, trunk = robot.stand_pose, [0.0, 0.0, stand_height(robot), 0.0, 0.0, 0.0, 1.0]
    if recording is not None:
        first = recording.state(0, 0)
        near = np.abs(first.joint_position - robot.stand_pose).max() <= NEARLY_STANDING
        if near and projected_gravity(first.orientation)[2] <= NEARLY_LEVEL:
            joints, trunk = first.joint_position, [*recording.odometry.position[0], *first.orientation]
    header = rollout.Header(robot=robot.name, period=period, joint_names=robot.joint_names, commands=())
    still = np.zeros(1, header.row_type("<f8"))
    still["joint_position"], still["target"] = joints, np.nan
    still["root_state"][0, :7] = trunk
    return rollout.run_of_rows(header, still, "the standing robot", robot.joint_names)


class LiveSource:
    """The states of a running simulation of `robot`, one frame a datagram, from a UDP socket at `address` (host:port).

    counts: numbers of datagrams. bad: not a frame, or impossible values; early: states before their header; foreign: of
    a second sender; lost: states that never came, by their step numbers.
    warn: called with the reason why the states of another robot are left out. Used by one thread. Raises ValueError if
    the socket cannot be opened.
    """

    def __init__(self, address: str, robot: Robot, warn: Callable[[str], object]) -> None:
        self.counts = dict.fromkeys(("states", "bad", "early", "foreign", "other_robot", "lost"), 0)
        self._robot, self._warn = robot, warn
        self._sender: tuple[str, int] | None = None
        self._received = float("-inf")
        self._header: rollout.Header | None = None
        self._previous: rollout.RolloutRows | None = None
        host, _, port = address.rpartition(":")
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.bind((host, int(port)))
        except (OSError, ValueError, OverflowError) as error:
            self._socket.close()
            remedy = "give a free port of this computer, such as 127.0.0.1:9870"
            raise ValueError(f"cannot receive at live:={address} ({error}); {remedy}") from error
        self._socket.setblocking(False)
        self.port = int(self._socket.getsockname()[1])  # chosen by the system for port 0

    def close(self) -> None:
        self._socket.close()

    def receive(self, patience: float) -> Run | None:
        """Return the next state as the last row of a run, after the state before if the new one follows it; None if no
        state comes within `patience` [s].
        """
        deadline = time.monotonic() + patience
        while select.select([self._socket], [], [], max(deadline - time.monotonic(), 0.0))[0]:
            try:
                datagram, sender = self._socket.recvfrom(LARGEST_DATAGRAM)
                if (run := self._take(datagram, sender)) is not None:
                    return run
            except OSError:  # a datagram with a wrong checksum wakes select but is not delivered
                continue
            except ReplayError:
                self.counts["bad"] += 1
        return None

    def _take(self, datagram: bytes, sender: tuple[str, int]) -> Run | None:
        now, name = time.monotonic(), "a live state"
        if sender != self._sender and now - self._received < SILENCE:
            self.counts["foreign"] += 1
            return None
        magic, payload = rollout.frame_at(datagram, 0)
        if magic not in (rollout.HEADER, rollout.STATE):
            raise ReplayError(f"{name} is not a frame of a rollout")
        if sender != self._sender:
            self._sender, self._header = sender, None
        self._received = now
        if magic == rollout.HEADER:
            if (header := rollout.parse_header(payload, name)) != self._header:
                self._header, self._previous = header, None
        elif self._header is None:
            self.counts["early"] += 1
        elif self._header.robot not in ("", self._robot.name):
            self.counts["other_robot"] += 1
            other, own = self._header.robot, self._robot.name
            found = f"the simulation at {sender[0]}:{sender[1]} is of the robot {other}, not {own}"
            self._warn(f"{found}: its states are left out; simulate the {own}, or launch with robot:={other}")
        else:
            rows = state = rollout.parse_state(payload, self._header, name)
            if (before := self._previous) is not None:
                if before["time"][0] < state["time"][0]:
                    rows = np.concatenate([before, state])
                self.counts["lost"] += max(int(state["step"][0]) - int(before["step"][0]) - 1, 0)
            run = rollout.run_of_rows(self._header, rows, name, self._robot.joint_names)
            self.counts["states"] += 1
            self._previous = state
            return run
        return None


@dataclass
class _Step:
    target: Array
    stamp: int
    response: Array | None = None


class PlaybackComparison:
    """The difference of a controller's targets from the recorded ones, of N joints.

    A target is the response to the step that was the newest when the controller started to compute it. Times are
    nanoseconds of one clock. Any thread may call any method.
    """

    def __init__(self, joint_names: tuple[str, ...]) -> None:
        self.responses = 0  # position targets that have come
        self._changed = threading.Condition()
        self._awaited: deque[_Step] = deque()
        self._counts = dict.fromkeys(("steps", "compared", "repeated_responses", "damping_responses"), 0)
        self._joint_names = joint_names
        self._squares, self._largest = np.zeros((2, len(joint_names)))

    def played(self, target: Array, stamp: int) -> None:
        """Note a step with the recorded targets (N,) [rad], NaN if unknown, that was published at `stamp`."""
        with self._changed:
            self.settle(MEMORY - 1)
            self._awaited.append(_Step(target, stamp))
            self._counts["steps"] += 1

    def received(self, target: Array | None, stamp: int) -> None:
        """Note position targets (N,) [rad] of the controller, None for damping, sent at `stamp`."""
        with self._changed:
            if target is None:
                self._counts["damping_responses"] += 1
                return
            self.responses += 1
            seen = (step for step in reversed(self._awaited) if step.stamp <= stamp - REACTION_TIME)
            if step := next(seen, None):
                self._counts["repeated_responses"] += step.response is not None
                step.response = target
                self._changed.notify_all()

    def wait_for_response(self, patience: float) -> bool:
        """Wait up to `patience` [s] for the response to the last step; return whether it came."""
        with self._changed:
            newest = self._awaited[-1] if self._awaited else None
            return newest is None or self._changed.wait_for(lambda: newest.response is not None, patience)

    def summary(self) -> dict[str, Any]:
        """Return the counts so far, and RMSE and maximum error by joint [rad], None before the first comparison."""
        with self._changed:
            compared = self._counts["compared"]
            rmse = np.sqrt(self._squares / max(compared, 1))
            figures = {
                "rmse_rad": dict(zip(self._joint_names, rmse.tolist(), strict=True)),
                "largest_rad": dict(zip(self._joint_names, self._largest.tolist(), strict=True)),
                "rmse_all_rad": float(np.sqrt(np.mean(rmse**2))),
            }
            return self._counts | (figures if compared else dict.fromkeys(figures))

    def settle(self, keep: int = 0) -> None:
        """Compare all awaited steps except the newest `keep`."""
        with self._changed:
            while len(self._awaited) > keep:
                step = self._awaited.popleft()
                if step.response is not None and np.isfinite(step.target).all():
                    error = np.abs(step.response - step.target)
                    self._squares += error**2
                    self._largest = np.maximum(self._largest, error)
                    self._counts["compared"] += 1


def summary_text(summary: dict[str, Any]) -> str:
    """Return a summary for a terminal."""
    compared = f"{summary['compared']} of {summary['steps']} steps compared with the recorded targets"
    lines = [f"{compared}, {summary['repeated_responses']} with more than one response"]
    if summary["rmse_rad"] is not None:
        lines.append(f"RMSE over all joints {summary['rmse_all_rad']:.4f} rad")
        lines.append(f"{'joint':16}{'RMSE':>10}{'max':>10}  [rad]")
        for joint, rmse in summary["rmse_rad"].items():
            lines.append(f"{joint:16}{rmse:10.4f}{summary['largest_rad'][joint]:10.4f}")
    return "\n".join(lines)
