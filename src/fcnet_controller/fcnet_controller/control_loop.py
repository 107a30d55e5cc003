"""The control loop: a thread that runs the controller's cycles, at the pace of real or of simulated time.

Real time has absolute deadlines, as a robot needs. Simulated time is the time of the states' stamps: each control
period has one cycle, however long that takes, and its targets have the stamp of the state that they answer. A simulator
in lockstep waits for them (sim_bridge/lockstep.py).
"""

import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rclpy.duration import Duration

from fcnet_core.control.controller import Controller
from fcnet_core.control.timing import NEVER, TIME_OF_DAY
from fcnet_core.names import SECOND, Mode
from fcnet_ros.health import LoopStatistics
from fcnet_ros.one_publisher import OnePublisher
from fcnet_ros.state_messages import StateReceiver
from fcnet_ros.targets import TargetPublisher

FRESH = 0.0003  # [s] a state younger than this at the deadline is used immediately
LONGEST_WAIT = 0.005  # [s] or half a period; how long a cycle waits for a younger one, a period at 200 Hz
STALLED_PERIODS = 3  # a loop that was late by more, and by more than the maximum age of a state, stood still
DAMPING_MESSAGES = 3  # sent at the end, a period apart: messages that are not delivered are lost with the process
ACKNOWLEDGE_TIMEOUT = Duration(seconds=0.5)
POLL_PERIOD = 0.001  # [s] between two looks for the next state of a simulation
TOLERANCE = 1e-6  # [s] of stamps


@dataclass
class Pace(ABC):
    """When cycles are due, `period` [s] apart, and the controller's time. Targets go to `publisher`.

    commands: the operators', and the bridge's reports, polled before each cycle.
    """

    controller: Controller
    receiver: StateReceiver
    statistics: LoopStatistics
    period: float
    publisher: TargetPublisher
    commands: list[OnePublisher] = field(default_factory=list)

    def prepare(self, now: float) -> None:
        """Do the part of the cycle at time `now` [s] that needs no state."""
        for message in self.commands:
            message.store(NEVER)
        self.controller.prepare(now)

    @abstractmethod
    def now(self) -> float:
        """Return the controller's time [s]; any thread may ask."""

    @abstractmethod
    def cycles(self, stopping: Callable[[], bool]) -> Iterator[float]:
        """Yield the time [s] of each cycle, until `stopping()`; the controller is prepared and has its state then."""

    def is_stalled(self) -> bool:
        """Return whether the loop has stood still in this cycle, so that earlier decisions must not be sent."""
        return False

    def stamp(self) -> int | None:
        """Return the stamp [ns] of the targets that are sent next; None for the time of sending."""
        return None


class RealTimePace(Pace):
    """Absolute deadlines.

    Each cycle starts at its deadline or, if states come regularly, with the next state after it: the state is then
    never older than the cycle. A cycle that is late by a whole period is left out and counted.
    """

    _deadline = 0.0

    def now(self) -> float:
        return time.monotonic()

    def cycles(self, stopping: Callable[[], bool]) -> Iterator[float]:
        self._deadline = time.monotonic()
        while not stopping():
            self._deadline += self.period
            if (remaining := self._deadline - time.monotonic()) > 0:
                time.sleep(remaining)
            late = time.monotonic() - self._deadline
            self.statistics.add("wake", late)
            self.is_stalled()
            missed = int(late / self.period)
            self.statistics.misses += missed
            self._deadline += missed * self.period  # the newest deadline
            self.prepare(time.monotonic())
            self.receiver.receive(self._deadline - FRESH, self._deadline + min(LONGEST_WAIT, 0.5 * self.period))
            self.is_stalled()
            yield time.monotonic()

    def is_stalled(self) -> bool:
        """Return whether the loop has stood still since the deadline; the controller is then in fault."""
        late = time.monotonic() - self._deadline
        return late > STALLED_PERIODS * self.period and self.controller.stop_after_stall(late)


class SimulatedPace(Pace):
    """A cycle for every period of the states' stamps, which start near zero and advance as the simulator likes.

    A repeated state has not been answered: the last targets are sent again. States with the time of day are a real
    robot's and get no targets. Periods without a state are counted as misses.
    """

    _answered = _due = NEVER  # stamp [s] of the state of the last cycle, and of the next one at least
    _sent = 0  # stamp [ns] of the last targets

    def now(self) -> float:
        """Return the stamp [s] of the state of the last cycle, 0 before the first."""
        return max(self._answered, 0.0)

    def cycles(self, stopping: Callable[[], bool]) -> Iterator[float]:
        while not stopping():
            if not self.receiver.poll():
                time.sleep(POLL_PERIOD)
                continue
            stamp = self.controller.state.joints_stamp
            if stamp != self.controller.state.imu_stamp or stamp >= TIME_OF_DAY:
                continue
            if stamp == self._answered:
                self.publisher.repeat()
            elif stamp > self._due - TOLERANCE or stamp < self._answered:
                if stamp < self._answered:
                    self.controller.commands.clear()  # of another time: they would count again
                    times = f"from {self._answered:.2f} s to {stamp:.2f} s"
                    self.controller.stop(f"simulated time went back {times}; the simulator was restarted")
                late = stamp - self._due
                if not TOLERANCE - self.period < late < self.period - TOLERANCE:
                    self.statistics.misses += int(late / self.period + TOLERANCE) if 0.0 < late < math.inf else 0
                    self._due = stamp
                self._due += self.period
                self._answered, self._sent = stamp, round(stamp * SECOND) - 1
                self.prepare(stamp)
                yield stamp

    def stamp(self) -> int:
        """Return the answered state's stamp [ns]; for further targets the next after it."""
        self._sent += 1
        return self._sent


class ControlLoop(threading.Thread):
    """The thread that runs cycles from `start` to `stop`, which leaves the robot damped.

    `on_change` is called after every change of mode or fault, and at the end; `on_start` first, in the thread.
    """

    def __init__(self, pace: Pace, on_change: Callable[[], None], on_start: Callable[[], None] = lambda: None) -> None:
        super().__init__(name="control", daemon=True)
        self._pace, self._publisher = pace, pace.publisher
        self._on_change, self._on_start = on_change, on_start
        self._stopping = threading.Event()
        self._ended = False

    @property
    def is_running(self) -> bool:
        """Whether cycles run; after an error it is false when `on_change` is called, in the thread itself."""
        return self.is_alive() and not self._ended

    def stop(self) -> None:
        """End the thread and wait for it; its last messages are damping."""
        self._stopping.set()
        if self.is_alive():
            self.join()

    def run(self) -> None:
        """Run the cycles, in the thread."""
        try:
            self._on_start()
            self._run_cycles()
        finally:
            try:
                for _ in range(DAMPING_MESSAGES):
                    self._publisher.publish(None, self._pace.stamp())
                    time.sleep(self._pace.period)
                self._publisher.publishers[0].wait_for_all_acked(ACKNOWLEDGE_TIMEOUT)
            finally:
                self._ended = True
                self._on_change()

    def _run_cycles(self) -> None:
        controller, pace, statistics = self._pace.controller, self._pace, self._pace.statistics
        reported = (controller.mode, controller.fault)
        for now in pace.cycles(self._stopping.is_set):
            targets = controller.cycle(now)
            # If the process was stopped in the middle of the cycle, its targets are not sent afterwards.
            self._publisher.publish(None if pace.is_stalled() else targets, pace.stamp())
            if controller.policy_step is not None:
                self._publisher.publish_step(controller.policy_step)
            if controller.mode is Mode.WALKING:
                statistics.add("response", time.monotonic() - pace.receiver.received)
            statistics.cycles += 1
            if (controller.mode, controller.fault) != reported:
                reported = (controller.mode, controller.fault)
                self._on_change()
