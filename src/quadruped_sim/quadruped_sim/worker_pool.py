"""Worker processes that never outlive their work: not after Ctrl-C, not even when their parent is killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import Connection

from quadruped_sim import SimulationError

# Read when NumPy and MuJoCo are imported, which a worker does with its first piece of work: many small matrices gain
# nothing from threads, and nothing is drawn.
SETTINGS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "MUJOCO_GL": "disable"}


@contextmanager
def worker_pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of fresh single-threaded processes. Whatever they do ends at once when the block is left with an error or
    by Ctrl-C, or when this process dies; work that may be cut off at any moment belongs here.
    """
    context = multiprocessing.get_context("spawn")
    lifeline, held = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(processes, context, initializer=_begin, initargs=(lifeline,))
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
