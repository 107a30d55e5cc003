"""The rewards of the A1-Walk task, by the names and with the weights of the authors' code."""

from __future__ import annotations

import numpy as np

from fcnet_core.arrays import Array, Mask
from fcnet_core.robot import Robot
from fcnet_core.rotation import matrix_from_xyzw
from quadruped_sim.physics.simulation import CONTROL_PERIOD, SENSORS, BodyState

COMMAND = np.array([0.5, 0.0, 0.0])  # forward, sideways [m/s], yaw rate [rad/s]
WEIGHTS = {  # per second
    "tracking_lin_vel": 2.0,
    "tracking_ang_vel": 0.05,
    "world_vel_l2norm": -2.0,
    "legs_energy_substeps": -2e-5,
    "alive": 2.0,
    "feet_air_time": 2.0,
    "exceed_dof_pos_limits": -0.1,
    "exceed_torque_limits_i": -0.2,
}
TRACKING_WIDTH = 0.5  # squared error [m^2/s^2, rad^2/s^2] at which tracking earns 1/e
TORQUE = 25.0  # [Nm]
SOFT_RANGE = 0.5  # of a joint's range, about its middle, that is free
STANCE = 1.0  # [N] on a foot that stands
SWING = 0.5  # [s] in the air for which a step earns nothing


class WalkReward:
    """Rewards of B robots, one control period after another: it remembers how long the feet have been in the air."""

    def __init__(self, robot: Robot, batch: int) -> None:
        middle, reach = (robot.lower + robot.upper) / 2, SOFT_RANGE * (robot.upper - robot.lower) / 2
        self._lower, self._upper = middle - reach, middle + reach
        self._air: Array = np.zeros((batch, 4))
        self._stood = np.zeros((batch, 4), dtype=bool)

    def reset(self, mask: Mask) -> None:
        """Forget what the feet of the robots in `mask` (B,) did."""
        self._air[mask] = 0.0
        self._stood[mask] = False

    def __call__(self, state: BodyState, samples: Array) -> Array:
        """Return rewards (B,), never negative, for the period that ended in `state`; samples: see Simulation.step."""
        terms = self.terms(state, samples)
        return CONTROL_PERIOD * np.maximum(sum(weight * terms[name] for name, weight in WEIGHTS.items()), 0.0)

    def terms(self, state: BodyState, samples: Array) -> dict[str, Array]:
        """Return each term (B,) without its weight.

        tracking_lin_vel, tracking_ang_vel: exp(-squared error / TRACKING_WIDTH) of the horizontal velocity and of the
        yaw rate in the body frame. world_vel_l2norm: distance [m/s] from the command to the horizontal velocity in the
        world, which keeps a robot on its track. legs_energy_substeps: squared powers [W^2] of the joints, summed, mean
        over the time steps. feet_air_time: time in the air [s] less SWING of every foot that lands, where a foot stands
        that touched the ground now or a period ago. exceed_dof_pos_limits: how many joints are beyond SOFT_RANGE; ours
        looks at the end of a period, theirs at every time step. exceed_torque_limits_i: 1 if a joint's torque was
        beyond TORQUE in any time step.
        """
        torque, rate = samples[..., SENSORS["torque"]], samples[..., SENSORS["joint_velocity"]]
        velocity = (matrix_from_xyzw(state.orientation).transpose(0, 2, 1) @ state.linear_velocity[..., None])[..., 0]
        position = state.joint_position
        return {
            "tracking_lin_vel": _tracking((velocity[:, :2] - COMMAND[:2]).T),
            "tracking_ang_vel": _tracking((state.angular_velocity[:, 2:] - COMMAND[2:]).T),
            "world_vel_l2norm": np.linalg.norm(state.linear_velocity[:, :2] - COMMAND[:2], axis=1),
            "legs_energy_substeps": np.square(torque * rate).sum(-1).mean(0),
            "alive": np.ones(len(position)),
            "feet_air_time": self._landings(samples[-1][:, SENSORS["touch"]] > STANCE),
            "exceed_dof_pos_limits": ((position < self._lower) | (position > self._upper)).sum(1).astype(np.float64),
            "exceed_torque_limits_i": (np.abs(torque) > TORQUE).any(axis=(0, 2)).astype(np.float64),
        }

    def _landings(self, touches: Mask) -> Array:
        stands = touches | self._stood
        landing = (self._air > 0.0) & stands
        self._stood = touches
        self._air += CONTROL_PERIOD
        earned = ((self._air - SWING) * landing).sum(1)
        self._air[stands] = 0.0
        return earned


def _tracking(error: Array) -> Array:
    """Return exp(-squared error / TRACKING_WIDTH) of errors (components, B)."""
    return np.exp(-np.square(error).sum(0) / TRACKING_WIDTH)
