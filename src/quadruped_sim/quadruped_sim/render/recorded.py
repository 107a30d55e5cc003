"""Recorded walks: of a bag, and of a sequence of collected data.

Neither need say where the trunk was. Its way is then the sum of the legs' velocity (leg_odometry), which drifts, and it
is as high above the ground as lets the lowest foot touch it; so is the heading of data the sum of the turning rate.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.errors import SimulationError
from fcnet_core.learning.dataset import Dataset, Shard
from fcnet_core.names import CMD_VEL
from fcnet_core.observation import ARRAYS, LAYOUT
from fcnet_core.robot import Robot, load_robot
from fcnet_core.rotation import matrix_from_xyzw, product, xyzw_from_roll_pitch
from fcnet_replay.bags.bag import open_bag
from fcnet_replay.read_run import read_run
from fcnet_replay.recording_notes import robot_of
from fcnet_replay.run import Run, newest
from quadruped_sim.leg_odometry import leg_odometry
from quadruped_sim.physics.simulation import CONTROL_PERIOD
from quadruped_sim.physics.terrain import Flat, Terrain, terrain_from_facts
from quadruped_sim.render.walk import Walk


def walk_of_bag(path: Path, terrain: Terrain | None, robot_name: str | None, begin: float, seconds: float) -> Walk:
    """What a bag holds from `begin` [s] on, `seconds` of it at most: on the path of odom where that was recorded, on
    flat ground where no terrain is given. Raises ReplayError, SimulationError.
    """
    bag = open_bag(path)
    robot, run = robot_of(path, bag.notes, robot_name), read_run(bag)
    states = _finite(run.joints.stamp, run.joints.position, run.joints.velocity)
    attitudes = _finite(run.imu.stamp, run.imu.orientation, run.imu.angular_velocity)
    first = max(states.min(initial=np.inf), attitudes.min(initial=np.inf)) + begin
    last = min(states[np.isfinite(states)].max(initial=-np.inf), first + seconds)
    if not first < last:
        raise SimulationError(f"{path} holds no states {begin:g} s after its first one; choose an earlier --from")
    time = first + CONTROL_PERIOD * np.arange(max(round((last - first) / CONTROL_PERIOD), 1))
    row, imu = newest(states, time), newest(attitudes, time)
    joints, orientation, rate = run.joints.position[row], run.imu.orientation[imu], run.imu.angular_velocity[imu]
    commanded = run.setpoints.at(run.joints.received[row])[:, :3]
    if CMD_VEL.name in run.silent:
        commanded = np.full_like(commanded, np.nan)
    ground, recorded = terrain or Flat(), _odometry(run, time)
    if recorded is None:
        velocity = run.joints.velocity[row]
        return _on_its_legs(robot, ground, CONTROL_PERIOD, orientation, rate, joints, velocity, commanded)
    return Walk(robot, ground, CONTROL_PERIOD, recorded[0], recorded[1], joints, commanded, recorded[2])


def walk_of_data(folder: Path, terrain: Terrain | None, sequence: int, begin: float, seconds: float) -> Walk:
    """A sequence of a data folder, counted through its shards, from `begin` [s] to the end of its episode, `seconds` at
    most; on the terrain of its collection where none is given. Raises FcnetError, SimulationError.
    """
    data = Dataset(folder)
    manifest, counts = data.manifest, [shard.sequences[0] for shard in data.shards]
    if manifest.arrays != ARRAYS or not manifest.robot.isidentifier():
        raise SimulationError(f"{folder} is not of a walking robot; it holds {', '.join(manifest.arrays)}")
    if not 0 <= sequence < sum(counts):
        raise SimulationError(f"{folder} has the sequences 0 to {sum(counts) - 1}, not {sequence}")
    number = int(np.searchsorted(np.cumsum(counts), sequence, side="right"))
    shard, sequence, rate = data.shards[number], sequence - sum(counts[:number]), manifest.control_rate
    start = round(begin * rate)
    if start >= shard.sequences[1]:
        raise SimulationError(f"a sequence of {folder} lasts {shard.sequences[1] / rate:g} s; choose an earlier --from")
    again = np.flatnonzero(shard.first[sequence, start + 1 :])
    steps = min(max(1, round(seconds * rate)), int(again[0]) + 1 if len(again) else shard.sequences[1])
    seen = shard.observation[sequence, start : start + steps].astype(np.float64)
    if not np.isfinite(seen).all():
        raise SimulationError(f"{shard.path} holds a value that is not finite; collect it again")
    part = {name: seen[:, place] for name, place in LAYOUT.items()}
    robot = load_robot(manifest.robot)
    joints = np.arctan2(part["sin_joint_position"], part["cos_joint_position"])
    joints += 2 * np.pi * (joints < robot.lower - robot.safety.position_margin)  # thighs turn further than half round
    return _on_its_legs(
        robot,
        terrain or _collected_on(shard),
        1.0 / rate,
        _attitude(part["projected_gravity"], part["angular_velocity"], 1.0 / rate),
        part["angular_velocity"],
        joints,
        part["joint_velocity"],
        part["command"][:, :3],
    )


def _finite(stamp: Array, *values: Array) -> Array:
    """The stamps, infinite where a value is not a number."""
    return np.where(np.logical_and.reduce([np.isfinite(value).all(axis=1) for value in values]), stamp, np.inf)


def _odometry(run: Run, time: Array) -> tuple[Array, Array, Array] | None:
    """Position, orientation and velocity (vx, vy, yaw rate) at each time; None where the bag does not hold them."""
    odom = run.odometry
    stamps = _finite(odom.stamp, odom.position, odom.orientation, odom.velocity, odom.angular_velocity)
    row = newest(stamps, time)
    if not np.isfinite(stamps).any() or row[-1] < 0:
        return None
    row = np.maximum(row, row[row >= 0][0])  # before the first one
    velocity = np.column_stack([odom.velocity[row, :2], odom.angular_velocity[row, 2]])
    return odom.position[row], odom.orientation[row], velocity


def _on_its_legs(
    robot: Robot,
    terrain: Terrain,
    period: float,
    orientation: Array,
    angular_velocity: Array,
    joints: Array,
    joint_velocity: Array,
    commanded: Array,
) -> Walk:
    """A walk from the origin whose way only the legs know; joint_velocity (N, 12) [rad/s], the others as in Walk."""
    legs = leg_odometry(robot, orientation, angular_velocity, joints, joint_velocity)
    velocity = (matrix_from_xyzw(orientation) @ legs.velocity[..., None])[..., 0]
    position = np.cumsum(velocity * period, axis=0) - velocity[0] * period
    feet = legs.feet + position[:, None]
    ground = terrain.height(feet[..., 0], feet[..., 1])
    position[:, 2] = (ground + robot.geometry.foot_radius - legs.feet[..., 2]).max(axis=1)
    measured = np.column_stack([legs.velocity[:, :2], angular_velocity[:, 2]])
    return Walk(robot, terrain, period, position, orientation, joints, commanded, measured)


def _collected_on(shard: Shard) -> Terrain:
    facts = shard.job.get("terrain")
    if not isinstance(facts, dict) or "kind" not in facts:  # of a bag
        return Flat()
    return terrain_from_facts(**(facts | {"seed": shard.job.get("seed", 0)}))


def _attitude(gravity: Array, angular_velocity: Array, period: float) -> Array:
    """Orientation (N, 4) x, y, z, w from projected gravity (N, 3) and angular velocity (N, 3), heading 0 at first."""
    roll, pitch = np.arctan2(-gravity[:, 1], -gravity[:, 2]), np.arcsin(np.clip(gravity[:, 0], -1.0, 1.0))
    turning = angular_velocity[:, 1] * np.sin(roll) + angular_velocity[:, 2] * np.cos(roll)
    heading = np.cumsum(turning / np.maximum(np.cos(pitch), 0.1)) * period
    turn = np.stack([0 * heading, 0 * heading, np.sin(heading / 2), np.cos(heading / 2)], axis=-1)
    return np.stack([product(turn[row], xyzw_from_roll_pitch(roll[row], pitch[row])) for row in range(len(turn))])
