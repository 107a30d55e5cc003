"""A job: one architecture learns with one seed, from its last checkpoint, and is evaluated again and again."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import torch
from msgspec import Struct
from stable_baselines3.common.logger import Logger

from fcnet_core.arrays import Array
from fcnet_core.files import write_whole
from fcnet_study.folder import read_json
from fcnet_study.walk_study.network import WalkPolicy, WalkPPO
from fcnet_study.walk_study.settings import Architecture, WalkTraining
from quadruped_sim.a1_walk.walk import CLIP, OBSERVATION, A1WalkBatch, A1WalkEpisodes
from quadruped_sim.reinforcement import WorkerEnvironment, load_checkpoint, save_checkpoint
from quadruped_sim.worker_pool import worker_pool

NEVER = 2**62  # [updates] until the logger forgets the last one's divergence, see WalkPPO
EVALUATION_SEED = 10**9  # the same robots on the same track for every policy


class Point(Struct, frozen=True, kw_only=True):
    """An evaluation. steps: control steps of training before it; seconds: what they took; mean_return: the sum of an
    episode's rewards without exploration, explored_return: with it, as in training; fallen: share of the robots without
    exploration; distance: along the track [m] that these came, falls included; deviation: of the exploration, in units
    of the action; learning_rate: the actor's.
    """

    steps: int
    seconds: float
    mean_return: float
    explored_return: float
    fallen: float
    distance: float
    deviation: float
    learning_rate: float


@dataclass(frozen=True)
class WalkJob:
    """What learns, in which folder."""

    architecture: Architecture
    seed: int
    folder: Path

    def curve(self) -> list[Point]:
        """The evaluations so far."""
        path = self.folder / "curve.json"
        found: list[Point] = read_json(path, list[Point]) if path.exists() else []
        return found

    def is_done(self, steps: int) -> bool:
        """Whether it has learned, and was evaluated, for so many control steps."""
        curve = self.curve()
        return bool(curve) and curve[-1].steps >= steps

    def run(self, training: WalkTraining, steps: int, processes: int) -> None:
        """Learn until `steps`, with robots in so many processes."""
        checkpoint = self.folder / "checkpoint.zip"
        curve = self.curve() if checkpoint.exists() else []
        continues = bool(curve)  # the first point is written before the first checkpoint
        with ExitStack() as stack:
            workers = [stack.enter_context(worker_pool(1)) for _ in range(processes)]
            robots = training.robots // processes
            seed = self.seed + (curve[-1].steps if continues else 0)  # a job that goes on meets other robots
            env = WorkerEnvironment(workers, partial(A1WalkEpisodes, robots), robots, seed, OBSERVATION.shape[0], CLIP)
            if continues:
                learner = load_checkpoint(WalkPPO, checkpoint, env, "auto")
            else:
                learner = self._new_learner(env, training)
            learner.set_logger(Logger(folder=None, output_formats=[]))  # its own would leave a folder in /tmp
            seconds = curve[-1].seconds if continues else 0.0
            while True:
                if not curve or curve[-1].steps < learner.num_timesteps:
                    curve.append(evaluate(learner, training, seconds))
                    write_whole(self.folder / "curve.json", msgspec.json.encode(curve))
                    self._print(curve[-1], steps)
                if learner.num_timesteps >= steps:
                    return
                begun = time.monotonic()
                learner.learn(training.evaluation_interval, log_interval=NEVER, reset_num_timesteps=False)
                seconds += time.monotonic() - begun
                save_checkpoint(learner, checkpoint)

    def _new_learner(self, env: WorkerEnvironment, training: WalkTraining) -> WalkPPO:
        settings = ("n_steps", "n_epochs", "learning_rate", "target_kl", "gamma", "gae_lambda", "clip_range",
                    "ent_coef", "max_grad_norm")  # fmt: skip
        return WalkPPO(
            WalkPolicy,
            env,
            batch_size=training.robots * training.n_steps // training.minibatches,
            vf_coef=1.0,
            policy_kwargs={
                "architecture": self.architecture,
                "deviation": training.deviation,
                "critic_learning_rate": training.critic_learning_rate,
                "precision": training.precision,
            },
            seed=self.seed,
            **{name: getattr(training, name) for name in settings},
        )

    def _print(self, point: Point, steps: int) -> None:
        returns = f"return {point.mean_return:.1f}, {point.explored_return:.1f} with exploration"
        found = f"{returns}, {100 * point.fallen:.0f} % fallen, {point.distance:.1f} m"
        print(f"{self.folder.name}: {point.steps:,} of {steps:,} steps, {point.seconds:.0f} s, {found}", flush=True)


def evaluate(learner: WalkPPO, training: WalkTraining, seconds: float) -> Point:
    """Let robots walk until they fall or the time is over: one half without exploration, the other half with it."""
    count, rng = training.evaluation_robots, np.random.default_rng(EVALUATION_SEED)
    walk = A1WalkBatch(2 * count, EVALUATION_SEED)
    simulation = walk.simulation
    deviation = learner.policy.log_std.detach().exp().cpu().numpy()
    explores = np.arange(simulation.batch)[:, None] >= count
    returns: Array = np.zeros(simulation.batch)
    start = simulation.state().position[:, 0]
    for _ in range(training.evaluation_periods):
        with torch.no_grad():
            seen = torch.as_tensor(walk.observation, device=learner.device)
            action = learner.policy.mlp_extractor.forward_actor(seen).cpu().numpy()
        reward, fell = walk.step(action + explores * deviation * rng.standard_normal(action.shape))
        returns += reward * simulation.active
        simulation.active &= ~fell
    return Point(
        steps=learner.num_timesteps,
        seconds=round(seconds, 1),
        mean_return=float(returns[:count].mean()),
        explored_return=float(returns[count:].mean()),
        fallen=float((~simulation.active[:count]).mean()),
        distance=float((simulation.state().position[:, 0] - start)[:count].mean()),
        deviation=float(deviation.mean()),
        learning_rate=float(learner.policy.optimizer.param_groups[0]["lr"]),
    )
