"""Workers that never outlive their work, not after Ctrl-C, not even when their parent is killed: processes of this
machine, or of a Ray cluster.
"""

import argparse
import logging
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import fcnet_core
import quadruped_sim
from fcnet_core.errors import SimulationError
from fcnet_core.files import Workers, option

Place = int | str  # so many processes of this machine, or the address of a Ray cluster
# Read when NumPy and MuJoCo are imported, which a worker does with its first piece of work: many small matrices gain
# nothing from threads, and nothing is drawn.
SETTINGS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "MUJOCO_GL": "disable"}
AHEAD = 2  # jobs handed over for each core, so that none waits for its next one
RETRIES = 5  # of a job whose worker or machine dies


def add_worker_options(parser: argparse.ArgumentParser) -> None:
    """Declare --processes and --ray, which set `workers` to a Place."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--processes", dest="workers", type=option(Workers), default=2, metavar="N", help="workers (default: 2)"
    )
    cluster = "work on a Ray cluster; auto: the cluster of this machine"
    where.add_argument("--ray", dest="workers", default=argparse.SUPPRESS, metavar="ADDRESS", help=cluster)


def worker_pool(workers: Place) -> AbstractContextManager[Executor]:
    """Return a context with a pool of single-threaded workers. Workers stop immediately if the block is left with an
    error or by Ctrl-C, or if this process dies, so their work must tolerate that. Results do not depend on where a job
    runs.
    """
    return _cluster(workers) if isinstance(workers, str) else _processes(workers)


_kept: list[Any] = []  # in a worker process


def keep(make: Callable[[], Any]) -> None:
    """Make the object that this worker keeps."""
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

    def die_with_parent() -> None:
        lifeline.poll(None)
        os._exit(1)

    os.environ.update(SETTINGS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=die_with_parent, daemon=True).start()


class ClusterPool(ThreadPoolExecutor):
    """Each job waits in a thread here for a core of the cluster: few jobs, with their models, are sent at a time."""

    def __init__(self, ray: Any) -> None:
        super().__init__(AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1))))
        self._ray, self._run = ray, ray.remote(num_cpus=1, max_retries=RETRIES)(_run)

    def submit(self, work: Callable[..., Any], /, *arguments: Any) -> Future[Any]:  # type: ignore[override]
        """Return a future of `work(*arguments)`, which runs again if a worker dies."""
        return super().submit(self._wait, work, arguments)

    def _wait(self, work: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(self._run.remote(Path.cwd(), work, arguments))
        except errors.RayTaskError as error:
            if isinstance(error.cause, errors.RaySystemError):
                remedy, reason = "install the suite's requirements there", str(error.cause).partition("\n")[0]
                raise SimulationError(f"a machine of the cluster cannot load a job; {remedy} ({reason})") from error
            raise error.cause from None  # what the work itself raised
        except errors.RayError as error:
            raise SimulationError(
                f"the cluster lost a job {RETRIES + 1} times ({type(error).__name__}), perhaps for lack of memory; see"
                " `ray status`, then run the same command again"
            ) from error


@contextmanager
def _cluster(address: str) -> Iterator[ClusterPool]:
    """Yield the cores of a cluster as a pool; workers end with the block and this process. Raises SimulationError."""
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "1")  # where no Ray listens, its 20 attempts take 14 minutes
    try:
        import ray
    except ImportError:
        raise SimulationError(
            "--ray needs Ray on every machine: `pip install -r requirements/ray.txt` in the suite's .venv installs it"
        ) from None
    try:
        reached = os.environ.get("RAY_ADDRESS", address) if address == "auto" else address
        host, colon, port = reached.removeprefix("ray://").rpartition(":")
        if colon and port.isdigit():  # Ray itself would try forever
            socket.create_connection((host, int(port)), timeout=5.0).close()
        code = [fcnet_core, quadruped_sim]  # sent to the other machines, so that all have this version
        environment = {"env_vars": SETTINGS, "py_modules": code, "excludes": ["__pycache__"]}
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, runtime_env=environment)
    except (OSError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise SimulationError(
            f"no Ray cluster can be used at {address!r}; start one with `ray start` and this Python ({reason})"
        ) from error
    pool = ClusterPool(ray)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        ray.shutdown()


def _run(folder: Path, work: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Run in a worker, with relative paths as in the command's folder."""
    with suppress(OSError):
        os.chdir(folder)
    return work(*arguments)
