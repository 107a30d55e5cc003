"""Observations of a teacher, which knows velocities, contacts and samples of the randomisation, and of its critic."""

from __future__ import annotations

import numpy as np

from fcnet_core.arrays import ArraySpec, Single
from fcnet_core.control.command import CommandShaper
from fcnet_core.control.runner import JointLimiter, observation_of
from fcnet_core.observation import ACTION_SIZE, OBSERVATION_SIZE
from quadruped_sim.tasks import signals
from quadruped_sim.tasks.view import TrueState

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
CRITIC_SIZE = TEACHER_SIZE + 35
FARTHEST = 0.4  # [m] beyond which heights of the ground at a foot are clipped for the critic


def teacher_observation(seen: TrueState, shaper: CommandShaper, limiter: JointLimiter) -> Single:
    """Return the input of the teacher (B, TEACHER_SIZE), see TEACHER_PARTS, for the robots' commands and targets.

    It lacks the ground ahead: a policy that does not see the ground could not imitate a teacher that does.
    """
    state, drawn = seen.state, seen.simulation.drawn
    observation = observation_of(state, limiter.last - drawn.joint_zero, shaper.command())
    facts = [getattr(drawn, name).reshape(len(observation), -1) for name in DRAWN]
    known = (limiter.previous - drawn.joint_zero, seen.body_velocity, state.contact, signals.trunk_height(seen))
    return np.concatenate([observation, *known, *facts], axis=1).astype(np.float32)


def critic_observation(seen: TrueState, teacher: Single) -> Single:
    """Return the input of the critic (B, CRITIC_SIZE): the teacher's, then the ground around the feet, heights and
    speeds of the feet, and slope.
    """
    ground = signals.feet_ground(seen, farthest=FARTHEST)
    known = (ground, signals.foot_speed(seen), seen.slope, signals.vertical_velocity(seen))
    return np.concatenate([teacher, *known], axis=1).astype(np.float32)
