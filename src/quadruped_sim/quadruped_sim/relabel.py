"""Relabelling of recorded runs: the expert's targets for the recorded states.

As in collection with a student, the expert is asked in every control period, while the recorded targets are sent.
Nothing is simulated between the recorded states.

The expert needs the robot's true state. A bag has joints, attitude and angular velocity; it has no height, and no
velocity unless odom was recorded. Both are estimated from the legs, on the assumptions that the ground is flat and that
the feet near the lowest stand on it without slipping.
"""

from collections import Counter
from dataclasses import replace

import numpy as np

from fcnet_core.arrays import Array, Mask
from fcnet_core.control.command import CommandShaper
from fcnet_core.legs.kinematics import LegKinematics
from fcnet_core.names import ODOM
from fcnet_core.robot import Robot
from fcnet_core.rotation import matrix_from_xyzw, projected_gravity
from fcnet_replay.datasets.from_bag import BagEpisodes, Labels
from fcnet_replay.policy_replay import Steps
from fcnet_replay.run import Run, newest
from quadruped_sim.physics.simulation import FALLEN_HEIGHT, FALLEN_UPRIGHT, BodyState
from quadruped_sim.trot_expert import TrotExpert

OLD = 0.1  # [s] older odometry is not used
PHASE_DIGITS = 6  # of a stride, which float32 keeps
SAME_PHASE = 1e-4  # of a stride
ON_GROUND = 0.015  # [m] a foot that is higher than the lowest by less stands on the ground


def leg_odometry(
    robot: Robot, orientation: Array, angular_velocity: Array, joint_position: Array, joint_velocity: Array
) -> tuple[Array, Mask, Array]:
    """Return, of N states: feet (N, 4, 3) [m] from the trunk's centre, along the axes of the world; which stand (N, 4);
    the velocity (N, 3) of the trunk [m/s] in its own frame by which they stand still, on average.

    Use orientation (N, 4) x, y, z, w; angular velocity (N, 3) [rad/s] in the body frame; joints (N, K).
    Raises FcnetError for a robot without legs of known lengths.
    """
    feet, jacobian = LegKinematics(robot).feet(joint_position[:, robot.leg_rows])
    placed = feet @ matrix_from_xyzw(orientation).transpose(0, 2, 1)
    contact = placed[..., 2] <= placed[..., 2].min(axis=1, keepdims=True) + ON_GROUND
    swept = (jacobian @ joint_velocity[:, robot.leg_rows][..., None])[..., 0]
    moving = swept + np.cross(angular_velocity[:, None], feet)
    velocity = -(moving * contact[..., None]).sum(axis=1) / contact.sum(axis=1, keepdims=True)
    return placed, contact, velocity


def recorded_states(run: Run, steps: Steps, robot: Robot) -> tuple[BodyState, Mask]:
    """Return the states (K,) of all steps, over flat ground at z = 0, and the mask (K,) of velocities from odometry."""
    orientation, angular_velocity = run.imu.orientation[steps.imu], run.imu.angular_velocity[steps.imu]
    joint_position, joint_velocity = run.joints.position[steps.joints], run.joints.velocity[steps.joints]
    feet, contact, velocity = leg_odometry(robot, orientation, angular_velocity, joint_position, joint_velocity)
    known = np.zeros(len(steps), dtype=np.bool_)
    stamp, time = run.odometry.stamp, steps.record.joints_stamp
    if len(stamp):
        row = newest(stamp, time)
        measured = run.odometry.velocity[row]
        known = (row >= 0) & (time - stamp[row] <= OLD) & (np.abs(measured) < 1e3).all(axis=1)
        velocity = np.where(known[:, None], measured, velocity)
    position = np.zeros((len(steps), 3))
    position[:, 2] = robot.geometry.foot_radius - feet[..., 2].min(axis=1)
    state = BodyState(
        position=position,
        orientation=orientation,
        linear_velocity=(matrix_from_xyzw(orientation) @ velocity[..., None])[..., 0],
        angular_velocity=angular_velocity,
        joint_position=joint_position,
        joint_velocity=joint_velocity,
        contact=contact,
    )
    return state, known


def advise(run: Run, steps: Steps, first: Mask, robot: Robot, period: float) -> Labels:
    """Ask the expert about every step, in order; it forgets the past at each `first` (K,) step of an episode and after
    each step on which it has no advice: states that simulation counts as a fall, and joints beyond their limits.
    """
    states, by_odometry = recorded_states(run, steps, robot)
    tilted = -projected_gravity(states.orientation)[:, 2] < FALLEN_UPRIGHT
    low = ~tilted & (states.position[:, 2] < FALLEN_HEIGHT * robot.nominal_height)
    joints, margin = states.joint_position, robot.safety.position_margin
    beyond = ((joints < robot.lower - margin) | (joints > robot.upper + margin)).any(axis=1)
    reasons = {
        "the robot is tilted by more than 60 degrees": tilted,
        "the trunk is near the ground": low,
        "a joint is beyond its limit": ~tilted & ~low & beyond,
    }
    left_out = Counter({reason: int(mask.sum()) for reason, mask in reasons.items()})
    able = ~np.logical_or.reduce(list(reasons.values()))
    first = able & (first | np.append(True, ~able)[: len(able)])
    target = np.full((len(steps), len(robot.joints)), np.nan)
    expert, shaper = TrotExpert(robot, 1, period), CommandShaper(robot.commands, robot.gait, period)
    clock = shaper.clock
    for step in np.flatnonzero(able):
        if first[step]:
            expert.reset()
        setpoint, phase, walking = steps.record.command(int(step))
        shaper.setpoint, clock.walking = setpoint[None], np.array([walking])
        # The clock's own sum is kept if the recorded phase agrees with it: at 2.5 strides a second it meets the very
        # instants at which feet lift and land, and there the last digit decides on which side it is.
        recorded = np.round(phase, PHASE_DIGITS) % 1.0
        summed = (clock.phase + clock.frequency(shaper.setpoint) * period) % 1.0
        agrees = np.abs((summed - recorded + 0.5) % 1.0 - 0.5) < SAME_PHASE
        clock.phase = np.where(agrees, summed, recorded)
        state = BodyState(**{name: values[step : step + 1] for name, values in vars(states).items()})
        target[step] = expert.act(state, shaper)[0]
    known = able & np.isfinite(target).all(axis=1)
    share = round(float(by_odometry[able].mean()), 4) if able.any() else 0.0
    return Labels(target, known, first, {"velocity_from_odometry": share}, left_out)


def expert_labels(episodes: BagEpisodes, period: float) -> Labels:
    """Return the expert's targets for the steps of a walk, `period` [s] apart."""
    labels = advise(episodes.run, episodes.steps, episodes.first, episodes.robot, period)
    error, odometry = (labels.target - episodes.target)[labels.known], labels.facts["velocity_from_odometry"]
    rms = round(float(np.sqrt(np.square(error).mean())), 4) if error.size else None
    apart = "" if rms is None else f", {rms:.3f} rad (rms) from what was sent"
    sentence = f"  {len(error):,} steps relabelled{apart}; {odometry:.0%} of the velocities from {ODOM.name}"
    facts = {"relabelled": len(error), **labels.facts, "rms_from_sent_rad": rms}
    return replace(labels, facts=facts, sentence=f"{sentence}, the others from the legs")
