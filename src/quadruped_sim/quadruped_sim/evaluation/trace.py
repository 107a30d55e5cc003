"""The episodes of a batch, robot by robot, as runs that reports show like recorded ones."""

from __future__ import annotations

import numpy as np

from fcnet_core.arrays import Array, Mask
from fcnet_core.observation import LAYOUT
from fcnet_core.robot import JOINT_NAMES, SETPOINT_FIELDS, Robot
from fcnet_core.rotation import matrix_from_xyzw
from fcnet_replay.report.signals import Signals
from fcnet_replay.run import ImuRecord, JointRecord, OdometryRecord, Run, SetpointRecord, StepRecord, TargetRecord
from quadruped_sim.physics.simulation import CONTROL_PERIOD, BodyState
from quadruped_sim.rollout import Situation


class BatchTrace:
    """The true states, commands, targets and torques of every robot, once a control period."""

    def __init__(self) -> None:
        self._periods: list[tuple[BodyState, Array, Array, Array, Mask]] = []

    def record(self, seen: Situation, targets: Array, torques: Array, upright: Mask) -> None:
        """Add a period that began as `seen`, with the targets sent (B, 12) [rad], the torques (B, 12) [Nm] at its end,
        and which robots were `upright` (B,).
        """
        command = seen.observation[:, LAYOUT["command"]].astype(np.float64)
        self._periods.append((seen.state, command, targets.copy(), torques.copy(), upright.copy()))

    def signals(self, index: int, robot: Robot) -> Signals:
        """Return the episode of one robot until its end or its fall; times count from its first period."""
        states, *arrays = zip(*self._periods, strict=True)
        command, targets, torques, upright = (np.stack([each[index] for each in array]) for array in arrays)
        count = max(int(upright.sum()), 2)  # a robot that has fallen stays so
        command, targets = command[:count], targets[:count]
        torques = np.concatenate([np.full((1, len(JOINT_NAMES)), np.nan), torques[: count - 1]])
        time = CONTROL_PERIOD * np.arange(count, dtype=np.float64)
        rows = {
            name: np.stack([getattr(state, name)[index] for state in states[:count]])
            for name in BodyState.__dataclass_fields__
        }
        rotation = matrix_from_xyzw(rows["orientation"])
        velocity = np.einsum("nji,nj->ni", rotation, rows["linear_velocity"])
        setpoints = command[:, : len(SETPOINT_FIELDS)]
        run = Run(
            JointRecord(time, time, rows["joint_position"], rows["joint_velocity"], torques),
            ImuRecord(time, time, rows["orientation"], rows["angular_velocity"], np.full((count, 3), np.nan)),
            TargetRecord(time, time, targets),
            SetpointRecord(lambda: (time, setpoints)),
            OdometryRecord(time, time, rows["position"], rows["orientation"], velocity, rows["angular_velocity"]),
            StepRecord(time, time - CONTROL_PERIOD, time, time, time == 0.0, command),
            period=CONTROL_PERIOD,
        )
        return Signals(run, robot, rows["contact"])
