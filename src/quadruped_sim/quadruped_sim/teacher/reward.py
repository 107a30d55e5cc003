"""The reward of the teacher: it follows commands, in step with the gait clock, gently.

In the manner of legged_gym (Rudin et al., 2022) and walk-these-ways (Margolis and Agrawal, 2022). Tracking is paid
twice: at each period with a broad kernel, and averaged over about a stride with a narrow one, because a trot's speed
swings within the stride and commands are about its mean.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from fcnet_core.arrays import Array, Mask
from fcnet_core.robot import Robot
from quadruped_sim.evaluation.gait_quality import CONTACT_FORCE
from quadruped_sim.physics.simulation import SENSORS
from quadruped_sim.teacher.privileged import PrivilegedState
from quadruped_sim.trot_expert import FIELD, PARAMETERS, PHASE_OFFSET, TrotParameters

AVERAGING = 0.06  # share of the newest error in the running average: 0.33 s
NEAR_GROUND = 0.03  # [m] of a foot: it shall land gently, or it bounces
NEARLY = 0.95  # of what a motor can give
FALL = 1.0  # taken once
SCALE = 0.05  # of the sum below, so that values stay around ten
LEAST = -1.0  # of the sum: a robot that stumbles shall not wish to fall


class TeacherReward:
    """Rewards of B robots, one control period after another; `totals` sums each term over robots and periods."""

    def __init__(self, robot: Robot, neutral: Array, batch: int) -> None:
        self._robot, self._neutral = robot, neutral
        self._gait = PARAMETERS.get(robot.name, TrotParameters())
        self._leg = robot.geometry.thigh + robot.geometry.calf
        self._average: Array = np.zeros((batch, 3))
        self._touch = np.ones((batch, 4), dtype=bool)
        self.totals: Counter[str] = Counter()

    def reset(self, mask: Mask) -> None:
        """Forget what the robots in `mask` (B,) did; they stand."""
        self._average[mask] = 0.0
        self._touch[mask] = True

    def swing(self, setpoint: Array, phase: Array, walking: Mask) -> Array:
        """Return the progress of each foot (B, 4) in its swing by the clock, above 0 to 1; -1 in stance."""
        duty = self._gait.duty_of(setpoint, self._robot.gait.speed_knee)[:, None]
        swing = ((phase[:, None] + PHASE_OFFSET) % 1.0 - duty) / (1 - duty)
        return np.where(walking[:, None] & (swing > 0.0), swing, -1.0)

    def __call__(
        self, state: PrivilegedState, setpoint: Array, swing: Array, samples: Array, change: Array, jerk: Array
    ) -> Array:
        """Return the rewards (B,) for the period that ended in `state` under setpoints (B, 9).

        swing (B, 4) when it began; samples: the sensors of its time steps, see Simulation.step; change and jerk
        (B, 12): first and second difference of the position targets, in units of the action.
        """
        torque, rate = samples[..., SENSORS["torque"]], samples[..., SENSORS["joint_velocity"]]
        lowest, highest = self._robot.torque_bounds(rate)
        saturated = (torque < NEARLY * lowest) | (torque > NEARLY * highest)
        touch = np.concatenate([self._touch[None], samples[..., SENSORS["touch"]] > CONTACT_FORCE])
        landings = (touch[1:] & ~touch[:-1]).sum((0, 2))
        self._touch = touch[-1]
        turning = state.state.angular_velocity
        error = np.concatenate([state.velocity[:, :2], turning[:, 2:]], axis=1) - setpoint[:, :3]
        self._average += AVERAGING * (error - self._average)
        now, mean = np.square(error), np.square(self._average)
        height = state.height - self._robot.nominal_height - setpoint[:, FIELD["height"]]
        roll = state.attitude[:, 0] - setpoint[:, FIELD["roll"]] - np.arctan(state.slope[:, 1])
        pitch = state.attitude[:, 1] - setpoint[:, FIELD["pitch"]] + np.arctan(state.slope[:, 0])
        tilt = np.square(roll) + np.square(pitch)
        stands, contact = swing < 0.0, state.state.contact
        wrong = np.where(stands, ~contact, contact & (swing > 0.15) & (swing < 0.85))
        lift = (self._gait.clearance * self._leg + setpoint[:, FIELD["clearance"]])[:, None]
        path = lift * np.sin(np.pi * swing)
        low = np.clip((path - state.foot_height) / 0.04, 0.0, 1.0) * ((swing > 0.25) & (swing < 0.75))
        high = np.clip((state.foot_height - lift - 0.01) / 0.04, 0.0, 1.0)
        aside = state.foot_position[..., 1] - self._neutral[:, 1] * (1 + setpoint[:, FIELD["width"], None])
        slip = np.square(state.foot_velocity[..., :2]).sum(-1) * contact
        falling = np.minimum(state.foot_velocity[..., 2], 0.0)
        impact = np.square(falling) * (state.foot_height < NEAR_GROUND)
        terms = {
            "velocity": 0.5 * np.exp(-now[:, :2].sum(1) / 0.15)
            + 0.6 * np.exp(-mean[:, :2].sum(1) / 0.08)
            + 0.6 * np.exp(-mean[:, :2].sum(1) / 0.01),
            "yaw rate": 0.25 * np.exp(-now[:, 2] / 0.25) + 0.6 * np.exp(-mean[:, 2] / 0.01),
            "height": 0.4 * np.exp(-np.square(height) / 0.0015) + 0.3 * np.exp(-np.square(height) / 0.00015),
            "attitude": 0.2 * np.exp(-tilt / 0.02) + 0.5 * np.exp(-tilt / 0.002),
            "gait": -0.2 * wrong.sum(1),
            "impact": -0.3 * np.minimum(impact.sum(1), 4.0),
            "clearance": -0.5 * low.sum(1) - 0.3 * high.sum(1),
            "width": -0.2 * (np.abs(aside) * stands).sum(1),
            "slip": -0.15 * np.minimum(slip.sum(1), 4.0),
            "landings": -0.4 * landings,
            "effort": (-5e-5 * np.square(torque) - 5e-4 * np.abs(torque * rate)).sum(-1).mean(0),
            "saturation": -2.0 * saturated.sum(-1).mean(0),
            "smoothness": -0.01 * np.square(change).sum(1) - 0.005 * np.square(jerk).sum(1),
            "bounce": -0.3 * np.square(state.velocity[:, 2]) - 0.03 * np.square(turning[:, :2]).sum(1),
        }
        self.totals.update({name: float(term.sum()) for name, term in terms.items()})
        return SCALE * np.maximum(sum(terms.values()), LEAST)
