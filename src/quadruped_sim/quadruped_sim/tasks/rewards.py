"""The rewards of all tasks: functions of a View that return one number for each robot, (B,), without its weight.

In the manner of legged_gym (Rudin et al., 2022) and walk-these-ways (Margolis and Agrawal, 2022). A function with the
parameter `memory` remembers arrays from one control period to the next. Parameters from `*` on stand in a task's file.
"""

from typing import Literal

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.legs.kinematics import LegKinematics
from quadruped_sim.tasks.view import Memory, View

Frame = Literal["heading", "body", "world"]
STANDS = 1.0  # [N] on a foot on the ground


def tracking(
    view: View,
    memory: Memory,
    *,
    of: Literal["velocity", "yaw_rate", "height", "attitude"],
    width: float,
    frame: Frame = "heading",
    averaged: float = 1.0,
) -> Array:
    """Return exp(-squared error / width) of a command; attitude: against the slope of the ground.

    averaged: share of the newest error in a running average, which takes the place of the error. A trot's speed swings
    within the stride, and commands are about its mean.
    """
    if of == "velocity":
        error = _velocity_difference(view, frame)
    elif of == "yaw_rate":
        error = view.state.angular_velocity[:, 2:] - view.commanded("yaw_rate")[:, None]
    elif of == "height":
        error = (view.ground.height - view.robot.nominal_height - view.commanded("height"))[:, None]
    else:
        commanded = np.stack([view.commanded("roll"), view.commanded("pitch")], axis=-1)
        error = view.attitude[:, :2] - commanded - np.arctan(view.ground.slope[:, ::-1]) * [1.0, -1.0]
    if averaged < 1.0:
        mean = memory("mean", error.shape[1])
        mean += averaged * (error - mean)
        error = mean
    return np.exp(-np.square(error).sum(1) / width)


def _velocity_difference(view: View, frame: Frame) -> Array:
    """Return the horizontal velocity less the command (B, 2) [m/s]."""
    velocity = view.velocity if frame == "heading" else view.state.linear_velocity
    if frame == "body":
        velocity = (view.rotation.transpose(0, 2, 1) @ velocity[..., None])[..., 0]
    return velocity[:, :2] - view.setpoint[:, :2]


def velocity_error(view: View, *, frame: Frame = "world") -> Array:
    """Return the distance [m/s] of the horizontal velocity from the command."""
    return np.linalg.norm(_velocity_difference(view, frame), axis=1)


def alive(view: View) -> Array:
    """Return 1."""
    return np.ones(len(view.setpoint))


def stand_pose(view: View, *, width: float) -> Array:
    """Return exp(-squared distance [rad^2] of the joints from the stand pose / width)."""
    return np.exp(-np.square(view.state.joint_position - view.robot.stand_pose).sum(1) / width)


def clock_contact(view: View) -> Array:
    """Return the number of feet that stand or swing when the gait clock does not."""
    swing, contact = view.swing, view.state.contact
    return np.where(swing < 0.0, ~contact, contact & (swing > 0.15) & (swing < 0.85)).sum(1)


def foot_impact(view: View, *, near: float, most: float) -> Array:
    """Return the squared falling speeds [m^2/s^2] of feet that are `near` [m] to the ground, at most `most`."""
    falling = np.minimum(view.feet.velocity[..., 2], 0.0)
    return np.minimum((np.square(falling) * (view.feet.height < near)).sum(1), most)


def low_swing(view: View) -> Array:
    """Return how far swinging feet are below a sine path of the commanded height, 0 to 1 for each (4 cm)."""
    path = view.lift * np.sin(np.pi * view.swing)
    swings = (view.swing > 0.25) & (view.swing < 0.75)
    return (np.clip((path - view.feet.height) / 0.04, 0.0, 1.0) * swings).sum(1)


def high_swing(view: View) -> Array:
    """Return how far feet are more than 1 cm above the commanded height, 0 to 1 for each (4 cm)."""
    return np.clip((view.feet.height - view.lift - 0.01) / 0.04, 0.0, 1.0).sum(1)


def stance_width(view: View) -> Array:
    """Return the distance [m] of standing feet, sideways, from the places of the commanded stance width."""
    neutral = LegKinematics(view.robot).neutral[:, 1]
    aside = view.feet.position[..., 1] - neutral * (1 + view.commanded("width")[:, None])
    return (np.abs(aside) * (view.swing < 0.0)).sum(1)


def foot_slip(view: View, *, most: float) -> Array:
    """Return the squared horizontal speeds [m^2/s^2] of feet in contact, at most `most`."""
    return np.minimum((np.square(view.feet.velocity[..., :2]).sum(-1) * view.state.contact).sum(1), most)


def touchdowns(view: View, memory: Memory) -> Array:
    """Return how often a foot landed in the period."""
    touch = view.records["foot_force"] > STANDS
    airborne = memory("airborne", touch.shape[-1], bool)
    touch = np.concatenate([~airborne[None], touch])
    airborne[:] = ~touch[-1]
    return (touch[1:] & ~touch[:-1]).sum((0, 2))


def feet_air_time(view: View, memory: Memory, *, swing: float) -> Array:
    """Return the time in the air [s] less `swing` of each foot that lands; it stands if it touched the ground now or a
    period ago.
    """
    touch = view.records["foot_force"][-1] > STANDS
    air = memory("air", touch.shape[1])
    stood = memory("stood", touch.shape[1], bool)
    stands = touch | stood
    landing = (air > 0.0) & stands
    stood[:] = touch
    air += view.simulation.period
    earned = ((air - swing) * landing).sum(1)
    air[stands] = 0.0
    return earned


def squared_torque(view: View, *, steps: Literal["all", "last"] = "all") -> Array:
    """Return squared joint torques [N^2 m^2], mean over the physics steps of the period or of the last one."""
    torque = view.records["torque"]
    return np.square(torque if steps == "all" else torque[-1:]).sum(-1).mean(0)


def power(view: View, *, squared: bool = False) -> Array:
    """Return absolute [W] or squared [W^2] powers of the joints, mean over the physics steps."""
    powers = view.records["torque"] * view.records["joint_rate"]
    return (np.square(powers) if squared else np.abs(powers)).sum(-1).mean(0)


def saturated_joints(view: View, *, share: float) -> Array:
    """Return the number of joints beyond this share of their torque-speed curve, mean over the physics steps."""
    torque = view.records["torque"]
    lowest, highest = view.robot.torque_bounds(view.records["joint_rate"])
    return ((torque < share * lowest) | (torque > share * highest)).sum(-1).mean(0)


def torque_beyond(view: View, *, torque: float) -> Array:
    """Return 1 if a joint's torque was beyond `torque` [Nm] in any physics step."""
    return (np.abs(view.records["torque"]).max(axis=(0, 2)) > torque).astype(np.float64)


def beyond_soft_limits(view: View, *, share: float) -> Array:
    """Return the number of joints outside this share of their range, about its middle, at the end of the period."""
    middle, reach = (view.robot.lower + view.robot.upper) / 2, share * (view.robot.upper - view.robot.lower) / 2
    return (np.abs(view.state.joint_position - middle) > reach).sum(1)


def action_change(view: View, *, unit: float, of: Literal["requested", "sent"] = "requested") -> Array:
    """Return the squared changes from the targets sent before to those asked for or sent, in units of `unit` [rad]."""
    return np.square(((view.sent if of == "sent" else view.requested) - view.before) / unit).sum(1)


def action_jerk(view: View, memory: Memory, *, unit: float) -> Array:
    """Return the squared changes of the change in action_change, in units of `unit` [rad]."""
    change = (view.requested - view.before) / unit
    previous = memory("change", change.shape[1])
    jerk = change - previous
    previous[:] = change
    return np.square(jerk).sum(1)


def vertical_velocity(view: View) -> Array:
    """Return the squared vertical velocity [m^2/s^2]."""
    return np.square(view.velocity[:, 2])


def roll_pitch_rate(view: View) -> Array:
    """Return the squared angular velocity about the horizontal axes of the trunk [rad^2/s^2]."""
    return np.square(view.state.angular_velocity[:, :2]).sum(1)
