"""Settings and data of a tiny training run, the comparison of its results, and its processes as torchrun starts them.

PyTorch is imported once for all processes.
"""

import multiprocessing
import os
import runpy
import socket
import sys
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np

from fcnet_core.learning.dataset import DatasetWriter, velocity_manifest
from fcnet_core.model_file import load_model
from fcnet_core.robot import load_robot

TINY: dict[str, Any] = {  # a run that takes a fraction of a second
    "config": {"layers": 1, "modes": 4, "hidden": 16, "decoder_hidden": 16, "window": 8},
    "crop": 24,
    "batch": 4,
    "steps": 40,
    "learning_rate": 0.01,
    "observation_noise": {"joint_velocity": 0.1},
    "held_out_share": 0.2,
    "log_interval": 10,
    "validation_interval": 20,
    "checkpoint_interval": 20,
}
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["fcnet_core.learning.imitation", "torch._dynamo", "torch.utils.tensorboard"])


def write_tiny_data(folder: Path, seeds: Sequence[int] = (0, 1), steps: int = 120) -> Path:
    """Targets that depend on the present and the past observation; episodes begin every 50 steps."""
    robot = load_robot("aliengo")
    writer = DatasetWriter(folder, velocity_manifest(robot, 50.0, {"expert": "made up"}))
    mixing = np.random.default_rng(7).normal(size=(70, 12)) * 0.1
    first = np.broadcast_to(np.arange(steps) % 50 == 0, (6, steps))
    for seed in seeds:
        observation = np.random.default_rng(seed).normal(size=(6, steps, 70))
        observation[..., 4:] = 0.0
        past = np.roll(observation, 2, axis=1)
        past[:, :2] = 0.0
        action = robot.stand_pose + (observation + past) @ mixing
        writer.write_shard(seed, {"seed": seed}, observation=observation, action=action, first=first)
    return folder


def assert_same_policy(one: Path, two: Path) -> None:
    tensors = load_model(two).tensors
    for name, tensor in load_model(one).tensors.items():
        np.testing.assert_array_equal(tensor, tensors[name], err_msg=name)


def start_processes(folder: Path, *arguments: str, count: int = 2) -> list[BaseProcess]:
    """Start `fcnet_core.learning` in `folder`; standard output of process N goes to out.N, errors to err.N."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = [(folder, rank, count, port, arguments) for rank in range(count)]
    processes: list[BaseProcess] = [CONTEXT.Process(target=_run, args=given) for given in settings]
    for process in processes:
        process.start()
    return processes


def _run(folder: Path, rank: int, count: int, port: int, arguments: tuple[str, ...]) -> None:
    os.chdir(folder)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{name}.{rank}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.argv[1:] = arguments
    runpy.run_module("fcnet_core.learning", run_name="__main__", alter_sys=True)
