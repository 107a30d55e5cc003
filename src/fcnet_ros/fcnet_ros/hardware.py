"""The hardware interface of real and simulated robots, and the loop that exchanges data with them; hardware_node.py is
their node. As in ros2_control a robot is configured, activated, written to, read from and closed.
"""

import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt
from rclpy.node import Node
from rclpy.time import Time
from rosgraph_msgs.msg import Clock

from fcnet_core.errors import RefusedCommandError
from fcnet_core.names import MOTORS, SECOND
from fcnet_core.observation import SensorReading, TrunkPose
from fcnet_core.robot import Robot
from fcnet_ros.health import LoopStatistics
from fcnet_ros.parameters import RecorderParameters, parameter
from fcnet_ros.program import RecorderGate
from fcnet_ros.state_messages import OdomPublisher, StatePublisher
from fcnet_ros.targets import WAY, WAYS, JointCommand
from fcnet_ros.topics import CLOCK, IMU, JOINT_STATES, ODOM

CLOCK_PERIOD = SECOND // 50  # [ns] between two messages on /clock


@dataclass(frozen=True)
class HardwareParameters(RecorderParameters):
    """Parameters of all hardware."""

    auto_start: bool = parameter(False, "configure and activate at start; the joints stay damped until targets arrive")
    targets_over: str = parameter("dds", WAY, choices=WAYS)


@dataclass(frozen=True)
class Status:
    """State of the hardware for the diagnostics, or an event for the log: level, sentence, and values by key."""

    level: bytes
    sentence: str
    values: Mapping[str, str] = field(default_factory=dict)


class HardwareInterface(ABC):
    """One robot. After `close` it may be configured again.

    `write`, `read`, `on_published` and `damp_at_end` are called by the loop's thread, all other methods by the node's
    executor. `error` and `closed_by_user` may be read at any time.

    parameters: the dataclass of its parameters. part: its name in the diagnostics. robot: set by `configure`.
    period [s]: time between two reads. catch_up [s]: lateness up to which the loop skips no periods.
    cycles_per_state: number of reads per published state. statistics: those of the loop that drives the robot, if it is
    not the node's loop. can_wait: time stops between two reads, so the loop can wait for a recorder. has_clock: `time`
    is simulated and published on /clock. has_driver: the robot takes gains and emergency stops.
    """

    parameters: type[HardwareParameters]
    robot: Robot
    part = MOTORS
    statistics: LoopStatistics | None = None
    can_wait = False
    has_clock = False
    has_trunk_pose = False
    has_driver = False
    catch_up = 0.0
    cycles_per_state = 1
    period: float
    error = ""  # why the hardware can no longer be used
    closed_by_user = False

    @property
    def fault(self) -> str:
        """Why the robot has tripped; empty without a fault."""
        return ""

    @property
    def target_refusal(self) -> str:
        """Why targets would be refused now; empty if they would be accepted."""
        return ""

    @property
    def target_owner(self) -> str | None:
        """Whose targets are followed; empty: no one's; None: everyone's."""
        return None

    @abstractmethod
    def configure(self, node: Any, parameters: Any) -> None:
        """Connect to the robot and damp it. Raises ValueError or OSError; the node then calls `close`."""

    @abstractmethod
    def activate(self) -> None:
        """Let the joints follow targets."""

    @abstractmethod
    def deactivate(self) -> None:
        """Damp the joints and follow no targets until `activate`."""

    @abstractmethod
    def write(self, command: JointCommand) -> str | None:
        """Store a command for the next `read`; return why it is not followed, or None."""

    @abstractmethod
    def read(self) -> SensorReading | None:
        """Send the newest command to the robot and return a new state, None if there is none; called every period."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect from the robot, after the loop has ended."""

    @abstractmethod
    def status(self) -> Status:
        """Return the state for the diagnostics; called once a second."""

    def wait_until(self, deadline: float) -> float:
        """Wait for the next deadline [s, time.monotonic]; return it, or the newest one if periods are skipped."""
        late = time.monotonic() - deadline
        if late < 0:
            time.sleep(-late)
        if late <= self.catch_up:
            return deadline
        return deadline + int(late / self.period) * self.period

    @abstractmethod
    def damp_at_end(self) -> None:
        """Leave the motors damped, at the end of the loop or after an error in it."""

    @abstractmethod
    def on_published(self, reading: Any) -> None:
        """Do work on a state just published, in the rest of the period."""

    def time(self) -> int:
        """Return the time [ns] of the last `read` if `has_clock`; it is positive and never decreases."""
        raise NotImplementedError

    def trunk_pose(self) -> TrunkPose | None:
        """Return the pose at the last `read` if `has_trunk_pose`."""
        return None

    def take_events(self) -> Iterable[Status]:
        """Return the events since the last call."""
        return ()

    def condition(self) -> object:
        """Return a value whose change is reported at once; called every period."""
        return self.error

    def requests(self) -> Mapping[str, Callable[[], str]]:
        """Return the requests by service: each returns the text of its response, or raises ValueError."""
        return {}

    def emergency_stop(self) -> None:
        """Damp until reset, if `has_driver`."""
        raise NotImplementedError

    def set_gains(self, kp: npt.ArrayLike, kd: npt.ArrayLike) -> str | None:
        """Use stiffness and damping if `has_driver`; return why they are refused, or None."""
        raise NotImplementedError


class StateTopics:
    """Publishes the states of a configured robot and, if it is simulated, /clock and odom. For one thread at a time."""

    def __init__(self, node: Node, hardware: HardwareInterface) -> None:
        self._hardware, self._node_clock = hardware, node.get_clock()
        self._states = StatePublisher(node, hardware.robot.joint_names)
        self._odom = OdomPublisher(node) if hardware.has_trunk_pose else None
        self._clock = CLOCK.publisher(node) if hardware.has_clock else None
        self._ticked = 0  # time [ns] of the last message on /clock
        self.recorded = [JOINT_STATES.name, IMU.name, *([ODOM.name] if self._odom else [])]  # awaited by a recorder

    def time(self) -> int:
        """Return the robot's time [ns]: simulated if it has a clock, wall-clock time otherwise."""
        return self._hardware.time() if self._hardware.has_clock else int(self._node_clock.now().nanoseconds)

    def publish(self, reading: SensorReading) -> None:
        """Publish a state."""
        stamp = self.time()
        if self._clock is not None and not 0 < stamp - self._ticked < CLOCK_PERIOD:
            self._ticked = stamp
            self._clock.publish(Clock(clock=Time(nanoseconds=stamp).to_msg()))
        if self._odom is not None and (pose := self._hardware.trunk_pose()) is not None:
            self._odom.publish(pose, stamp)
        self._states.publish(reading, stamp)


class HardwareLoop:
    """Runs cycles in its own thread at absolute deadlines: take a command, exchange data with the robot, publish.

    take: returns the newest command or None; raises RefusedCommandError. publish: called with each state to publish, of
    StateTopics. on_change: called when the hardware's condition has changed. gate: until it is open no states are
    published, without which no controller moves the robot, and hardware that can wait is not read. states: statistics
    of the states read. refused: number of commands not followed; refusal: why the latest was not. error: traceback of
    the error that ended the loop.
    """

    def __init__(
        self,
        hardware: HardwareInterface,
        take: Callable[[], JointCommand | None],
        publish: Callable[[SensorReading], None],
        on_change: Callable[[], None],
        gate: RecorderGate,
    ) -> None:
        self.statistics = LoopStatistics("io_period", "io_work")  # between two reads; from wake-up to the end
        self.states = LoopStatistics()
        self.refused, self.refusal, self.error = 0, "", ""
        self._hardware, self._gate = hardware, gate
        self._take, self._publish, self._on_change = take, publish, on_change
        self._unpublished: SensorReading | None = None
        self._exchanged = time.monotonic()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hardware", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        for work in (self._run_cycles, self._hardware.damp_at_end):
            try:
                work()
            except Exception:  # noqa: BLE001 logged by the node
                self.error += traceback.format_exc()
        self._on_change()

    def _run_cycles(self) -> None:
        hardware, condition = self._hardware, None
        deadline = time.monotonic()
        while not self._stopping.is_set():
            due = deadline + hardware.period
            deadline = hardware.wait_until(due)
            self.statistics.misses += max(0, round((deadline - due) / hardware.period))
            if hardware.can_wait and not self._gate.is_open:
                continue
            self._cycle()
            if (current := hardware.condition()) != condition:
                condition = current
                self._on_change()

    def _cycle(self) -> None:
        began, statistics = time.monotonic(), self.statistics
        try:
            command = self._take()
            refusal = None if command is None else self._hardware.write(command)
        except RefusedCommandError as error:
            refusal = f"command refused: {error}"
        if refusal is not None:
            self.refused, self.refusal = self.refused + 1, refusal
        reading = self._hardware.read()
        exchanged = time.monotonic()
        statistics.add("io_period", exchanged - self._exchanged)
        self._exchanged = exchanged
        if reading is not None:
            self.states.cycles += 1
            self._unpublished = reading
        # Only new states: a repeated one would look fresh.
        if self._unpublished is not None and statistics.cycles % self._hardware.cycles_per_state == 0:
            if self._gate.is_open:
                self._publish(self._unpublished)
            self._hardware.on_published(self._unpublished)
            self._unpublished = None
        statistics.cycles += 1
        statistics.add("io_work", time.monotonic() - began)
