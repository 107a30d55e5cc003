"""Trajectories to render, and the trajectory of a policy in the simulator."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.errors import SimulationError
from fcnet_core.model_file import PolicyModel
from fcnet_core.names import Mode
from fcnet_core.robot import SETPOINT_FIELDS, Robot
from quadruped_sim.controlled_robot import ControlledRobot
from quadruped_sim.physics.live_robot import LiveRobot
from quadruped_sim.physics.placement import StartPose
from quadruped_sim.physics.terrain import Terrain

SHORTEST, LONGEST = 0.02, 600.0  # [s] of a walk
Phase = tuple[float, Array]  # [s], and the setpoint (9,) in SETPOINT_FIELDS order that is held for so long


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


def averaged(values: Array, window: int) -> Array:
    """Average values (N, K) over a window around each row."""
    padded = np.pad(values, ((window // 2, (window - 1) // 2), (0, 0)), mode="edge")
    return np.lib.stride_tricks.sliding_window_view(padded, window, axis=0).mean(axis=-1)


def parse_phase(text: str) -> Phase:
    """Parse SECONDS:FIELD=VALUE,FIELD=VALUE, such as 4:vx=0.8,yaw_rate=0.3; fields that are left out are 0.

    Raises SimulationError.
    """
    length, _, rest = text.partition(":")
    parts = [entry.partition("=") for entry in rest.split(",") if entry]
    fields = {name: value for name, _, value in parts}
    if unknown := sorted(fields.keys() - set(SETPOINT_FIELDS)):
        known = ", ".join(SETPOINT_FIELDS)
        raise SimulationError(f"command {text!r}: there is no field {unknown[0]!r}; choose from {known}")
    try:
        seconds, setpoint = float(length), np.array([float(fields.get(name, 0.0)) for name in SETPOINT_FIELDS])
    except ValueError as error:
        example = "give SECONDS:FIELD=VALUE,... such as 4:vx=0.8,yaw_rate=0.3"
        raise SimulationError(f"command {text!r}: {error}; {example}") from error
    if not SHORTEST <= seconds <= LONGEST or not np.isfinite(setpoint).all():
        limits = f"{SHORTEST:g} to {LONGEST:g} s"
        raise SimulationError(f"command {text!r}: expected a time of {limits} and fields that are finite numbers")
    return seconds, setpoint


def trajectory_of_policy(
    robot: Robot,
    model: PolicyModel,
    terrain: Terrain,
    phases: Sequence[Phase],
    start: StartPose = "standing",
    shown: tuple[float, float] = (0.0, LONGEST),
) -> Trajectory:
    """Let a policy walk in the simulator with noisy measurements. A lying robot stands up first; a robot on its back
    rights itself before that. The trajectory ends early if the robot falls. shown: when it begins and how long it is,
    at most [s]. Raises SimulationError if the walk ends before.
    """
    period = 1.0 / model.card.interface.rate
    live, rows = LiveRobot(robot, terrain, start=start, period=period), list[tuple[Array, ...]]()

    def record() -> None:
        truth, setpoint = live.ground_truth(), controller.runner.setpoint
        measured = np.array([*truth.linear_velocity[:2], truth.angular_velocity[2]])
        rows.append((truth.position, truth.orientation, live.joints, setpoint[:3].copy(), measured))

    controlled = ControlledRobot(live, model, after=record)
    controller = controlled.controller
    if start == "standing":
        controller.walk_on()
    elif start == "lying":
        controller.stand_up(live.time)
    else:
        controller.recover(live.time)
    while controller.mode in (Mode.RECOVERING, Mode.STANDING_UP):
        controlled.cycle()
    if controller.mode is Mode.STANDING:
        controller.walk()
    all(controlled.walk(*phase) for phase in phases)
    first, count = round(shown[0] / period), max(round(shown[1] / period), 1)
    if first >= len(rows):
        raise SimulationError(f"the trajectory lasts {len(rows) * period:g} s; choose an earlier --from")
    return Trajectory(robot, terrain, period, *map(np.stack, zip(*rows[first : first + count], strict=True)))
