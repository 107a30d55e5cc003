"""Workers on a Ray cluster, behind the interface of a process pool."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fcnet_core.errors import SimulationError

AHEAD = 2  # jobs handed over for each core, so that none waits for its next one
RETRIES = 5  # of a job whose worker or machine dies
TIMEOUT = 5.0  # [s] for an address to answer


class ClusterPool(ThreadPoolExecutor):
    """Each job waits in a thread here for a core of the cluster: few jobs, and models with them, travel at a time."""

    def __init__(self, ray: Any) -> None:
        super().__init__(AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1))))
        self._ray, self._run = ray, ray.remote(num_cpus=1, max_retries=RETRIES)(_run)

    def submit(self, work: Callable[..., Any], /, *arguments: Any) -> Future[Any]:  # type: ignore[override]
        """A future of `work(*arguments)`, done again where a worker dies."""
        return super().submit(self._wait, work, arguments)

    def _wait(self, work: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(self._run.remote(Path.cwd(), work, arguments))
        except errors.RayTaskError as error:
            raise error.cause from None  # what the work itself raised
        except errors.RayError as error:
            raise SimulationError(
                f"the cluster lost a job {RETRIES + 1} times ({type(error).__name__}), perhaps for lack of memory; see"
                " `ray status`, then run the same command again"
            ) from error


@contextmanager
def cluster_pool(address: str, settings: dict[str, str]) -> Iterator[ClusterPool]:
    """The cores of a cluster as a pool, for as long as the block lasts; settings: environment variables of its workers.

    All machines have the suite, Ray and the folders that are written in the same places. What workers do ends with the
    block and with this process. Raises SimulationError.
    """
    try:
        import ray
    except ImportError:
        raise SimulationError(
            "--ray needs Ray on every machine: `pip install -r requirements/ray.txt` in the suite's .venv installs it"
        ) from None
    try:
        _connect(os.environ.get("RAY_ADDRESS", address) if address == "auto" else address)
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, runtime_env={"env_vars": settings})
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        sentence = f"no Ray cluster answers at {address!r}; begin one with `ray start` ({reason})"
        raise SimulationError(sentence) from error
    pool = ClusterPool(ray)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        ray.shutdown()


def _connect(address: str) -> None:
    """Raise OSError where nothing answers at HOST:PORT; Ray itself would try for ever."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), TIMEOUT).close()


def _run(folder: Path, work: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """In a worker: relative paths mean what they mean where the command was given."""
    with suppress(OSError):
        os.chdir(folder)
    return work(*arguments)
