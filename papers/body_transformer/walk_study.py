"""Architectures that learn the A1-Walk task by PPO: Figure 5, at a smaller scale.

    python -m papers.body_transformer.walk_study --out runs/study-walk
    python -m papers.body_transformer.walk_study --out papers/body_transformer/results/walk    # only the table

Every architecture learns with every seed, on a GPU if PyTorch finds one. The same command continues an interrupted
study, each job from its last evaluation; `steps`, `seeds` and `architectures` may grow.

    OUT/study.json                    the settings of training
    OUT/jobs/JOB/checkpoint.zip       actor, critic and optimiser
    OUT/jobs/JOB/curve.json           the evaluations
    OUT/results.md, .json, .png       the table and the learning curves
"""

import argparse
import json
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import torch
from msgspec import Meta, Struct
from stable_baselines3.common.logger import Logger

from fcnet_core.bench import ResultTable
from fcnet_core.errors import FcnetError
from fcnet_core.files import Count, NotNegative, Positive, Seed, option, read_settings, write_whole
from fcnet_core.learning.config import Precision
from fcnet_core.learning.trainer import check_bfloat16
from papers.body_transformer.walk_network import (
    INTERFACE,
    OBSERVATION,
    TASK,
    Architecture,
    Networks,
    WalkPolicy,
    WalkPPO,
)
from papers.shared import claim_folder, markdown, mean_and_range, read_json, run
from quadruped_sim.reinforcement import WorkerEnvironment, load_checkpoint, save_checkpoint
from quadruped_sim.tasks.robots import RenewedRobots, TaskRobots
from quadruped_sim.worker_pool import worker_pool

NEVER = 2**62  # [updates] until the logger forgets the divergence of the last update, see WalkPPO
EVALUATION_SEED = 10**9  # the same robots and track for every policy
PPO_SETTINGS = (
    "n_steps", "n_epochs", "learning_rate", "target_kl", "gamma", "gae_lambda", "clip_range", "ent_coef",
    "max_grad_norm",
)  # fmt: skip


class WalkTraining(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """PPO (Schulman et al., 2017) with the names of stable-baselines3, and evaluation; the defaults are the authors'.

    robots: of all processes; n_steps: control periods a robot between updates, divided into minibatches; learning_rate:
    initial, of the actor; deviation: initial, of the exploration, in units of the action; precision: of products;
    evaluation_interval: control steps of all robots between evaluations, in which evaluation_robots walk with
    exploration and as many without, for at most evaluation_periods.
    """

    robots: Count = 64
    n_steps: Count = 24
    minibatches: Count = 4
    n_epochs: Count = 5
    learning_rate: Positive = 1e-3
    critic_learning_rate: Positive = 5e-4
    target_kl: Positive = 0.02
    deviation: Positive = 1.0
    gamma: Positive = 0.99
    gae_lambda: Positive = 0.95
    clip_range: Positive = 0.2
    ent_coef: NotNegative = 0.01
    max_grad_norm: Positive = 1.0
    precision: Precision = "float32"
    evaluation_interval: Count = 25_000
    evaluation_robots: Count = 16
    evaluation_periods: Count = 1000


class WalkConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file: every architecture learns with every seed for `steps` control steps, counted over all robots."""

    architectures: Annotated[tuple[Architecture, ...], Meta(min_length=1)] = ("mix", "hard", "dense", "mlp")
    seeds: Annotated[tuple[Seed, ...], Meta(min_length=1, max_length=100)] = (0, 1, 2)
    steps: Count
    training: WalkTraining = WalkTraining()


class Point(Struct, frozen=True, kw_only=True):
    """An evaluation. steps, seconds: of training before it; mean_return: sum of an episode's rewards without
    exploration, explored_return: with it; fallen: share of the robots without exploration; distance: their distance
    along the track [m], falls included; deviation: of the exploration, in units of the action; learning_rate: of the
    actor.
    """

    steps: int
    seconds: float
    mean_return: float
    explored_return: float
    fallen: float
    distance: float
    deviation: float
    learning_rate: float


Curves = dict[Architecture, dict[int, list[Point]]]  # by seed


@dataclass(frozen=True)
class WalkJob:
    """One architecture that learns with one seed, in a folder."""

    architecture: Architecture
    seed: int
    folder: Path

    def curve(self) -> list[Point]:
        """Return the evaluations so far."""
        path = self.folder / "curve.json"
        return list(read_json(path, list[Point])) if path.exists() else []

    def is_done(self, steps: int) -> bool:
        """Return whether it has learned, and was evaluated, for so many control steps."""
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
            seed = self.seed + (curve[-1].steps if continues else 0)  # a continued job gets other robots
            sizes = OBSERVATION.shape[0], INTERFACE.values
            env = WorkerEnvironment(workers, partial(episodes, robots), robots, seed, *sizes, INTERFACE.action.clip)
            if continues:
                learner = load_checkpoint(WalkPPO, checkpoint, env, "auto")
            else:
                learner = self._new_learner(env, training)
            learner.set_logger(Logger(folder=None, output_formats=[]))  # the default one leaves a folder in /tmp
            seconds = curve[-1].seconds if continues else 0.0
            while True:
                if not curve or curve[-1].steps < learner.num_timesteps:
                    curve.append(evaluate(learner, training, seconds))
                    write_whole(self.folder / "curve.json", msgspec.json.encode(curve))
                    print(f"{self.folder.name}: {curve[-1]}", flush=True)
                if learner.num_timesteps >= steps:
                    return
                started = time.monotonic()
                learner.learn(training.evaluation_interval, log_interval=NEVER, reset_num_timesteps=False)
                seconds += time.monotonic() - started
                save_checkpoint(learner, checkpoint)

    def _new_learner(self, env: WorkerEnvironment, training: WalkTraining) -> WalkPPO:
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
            **{name: getattr(training, name) for name in PPO_SETTINGS},
        )


def episodes(robots: int, seed: int) -> RenewedRobots:
    """Return robots that learn."""
    return RenewedRobots(TaskRobots(TASK, robots, seed), TASK.episode, seed)


def evaluate(learner: WalkPPO, training: WalkTraining, seconds: float) -> Point:
    """Let robots walk until they fall or the time is over, half without exploration and half with it."""
    count, rng = training.evaluation_robots, np.random.default_rng(EVALUATION_SEED)
    walk = TaskRobots(TASK, 2 * count, EVALUATION_SEED)
    simulation = walk.simulation
    deviation = learner.policy.log_std.detach().exp().cpu().numpy()
    explores = np.arange(simulation.batch)[:, None] >= count
    returns, over = np.zeros(simulation.batch), np.zeros(simulation.batch, dtype=bool)
    start = simulation.state().position[:, 0]
    for _ in range(training.evaluation_periods):
        with torch.no_grad():
            seen = torch.as_tensor(walk.observation, device=learner.device)
            action = learner.policy.mlp_extractor.forward_actor(seen).cpu().numpy()
        action = action + explores * deviation * rng.standard_normal(action.shape)
        reward, fell = walk.step(action, idle=over)
        returns += reward
        over |= fell
        walk.observe()
    return Point(
        steps=learner.num_timesteps,
        seconds=round(seconds, 1),
        mean_return=float(returns[:count].mean()),
        explored_return=float(returns[count:].mean()),
        fallen=float(over[:count].mean()),
        distance=float((simulation.state().position[:, 0] - start)[:count].mean()),
        deviation=float(deviation.mean()),
        learning_rate=float(learner.policy.optimizer.param_groups[0]["lr"]),
    )


def study(config: WalkConfig, folder: Path, processes: int) -> ResultTable:
    """Do the missing jobs, and write the results after each. Raises FcnetError if the folder has other settings."""
    training = config.training
    if training.robots % processes or training.robots * training.n_steps % training.minibatches:
        raise FcnetError(f"{training.robots} robots cannot be divided among {processes} processes and into minibatches")
    claim_folder(folder, training)
    jobs = [
        WalkJob(architecture, seed, folder / "jobs" / f"{architecture}-seed{seed}")
        for seed in config.seeds
        for architecture in config.architectures
    ]
    for job in jobs:
        if not job.is_done(config.steps):
            if training.precision == "bfloat16":
                check_bfloat16(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
            job.run(training, config.steps, processes)
            write_results(jobs, config.steps, folder)
    return write_results(jobs, config.steps, folder)


def write_results(jobs: list[WalkJob], steps: int, folder: Path) -> ResultTable:
    """Write results.md, results.json and results.png of the finished jobs, and return the table."""
    curves: Curves = {}
    for job in jobs:
        if job.is_done(steps):
            curves.setdefault(job.architecture, {})[job.seed] = job.curve()
    found = table(curves)
    content = asdict(found) | {"curves": msgspec.to_builtins(curves, str_keys=True)}
    write_whole(folder / "results.json", json.dumps(content, indent=1).encode())
    write_whole(folder / "results.md", markdown(found).encode())
    draw(curves, folder / "results.png")
    return found


def table(curves: Curves) -> ResultTable:
    """Return the last evaluations. A cell is the mean over the seeds, with the lowest and the highest."""
    rows: dict[str, tuple[str, ...]] = {}
    for architecture, by_seed in curves.items():
        last = [curve[-1] for curve in by_seed.values()]
        best = [max(point.mean_return for point in curve) for curve in by_seed.values()]
        measures = (
            [point.mean_return for point in last], best, [point.explored_return for point in last],
            [100 * point.fallen for point in last], [point.distance for point in last],
            [point.seconds / 60 for point in last],
        )  # fmt: skip
        size = sum(parameter.numel() for parameter in Networks(architecture).parameters())
        facts = (f"{size:,}", f"{len(last)}", f"{last[0].steps:,}")
        rows[architecture] = (*facts, *(mean_and_range(values) for values in measures))
    columns = (
        "parameters of actor and critic", "seeds", "control steps", "return", "best return",
        "return with exploration", "fallen [%]", "distance [m]", "learned in [min]",
    )  # fmt: skip
    how = "mean over the seeds (lowest to highest) of the last evaluation"
    return ResultTable("Architectures that learn the A1-Walk task by PPO", columns, rows, how, machine={})


def draw(curves: Curves, path: Path) -> None:
    """Write the learning curves: means over the seeds, in a band from the lowest to the highest."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.5), layout="constrained")
    measures = {"mean_return": "return without exploration", "explored_return": "return with exploration"}
    for axes, (measure, label) in zip(figure.subplots(1, 2, sharey=True), measures.items(), strict=True):
        for architecture, by_seed in curves.items():
            steps = [point.steps for point in min(by_seed.values(), key=len)]
            returns = np.array(
                [[getattr(point, measure) for point in curve[: len(steps)]] for curve in by_seed.values()]
            )
            (line,) = axes.plot(steps, returns.mean(axis=0), marker="o", markersize=3, label=architecture)
            band = returns.min(axis=0), returns.max(axis=0)
            axes.fill_between(steps, *band, alpha=0.2, color=line.get_color(), linewidth=0)
        axes.set(xlabel="control steps of all robots", ylabel=label)
        axes.grid(alpha=0.3)
    figure.axes[0].legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    """Run the study and print its table."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    settings = Path(__file__).with_name("walk.yaml")
    options.add_argument("--config", type=Path, default=settings, metavar="YAML", help="settings (default: walk.yaml)")
    options.add_argument("--out", required=True, type=Path, metavar="DIR", help="the study's folder")
    options.add_argument("--processes", type=option(Count), default=2, metavar="N", help="workers (default: 2)")
    args = options.parse_args()
    torch.set_num_threads(args.processes)  # the robots wait during an update
    print(study(read_settings(args.config, WalkConfig, "study"), args.out, args.processes).text())


if __name__ == "__main__":
    run(main)
