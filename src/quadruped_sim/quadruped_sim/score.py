"""A scenario's result as a few numbers, and whether they are good enough."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quadruped_sim.episodes import Episodes
from quadruped_sim.scenarios import Limits, Scenario

CONFIDENCE = 1.96  # standard normal quantile of a two-sided 95 % interval


@dataclass(frozen=True)
class Score:
    """Falls of `episodes`, and means over all strides: absolute errors of velocity (vx, vy [m/s], yaw rate [rad/s]),
    height [m] and attitude (roll, pitch [rad], None where the ground is not level). `bias` is the mean over the robots
    of |mean error| of vx, vy, yaw rate: what is left when a robot's errors in both directions cancel.
    """

    episodes: int
    falls: int
    velocity: tuple[float, float, float]
    bias: tuple[float, float, float]
    height: float
    attitude: tuple[float, float] | None
    mean_return: float

    @property
    def fall_bound(self) -> float:
        """Upper end of the 95 % confidence interval (Wilson) of the share of episodes that end in a fall."""
        return wilson_upper(self.falls, self.episodes)


def score_of(scenario: Scenario, episodes: Episodes) -> Score:
    """The result of a scenario; errors are NaN if every robot fell before its first stride."""
    strides = float(episodes.strides.sum()) or np.nan
    error = [float(value) for value in episodes.absolute.sum(0) / strides]
    walked = episodes.strides > 0
    means = np.abs(episodes.signed[walked] / episodes.strides[walked, None])
    bias = [float(value) for value in means.sum(0) / (walked.sum() or np.nan)]
    return Score(
        episodes=len(episodes.fell),
        falls=int(episodes.fell.sum()),
        velocity=(error[0], error[1], error[2]),
        bias=(bias[0], bias[1], bias[2]),
        height=error[3],
        attitude=(error[4], error[5]) if scenario.level else None,
        mean_return=float(episodes.returned.mean()),
    )


def wilson_upper(count: int, total: int) -> float:
    """Upper end of Wilson's 95 % interval of a share of which `count` in `total` were seen."""
    share, square = count / total, CONFIDENCE**2 / total
    spread = CONFIDENCE * np.sqrt(share * (1 - share) / total + square / (4 * total))
    return float((share + square / 2 + spread) / (1 + square))


def shortfalls(score: Score, limits: Limits, expert: bool) -> list[str]:
    """What is not good enough, in words; of the expert only falls are judged."""
    allowed = limits.expert_falls if expert else limits.student_falls
    found = []
    if allowed is not None and score.falls > allowed * score.episodes + 1e-9:
        found.append(f"falls {score.falls}/{score.episodes} > {allowed:.1%}")
    if expert:
        return found
    checks: list[tuple[str, float, float | None]] = [
        *zip(("vx", "vy", "yaw rate"), score.velocity, limits.velocity or (None,) * 3, strict=True),
        ("height", score.height, limits.height),
    ]
    for name, error in zip(("roll", "pitch"), score.attitude or (), strict=False):
        checks.append((name, error, limits.attitude))
    return found + [
        f"{name} {error:.3f} > {most:g}" for name, error, most in checks if most is not None and not error <= most
    ]
