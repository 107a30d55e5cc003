"""How every program of the suite begins and ends: discovery settings, rclpy's context, signals, exit code, shutdown.

Discovery. A Fast DDS participant can miss the answer to its first announcement, because it announces itself before it
receives (RTPSParticipantImpl::enable of Fast DDS 2.14 and 3.1). The next chance is the periodic announcement of the
participant that was there first: every 3 s by default, every 0.2 s with the profiles of this package. Measured over
100 starts of whole programs: 99 found everything within 1 s, half of them within 0.1 s; with
announcements every 0.5 s 93 did, half of them within 0.43 s.

Transport. A Fast DDS publisher in shared memory takes locks that it shares with its subscribers: a subscriber that is
stopped at the wrong time holds up the publisher, by up to a second. A program with a
hard deadline, such as the bridge of a real robot, uses only UDP.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import rclpy
from rclpy.exceptions import ParameterException
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # the last when a terminal closes, as with its ssh connection
REFUSED = 2  # exit code
SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE
SWITCH_INTERVAL = 0.0005  # [s] for which the executor's thread may keep a real-time thread from the interpreter
STOP_INTERVAL = 0.02  # [s] between two looks at a stop
SPIN_TIMEOUT = 0.1  # [s] after which a stop is noticed
ERROR_PERIOD = 2.0  # [s] between two reports of errors at the same place
FOLDER = Path(__file__).parent
DISCOVERY_RANGE, LOCALHOST_ONLY = "ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_LOCALHOST_ONLY"
PROFILES = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE")
TRANSPORTS = "FASTDDS_BUILTIN_TRANSPORTS"

NodeT = TypeVar("NodeT", bound=Node)


class Stop:
    """Whether the program shall end; signals request it.

    It has no lock, as a threading.Event has: a signal's handler runs in the main thread, wherever that is, and one that
    came while the handler before it held the lock would wait for ever. The end of a launch comes as several signals.
    """

    def __init__(self) -> None:
        self._requested = False

    def set(self) -> None:
        """Request it."""
        self._requested = True

    def is_set(self) -> bool:
        """Whether it was requested."""
        return self._requested

    def wait(self, duration: float = math.inf) -> None:
        """Return when it is requested, at the latest after `duration` [s]."""
        deadline = time.monotonic() + duration
        while not self._requested and (left := deadline - time.monotonic()) > 0.0:
            time.sleep(min(left, STOP_INTERVAL))


class Interrupted(BaseException):
    """A signal has ended what is `interruptible`."""


def run_program(
    name: str,
    make: Callable[[], NodeT],
    run: Callable[[NodeT, Stop], int],
    *,
    signals: Sequence[signal.Signals] = SIGNALS,
    udp_only: bool = False,
) -> int:
    """Run the node that `make` returns and return the exit code that `run` returns; a signal sets `run`'s stop.

    A signal during `make`, or in what is `interruptible`, ends the program at once with 0. A ValueError, OSError or
    ParameterException of `make` is a refusal, see `refused`; others keep their traceback. The node is destroyed at the
    end. udp_only: see participant_profile.
    """
    stop = Stop()
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # by nohup: the program is to outlive its terminal
        signals = [number for number in signals if number is not signal.SIGHUP]

    def stop_on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in signals:
        signal.signal(number, stop_on_signal)
    try:
        with interruptible(signals), participant_profile(udp_only):
            rclpy.init(args=sys.argv, signal_handler_options=SignalHandlerOptions.NO)
            try:
                node = make()
            except (ValueError, OSError, ParameterException) as error:
                return refused(name, error)
        try:
            return run(node, stop)
        finally:
            node.destroy_node()
    except Interrupted:
        return 0
    finally:
        rclpy.try_shutdown()


@contextlib.contextmanager
def interruptible(signals: Sequence[signal.Signals] = SIGNALS) -> Iterator[None]:
    """Let a signal, besides what it does anyway, raise Interrupted in this context: for the main thread and what takes
    long before anything is commanded, such as compiling a policy. In other threads nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in signals}

    def interrupt(number: int, frame: FrameType | None) -> None:
        handler = handlers[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)
        raise Interrupted

    try:
        for number in signals:
            signal.signal(number, interrupt)
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def refused(name: str, error: Exception) -> int:
    """Print why the program called `name` cannot run, in one sentence; return its exit code, 2."""
    print(f"{name}: {error}", file=sys.stderr)
    return REFUSED


class GuardedExecutor(SingleThreadedExecutor):
    """Executes the callbacks of one node. An error in one, or in taking a message, is logged and the node goes on.

    Nothing that arrives by DDS may end a node. A service of the node that fails responds with the default values of its
    response, which mean "not done".
    """

    def __init__(self, node: Node) -> None:
        super().__init__(context=node.context)
        self._logger = node.get_logger()
        self._reported: dict[str, float] = {}  # when [s], by the place of an error
        for service in node.services:
            service.callback = partial(self._respond, service.callback)
        self.add_node(node)

    def spin_once(self, timeout_sec: float | None = None) -> None:
        """Execute one callback that is ready within this time [s]."""
        try:
            super().spin_once(timeout_sec)
        except ExternalShutdownException:
            raise
        except Exception as error:  # noqa: BLE001 whatever it is, the node goes on
            self._report(error)

    def _respond(self, callback: Callable[[Any, Any], Any], request: Any, response: Any) -> Any:
        try:
            return callback(request, response)
        except Exception as error:  # noqa: BLE001 whatever it is, the node goes on
            self._report(error)
            return type(response)()

    def _report(self, error: Exception) -> None:
        place = traceback.extract_tb(error.__traceback__)[-1]
        kind, now = f"{Path(place.filename).name}:{place.lineno}", time.monotonic()
        if now - self._reported.get(kind, float("-inf")) < ERROR_PERIOD:
            return
        self._reported[kind] = now
        words = " ".join(str(error).split())
        self._logger.error(f"a callback failed ({type(error).__name__} in {kind}: {words:.200}); the node goes on")
        self._logger.debug("".join(traceback.format_exception(error)))


def spin(node: Node, stop: Stop, ended: Callable[[], bool] = lambda: False) -> None:
    """Execute the node's callbacks in this thread until `stop` is set or `ended()` is true."""
    executor = GuardedExecutor(node)
    try:
        while not stop.is_set() and not ended():
            executor.spin_once(timeout_sec=SPIN_TIMEOUT)
    finally:
        executor.shutdown()


def spin_beside(node: Node, stop: Stop, work: Callable[[Stop, Future[None]], None]) -> None:
    """Execute the node's callbacks in a second thread during `work(stop, spinning)` in this one.

    `spinning` is done when the second thread has ended by an error, which is raised here afterwards.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="spin") as threads:
        spinning = threads.submit(spin, node, stop)
        freeze()
        try:
            work(stop, spinning)
        finally:
            stop.set()
    spinning.result()


def freeze() -> None:
    """Exempt all present objects from later garbage collections, which then stay short."""
    gc.collect()
    gc.freeze()


def transition(node: Node, work: Callable[[], None], *refusals: type[Exception]) -> TransitionCallbackReturn:
    """Return whether a transition's `work` succeeds. An exception is logged: of `refusals` as one sentence, any other
    with its traceback; rclpy would drop it.
    """
    try:
        work()
    except refusals as refusal:
        node.get_logger().error(" ".join(str(refusal).split()))  # YAML's errors have several lines
        return FAILURE
    except Exception:  # noqa: BLE001 whatever it is, it is logged
        node.get_logger().fatal(f"a transition has failed by an error\n{traceback.format_exc()}")
        return FAILURE
    return SUCCESS


@contextlib.contextmanager
def participant_profile(udp_only: bool = False) -> Iterator[None]:
    """Within this context rclpy's contexts and their first nodes are created with the suite's Fast DDS profile.

    They announce themselves every 0.2 s. udp_only: they use UDP without shared memory, and the loopback interface alone
    where ROS is limited to this computer. A user's own profile, choice of transports or other middleware is left as it
    is. Fast DDS reads the profile once per process, with the first node. The environment is restored afterwards, so
    that child processes do not take these settings for the user's.
    """
    changes = _profile_variables(udp_only)
    before = {name: os.environ.get(name) for name in changes}
    _set_environment(changes)
    try:
        yield
    finally:
        _set_environment(before)


def _profile_variables(udp_only: bool) -> dict[str, str | None]:
    """Environment variables to set, and with None to remove."""
    middleware = os.environ.get("RMW_IMPLEMENTATION", "fastrtps")
    if "fastrtps" not in middleware or any(name in os.environ for name in (*PROFILES, TRANSPORTS)):
        return {}
    if not udp_only:
        return {PROFILES[0]: str(FOLDER / "fastdds_announcement.xml")}
    if os.environ.get(DISCOVERY_RANGE) != "LOCALHOST" and os.environ.get(LOCALHOST_ONLY) != "1":
        return {PROFILES[0]: str(FOLDER / "fastdds_udp.xml")}
    # Where ROS limits itself to this computer it adds shared memory: the profile limits it to the loopback instead.
    return {
        LOCALHOST_ONLY: None,
        DISCOVERY_RANGE: "SUBNET",
        PROFILES[0]: str(FOLDER / "fastdds_udp_loopback.xml"),
    }


def _set_environment(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
