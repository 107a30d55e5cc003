"""What a simulator offers to everything that lets robots move; MuJoCo is behind it (body.py, simulation.py)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Protocol

from fcnet_core.arrays import Array, Mask
from fcnet_core.observation import RobotState
from fcnet_core.robot import Robot

RATE = 50.0  # [Hz] of the control if neither a policy nor settings have another
LONGEST_STEP = 0.004  # [s] of the physics
MEASURED = ("joint_position", "joint_velocity", "orientation", "angular_velocity")  # signals of every robot
# What is sampled in every time step: of the feet [N, m, m/s, rad/s, in the world frame], and of the joints [Nm, rad/s].
OF_FEET = ("foot_force", "foot_position", "foot_velocity", "foot_spin")
OF_JOINTS = ("torque", "joint_rate")
Samples = Mapping[str, Array]


def time_step(period: float) -> float:
    """Return the time step [s] of the physics: the longest of at most LONGEST_STEP that divides a control period."""
    return period / math.ceil(period / LONGEST_STEP - 1e-9)


def robot_state(signals: Mapping[str, Array]) -> RobotState:
    """Return the signals MEASURED as the state that a runner or controller takes."""
    position, velocity, orientation, spin = (signals[name] for name in MEASURED)
    return RobotState(position, velocity, orientation, spin)


class Simulator(Protocol):
    """`batch` robots of one kind, whose targets come once in a control period; None: one robot, and arrays without the
    leading axis B. Joints are in the robot's order, feet in the order of its file.

    provides: names of the signals that `signals` returns.
    """

    @property
    def robot(self) -> Robot: ...

    @property
    def batch(self) -> int | None: ...

    @property
    def provides(self) -> frozenset[str]: ...

    def signals(self, ideal: bool = False, names: Iterable[str] = MEASURED) -> dict[str, Array]:
        """Return signals (B, n) by name, as a robot measures them: joint angles as the encoders count them, and while
        states drop out the last ones that arrived. ideal: their true values.
        """

    def step(self, targets: Array, record: bool = False) -> Samples:
        """Advance by one control period under position targets (B, N) [rad] as the encoders count them.

        record: return what was sampled in the T time steps, valid until the next step: foot_force (T, B, F) [N];
        foot_position, foot_velocity, foot_spin (T, B, F, 3) [m, m/s, rad/s] in the world frame; torque and
        joint_rate (T, B, N) [Nm, rad/s] of one instant.
        """

    def reset(self, mask: Mask | None = None) -> None:
        """Put the robots in `mask` (B,), or all, back to their start."""

    def push(self, velocity: Array) -> None:
        """Change the velocity of each trunk by (B, 3) [m/s] in the world frame."""
