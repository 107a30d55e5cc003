"""The processes of a training run: one, or several that torchrun started on one or more machines."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from fcnet_core import counted
from fcnet_core.errors import FcnetError
from fcnet_core.policies.network import PolicyNetwork

T = TypeVar("T")


@dataclass(frozen=True)
class Processes:
    """rank: number of this process among `count`; local_rank: its number on its machine. All processes call sum, gather
    and from_first, in the same order.
    """

    rank: int = 0
    count: int = 1
    local_rank: int = 0

    def share(self, crops: int) -> slice:
        """Return which crops of a batch this process computes."""
        return slice(self.rank * crops // self.count, (self.rank + 1) * crops // self.count)

    def sum(self, *values: float) -> list[float]:
        """Return the sums of the values over all processes."""
        if self.count == 1:
            return list(values)
        sums = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(sums)
        return sums.tolist()

    def gather(self, value: T) -> list[T]:
        """Return the values of all processes, by rank."""
        values: list[Any] = [value] * self.count
        if self.count > 1:
            dist.all_gather_object(values, value)
        return values

    def from_first(self, make: Callable[[], T]) -> T:
        """Call `make` in the process of rank 0 and return its result in all of them."""
        made: list[Any] = [make() if self.rank == 0 else None]
        if self.count > 1:
            dist.broadcast_object_list(made)
        return made[0]

    def device(self, kind: str) -> torch.device:
        """Return the processor ("cpu") or the GPU of this process ("cuda"). Raises FcnetError if there is none."""
        if kind == "cpu":
            return torch.device("cpu")
        if not (found := torch.cuda.device_count()):
            raise FcnetError("device is cuda, but PyTorch finds no GPU on this machine; set device: cpu")
        if self.local_rank >= found:
            raise FcnetError(f"this machine has {counted(found, 'GPU')}; start torchrun with --nproc-per-node={found}")
        torch.cuda.set_device(self.local_rank)
        check_gpu(self.local_rank)
        return torch.device("cuda", self.local_rank)

    def parallel(self, network: PolicyNetwork) -> Callable[[Any], Tensor]:
        """Return the network's `actions`, with gradients averaged over all processes, and the weights of rank 0."""
        if self.count == 1:
            return network.actions
        return DistributedDataParallel(Actions(network), gradient_as_bucket_view=True)


class Actions(nn.Module):
    """A module whose forward pass is that of a network's actions."""

    def __init__(self, network: PolicyNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, observation: Any) -> Tensor:
        return self.network.actions(observation)


def check_gpu(number: int) -> None:
    """Raise FcnetError if the GPU is older than what PyTorch was compiled for, or if Triton is missing."""
    major, minor = torch.cuda.get_device_capability(number)
    oldest = min(map(int, re.findall(r"sm_(\d+)", " ".join(torch.cuda.get_arch_list()))))
    if 10 * major + minor < oldest:
        raise FcnetError(
            f"the GPU {torch.cuda.get_device_name(number)} has compute capability {major}.{minor}, and this PyTorch"
            f" needs {oldest // 10}.{oldest % 10}; install an older PyTorch, or set device: cpu"
        )
    if find_spec("triton") is None:
        raise FcnetError(
            "training on a GPU needs Triton, which PyTorch for CUDA brings along; set device: cpu, or install it with"
            " pip install -r requirements/kernels.txt"
        )


@contextmanager
def joined() -> Iterator[Processes]:
    """Join the other processes by the environment variables of torchrun; without them this process is alone.

    If one fails, all do. The first to fail raises its error; the others, which only lost the connection, exit silently.
    """
    if "WORLD_SIZE" not in os.environ:
        yield Processes()
        return
    try:
        store, rank, count = next(rendezvous("env://"))
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=count)
    except (ValueError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise FcnetError(f"the processes of this training did not find each other: {reason}") from error
    try:
        yield Processes(rank, count, int(os.environ.get("LOCAL_RANK", rank)))
    except Exception as error:  # of any kind: the others wait for a process that ends without notice
        ended = 1
        with suppress(RuntimeError):  # torchrun itself is gone, or its machine is
            ended = store.add("ended", 1)
        if ended > 1:
            raise SystemExit(1) from error
        if isinstance(error, dist.DistError) or "gloo" in str(error) or "NCCL" in str(error):
            remedy = "run the same command with --resume to continue from the last checkpoint"
            raise FcnetError(f"another process of this training has ended, and so does this one; {remedy}") from error
        raise
    dist.destroy_process_group()
