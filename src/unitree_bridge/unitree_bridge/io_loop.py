"""The loop to the motor board: a thread with absolute deadlines, which never leaves the motors without a command."""

from __future__ import annotations

import ctypes
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fcnet_core.control_clock import LatencyRing
from fcnet_core.limiter import RefusedCommandError
from unitree_bridge.topics import RemotePublisher, StatePublisher, TargetReceiver
from unitree_lowlevel.driver import MotorDriver
from unitree_lowlevel.messages import LowCommand
from unitree_lowlevel.transport import Reception, Transport

# Figures of the loop to the motor board: how regular, how long, how often missed.

class IoStatistics:
    """What the loop has done since it was started; written by it, read by others.

    turns: turns run. misses: turns left out because an earlier one came a whole period late. states: good states
    received. period: from one command on the wire to the next. work: of one turn, from its awakening to its end.
    received: when the newest good state came [s, time.monotonic], or when the loop began.
    """

    def __init__(self, now: float) -> None:
        self.turns = 0
        self.misses = 0
        self.states = 0
        self.period = LatencyRing()
        self.work = LatencyRing()
        self.received = now


# Keeps the loop's turns from falling just before the states that they wait for.

SHIFT = 0.1  # of a period
INTERVAL = 0.5  # [s] between two shifts, so that they cost no more than 0.04 % of the rate


class StatePhase:
    """Tells when the loop should be a little later from now on.

    Robot and loop have the same period. Where a state comes at about the time of a turn, one turn finds none and the
    next finds two, of which one is of no use any more.
    """

    def __init__(self, period: float) -> None:
        self._shift = SHIFT * period
        self._received = 0
        self._missed = False
        self._shifted = float("-inf")

    def shift(self, received: int, now: float) -> float:
        """How much later the next turns should be [s], after a turn at time `now` [s] up to which so many states have
        been received in all.
        """
        arrived, self._received = received - self._received, received
        two_after_none = self._missed and arrived >= 2
        self._missed = arrived == 0
        if not two_after_none or now - self._shifted < INTERVAL:
            return 0.0
        self._shifted = now
        return self._shift


# What a thread that must not be late may ask of Linux; where it is not permitted, a sentence says so.

MCL_CURRENT = 1  # of mlockall; with MCL_FUTURE a limit reached later would end the process


def claim(realtime_priority: int, lock_memory: bool, cpu: int) -> Iterator[str]:
    """Ask for the calling thread: SCHED_FIFO at a priority (0: do not), memory that stays in place, one processor (-1:
    any). Yields a sentence for each wish that was not granted.
    """
    if realtime_priority:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(realtime_priority))
        except OSError as error:
            yield (
                f"no SCHED_FIFO priority {realtime_priority} ({error.strerror}): going on without; give this user an "
                "rtprio limit (docs/deployment.md)"
            )
    if lock_memory and ctypes.CDLL(None, use_errno=True).mlockall(MCL_CURRENT):
        yield (
            f"memory is not locked ({os.strerror(ctypes.get_errno())}): going on without; give this user a memlock "
            "limit (docs/deployment.md)"
        )
    if cpu >= 0:
        try:
            os.sched_setaffinity(0, {cpu})
        except OSError as error:
            yield f"the loop is not pinned to processor {cpu} ({error.strerror}): going on without; choose another"


REMOTE_PERIOD = 0.02  # [s]
FAREWELL = 0.12  # [s] of damping at the end, many times what a lossy network needs


@dataclass(frozen=True)
class LoopSettings:
    """How a loop runs: seconds per turn, turns per published state, and what its thread asks of the system."""

    period: float
    turns_per_state: int
    realtime_priority: int = 0
    lock_memory: bool = False
    cpu: int = -1


class IoLoop:
    """Runs turns in its own thread from `start` to `stop`: state in, command out, and only then the news to ROS.

    It ends with damping packets, also where an error has ended it; `error` then says which. A turn that comes a whole
    period late is left out and counted. `on_change` is called from the loop when phase, trip or warnings have changed.
    refused: how many commands were not followed; refusal: why the latest of them was not, in words.
    """

    def __init__(
        self,
        transport: Transport,
        driver: MotorDriver,
        targets: TargetReceiver,
        states: StatePublisher,
        remote: RemotePublisher,
        farewell: LowCommand,
        settings: LoopSettings,
        on_change: Callable[[], None],
    ) -> None:
        self.statistics = IoStatistics(time.monotonic())
        self.error = ""
        self.refused = 0
        self.refusal = ""
        self.refused_privileges: list[str] = []
        self._transport, self._driver = transport, driver
        self._targets, self._states, self._remote = targets, states, remote
        self._farewell = farewell
        self._settings = settings
        self._on_change = on_change
        self._turns_per_remote = max(1, round(REMOTE_PERIOD / settings.period))
        self._unpublished: Reception | None = None
        self._sent = time.monotonic()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="io", daemon=True)

    @property
    def is_running(self) -> bool:
        """Whether the thread is alive; an error in it ends it."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin to talk to the board."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it; the last thing it sends is damping."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            settings = self._settings
            self.refused_privileges.extend(claim(settings.realtime_priority, settings.lock_memory, settings.cpu))
            self._run_turns()
        except Exception:  # noqa: BLE001 told by whoever started the loop
            self.error = traceback.format_exc()
        self._say_farewell()
        self._on_change()

    def _run_turns(self) -> None:
        driver, told = self._driver, None
        phase = StatePhase(self._settings.period)
        deadline = time.monotonic()
        while not self._stopping.is_set():
            deadline = self._wait_until(deadline + self._settings.period)
            self._turn()
            deadline += phase.shift(self._transport.counters.received, deadline)
            if (news := (driver.mode, driver.trip, driver.warnings)) != told:
                told = news
                self._on_change()

    def _wait_until(self, deadline: float) -> float:
        """Sleep until the deadline; return it, or the newest one where whole periods have been missed."""
        remaining = deadline - time.monotonic()
        if remaining > 0:
            time.sleep(remaining)
            return deadline
        missed = int(-remaining / self._settings.period)
        self.statistics.misses += missed
        return deadline + missed * self._settings.period

    def _turn(self) -> None:
        began = time.monotonic()
        transport, driver, statistics = self._transport, self._driver, self.statistics
        reception = transport.receive()
        if (refusal := self._obey(began)) is not None:
            self.refused, self.refusal = self.refused + 1, refusal
        transport.send(driver.cycle(time.monotonic(), reception, transport.counters))
        sent = time.monotonic()
        statistics.period.add(sent - self._sent)
        self._sent = sent
        self._tell(reception)
        statistics.turns += 1
        statistics.work.add(time.monotonic() - began)

    def _obey(self, now: float) -> str | None:
        """Hand the driver what has been commanded since the last turn; returns why it is not followed."""
        try:
            command = self._targets.take()
        except RefusedCommandError as error:
            return f"command refused: {error}"
        if command is None:
            return None
        if command.targets is None:
            self._driver.damp()
            return None
        return self._driver.set_targets(command.targets, now)

    def _tell(self, reception: Reception | None) -> None:
        """Publish only what is new: a state that is repeated would look fresh."""
        statistics = self.statistics
        if reception is not None:
            statistics.states, statistics.received = statistics.states + 1, reception.received
            self._unpublished = reception
        if self._unpublished is None:
            return
        if statistics.turns % self._turns_per_remote == 0:
            self._remote.publish(self._unpublished.state.remote)
        if statistics.turns % self._settings.turns_per_state == 0:
            self._states.publish(self._unpublished.state)
            self._unpublished = None

    def _say_farewell(self) -> None:
        end = time.monotonic() + FAREWELL
        try:
            while time.monotonic() < end:
                self._transport.send(self._farewell)
                time.sleep(self._settings.period)
        except Exception:  # noqa: BLE001 told by whoever started the loop
            self.error += traceback.format_exc()
