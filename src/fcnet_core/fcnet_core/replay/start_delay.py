"""What a recording lacks at its beginning: topics whose first message came after the robot was already moving."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.replay.recorded_run import RecordedRun

Array = npt.NDArray[np.float64]
AT_REST = ("passive", "fault")  # modes in which the controller sends damping, with and without states of the robot


def start_delays(run: RecordedRun) -> dict[str, float | None]:
    """Seconds from the start to the first message of each topic, by the times of reception; None without messages.

    A robot starts when a controller first moves it, by a mode or by a target with positions, which takes states. Both
    topics of the states, which come from one program, start together: with the first message of either, if that is
    earlier.
    """
    joints, imu, targets = run.joints.received, run.imu.received, run.targets.received
    mode = _first(run.mode.received[[name not in AT_REST for name in run.mode.modes]])
    moved = min(mode, _first(targets[np.isfinite(run.targets.position).all(axis=1)]))
    states = min(moved, _first(joints), _first(imu))
    return {
        "joint_states": _delay(joints, states),
        "imu/data": _delay(imu, states),
        "odom": _delay(run.odometry.received, moved),
        "joint_trajectory": _delay(targets, mode),
    }


def _first(received: Array) -> float:
    return float(received.min()) if len(received) else float("inf")


def _delay(received: Array, start: float) -> float | None:
    return max(_first(received) - start, 0.0) if len(received) else None
