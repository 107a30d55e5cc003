"""Trajectories recorded in a bag.

A bag without odometry does not contain the trunk's position. The position is then the sum of the legs' velocity
(leg_odometry), which drifts, and the height is that at which the lowest foot touches the ground.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.errors import SimulationError
from fcnet_core.names import CMD_VEL
from fcnet_core.robot import Robot
from fcnet_core.rotation import matrix_from_xyzw
from fcnet_replay.bags.bag import open_bag
from fcnet_replay.read_run import read_run
from fcnet_replay.recording_notes import robot_of
from fcnet_replay.run import Run, newest
from quadruped_sim.leg_odometry import leg_odometry
from quadruped_sim.physics.simulation import CONTROL_PERIOD
from quadruped_sim.physics.terrain import Flat, Terrain
from quadruped_sim.render.trajectory import Trajectory


def trajectory_of_bag(
    path: Path, terrain: Terrain | None, robot_name: str | None, begin: float, seconds: float
) -> Trajectory:
    """Return at most `seconds` of a bag from `begin` [s]: on the path of odom if it was recorded, on flat ground if no
    terrain is given. Raises ReplayError, SimulationError.
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
        recorded = _on_its_legs(robot, ground, orientation, rate, joints, run.joints.velocity[row])
    position, orientation, velocity = recorded
    return Trajectory(robot, ground, CONTROL_PERIOD, position, orientation, joints, commanded, velocity)


def _finite(stamp: Array, *values: Array) -> Array:
    """Return the stamps, infinite if a value is not a number."""
    return np.where(np.logical_and.reduce([np.isfinite(value).all(axis=1) for value in values]), stamp, np.inf)


def _odometry(run: Run, time: Array) -> tuple[Array, Array, Array] | None:
    """Return position, orientation and velocity (vx, vy, yaw rate) at each time; None if the bag has no odometry."""
    odom = run.odometry
    stamps = _finite(odom.stamp, odom.position, odom.orientation, odom.velocity, odom.angular_velocity)
    row = newest(stamps, time)
    if not np.isfinite(stamps).any() or row[-1] < 0:
        return None
    row = np.maximum(row, row[row >= 0][0])  # before the first one
    velocity = np.column_stack([odom.velocity[row, :2], odom.angular_velocity[row, 2]])
    return odom.position[row], odom.orientation[row], velocity


def _on_its_legs(
    robot: Robot, terrain: Terrain, orientation: Array, angular_velocity: Array, joints: Array, joint_velocity: Array
) -> tuple[Array, Array, Array]:
    """Return position, orientation and velocity (vx, vy, yaw rate) by leg odometry, from the origin; joint_velocity
    (N, 12) [rad/s], the others as in Trajectory.
    """
    legs = leg_odometry(robot, orientation, angular_velocity, joints, joint_velocity)
    velocity = (matrix_from_xyzw(orientation) @ legs.velocity[..., None])[..., 0]
    position = np.cumsum(velocity * CONTROL_PERIOD, axis=0) - velocity[0] * CONTROL_PERIOD
    feet = legs.feet + position[:, None]
    ground = terrain.height(feet[..., 0], feet[..., 1])
    position[:, 2] = (ground + robot.geometry.foot_radius - legs.feet[..., 2]).max(axis=1)
    measured = np.column_stack([legs.velocity[:, :2], angular_velocity[:, 2]])
    return position, orientation, measured
