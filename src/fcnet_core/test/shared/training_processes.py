"""The processes of one training run, with the environment of torchrun; PyTorch is imported once for all of them."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import socket
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["fcnet_core.learning.imitation", "torch._dynamo", "torch.utils.tensorboard"])


def start_processes(folder: Path, *arguments: str, count: int = 2) -> list[BaseProcess]:
    """Start `fcnet_core.learning` in `folder`; standard output of process N goes to out.N, errors to err.N."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [CONTEXT.Process(target=_run, args=(folder, rank, count, port, arguments)) for rank in range(count)]
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
