"""Training of a teacher: an MLP imitates the trot, then PPO improves it on the same plan."""

import json
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from torch import nn

from fcnet_core.arrays import Array, Single
from fcnet_core.files import writing
from fcnet_core.model_file import PolicyModel, load_model, save_model
from fcnet_core.robot import load_robot
from quadruped_sim.collection import CollectionPlan
from quadruped_sim.reinforcement import WorkerEnvironment, load_checkpoint, save_checkpoint
from quadruped_sim.rollout import ActionNoise
from quadruped_sim.tasks.task import Task
from quadruped_sim.teacher.expert import Permutation, action_mirror, observation_mirror, teacher_config
from quadruped_sim.teacher.groups import Groups, Progress, TeacherConfig
from quadruped_sim.teacher.network import Networks, TeacherPolicy, TeacherPPO, load_actor, teacher_model
from quadruped_sim.worker_pool import worker_pool

LARGEST_ACTION = 6.0
LEAST_DEVIATION = 0.02  # of an element that is nearly constant
LARGEST_NOISE = 0.3  # on the trot's actions, in units of the action
STUDENT_SHARE = 0.7  # of the robots that the MLP drives while the trot labels
BATCH = 1024  # of the imitation
IMITATION_RATE = 1e-3
LOG_INTERVAL = 10  # rounds
PPO_SETTINGS = ("n_steps", "batch_size", "n_epochs", "learning_rate", "gamma", "gae_lambda", "clip_range", "target_kl")
CHECKPOINT = "checkpoint.zip"
TEACHER = "teacher.safetensors"


def progress(env: WorkerEnvironment) -> tuple[Progress, dict[str, float]]:
    """Return the counts of all workers since the last call; and by them the mean reward of a control period and the
    falls in 100,000 of them.
    """
    total = Progress(Counter)
    for part in env.ask("progress"):
        for name, counts in part.items():
            total[name].update(counts)
    steps, falls = total["steps"].total(), total["falls"].total()
    return total, {"reward": round(total["terms"].total() / steps, 4), "falls_per_100k": round(1e5 * falls / steps, 1)}


def demonstrate(
    env: WorkerEnvironment, steps: int, drive: Callable[[Single], Array] | None, rng: np.random.Generator
) -> tuple[Single, Single]:
    """Let the trot walk, disturbed, or label what `drive` does (DAgger), for `steps` control periods. Return the
    observations (K, n) and the trot's actions (K, N).
    """
    seen, taught = [], []
    noise = ActionNoise(env.num_envs, LARGEST_NOISE, rng)
    driven = rng.random((env.num_envs, 1)) < STUDENT_SHARE
    observation = env.reset()
    for _ in range(steps):
        advice = np.concatenate(env.ask("advise"))
        seen.append(observation)
        taught.append(advice.astype(np.float32))
        env.step_async(noise.disturb(advice, drive(observation) if drive else None, driven))
        observation = env.step_wait()[0]
    return np.concatenate(seen), np.concatenate(taught)


def imitate(networks: Networks, seen: Single, taught: Single, epochs: int) -> None:
    """Train the actor on a demonstration."""
    observation, action, parameters = torch.as_tensor(seen), torch.as_tensor(taught), list(networks.actor.parameters())
    steps = epochs * (len(action) // BATCH)
    optimizer = torch.optim.Adam(parameters, lr=IMITATION_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, IMITATION_RATE, total_steps=max(steps, 2))
    for _ in range(epochs):
        for chosen in torch.randperm(len(action))[: steps // epochs * BATCH].reshape(-1, BATCH):
            loss = nn.functional.smooth_l1_loss(networks.forward_actor(observation[chosen]), action[chosen], beta=0.5)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            schedule.step()


class Rounds(BaseCallback):
    """Trains only the critic in the first `critic_rounds` rollouts, and writes log and checkpoint."""

    model: TeacherPPO

    def __init__(self, env: WorkerEnvironment, folder: Path, critic_rounds: int) -> None:
        super().__init__()
        self._env, self._folder, self._critic_rounds = env, folder, critic_rounds
        self._began, self._round = time.monotonic(), 0

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        policy = self.model.policy
        for parameter in [*policy.mlp_extractor.actor.parameters(), policy.log_std]:
            parameter.requires_grad_(self._round >= self._critic_rounds)
        self._round += 1
        if self._round % LOG_INTERVAL == 0:
            (done, figures), values = progress(self._env), self.model.logger.name_to_value
            facts = {
                "round": self._round,
                "seconds": round(time.monotonic() - self._began),
                "steps": self.model.num_timesteps,
                **figures,
                "deviation": round(float(policy.log_std.detach().exp().mean()), 4),
                "kl": round(float(values.get("train/approx_kl", 0.0)), 4),
                "explained": round(float(values.get("train/explained_variance", 0.0)), 3),
                "falls": {name: round(1e5 * done["falls"][name] / count, 1) for name, count in done["steps"].items()},
                "terms": {name: round(total / done["steps"].total(), 3) for name, total in done["terms"].items()},
            }
            line = json.dumps(facts)
            print(line, flush=True)
            path = self._folder / "log.jsonl"
            with writing(path), path.open("a", encoding="utf-8") as log:
                log.write(line + "\n")
            save_checkpoint(self.model, self._folder / CHECKPOINT)


def new_learner(
    env: WorkerEnvironment, config: TeacherConfig, mirrors: tuple[Permutation, Permutation], teacher: PolicyModel | None
) -> TeacherPPO:
    """Return PPO whose actor is that of the teacher or else imitates the trot, and whose critic is untrained. Its
    networks are scaled to the observations of a demonstration. mirrors: of a teacher's observations and actions.
    """
    hidden = teacher_config(teacher, len(mirrors[0][0])).hidden if teacher else config.hidden
    rng = np.random.default_rng(config.seed)
    seen, taught = demonstrate(env, config.imitation_steps, None, rng)
    learner = TeacherPPO(
        TeacherPolicy,
        env,
        policy_kwargs={
            "networks": {
                "hidden": hidden,
                "mean": seen.mean(axis=0),
                "deviation": np.maximum(seen.std(axis=0), LEAST_DEVIATION),
                "mirrors": mirrors,
            },
            "ortho_init": False,
            "critic_learning_rate": config.critic_learning_rate,
            "log_std_init": float(np.log(config.action_deviation)),
        },
        **{name: getattr(config, name) for name in PPO_SETTINGS},
        ent_coef=config.entropy,
        vf_coef=1.0,
        max_grad_norm=1.0,
        seed=config.seed,
        device="cpu",
    )
    networks = learner.policy.mlp_extractor
    if teacher:
        load_actor(learner.policy, teacher)
        return learner
    print(f"trot: {progress(env)[1]}", flush=True)
    imitate(networks, seen, taught, config.imitation_epochs)

    def drive(observation: Single) -> Array:
        with torch.no_grad():
            return np.asarray(networks.forward_actor(torch.as_tensor(observation)), dtype=np.float64)

    more = demonstrate(env, config.imitation_steps // 2, drive, rng)
    print(f"its imitation: {progress(env)[1]}", flush=True)
    seen, taught = (np.concatenate(parts) for parts in zip((seen, taught), more, strict=True))
    imitate(networks, seen, taught, config.imitation_epochs // 2)
    return learner


def teach(
    task: Task,
    plan: CollectionPlan,
    config: TeacherConfig,
    folder: Path,
    processes: int,
    minutes: float,
    facts: dict[str, Any],
    init: Path | None = None,
) -> None:
    """Train a teacher, or continue with the one in the folder, for `minutes` of PPO; `facts` go into its card.

    init: model file of a teacher, possibly of another robot, to start from instead of imitating the trot.
    """
    robot, checkpoint = load_robot(plan.robot), folder / CHECKPOINT
    teacher, critic = (task.teacher_interface(robot, critic) for critic in (False, True))
    mirrors = observation_mirror(teacher, robot), action_mirror(robot)
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(config.seed)
    torch.set_num_threads(1)  # the networks are small: threads cost more than they gain, on a busy computer much more
    with ExitStack() as stack:
        workers = [stack.enter_context(worker_pool(1)) for _ in range(processes)]
        continues = checkpoint.exists()
        seed = config.seed + (int(time.time()) if continues else 0)  # other robots than before
        make, robots = partial(Groups, task, plan, config), config.robots // config.groups * config.groups
        sizes = critic.shapes["observation"][0], len(robot.joints)
        env = WorkerEnvironment(workers, make, robots, seed, *sizes, LARGEST_ACTION)
        if continues:
            settings = {name: getattr(config, name) for name in PPO_SETTINGS}
            learner = load_checkpoint(TeacherPPO, checkpoint, env, "cpu", **settings)
            rates = config.learning_rate, config.critic_learning_rate
            for group, rate in zip(learner.policy.optimizer.param_groups, rates, strict=True):
                group["lr"] = rate
        else:
            learner = new_learner(env, config, mirrors, load_model(init) if init else None)
        learner.set_logger(Logger(folder=None, output_formats=[]))  # its own would leave a folder in /tmp
        rounds = Rounds(env, folder, 0 if continues else config.critic_rounds)  # a new critic is untrained
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end:
            learner.learn(LOG_INTERVAL * config.n_steps * env.num_envs, callback=rounds, reset_num_timesteps=False)
            made = {"steps": learner.num_timesteps, "settings": msgspec.to_builtins(config)}
            save_model(teacher_model(learner.policy, robot, facts | made, plan.rate), folder / TEACHER)
        save_checkpoint(learner, checkpoint)
