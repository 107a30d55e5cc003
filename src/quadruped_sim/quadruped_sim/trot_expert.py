"""The trotting expert: Raibert footholds, closed-form legs, and trunk forces folded into joint position targets.

It sees the robot's true state and feels its feet, but not the terrain. Its gait phase is the command's, so that a
policy that imitates it can know the phase of the stride. Frame H is at the trunk's centre, level, heading along x.
"""

from dataclasses import dataclass

import numpy as np

from fcnet_core.arrays import Array, Mask, Rows
from fcnet_core.control.command import CommandShaper
from fcnet_core.legs.kinematics import LegKinematics
from fcnet_core.robot import SETPOINT_FIELDS, Robot
from fcnet_core.rotation import GRAVITY, matrix_from_xyzw, roll_pitch_yaw
from quadruped_sim.physics.simulation import BodyState

FIELD = {name: index for index, name in enumerate(SETPOINT_FIELDS)}
HORIZONTAL = np.array([1.0, 1.0, 0.0])  # of vx, vy, yaw_rate: the commanded velocity in H
TUNED = 0.02  # [s] period for which shares of running averages are given
FASTEST_LIFT = 1.0  # [m/s]
PHASE_OFFSET = np.array([0.0, 0.5, 0.5, 0.0])  # FR FL RR RL: diagonal legs move together
LIGHT = 18.0  # [kg] a lighter robot strides faster for its size
# What matters most when the feet cannot do everything: fx, fy, fz, roll, pitch, yaw torques.
WEIGHTS = np.array([1.0, 1.0, 2.0, 6.0, 6.0, 3.0])
REGULARISATION = 0.02


@dataclass(frozen=True)
class TrotParameters:
    """Constants found by trial in simulation. Lengths are shares of the stretched leg; gains
    of forces are accelerations per error; so are gains of torques, for an inertia of mass x hip_x^2.
    """

    duty: float = 0.6  # share of the stride on the ground, at walking speed
    duty_gain: float = 0.1  # less of it for each m/s above the gait's knee speed
    clearance: float = 0.16  # height of the swing
    lead: float = 1.15  # feet land early, so the stance is longer than planned by this factor
    placement_gain: float = 0.1  # [s] foothold by velocity error (Raibert)
    reach: float = 0.44  # farthest foothold from neutral, along x and along y
    speed_scale: float = 0.9  # a stance pulls the body a little faster than it moves its feet
    yaw_scale: float = 0.84
    velocity_gain: float = 8.0
    height_gain: float = 60.0
    height_damping: float = 10.0
    attitude_gain: float = 85.0
    attitude_damping: float = 10.0
    yaw_gain: float = 7.0
    friction: float = 0.3  # assumed of the ground: modest, so that a slippery floor is survived
    slope_rate: float = 0.08

    def duty_of(self, setpoint: Array, speed_knee: float) -> Array:
        """Return the share of the stride (B,) on the ground for setpoints (B, 9) and the gait's knee speed [m/s]."""
        speed = np.hypot(setpoint[:, FIELD["vx"]], setpoint[:, FIELD["vy"]])
        return self.duty - self.duty_gain * np.maximum(speed - speed_knee, 0.0)


def parameters_of(robot: Robot) -> TrotParameters:
    """Return the constants for a robot: a light one may lean harder on the ground, and must correct footholds less."""
    return TrotParameters(friction=0.6, placement_gain=0.06) if robot.mass < LIGHT else TrotParameters()


def share_forces(feet: Array, stance: Mask, wrench: Array, highest: float, friction: float) -> Array:
    """Return forces (B, 4, 3) [N] on the feet (B, 4, 3) [m, from the trunk's centre] that give the wrench (B, 6) [N,
    Nm] in the least-squares sense; feet off the ground get none, others push with at most `highest` [N] within
    `friction`.
    """
    on = stance.astype(np.float64)
    x, y, z = np.moveaxis(feet * on[..., None], -1, 0)
    grasp = np.zeros((len(feet), 6, 4, 3))  # from the forces to the wrench
    for axis in range(3):
        grasp[:, axis, :, axis] = on
    grasp[:, 3, :, 1], grasp[:, 3, :, 2] = -z, y
    grasp[:, 4, :, 0], grasp[:, 4, :, 2] = z, -x
    grasp[:, 5, :, 0], grasp[:, 5, :, 1] = -y, x
    grip = grasp.reshape(-1, 6, 12) * WEIGHTS[:, None]
    square = grip @ grip.transpose(0, 2, 1) + REGULARISATION * np.eye(6)
    solution = np.linalg.solve(square, (wrench * WEIGHTS)[..., None])
    forces = (grip.transpose(0, 2, 1) @ solution)[..., 0].reshape(-1, 4, 3)
    forces[..., 2] = np.clip(forces[..., 2], 0.0, highest)
    cone = friction * forces[..., 2:3]
    forces[..., :2] = np.clip(forces[..., :2], -cone, cone)
    return forces


class _View:
    """The robots' state as the expert needs it, in H."""

    def __init__(self, state: BodyState, kinematics: LegKinematics, rows: Rows) -> None:
        half = roll_pitch_yaw(state.orientation)[:, 2] / 2
        heading = matrix_from_xyzw(np.stack([0 * half, 0 * half, np.sin(half), np.cos(half)], axis=-1))
        self.rotation = heading.transpose(0, 2, 1) @ matrix_from_xyzw(state.orientation)
        self.velocity = (state.linear_velocity[:, None] @ heading)[:, 0]
        self.spin = (self.rotation @ state.angular_velocity[..., None])[..., 0]
        self.joints = state.joint_position[:, rows]
        feet, self.jacobian = kinematics.feet(self.joints)
        self.feet = feet @ self.rotation.transpose(0, 2, 1)
        self.contact = state.contact


class TrotExpert:
    """Position targets for a batch of robots that follow the commands of a CommandShaper, once in a `period` [s].

    Joints that are no leg's stay in the stand pose. Raises FcnetError for a robot without legs of known lengths.
    """

    def __init__(self, robot: Robot, batch: int, period: float = 0.02) -> None:
        self._period, self._rows = period, robot.leg_rows
        self.robot = robot
        self.parameters = parameters_of(robot)
        self._kinematics = LegKinematics(robot)
        self._leg = robot.geometry.thigh + robot.geometry.calf
        self._inertia = robot.mass * robot.geometry.hip_x**2
        self._fresh = np.ones(batch, dtype=bool)
        self._stance = np.ones((batch, 4), dtype=bool)
        self._feet: Array = np.zeros((batch, 4, 3))  # planned foot positions in H
        self._lifted: Array = np.zeros((batch, 4, 3))  # where the swing began
        self._joints: Array = np.zeros((batch, 4, 3))
        self._velocity: Array = np.zeros((batch, 3))
        self._slope: Array = np.zeros((batch, 2))

    def reset(self, mask: Mask | None = None) -> None:
        """Forget the past of the robots in `mask` (B,), or of all."""
        chosen = slice(None) if mask is None else mask
        self._fresh[chosen], self._stance[chosen] = True, True
        self._velocity[chosen], self._slope[chosen] = 0.0, 0.0

    def act(self, state: BodyState, shaper: CommandShaper) -> Array:
        """Return position targets (B, N) [rad] for the commands that `shaper` has just stepped to."""
        view = _View(state, self._kinematics, self._rows)
        self._velocity += self._share(0.5) * (view.velocity - self._velocity)
        fresh = self._fresh
        kept_values = self._feet, self._lifted, self._joints, self._velocity
        for kept, now in zip(kept_values, (view.feet, view.feet, view.joints, view.velocity), strict=True):
            kept[fresh] = now[fresh]
        fresh[:] = False
        setpoint = shaper.setpoint
        frequency = shaper.clock.frequency(setpoint)
        duty = self.parameters.duty_of(setpoint, self.robot.gait.speed_knee)
        turned = self._switch_stance(view, shaper, duty)
        self._feel_slope(view)
        slope = np.sign(self._slope) * np.maximum(np.abs(self._slope) - 0.02, 0.0)
        attitude = _attitude(
            setpoint[:, FIELD["roll"]] + np.arctan(slope[:, 1]), setpoint[:, FIELD["pitch"]] - np.arctan(slope[:, 0])
        )
        self._plan_stance(setpoint, slope)
        self._plan_swing(setpoint, slope, duty / frequency)
        # Stance legs turn the trunk to its attitude, swing legs follow it.
        feet = np.where(self._stance[..., None], self._feet @ attitude, self._feet @ view.rotation)
        joints = self._kinematics.joints(feet)
        rate = np.clip((joints - self._joints) / self._period, -12.0, 12.0)
        rate[turned] = 0.0
        self._joints = joints
        torque = self._torque(setpoint, attitude, view)
        kp, kd = self.robot.kp[self._rows], self.robot.kd[self._rows]
        targets = np.tile(self.robot.stand_pose, (len(joints), 1))
        targets[:, self._rows] = joints + torque / kp + rate * kd / kp
        return np.clip(targets, self.robot.lower, self.robot.upper)

    def _share(self, share: float) -> float:
        """Convert the share by which a running average follows in TUNED to that in a period."""
        return float(1.0 - (1.0 - share) ** (self._period / TUNED))

    def _switch_stance(self, view: _View, shaper: CommandShaper, duty: Array) -> Mask:
        """Choose the feet in stance; return the feet (B, 4) that have just landed or lifted."""
        phase = (shaper.clock.phase[:, None] + PHASE_OFFSET) % 1.0
        walking = shaper.clock.walking[:, None]
        self._swing = np.clip((phase - duty[:, None]) / (1 - duty[:, None]), 0.0, 1.0)
        stance = (phase < duty[:, None]) | ~walking
        late = (self._swing > 0.6) & walking
        stance |= late & (view.contact | self._stance)
        landed, lifted = stance & ~self._stance, ~stance & self._stance
        self._feet[landed] = view.feet[landed]
        self._lifted[lifted] = view.feet[lifted]
        self._stance = stance
        return landed | lifted

    def _feel_slope(self, view: _View) -> None:
        """Estimate the ground's slope (B, 2) from the feet in stance, slowly."""
        spread = view.feet - view.feet.mean(axis=1, keepdims=True)
        level = spread[..., :2]
        weighted = level * np.where(self._stance, 1.0, 0.05)[..., None]
        square = weighted.transpose(0, 2, 1) @ level + 1e-3 * np.eye(2)
        slope = np.linalg.solve(square, weighted.transpose(0, 2, 1) @ spread[..., 2:])[..., 0]
        self._slope += self._share(self.parameters.slope_rate) * (np.clip(slope, -0.4, 0.4) - self._slope)

    def _plan_stance(self, setpoint: Array, slope: Array) -> None:
        """Move the feet in stance back under the body as fast as the body should move over them."""
        stance = self._stance
        spin = _cross_z(self.parameters.yaw_scale * setpoint[:, FIELD["yaw_rate"]], self._feet)
        body = self.parameters.speed_scale * (setpoint[:, :3] * HORIZONTAL)[:, None] + spin
        self._feet = np.where(stance[..., None], self._feet - body * self._period, self._feet)
        along = (self._feet[..., :2] * slope[:, None]).sum(-1)
        mean = np.where(stance, self._feet[..., 2] - along, 0.0).sum(1) / np.maximum(stance.sum(1), 1)
        lift = np.clip(-self._leg_height(setpoint) - mean, -self._period * FASTEST_LIFT, self._period * FASTEST_LIFT)
        self._feet[..., 2] += np.where(stance, lift[:, None], 0.0)

    def _plan_swing(self, setpoint: Array, slope: Array, stance_time: Array) -> None:
        """Move the feet in swing towards their footholds."""
        constants = self.parameters
        neutral = np.repeat(self._kinematics.neutral[None], len(setpoint), axis=0)
        neutral[..., 1] *= 1 + setpoint[:, FIELD["width"], None]
        half, reach = 0.5 * constants.lead * stance_time[:, None], constants.reach * self._leg
        step = self._velocity * half + constants.placement_gain * (self._velocity - (setpoint[:, :3] * HORIZONTAL))
        offset = step[:, None] + half[..., None] * _cross_z(setpoint[:, FIELD["yaw_rate"]], neutral)
        target = neutral + np.clip(offset, -reach, reach)
        target[..., 2] = -self._leg_height(setpoint)[:, None] + (target[..., :2] * slope[:, None]).sum(-1)
        height = constants.clearance * self._leg + setpoint[:, FIELD["clearance"]]
        swing = _swing_path(self._lifted, target, height[:, None], self._swing)
        self._feet = np.where(self._stance[..., None], self._feet, swing)

    def _leg_height(self, setpoint: Array) -> Array:
        height = self.robot.nominal_height + setpoint[:, FIELD["height"]]
        return height - self.robot.geometry.foot_radius

    def _torque(self, setpoint: Array, attitude: Array, view: _View) -> Array:
        constants, mass = self.parameters, self.robot.mass
        carried = np.where(self._stance, view.feet[..., 2], 0.0).sum(1) / np.maximum(self._stance.sum(1), 1)
        wrench = np.empty((len(setpoint), 6))
        push = constants.velocity_gain * (setpoint[:, :3] * HORIZONTAL - self._velocity)[:, :2]
        wrench[:, :2] = mass * np.clip(push, -3.0, 3.0)
        lift = constants.height_gain * (self._leg_height(setpoint) + carried)
        wrench[:, 2] = mass * (GRAVITY + np.clip(lift - constants.height_damping * view.velocity[:, 2], -5.0, 5.0))
        turned = attitude @ view.rotation.transpose(0, 2, 1)  # by a small rotation about x and y, in H
        error = 0.5 * np.stack([turned[:, 2, 1] - turned[:, 1, 2], turned[:, 0, 2] - turned[:, 2, 0]], axis=-1)
        righting = constants.attitude_gain * error - constants.attitude_damping * view.spin[:, :2]
        wrench[:, 3:5] = self._inertia * righting
        wrench[:, 5] = self._inertia * constants.yaw_gain * (setpoint[:, FIELD["yaw_rate"]] - view.spin[:, 2])
        forces = share_forces(view.feet, self._stance, wrench, 12.0 * mass, constants.friction) @ view.rotation
        torque = -(view.jacobian.transpose(0, 1, 3, 2) @ forces[..., None])[..., 0]
        return torque * self._stance[..., None]


def _swing_path(start: Array, target: Array, clearance: Array, swing: Array) -> Array:
    """Return foot positions (B, 4, 3) at `swing` in [0, 1]: up quickly, over, and down a little below the target."""
    path = start + (target - start) * (0.5 * (1 - np.cos(np.pi * swing)))[..., None]
    top = np.maximum(start[..., 2], target[..., 2]) + clearance
    rising = start[..., 2] + (top - start[..., 2]) * np.sin(np.minimum(swing / 0.4, 1.0) * np.pi / 2)
    falling = 0.5 * (1 - np.cos(np.pi * np.clip((swing - 0.5) / 0.5, 0.0, 1.0)))
    path[..., 2] = np.where(swing < 0.5, rising, top + (target[..., 2] - 0.015 - top) * falling)
    return path


def _cross_z(rate: Array, points: Array) -> Array:
    """Return the velocity (B, 4, 3) of points (B, 4, 3) that turn about z at `rate` (B,)."""
    return np.stack([-points[..., 1], points[..., 0], np.zeros(points.shape[:-1])], axis=-1) * rate[:, None, None]


def _attitude(roll: Array, pitch: Array) -> Array:
    """Return the rotations Ry(pitch) Rx(roll) (B, 3, 3)."""
    cr, sr, cp, sp = np.cos(roll), np.sin(roll), np.cos(pitch), np.sin(pitch)
    zero = np.zeros_like(roll)
    entries = [cp, sp * sr, sp * cr, zero, cr, -sr, -sp, cp * sr, cp * cr]
    return np.stack(entries, axis=-1).reshape(-1, 3, 3)
