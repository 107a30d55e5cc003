"""Start and end of every program: discovery settings, rclpy's context, signals, exit code, recorder, shutdown.

Discovery. A Fast DDS participant can miss the answer to its first announcement, because it announces itself before it
receives (RTPSParticipantImpl::enable of Fast DDS 2.14 and 3.1). It is then discovered by the next periodic announcement
of the older participant: every 3 s by default, every 0.2 s with the profiles of this package (of 100 programs 99 then
found everything within 1 s).

Transport. A Fast DDS publisher in shared memory shares locks with its subscribers: a subscriber that is stopped at the
wrong time blocks the publisher for up to a second. A program with a hard deadline, such as the bridge of a real robot,
uses UDP only.
"""

import contextlib
import gc
import math
import os
import signal
import sys
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
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from fcnet_core.errors import ParameterError
from fcnet_ros.environment import DISCOVERY_RANGE, LOCALHOST_ONLY, MIDDLEWARE, PROFILES
from fcnet_ros.health import TopicWatch

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # SIGHUP: a terminal or its ssh connection was closed
REFUSED = 2  # exit code of a program that cannot run as requested
SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE
SWITCH_INTERVAL = 0.0005  # [s] longest time that the executor's thread holds the GIL while a real-time thread waits
STOP_INTERVAL = 0.02  # [s] between two checks of a stop
SPIN_TIMEOUT = 0.1  # [s] within which `spin` notices a stop
ERROR_PERIOD = 2.0  # [s] between two reports of errors
RECORDER = "rosbag2_recorder"  # the node of `ros2 bag record`
GATE_PERIOD = 0.05  # [s] between two checks of a recorder's subscriptions
TRANSPORTS = "FASTDDS_BUILTIN_TRANSPORTS"

NodeT = TypeVar("NodeT", bound=Node)


class Stop:
    """Whether the program shall end; set by signals.

    Unlike threading.Event it has no lock: a signal handler interrupts the main thread anywhere, and would wait for ever
    for a lock that an interrupted handler holds. A launch ends its programs with several signals.
    """

    interrupts = False  # of the class: whether a signal also raises Interrupted, see `interruptible`
    _requested = False

    def set(self) -> None:
        """Request the end."""
        self._requested = True

    def is_set(self) -> bool:
        """Whether the end was requested."""
        return self._requested

    def wait(self, duration: float = math.inf) -> None:
        """Return when the end is requested, at the latest after `duration` [s]."""
        deadline = time.monotonic() + duration
        while not self._requested and (left := deadline - time.monotonic()) > 0.0:
            time.sleep(min(left, STOP_INTERVAL))


class Interrupted(BaseException):
    """A signal has ended work in `interruptible`."""


def run_program(
    name: str, make: Callable[[], NodeT], run: Callable[[NodeT, Stop], int], *, udp_only: bool = False
) -> int:
    """Run the node that `make` returns; return the exit code that `run` returns. A signal sets the Stop of `run`.

    A signal during `make` or in `interruptible` ends the program at once with 0. A ValueError, OSError or
    ParameterException of `make` is reported by `refused`; other errors keep their traceback. The node is destroyed at
    the end. udp_only: see participant_profile.
    """
    stop = Stop()

    def stop_on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()
        if Stop.interrupts:
            raise Interrupted

    for number in SIGNALS:
        if not (number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN):  # as with nohup
            signal.signal(number, stop_on_signal)
    try:
        with interruptible(), participant_profile(udp_only):
            try:
                node = _start(make)
                TopicWatch(node)
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


def _start(make: Callable[[], NodeT]) -> NodeT:
    """Start ROS and return the node. Raises ParameterError for an error of rcl, which some wrong variables cause."""
    try:
        rclpy.init(args=sys.argv, signal_handler_options=SignalHandlerOptions.NO)
        return make()
    except RuntimeError as error:
        if not type(error).__module__.startswith("rclpy"):
            raise
        found = f"ROS cannot start ({str(error).partition(', at /')[0].strip()})"
        raise ParameterError(f"{found}; correct what follows --ros-args, or `env | grep ROS`") from error


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """In this context of the main thread, a signal that `run_program` handles also raises Interrupted: for long work
    before anything is commanded, such as compiling a policy.
    """
    before, Stop.interrupts = Stop.interrupts, True
    try:
        yield
    finally:
        Stop.interrupts = before


def refused(name: str, error: Exception) -> int:
    """Print the error that keeps the program called `name` from running; return its exit code, 2."""
    print(f"{name}: {error}", file=sys.stderr)
    return REFUSED


class GuardedExecutor(SingleThreadedExecutor):
    """Executes the callbacks of one node. An error in a callback or in taking a message is logged; the node goes on.

    No message may end a node. A service that fails responds with the default values of its response: not successful.
    """

    def __init__(self, node: Node) -> None:
        super().__init__(context=node.context)
        self._logger = node.get_logger()
        for service in node.services:
            service.callback = partial(self._respond, service.callback)
        self.add_node(node)

    def spin_once(self, timeout_sec: float | None = None) -> None:
        """Execute one callback that becomes ready within `timeout_sec` [s]."""
        try:
            super().spin_once(timeout_sec)
        except ExternalShutdownException:
            raise
        except Exception as error:  # noqa: BLE001 the node goes on after every error
            self._report(error)

    def _respond(self, callback: Callable[[Any, Any], Any], request: Any, response: Any) -> Any:
        try:
            return callback(request, response)
        except Exception as error:  # noqa: BLE001 the node goes on after every error
            self._report(error)
            return type(response)()

    def _report(self, error: Exception) -> None:
        place, words = traceback.extract_tb(error.__traceback__)[-1], " ".join(str(error).split())
        what = f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}: {words:.200}"
        self._logger.error(f"a callback failed ({what}); the node goes on", throttle_duration_sec=ERROR_PERIOD)
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
    """Execute the node's callbacks in a second thread while this thread runs `work(stop, spinning)`.

    `spinning` is done if an error has ended the second thread; it is raised here after `work`.
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
    """Exempt all existing objects from later garbage collections, to keep those short."""
    gc.collect()
    gc.freeze()


def transition(work: Callable[[Any], None]) -> Any:
    """Return a callback of a managed node, such as on_configure, that calls `work(node)`; it fails with an exception.

    An exception is logged, as rclpy would drop it: a ValueError or OSError as one line, others with their traceback.
    """

    def callback(node: Any, _state: LifecycleState) -> TransitionCallbackReturn:
        try:
            work(node)
        except (ValueError, OSError) as refusal:
            node.get_logger().error(" ".join(str(refusal).split()))  # YAML's errors have several lines
            return FAILURE
        except Exception:  # noqa: BLE001 every error is logged
            node.get_logger().fatal(f"a transition has failed with an error\n{traceback.format_exc()}")
            return FAILURE
        return SUCCESS

    return callback


class RecorderGate:
    """Holds back an automatic start until RECORDER subscribes to all `topics`, or for `timeout` [s]; 0: it is open.

    A recorder subscribes to a topic after it has discovered its publisher, and misses all earlier messages. The node
    that publishes must check this: once it has discovered the subscription, its messages reach the recorder. topics: as
    named by the node's publishers, which exist already. Any thread may read `is_open`.
    """

    def __init__(self, node: Node, topics: Sequence[str], timeout: float) -> None:
        self._node, self._timeout, self._deadline = node, timeout, time.monotonic() + timeout
        self._missing = [node.resolve_topic_name(topic) for topic in topics]
        self.is_open = timeout <= 0.0

    def check(self) -> bool:
        """Look for missing subscriptions and return `is_open`; log how the waiting ended."""
        if self.is_open:
            return True
        infos, is_late = self._node.get_subscriptions_info_by_topic, time.monotonic() > self._deadline
        self._missing = [topic for topic in self._missing if all(one.node_name != RECORDER for one in infos(topic))]
        if not self._missing:
            self._node.get_logger().info("the recorder has subscribed; starting")
        elif is_late:
            found = f"no recorder has subscribed to {', '.join(self._missing)} within {self._timeout:g} s"
            self._node.get_logger().warning(f"{found}; starting: a recording lacks the beginning")
        self.is_open = is_late or not self._missing
        return self.is_open

    def wait(self, stop: Stop) -> None:
        """Check until it is open or `stop` is set."""
        while not self.check() and not stop.is_set():
            time.sleep(GATE_PERIOD)


@contextlib.contextmanager
def participant_profile(udp_only: bool = False) -> Iterator[None]:
    """Set the suite's Fast DDS profile for contexts of rclpy whose first node is created in this context.

    They announce themselves every 0.2 s. udp_only: they use UDP without shared memory, and only the loopback interface
    if ROS is limited to this computer. A user's own profile or transports, or another middleware, are not changed. Fast
    DDS reads the profile once per process, with the first node. The environment is restored afterwards, so that child
    processes do not inherit these settings as the user's.
    """
    before = dict(os.environ)
    is_local = before.get(DISCOVERY_RANGE) == "LOCALHOST" or before.get(LOCALHOST_ONLY) == "1"
    if "fastrtps" in (before.get(MIDDLEWARE) or "fastrtps") and not before.keys() & {*PROFILES, TRANSPORTS}:
        profile = "fastdds_announcement.xml" if not udp_only else "fastdds_udp.xml"
        if udp_only and is_local:  # ROS would add shared memory; this profile limits it to the loopback interface
            profile = "fastdds_udp_loopback.xml"
            os.environ.pop(LOCALHOST_ONLY, None)
            os.environ[DISCOVERY_RANGE] = "SUBNET"
        os.environ[PROFILES[0]] = str(Path(__file__).with_name(profile))
    try:
        yield
    finally:
        for name in (LOCALHOST_ONLY, DISCOVERY_RANGE, PROFILES[0]):
            os.environ.pop(name, None)
            if name in before:
                os.environ[name] = before[name]
