"""Closed-form kinematics, statics and contacts of four legs, in the trunk's frame, legs in LEGS order."""

import numpy as np

from fcnet_core.arrays import Array, Mask
from fcnet_core.robot import LEG_JOINTS, LEGS, Robot
from fcnet_core.rotation import GRAVITY

FRONT = np.array([1.0 if leg.startswith("F") else -1.0 for leg in LEGS])
LEFT = np.array([1.0 if leg.endswith("L") else -1.0 for leg in LEGS])
LONGEST = 0.985  # share of the stretched leg: beyond it the knee could bend the other way
SHORTEST = 0.22  # share of the stretched leg
LOADED = 0.05  # minimum load of a foot on the ground, as a share of the robot's weight
UNITS, UNITS_OF_LEGS = np.eye(3), np.tile(np.eye(3), len(LEGS))
RESTING = 0.3  # [m/s] maximum vertical speed of a foot on the ground relative to the trunk


class LegKinematics:
    """The legs of any number of equal robots: hip (abduction), thigh and calf; joints (..., 4, 3) [rad]."""

    def __init__(self, robot: Robot) -> None:
        size, bodies = robot.geometry, robot.body.bodies
        self._mass, self._foot_radius = robot.mass, size.foot_radius
        self._trunk = bodies["trunk"].mass * np.array(bodies["trunk"].com)
        self._link_mass = np.array([bodies[name].mass for name in LEG_JOINTS])
        mirror = np.ones((len(LEGS), len(LEG_JOINTS), 3))  # the robot file has the links of the left front leg
        mirror[:, :, 1] = LEFT[:, None]
        mirror[:, 0, 0] = FRONT
        self._link_com = mirror * np.array([bodies[name].com for name in LEG_JOINTS])
        self._thigh, self._calf = size.thigh, size.calf
        self._side = size.abduction * LEFT
        self.hips = np.stack([FRONT * size.hip_x, LEFT * size.hip_y, np.zeros(4)], axis=-1)
        self.neutral = self.hips + np.stack([np.zeros(4), self._side, np.zeros(4)], axis=-1)

    def points(self, joints: Array) -> Array:
        """Return hip axis, thigh axis, knee and foot centre (..., 4 legs, 4 points, 3) [m]."""
        hip, thigh, knee = joints[..., 0], joints[..., 1], joints[..., 1] + joints[..., 2]
        points = np.zeros((*joints.shape[:-1], 4, 3))
        points[..., 2, 0] = -self._thigh * np.sin(thigh)
        points[..., 3, 0] = points[..., 2, 0] - self._calf * np.sin(knee)
        down = np.zeros(points.shape[:-1])
        down[..., 2] = -self._thigh * np.cos(thigh)
        down[..., 3] = down[..., 2] - self._calf * np.cos(knee)
        side = np.stack([np.zeros(4), self._side, self._side, self._side], axis=-1)
        sine, cosine = np.sin(hip)[..., None], np.cos(hip)[..., None]
        points[..., :, 1], points[..., :, 2] = side * cosine - down * sine, side * sine + down * cosine
        return points + self.hips[:, None]

    def axes(self, joints: Array) -> Array:
        """Return unit vectors (..., 4 legs, 3 joints, 3) along the axes of hip, thigh and calf."""
        axes = np.zeros((*joints.shape, 3))
        axes[..., 0, 0] = 1.0
        axes[..., 1:, 1] = np.cos(joints[..., 0])[..., None]
        axes[..., 1:, 2] = np.sin(joints[..., 0])[..., None]
        return axes

    def feet(self, joints: Array) -> tuple[Array, Array]:
        """Return foot centres (..., 4, 3) [m] and their Jacobians (..., 4, 3, 3) by the leg's joints."""
        points = self.points(joints)
        feet = points[..., 3, :]
        columns = np.cross(self.axes(joints), feet[..., None, :] - points[..., :3, :])
        return feet, np.swapaxes(columns, -1, -2)

    def ground_forces(self, joints: Array, torques: Array) -> Array:
        """Return the ground's forces (..., 4, 3) [N] on the feet that balance joint torques (..., 4, 3) [Nm].

        Ignores weight and inertia of the legs. Not finite for a fully stretched leg.
        """
        columns = np.swapaxes(self.feet(joints)[1], -1, -2)
        hip, thigh, calf = (columns[..., k, :] for k in range(3))
        products = np.stack([np.cross(thigh, calf), np.cross(calf, hip), np.cross(hip, thigh)], axis=-2)
        with np.errstate(all="ignore"):
            return -(torques[..., None, :] @ products)[..., 0, :] / (hip * products[..., 0, :]).sum(-1, keepdims=True)

    def contacts(self, joints: Array, velocity: Array, torque: Array, angular_velocity: Array, up: Array) -> Mask:
        """Estimate contacts (..., 4): a foot on the ground carries weight and rests. False for an unknown torque.

        velocity, torque: of the joints [rad/s, Nm]; angular_velocity (..., 3) [rad/s] of the trunk; up: upward
        direction of the world (..., 3); both in the trunk's frame.
        """
        feet, jacobians = self.feet(joints)
        forces = self.ground_forces(joints, torque)
        speeds = (jacobians @ velocity[..., None])[..., 0] + np.cross(angular_velocity[..., None, :], feet)
        with np.errstate(invalid="ignore"):
            carried = (forces * up[..., None, :]).sum(-1)
            resting = np.abs((speeds * up[..., None, :]).sum(-1)) < RESTING
            return (carried > LOADED * GRAVITY * self._mass) & resting

    def torques(self, joints: Array, gravity: Array) -> Array:
        """Return static torques (4, 3) [Nm] of one robot with all feet on the ground and minimum friction, from its
        weight and the weight of its legs.

        gravity (3,): unit vector of its direction in the trunk's frame.
        """
        points, axes = self.points(joints), self.axes(joints)
        # centres of mass of the links
        pitch = np.stack([np.zeros(len(LEGS)), joints[:, 1], joints[:, 1] + joints[:, 2]], axis=-1)
        x, y, z = np.moveaxis(self._link_com, -1, 0)
        x, z = x * np.cos(pitch) + z * np.sin(pitch), z * np.cos(pitch) - x * np.sin(pitch)
        sine, cosine = np.sin(joints[:, :1]), np.cos(joints[:, :1])
        coms = points[:, :3] + np.stack([x, y * cosine - z * sine, y * sine + z * cosine], axis=-1)
        com = (self._trunk + (self._link_mass[:, None] * coms).sum(axis=(0, 1))) / self._mass
        # the minimum forces (4, 3) [N] of the ground that carry the robot
        contact = points[:, 3] - [0.0, 0.0, self._foot_radius]
        turning = _cross((contact - com)[:, None], UNITS).reshape(-1, 3).T
        grasp = np.concatenate([UNITS_OF_LEGS, turning])
        wrench = np.concatenate([-self._mass * GRAVITY * gravity, np.zeros(3)])
        forces = (grasp.T @ np.linalg.solve(grasp @ grasp.T, wrench)).reshape(len(LEGS), 3)
        # torques of these forces, and of the weights of the links, about the joints
        lever = points[:, :3]
        moment = _cross(contact[:, None] - lever, forces[:, None])
        weight = GRAVITY * self._link_mass[:, None] * gravity
        for link in range(len(LEG_JOINTS)):
            moment[:, : link + 1] += _cross(coms[:, link, None] - lever[:, : link + 1], weight[link])
        return -(axes * moment).sum(axis=-1)

    def joints(self, feet: Array) -> Array:
        """Return joints (..., 4, 3) [rad] that bring the feet to (..., 4, 3) [m], or as near as possible."""
        x, y, z = np.moveaxis(feet - self.hips, -1, 0)
        down = -np.sqrt(np.maximum(y * y + z * z - self._side**2, 1e-4))
        hip = np.arctan2(z, y) - np.arctan2(down, self._side)
        hip = (hip + np.pi) % (2 * np.pi) - np.pi
        length = np.hypot(x, down)
        stretched = self._thigh + self._calf
        reached = np.clip(length, SHORTEST * stretched, LONGEST * stretched)
        x, down = x * reached / length, down * reached / length
        bend = (reached**2 - self._thigh**2 - self._calf**2) / (2 * self._thigh * self._calf)
        knee = -np.arccos(np.clip(bend, -1.0, 1.0))
        thigh = np.arctan2(-x, -down) - np.arctan2(self._calf * np.sin(knee), self._thigh + self._calf * np.cos(knee))
        return np.stack([hip, thigh, knee], axis=-1)


def standing_height(robot: Robot, points: Array, rotation: Array) -> Array:
    """Return heights (...) [m] of the trunk's centre at which the lowest foot (or the trunk) touches the ground.

    points (..., 4, 4, 3): of LegKinematics; rotation (..., 3, 3): from trunk to world.
    """
    up = rotation[..., 2, :]
    feet = (points[..., 3, :] * up[..., None, :]).sum(-1) - robot.geometry.foot_radius
    lowest_corner = -np.abs(up) @ np.array(robot.geometry.trunk)
    return -np.minimum(feet.min(-1), lowest_corner)


def _cross(a: Array, b: Array) -> Array:
    """Return cross products (..., 3); for small arrays np.cross takes three times as long."""
    return a[..., [1, 2, 0]] * b[..., [2, 0, 1]] - a[..., [2, 0, 1]] * b[..., [1, 2, 0]]
