"""What episodes amount to: sums over strides, a score per scenario, and what is not good enough."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import force_setattr

from fcnet_core.arrays import Array, Mask
from quadruped_sim.evaluation.scenarios import Limits, Scenario


@dataclass(frozen=True)
class Episodes:
    """Sums over the episodes of B robots; columns of the errors: vx, vy [m/s], yaw rate [rad/s], height [m], roll and
    pitch [rad]. Errors are of averages over a stride, compared with the command averaged likewise.
    """

    fell: Mask  # (B,)
    strides: Array  # (B,) number of averages that the sums hold
    absolute: Array  # (B, 6) sums of absolute errors
    signed: Array  # (B, 6) sums of signed errors
    returned: Array  # (B,) return, see rollout.reward


def join(parts: list[Episodes]) -> Episodes:
    """All the episodes of several batches."""
    names = [entry.name for entry in fields(Episodes)]
    return Episodes(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


CONFIDENCE = 1.96  # standard normal quantile of a two-sided 95 % interval


if TYPE_CHECKING:
    Error = float
else:
    Error = float | None  # a result file has null for NaN, where every robot fell before its first stride


class Score(Struct, frozen=True):
    """Falls of `episodes`, and means over all strides: absolute errors of velocity (vx, vy [m/s], yaw rate [rad/s]),
    height [m] and attitude (roll, pitch [rad], None where the ground is not level). `bias` is the mean over the robots
    of |mean error| of vx, vy, yaw rate: what is left when a robot's errors in both directions cancel. `fall_bound` is
    the upper end of the 95 % confidence interval (Wilson) of the share of episodes that end in a fall.
    """

    episodes: int
    falls: int
    velocity: tuple[Error, Error, Error]
    bias: tuple[Error, Error, Error]
    height: Error
    attitude: tuple[Error, Error] | None
    mean_return: float
    fall_bound: float

    def __post_init__(self) -> None:
        force_setattr(self, "height", _number(self.height))
        for name in ("velocity", "bias", "attitude"):
            if (errors := getattr(self, name)) is not None:
                force_setattr(self, name, tuple(map(_number, errors)))


def _number(error: float | None) -> float:
    return np.nan if error is None else error


def score_of(scenario: Scenario, episodes: Episodes) -> Score:
    """The result of a scenario; errors are NaN if every robot fell before its first stride."""
    strides = float(episodes.strides.sum()) or np.nan
    vx, vy, yaw_rate, height, roll, pitch = (episodes.absolute.sum(0) / strides).tolist()
    walked = episodes.strides > 0
    means = np.abs(episodes.signed[walked] / episodes.strides[walked, None])
    bias = (means.sum(0) / (walked.sum() or np.nan)).tolist()
    count, falls = len(episodes.fell), int(episodes.fell.sum())
    return Score(
        episodes=count,
        falls=falls,
        velocity=(vx, vy, yaw_rate),
        bias=(bias[0], bias[1], bias[2]),
        height=height,
        attitude=(roll, pitch) if scenario.level else None,
        mean_return=float(episodes.returned.mean()),
        fall_bound=wilson_upper(falls, count),
    )


def wilson_upper(count: int, total: int) -> float:
    """Upper end of Wilson's 95 % interval of a share of which `count` in `total` were seen."""
    share, square = count / total, CONFIDENCE**2 / total
    spread = CONFIDENCE * np.sqrt(share * (1 - share) / total + square / (4 * total))
    return float((share + square / 2 + spread) / (1 + square))


def shortfalls(score: Score, limits: Limits, expert: bool) -> list[str]:
    """What is not good enough, in words; of the expert only falls count."""
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
