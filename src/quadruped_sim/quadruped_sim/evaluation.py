"""Closed-loop episodes of the expert or of a policy: one robot an episode, in batches that any process can run."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fcnet_core.model_file import PolicyModel
from fcnet_core.robot import load_robot
from fcnet_core.runtime.batched_policy import BatchedPolicy
from quadruped_sim.episodes import EpisodeRecorder, Episodes
from quadruped_sim.randomization import noisy
from quadruped_sim.rollout import Rollout, Situation
from quadruped_sim.scenarios import Scenario
from quadruped_sim.simulation import CONTROL_PERIOD, TIMESTEP, Simulation

Array = npt.NDArray[np.float64]

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
        """Let the episodes happen."""
        scenario = self.scenario
        robot, terrain = load_robot(self.robot), scenario.build_terrain(self.number)
        rollout = Rollout(robot, self.size, terrain, scenario.commands, scenario.randomization, self._entropy())
        recorder = EpisodeRecorder(robot, terrain, self.size)
        driver = self._driver(rollout)
        simulation, upright = rollout.simulation, np.ones(self.size, dtype=bool)
        for step in range(self.periods):
            seen = rollout.observe()
            upright &= ~seen.fallen
            simulation.active &= upright
            recorder.record(seen.state, rollout.shaper.setpoint, upright)
            targets = driver.targets(seen, upright)
            if step % round(PUSH_INTERVAL / CONTROL_PERIOD) == round(PUSH_INTERVAL / CONTROL_PERIOD) // 2:
                simulation.push(np.ones(self.size, dtype=bool), scenario.push)
            rollout.send(targets)
            recorder.pay(np.stack([data.actuator_force for data in simulation.data]), targets)
        fell = ~upright | simulation.fallen(simulation.state()) | _diverged(simulation, self.periods)
        return recorder.episodes(fell)

    def _entropy(self) -> int:
        parts = [self.seed, zlib.crc32(self.scenario.name.encode()), self.number]
        return int(np.random.SeedSequence(parts).generate_state(1)[0])

    def _driver(self, rollout: Rollout) -> _Expert | _Student:
        if self.model is None:
            return _Expert(rollout)
        rng = np.random.default_rng([self._entropy(), 2])
        return _Student(BatchedPolicy(self.model, self.size), self.scenario.randomization.noise, rng)


def trials(robot: str, scenario: Scenario, episodes: int, seed: int, model: PolicyModel | None = None) -> list[Trial]:
    """The batches that together are `episodes` x the scenario's share of episodes, one at least."""
    total = max(1, round(episodes * scenario.share))
    starts = range(0, total, BATCH)
    return [Trial(robot, scenario, seed, i, min(BATCH, total - start), model) for i, start in enumerate(starts)]


class _Expert:
    """The expert drives: it sees the true state."""

    def __init__(self, rollout: Rollout) -> None:
        self._rollout = rollout

    def targets(self, seen: Situation, upright: npt.NDArray[np.bool_]) -> Array:
        return np.where(upright[:, None], self._rollout.advise(seen), seen.state.joint_position)


class _Student:
    """A policy drives: it sees what noisy sensors tell, and nothing else."""

    def __init__(self, policy: BatchedPolicy, noise: float, rng: np.random.Generator) -> None:
        self._policy, self._noise, self._rng = policy, noise, rng

    def targets(self, seen: Situation, upright: npt.NDArray[np.bool_]) -> Array:
        sensed = noisy(seen.observation, self._noise, self._rng)
        return self._policy.step(np.where(upright[:, None], sensed, np.float32(0.0))).astype(np.float64)


def _diverged(simulation: Simulation, periods: int) -> npt.NDArray[np.bool_]:
    """Which robots (B,) MuJoCo has put back to the start by itself because their state was no longer finite."""
    elapsed = np.array([data.time for data in simulation.data])
    return simulation.active & (elapsed < periods * CONTROL_PERIOD - TIMESTEP)
