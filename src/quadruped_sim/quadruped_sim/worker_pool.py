"""Workers that never outlive their work, not after Ctrl-C, not even when their parent is killed: processes of this
machine, or of a Ray cluster.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from fcnet_core.errors import SimulationError
from fcnet_core.files import Workers, option
from quadruped_sim.cluster import cluster_pool

Place = int | str  # so many processes of this machine, or the address of a Ray cluster
# Read when NumPy and MuJoCo are imported, which a worker does with its first piece of work: many small matrices gain
# nothing from threads, and nothing is drawn.
SETTINGS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "MUJOCO_GL": "disable"}


def add_worker_options(parser: argparse.ArgumentParser) -> None:
    """Declare --processes and --ray, which set `workers` to a Place."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--processes", dest="workers", type=option(Workers), default=2, metavar="N", help="workers (default: 2)"
    )
    cluster = "work on a Ray cluster; auto: the one that this machine belongs to"
    where.add_argument("--ray", dest="workers", default=argparse.SUPPRESS, metavar="ADDRESS", help=cluster)


@contextmanager
def worker_pool(workers: Place) -> Iterator[Executor]:
    """A pool of single-threaded workers. Workers stop immediately if the block is left with an error or by Ctrl-C, or
    if this process dies, so their work must tolerate that. Results do not depend on where a job runs.
    """
    with cluster_pool(workers, SETTINGS) if isinstance(workers, str) else _processes(workers) as pool:
        yield pool


_kept: list[Any] = []  # of this process, where it is a worker


def keep(make: Callable[[], Any]) -> None:
    """Make the object that this worker keeps, in place of the one before."""
    _kept[:] = [make()]


def call(method: str, *arguments: Any) -> Any:
    """Call a method of the object that this worker keeps."""
    return getattr(_kept[0], method)(*arguments)


@contextmanager
def _processes(count: int) -> Iterator[Executor]:
    context = multiprocessing.get_context("spawn")
    lifeline, held = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(count, context, initializer=_begin, initargs=(lifeline,))
    try:
        yield pool
        pool.shutdown()
    except BrokenProcessPool as error:
        raise SimulationError(
            "a worker process was killed, perhaps for lack of memory; run the same command again with fewer --processes"
        ) from error
    finally:
        held.close()
        pool.shutdown(cancel_futures=True)
        lifeline.close()


def _begin(lifeline: Connection) -> None:
    """Leave Ctrl-C to the parent, and die when the lifeline's other end is closed."""
    os.environ.update(SETTINGS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with, args=(lifeline,), daemon=True).start()


def _die_with(lifeline: Connection) -> None:
    lifeline.poll(None)
    os._exit(1)
