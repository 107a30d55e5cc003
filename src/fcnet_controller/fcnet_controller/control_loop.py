"""The control loop: a thread with absolute deadlines that runs a ControlCore."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from fcnet_controller.control_core import ControlCore
from fcnet_controller.interface import TargetPublisher
from fcnet_controller.posture import Mode
from fcnet_ros.state import StateReceiver

FRESH = 0.0003  # [s] a state younger than this at the deadline is used at once
LONGEST_WAIT = 0.005  # [s] or half a period; how long a cycle waits for a younger one, a period at 200 Hz
STALLED_PERIODS = 3  # a loop that was late by more, and by more than the longest age of a state, stood still
DAMPING_MESSAGES = 3  # sent at the end, a period apart: a process that ends at once takes with it what is not delivered
ACKNOWLEDGE_TIMEOUT = 0.5  # [s]


class ControlLoop:
    """Runs cycles in its own thread from `start` to `stop`, which leaves the robot damped.

    Each cycle begins at its deadline or, where states come regularly, with the next state after it: what is sent is
    then never older than the cycle itself. A cycle that comes a whole period late is left out and counted. `on_change`
    is called after every change of mode or fault, and at the end.
    """

    def __init__(
        self,
        core: ControlCore,
        receiver: StateReceiver,
        publisher: TargetPublisher,
        rate: float,
        on_change: Callable[[], None],
    ) -> None:
        self._core = core
        self._receiver = receiver
        self._publisher = publisher
        self._period = 1.0 / rate
        self._on_change = on_change
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)

    @property
    def is_running(self) -> bool:
        """Whether the thread is alive; an error in it ends it."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin to command the robot."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it; the last thing it sends is damping."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            self._run_cycles()
        finally:
            for _ in range(DAMPING_MESSAGES):
                self._publisher.publish(None)
                time.sleep(self._period)
            self._publisher.wait_until_received(ACKNOWLEDGE_TIMEOUT)
            self._on_change()

    def _run_cycles(self) -> None:
        core, deadline = self._core, time.monotonic()
        reported = (core.mode, core.fault)
        while not self._stopping.is_set():
            deadline = self._wait_until(deadline + self._period)
            core.prepare(time.monotonic())
            self._receiver.receive(deadline - FRESH, deadline + min(LONGEST_WAIT, 0.5 * self._period))
            self._publisher.publish(core.cycle(time.monotonic()))
            if core.policy_step is not None:
                self._publisher.publish_step(core.policy_step)
            if core.mode is Mode.WALKING:
                core.statistics.response.add(time.monotonic() - core.state.received)
            core.statistics.cycles += 1
            if (core.mode, core.fault) != reported:
                reported = (core.mode, core.fault)
                self._on_change()

    def _wait_until(self, deadline: float) -> float:
        """Sleep until the deadline; return it, or the newest one where whole periods have been missed."""
        remaining = deadline - time.monotonic()
        if remaining > 0:
            time.sleep(remaining)
        late = time.monotonic() - deadline
        self._core.statistics.wake.add(late)
        if late > STALLED_PERIODS * self._period:
            self._core.stop_after_stall(late)
        missed = int(late / self._period)
        self._core.statistics.misses += missed
        return deadline + missed * self._period
