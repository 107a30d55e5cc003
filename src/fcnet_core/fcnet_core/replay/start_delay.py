"""What a recording lacks at its beginning: topics whose first message came after the robot was already moving."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fcnet_core.replay.recorded_run import RecordedRun

Array = npt.NDArray[np.float64]
AT_REST = ("passive", "fault")  # modes in which the controller sends damping, with and without states of the robot


def start_delays(run: RecordedRun) -> dict[str, float | None]:
    """Seconds from the start to the first message of each topic, by the times of reception; None without messages.

    The start of the robot's states (joint_states, imu/data, odom) is the first message of any of these, or the first
    target or mode with which a controller moves the robot, which it cannot without states. That of the targets is the
    first such mode.
    """
    states = {"joint_states": run.joints.received, "imu/data": run.imu.received, "odom": run.odometry.received}
    targets = run.targets.received
    moving = np.isfinite(run.targets.position).all(axis=1)
    mode = run.mode.received[[name not in AT_REST for name in run.mode.modes]]
    first_state = min(map(_first, (*states.values(), targets[moving], mode)))
    delays = {topic: _delay(received, first_state) for topic, received in states.items()}
    return delays | {"joint_trajectory": _delay(targets, _first(mode))}


def _first(received: Array) -> float:
    return float(received.min()) if len(received) else float("inf")


def _delay(received: Array, start: float) -> float | None:
    return max(_first(received) - start, 0.0) if len(received) else None
