"""Privileged state of a teacher: velocities, contacts, the ground, and the samples of the randomisation."""

from __future__ import annotations

import numpy as np

from fcnet_core.arrays import ArraySpec, Single
from fcnet_core.control.command import CommandShaper
from fcnet_core.control.runner import JointLimiter, observation_of
from fcnet_core.legs.kinematics import LegKinematics
from fcnet_core.observation import ACTION_SIZE, OBSERVATION_SIZE
from fcnet_core.rotation import matrix_from_xyzw, roll_pitch_yaw
from quadruped_sim.physics.simulation import BodyState, Simulation

DRAWN = {"friction": 1, "payload": 1, "com": 3, "strength": 1, "delay": 1}  # of randomization.Draw
TEACHER_PARTS = {
    "observation": OBSERVATION_SIZE,  # a policy's, without noise, dropouts and errors of the encoders
    "previous_action": ACTION_SIZE,  # the position targets before the last ones, which may not have arrived yet [rad]
    "linear_velocity": 3,  # of the trunk, in its frame [m/s]
    "contact": 4,  # of the feet, 0 or 1
    "height": 1,  # of the trunk over the ground [m]
    **DRAWN,
}
TEACHER_SPEC = ArraySpec((sum(TEACHER_PARTS.values()),), parts=TEACHER_PARTS)
TEACHER_SIZE = TEACHER_SPEC.shape[0]
SCAN = np.array([(x, y) for x in (-0.12, 0.0, 0.12) for y in (-0.06, 0.06)])  # places around each foot [m]
CRITIC_SIZE = TEACHER_SIZE + 4 * (len(SCAN) + 2) + 3
FARTHEST = 0.4  # [m] beyond which heights of the ground at a foot are clipped for the critic
SIDE = 0.15  # [m] from the trunk's middle to the places left and right of it where the slope is measured


class PrivilegedState:
    """The true state of B robots over the true ground. Frame H is level and heads along the trunk.

    attitude (B, 3) roll, pitch, yaw [rad]; velocity (B, 3) in H [m/s]; foot_position (B, 4, 2) in H from the trunk's
    centre [m]; foot_velocity (B, 4, 3) in the world [m/s]; foot_height (B, 4) over the ground [m]; height (B,) of the
    trunk's centre over the ground [m]; slope (B, 2) of the ground, rising forward and to the left.
    """

    def __init__(self, simulation: Simulation, kinematics: LegKinematics, state: BodyState) -> None:
        size, terrain = simulation.robot.geometry, simulation.terrain
        rotation = matrix_from_xyzw(state.orientation)
        back = rotation.transpose(0, 2, 1)
        self.state, self._drawn = state, simulation.drawn
        self.attitude = roll_pitch_yaw(state.orientation)
        cosine, sine = np.cos(self.attitude[:, 2]), np.sin(self.attitude[:, 2])
        heading = np.array([[cosine, sine], [-sine, cosine]]).transpose(2, 0, 1)  # (B, 2, 2), world to H
        velocity = state.linear_velocity
        self.velocity = np.concatenate([(heading @ velocity[:, :2, None])[..., 0], velocity[:, 2:]], axis=1)
        self._body_velocity = (back @ velocity[..., None])[..., 0]
        feet, jacobian = kinematics.feet(state.joint_position.reshape(-1, 4, 3))
        swinging = (jacobian @ state.joint_velocity.reshape(-1, 4, 3, 1))[..., 0]
        turning = np.cross(state.angular_velocity[:, None], feet)
        from_trunk = feet @ back
        self.foot_position = from_trunk[..., :2] @ heading.transpose(0, 2, 1)
        self.foot_velocity = velocity[:, None] + (turning + swinging) @ back
        places = state.position[:, None] + from_trunk
        self.foot_height = places[..., 2] - terrain.height(places[..., 0], places[..., 1]) - size.foot_radius
        around = places[:, :, None, :2] + (SCAN @ heading)[:, None]
        self._scan = places[..., 2:] - terrain.height(around[..., 0], around[..., 1])
        below = np.array([(size.hip_x, 0.0), (-size.hip_x, 0.0), (0.0, SIDE), (0.0, -SIDE), (0.0, 0.0)])
        under = state.position[:, None, :2] + below @ heading
        front, rear, left, right, middle = terrain.height(under[..., 0], under[..., 1]).T
        self.height = state.position[:, 2] - (front + rear + left + right + middle) / 5
        self.slope = np.stack([(front - rear) / (2 * size.hip_x), (left - right) / (2 * SIDE)], axis=-1)

    def teacher_observation(self, shaper: CommandShaper, limiter: JointLimiter) -> Single:
        """Return the input of the teacher (B, TEACHER_SIZE), see TEACHER_PARTS, for the robots' commands and targets.

        It lacks the ground ahead: a policy that does not see the ground could not imitate a teacher that does.
        """
        state, drawn = self.state, self._drawn
        observation = observation_of(state, limiter.last - drawn.joint_zero, shaper.command())
        facts = [getattr(drawn, name).reshape(len(observation), -1) for name in DRAWN]
        known = (limiter.previous - drawn.joint_zero, self._body_velocity, state.contact, self.height[:, None])
        return np.concatenate([observation, *known, *facts], axis=1).astype(np.float32)

    def critic_observation(self, teacher: Single) -> Single:
        """Return the input of the critic (B, CRITIC_SIZE): the teacher's, then the ground around the feet, heights
        and speeds of the feet, and slope.
        """
        ground = np.concatenate([self._scan, self.foot_height[..., None]], axis=-1).reshape(len(teacher), -1)
        speed = np.linalg.norm(self.foot_velocity, axis=-1)
        seen = (np.clip(ground, -FARTHEST, FARTHEST), speed, self.slope, self.velocity[:, 2:])
        return np.concatenate([teacher, *seen], axis=1).astype(np.float32)
