"""Trajectories to render, and the trajectory of a policy in the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fcnet_core.arrays import Array, Mask
from fcnet_core.errors import SimulationError
from fcnet_core.legs.kinematics import LegKinematics
from fcnet_core.model_file import PolicyModel
from fcnet_core.names import Mode
from fcnet_core.robot import SETPOINT_FIELDS, Robot
from fcnet_core.rotation import matrix_from_xyzw
from quadruped_sim.controlled_robot import ControlledRobot
from quadruped_sim.physics.live_robot import LiveRobot
from quadruped_sim.physics.placement import StartPose
from quadruped_sim.physics.terrain import Terrain

SHORTEST, LONGEST = 0.02, 600.0  # [s] of a walk
NEAR = 0.01  # [m] a foot that is as near to the ground touches it


@dataclass(frozen=True)
class Trajectory:
    """A robot at N times, `period` [s] apart: position (N, 3) [m] and orientation (N, 4) x, y, z, w of the trunk in the
    world, joints (N, K) [rad]; commanded and measured velocity (N, 3): forward, sideways [m/s] and yaw rate [rad/s].
    """

    robot: Robot
    terrain: Terrain
    period: float
    position: Array
    orientation: Array
    joints: Array
    commanded: Array
    measured: Array

    def __len__(self) -> int:
        return len(self.position)

    def part(self, begin: float, seconds: float) -> Trajectory:
        """Return at most `seconds` [s] from `begin` [s]. Raises SimulationError if the trajectory is shorter."""
        first = round(begin / self.period)
        if first >= len(self):
            raise SimulationError(f"the trajectory lasts {len(self) * self.period:g} s; choose an earlier --from")
        rows = slice(first, first + max(round(seconds / self.period), 1))
        chosen = {
            name: getattr(self, name)[rows] for name in ("position", "orientation", "joints", "commanded", "measured")
        }
        return replace(self, **chosen)

    @cached_property
    def feet(self) -> Array:
        """Centres of the feet (N, F, 3) [m] in the world; none if the lengths of the legs are not known."""
        if not self.robot.primitives:
            return np.zeros((len(self), 0, 3))
        points = LegKinematics(self.robot).points(self.joints[:, self.robot.leg_rows])[..., 3, :]
        return points @ matrix_from_xyzw(self.orientation).transpose(0, 2, 1) + self.position[:, None]

    @cached_property
    def contact(self) -> Mask:
        """The feet (N, F) that are on the ground."""
        if not self.feet.size:
            return np.zeros((len(self), 0), dtype=bool)
        clearance = self.feet[..., 2] - self.terrain.height(self.feet[..., 0], self.feet[..., 1])
        return clearance < self.robot.geometry.foot_radius + NEAR


def averaged(values: Array, window: int) -> Array:
    """Average values (N, K) over a window around each row."""
    before = window // 2
    padded = np.concatenate([values[:1].repeat(before, 0), values, values[-1:].repeat(window - before, 0)])
    total = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(padded, axis=0)])
    return (total[window:] - total[:-window])[: len(values)] / window


@dataclass(frozen=True)
class Phase:
    """A setpoint (9,) in SETPOINT_FIELDS order that is held for `seconds`."""

    seconds: float
    setpoint: Array


def parse_phase(text: str) -> Phase:
    """Parse SECONDS:FIELD=VALUE,FIELD=VALUE, such as 4:vx=0.8,yaw_rate=0.3; fields that are left out are 0.

    Raises SimulationError.
    """
    example = "give SECONDS:FIELD=VALUE,... such as 4:vx=0.8,yaw_rate=0.3"
    length, _, fields = text.partition(":")
    setpoint = np.zeros(len(SETPOINT_FIELDS))
    for entry in filter(None, fields.split(",")):
        name, _, value = entry.partition("=")
        if name not in SETPOINT_FIELDS:
            raise SimulationError(
                f"command {text!r}: there is no field {name!r}; choose from {', '.join(SETPOINT_FIELDS)}"
            )
        setpoint[SETPOINT_FIELDS.index(name)] = _number(value, f"command {text!r}: {name}", example)
    seconds = _number(length, f"command {text!r}: its time", example)
    if not SHORTEST <= seconds <= LONGEST:
        raise SimulationError(f"command {text!r} lasts {seconds:g} s, expected {SHORTEST:g} to {LONGEST:g} s")
    return Phase(seconds, setpoint)


def _number(text: str, what: str, example: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise SimulationError(f"{what} is {text!r}, expected a finite number; {example}")
    return value


def trajectory_of_policy(
    robot: Robot, model: PolicyModel, terrain: Terrain, phases: Sequence[Phase], start: StartPose = "standing"
) -> Trajectory:
    """Let a policy walk in the simulator with noisy measurements. A lying robot stands up first; a robot on its back
    rights itself before that. The trajectory ends early if the robot falls.
    """
    period = 1.0 / model.card.interface.rate
    live, rows = LiveRobot(robot, terrain, start=start, period=period), list[tuple[Array, ...]]()

    def record() -> None:
        truth, setpoint = live.ground_truth(), controller.runner.setpoint
        measured = np.array([*truth.linear_velocity[:2], truth.angular_velocity[2]])
        rows.append(
            (
                truth.position,
                truth.orientation,
                live.signals(ideal=True)["joint_position"],
                setpoint[:3].copy(),
                measured,
            )
        )

    controlled = ControlledRobot(live, model, after=record)
    controller = controlled.controller
    if start == "standing":
        controller.walk_on(cold=True)
    elif start == "lying":
        controller.stand_up(live.time)
    else:
        controller.recover(live.time)
    while controller.mode in (Mode.RECOVERING, Mode.STANDING_UP):
        controlled.cycle()
    if controller.mode is Mode.STANDING:
        controller.walk()
    all(controlled.walk(phase.seconds, phase.setpoint) for phase in phases)
    return Trajectory(robot, terrain, period, *map(np.stack, zip(*rows, strict=True)))
