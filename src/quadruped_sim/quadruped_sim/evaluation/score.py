"""Scores: sums over strides, figures per scenario, and missed limits."""

from dataclasses import dataclass, fields

import numpy as np
from msgspec import Struct
from msgspec.structs import force_setattr

from fcnet_core.arrays import Array, Mask
from quadruped_sim.evaluation.gait_quality import Figure, GaitQuality, quality
from quadruped_sim.evaluation.scenarios import Limits, Scenario


@dataclass(frozen=True)
class Episodes:
    """Sums over the episodes of B robots; columns of the errors: vx, vy [m/s], yaw rate [rad/s], height [m], roll and
    pitch [rad]. Figures are of averages over a stride, compared with the average of the command.
    """

    fell: Mask  # (B,)
    lying: Mask  # (B,) whether it began lying
    strides: Array  # (B,) number of averages that the sums hold
    absolute: Array  # (B, 6) sums of absolute errors
    signed: Array  # (B, 6) sums of signed errors
    returned: Array  # (B,) return, by the score of the task velocity
    asked: Array  # (B,) forward speed [m/s] last commanded
    gait: Array  # (B, ...) sums of a GaitRecorder


def join(parts: list[Episodes]) -> Episodes:
    """Concatenate the episodes of several batches."""
    names = [entry.name for entry in fields(Episodes)]
    return Episodes(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


CONFIDENCE = 1.96  # standard normal quantile of a two-sided 95 % interval


class Score(Struct, frozen=True):
    """Falls of `episodes`, of which `lying_episodes` began lying, and means over all strides: absolute errors of
    velocity (vx, vy [m/s], yaw rate [rad/s]), height [m] and attitude (roll, pitch [rad], None if the ground is not
    level). `bias` is the mean over the robots of |mean error| of vx, vy, yaw rate: what is left when a robot's errors
    in both directions cancel. `fall_bound` is the upper end of the 95 % confidence interval (Wilson) of the share of
    episodes that end in a fall. `speeds`: commanded and mean reached forward speeds [m/s], if they are held.
    """

    episodes: int
    falls: int
    lying_episodes: int
    lying_falls: int
    velocity: tuple[Figure, Figure, Figure]
    bias: tuple[Figure, Figure, Figure]
    height: Figure
    attitude: tuple[Figure, Figure] | None
    mean_return: float
    fall_bound: float
    gait: GaitQuality
    speeds: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "height", _number(self.height))
        for name in ("velocity", "bias", "attitude"):
            if (errors := getattr(self, name)) is not None:
                force_setattr(self, name, tuple(map(_number, errors)))


def _number(error: float | None) -> float:
    return np.nan if error is None else error


def score_of(scenario: Scenario, episodes: Episodes) -> Score:
    """Return the result of a scenario; errors are NaN if every robot fell before its first stride."""
    strides = float(episodes.strides.sum()) or np.nan
    vx, vy, yaw_rate, height, roll, pitch = (episodes.absolute.sum(0) / strides).tolist()
    walked = episodes.strides > 0
    means = np.abs(episodes.signed[walked] / episodes.strides[walked, None])
    bias = (means.sum(0) / (walked.sum() or np.nan)).tolist()
    count, falls = len(episodes.fell), int(episodes.fell.sum())
    return Score(
        episodes=count,
        falls=falls,
        lying_episodes=int(episodes.lying.sum()),
        lying_falls=int((episodes.fell & episodes.lying).sum()),
        velocity=(vx, vy, yaw_rate),
        bias=(bias[0], bias[1], bias[2]),
        height=height,
        attitude=(roll, pitch) if scenario.level else None,
        mean_return=float(episodes.returned.mean()),
        fall_bound=wilson_upper(falls, count),
        gait=quality(episodes.gait),
        speeds=_speeds(episodes) if scenario.limits.speed is not None else (),
    )


def _speeds(episodes: Episodes) -> tuple[tuple[float, float], ...]:
    """Return each commanded forward speed with the mean speed of its robots, without robots that fell."""
    walked = (episodes.strides > 0) & ~episodes.fell
    asked = np.round(episodes.asked[walked], 3)
    reached = asked + episodes.signed[walked, 0] / episodes.strides[walked]
    return tuple((float(speed), float(reached[asked == speed].mean())) for speed in np.unique(asked))


def wilson_upper(count: int, total: int) -> float:
    """Return the upper end of Wilson's 95 % interval of a share for `count` in `total`."""
    share, square = count / total, CONFIDENCE**2 / total
    spread = CONFIDENCE * np.sqrt(share * (1 - share) / total + square / (4 * total))
    return float((share + square / 2 + spread) / (1 + square))


def shortfalls(score: Score, limits: Limits, expert: bool) -> list[str]:
    """Return the missed limits as text; for the expert only falls count."""
    found = []
    if score.falls > limits.falls * score.episodes + 1e-9:
        found.append(f"falls {score.falls}/{score.episodes} > {limits.falls:.1%}")
    if expert:
        return found
    checks: list[tuple[str, float, float | None]] = [
        *zip(("vx", "vy", "yaw rate"), score.velocity, limits.velocity or (None,) * 3, strict=True),
        ("height", score.height, limits.height),
        *((name, error, limits.attitude) for name, error in zip(("roll", "pitch"), score.attitude or (), strict=False)),
        ("touchdowns per stride", score.gait.touchdowns, limits.touchdowns),
        ("time at the torque-speed curve", score.gait.speed_saturation, limits.saturation),
        *((f"speed {asked:g}", abs(reached / asked - 1), limits.speed) for asked, reached in score.speeds),
    ]
    return found + [
        f"{name} {figure:.3f} > {most:g}" for name, figure, most in checks if most is not None and not figure <= most
    ]
