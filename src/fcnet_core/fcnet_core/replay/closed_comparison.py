"""What a policy would have done at each step of a recording, and how far that is from what was done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fcnet_core.joint_limiter import JointLimiter
from fcnet_core.model_file import PolicyModel
from fcnet_core.policy import Policy
from fcnet_core.replay.timed_states import TimedStates
from fcnet_core.robot import JOINT_NAMES, Robot
from fcnet_core.walking import Walking

Array = npt.NDArray[np.float64]

# Which targets the policy is told it sent last: the recorded ones ("in this very situation, what would it do?") or its
# own ("left to itself with these states", which is what a live controller does).
Feedback = Literal["recorded", "own"]


@dataclass(frozen=True)
class ClosedComparison:
    """rows (K,): which rows of the states were used. action (K, 12) [rad]: the targets a controller would have sent,
    limited as it limits them. error (K, 12) [rad]: action less recorded target, NaN where none was recorded.
    """

    rows: npt.NDArray[np.int64]
    action: Array
    error: Array

    @property
    def rmse(self) -> Array:
        """Root mean square error of each joint (12,) [rad], NaN where nothing was recorded."""
        return _root(np.square(self.error))

    def summary(self) -> dict[str, Any]:
        """Figures for a report: numbers and names alone, fit for JSON."""
        compared = np.isfinite(self.error).all(axis=1)
        largest = np.abs(self.error[compared]).max(axis=0) if compared.any() else np.full(len(JOINT_NAMES), np.nan)
        return {
            "steps": len(self.rows),
            "compared": int(compared.sum()),
            "rmse_rad": _by_joint(self.rmse),
            "largest_rad": _by_joint(largest),
            "rmse_all_rad": _number(float(_root(np.square(self.error).reshape(-1, 1))[0])),
        }


def compare_closed(
    policy: Policy,
    model: PolicyModel,
    robot: Robot,
    states: TimedStates,
    target: Array,
    feedback: Feedback = "recorded",
) -> ClosedComparison:
    """Step `policy` over `states` with the controller's own code, and compare with targets (T, 12) [rad], NaN where
    unknown.

    The policy is asked at its own rate, with the newest state of each of its periods, and starts cold at every row
    marked first; the clock and the shaping of commands run along. The first target it is told it sent is the measured
    position, as in simulation. Raises fcnet_core.guard.NonFiniteObservation for states that are not finite.
    """
    rate = model.card.control_rate
    rows = states.rows_at(rate)
    recorded = target[rows]
    walking, limiter = Walking(policy, model, rate), JointLimiter(robot, 1.0 / rate)
    action = np.empty_like(recorded)
    walking.begin()
    limiter.start(states.joint_position[rows[0]])
    for step, row in enumerate(rows):
        if states.first[row] and (step == 0 or row != rows[step - 1]):
            walking.begin()
            limiter.start(states.joint_position[row])
        elif step and feedback == "recorded" and np.isfinite(recorded[step - 1]).all():
            limiter.start(recorded[step - 1])
        walking.take_command(states.setpoint[row])
        action[step] = limiter.limit(walking.targets(states.at(row), limiter.last))
    return ClosedComparison(rows, action, action - recorded)


def _root(squares: Array) -> Array:
    known = np.isfinite(squares)
    count = known.sum(axis=0)
    total = np.where(known, squares, 0.0).sum(axis=0)
    return np.sqrt(np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0))


def _by_joint(values: Array) -> dict[str, float | None]:
    return {joint: _number(float(value)) for joint, value in zip(JOINT_NAMES, values, strict=True)}


def _number(value: float) -> float | None:
    """JSON has no NaN."""
    return value if np.isfinite(value) else None
