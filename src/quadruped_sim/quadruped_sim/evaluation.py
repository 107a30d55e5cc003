"""Closed-loop episodes of the expert or of a policy: one robot an episode, in batches that any process can run."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import force_setattr

from fcnet_core.arrays import Array, Mask
from fcnet_core.model_file import PolicyModel
from fcnet_core.policy import load_policy
from fcnet_core.robot import SETPOINT_FIELDS, Robot, load_robot
from fcnet_core.rotation import roll_pitch_yaw
from quadruped_sim.physics.sensors import noisy
from quadruped_sim.physics.simulation import CONTROL_PERIOD, TIMESTEP, BodyState, Simulation
from quadruped_sim.physics.terrain import Terrain
from quadruped_sim.rollout import Rollout, reward
from quadruped_sim.scenarios import Limits, Scenario

SETTLING_TIME = 1.0  # [s] at the start in which errors do not count
WANTED = [SETPOINT_FIELDS.index(name) for name in ("vx", "vy", "yaw_rate", "height", "roll", "pitch")]


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


class EpisodeRecorder:
    """Records one batch from the first control period to the last."""

    def __init__(self, robot: Robot, terrain: Terrain, batch: int) -> None:
        self._robot, self._terrain = robot, terrain
        size = robot.geometry
        x, y = np.meshgrid([-size.hip_x, 0.0, size.hip_x], [-size.hip_y, 0.0, size.hip_y])
        self._below = np.stack([x.ravel(), y.ravel()], axis=-1)  # spots under the trunk (9, 2) [m]
        self._window = round(1.0 / (robot.gait.frequency * CONTROL_PERIOD))
        self._returned: Array = np.zeros(batch)
        self._last_targets: Array | None = None
        self._actual: list[Array] = []
        self._wanted: list[Array] = []
        self._upright: list[Mask] = []

    def record(self, state: BodyState, setpoint: Array, upright: Mask) -> None:
        """Note the true state and the shaped setpoints (B, 9) of the robots that are still `upright` (B,)."""
        spots = state.position[:, None, :2] + self._below
        ground = self._terrain.height(spots[..., 0], spots[..., 1]).mean(axis=1, keepdims=True)
        height = state.position[:, 2:3] - ground
        attitude = roll_pitch_yaw(state.orientation)
        actual = np.concatenate([heading_velocity(state, attitude[:, 2]), height, attitude[:, :2]], axis=1)
        wanted = setpoint[:, WANTED]
        wanted[:, 3] += self._robot.nominal_height
        self._actual.append(np.where(upright[:, None], actual, 0.0))
        self._wanted.append(np.where(upright[:, None], wanted, 0.0))
        self._upright.append(upright)

    def add_reward(self, torque: Array, targets: Array) -> None:
        """Add the reward of the period just recorded, for motor torques (B, 12) [Nm] and targets (B, 12) [rad]."""
        change = np.zeros_like(targets) if self._last_targets is None else targets - self._last_targets
        earned = reward(self._actual[-1][:, :3], self._wanted[-1][:, :3], torque, change)
        self._returned += np.where(self._upright[-1], earned, 0.0) * CONTROL_PERIOD
        self._last_targets = targets

    def episodes(self, fell: Mask) -> Episodes:
        """The sums over everything recorded, for the robots of which these `fell` (B,)."""
        first = round(SETTLING_TIME / CONTROL_PERIOD)
        error = np.stack(self._actual) - np.stack(self._wanted)
        averages = _moving_average(error, self._window)[first:]
        upright = np.stack(self._upright)[first + self._window - 1 :, :, None]
        return Episodes(
            fell=fell,
            strides=upright.sum(0)[:, 0].astype(np.float64),
            absolute=np.where(upright, np.abs(averages), 0.0).sum(0),
            signed=np.where(upright, averages, 0.0).sum(0),
            returned=self._returned,
        )


def heading_velocity(state: BodyState, yaw: Array) -> Array:
    """Forward and leftward velocity [m/s] in the level frame that heads along `yaw` (B,), and yaw rate [rad/s]."""
    cosine, sine = np.cos(yaw), np.sin(yaw)
    x, y = state.linear_velocity[:, 0], state.linear_velocity[:, 1]
    return np.stack([cosine * x + sine * y, cosine * y - sine * x, state.angular_velocity[:, 2]], axis=-1)


def _moving_average(values: Array, window: int) -> Array:
    """Averages over `window` consecutive entries of the first axis; shorter by window - 1."""
    total = np.concatenate([np.zeros((1, *values.shape[1:])), np.cumsum(values, axis=0)])
    return (total[window:] - total[:-window]) / window


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


BATCH = 50  # more robots at once are slower, because their models no longer fit the processor's cache
PUSH_INTERVAL = 2.0  # [s]


@dataclass(frozen=True)
class Trial:
    """`size` episodes of a scenario, driven by the expert or, where there is a `model`, by that policy. Equal trials
    give equal episodes in whichever process; expert and policy meet the same robots, terrains, commands and pushes.
    """

    robot: str
    scenario: Scenario
    seed: int
    number: int
    size: int
    model: PolicyModel | None = None

    @property
    def periods(self) -> int:
        """Control periods of each episode."""
        return round(self.scenario.seconds / CONTROL_PERIOD)

    def run(self) -> Episodes:
        """Run the episodes. The expert sees the true state, a policy what noisy sensors measure and nothing else."""
        scenario, size = self.scenario, self.size
        entropy = np.random.SeedSequence([self.seed, zlib.crc32(scenario.name.encode()), self.number])
        seed = int(entropy.generate_state(1)[0])
        robot, terrain = load_robot(self.robot), scenario.build_terrain(self.number)
        rollout = Rollout(robot, size, terrain, scenario.commands, scenario.randomization, seed)
        recorder = EpisodeRecorder(robot, terrain, size)
        policy = load_policy(self.model, batch=size) if self.model else None
        rng, push_period = np.random.default_rng([seed, 2]), round(PUSH_INTERVAL / CONTROL_PERIOD)
        simulation, upright = rollout.simulation, np.ones(size, dtype=bool)
        for step in range(self.periods):
            seen = rollout.observe()
            upright &= ~seen.fallen
            simulation.active &= upright
            recorder.record(seen.state, rollout.shaper.setpoint, upright)
            if policy is None:
                targets = np.where(upright[:, None], rollout.advise(seen), seen.state.joint_position)
            else:
                sensed = noisy(seen.observation, scenario.randomization.noise, rng)
                targets = policy.step(np.where(upright[:, None], sensed, np.float32(0.0))).astype(np.float64)
            if step % push_period == push_period // 2:
                simulation.push(np.ones(size, dtype=bool), scenario.push)
            rollout.send(targets)
            recorder.add_reward(np.stack([data.actuator_force for data in simulation.data]), targets)
        fell = ~upright | simulation.fallen(simulation.state()) | _diverged(simulation, self.periods)
        return recorder.episodes(fell)


def trials(robot: str, scenario: Scenario, episodes: int, seed: int, model: PolicyModel | None = None) -> list[Trial]:
    """The batches that together are `episodes` x the scenario's share of episodes, one at least."""
    total = max(1, round(episodes * scenario.share))
    starts = range(0, total, BATCH)
    return [Trial(robot, scenario, seed, i, min(BATCH, total - start), model) for i, start in enumerate(starts)]


def _diverged(simulation: Simulation, periods: int) -> Mask:
    """Which robots (B,) MuJoCo has put back to the start by itself because their state was no longer finite."""
    elapsed = np.array([data.time for data in simulation.data])
    return simulation.active & (elapsed < periods * CONTROL_PERIOD - TIMESTEP)
