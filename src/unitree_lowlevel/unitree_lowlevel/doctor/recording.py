"""The states of a robot while its motors are kept off: for a few seconds, or while a person moves its joints."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.robot import JOINT_NAMES
from unitree_lowlevel.codec import OFF, POSITION_STOP, LowCommand, LowState
from unitree_lowlevel.transport import Transport, TransportCounters

PERIOD = 0.002  # [s] of commands, as the vendor's examples send them
_POLL = 0.0003  # [s] between two receptions
_LATEST = 0.1  # [s] in which an answer comes, or never
_PAUSE = 0.2  # [s] without a command after that, to see whether states go on
_ANSWERS = 25  # commands whose answer is timed
_MOVED = 0.15  # [rad] since the joint was last named
_ZERO = np.zeros(12)
MOTORS_OFF = LowCommand(np.full(12, OFF, dtype=np.uint8), np.full(12, POSITION_STOP), _ZERO, _ZERO, _ZERO, _ZERO)


@dataclass(frozen=True)
class Recording:
    """Everything received within `duration` [s] of commands every 2 ms.

    states: the newest good one of each reception; lateness [s] of every command (m,), this computer's; unasked: states
    that came in a pause without commands; answer_times [s] from single commands to their answers, where none came
    unasked; counters: the transport's, at the end of the commands.
    """

    duration: float
    states: list[LowState]
    lateness: Array
    unasked: int
    answer_times: Array
    counters: TransportCounters

    @property
    def newest(self) -> LowState:
        """The last state."""
        return self.states[-1]

    @property
    def ticks(self) -> Array:
        """The boards' times of the states (n,)."""
        return np.array([state.tick for state in self.states], dtype=np.float64)

    @property
    def runs_free(self) -> bool:
        """Whether states come without commands."""
        return self.unasked > 0


def record(transport: Transport, seconds: float) -> Recording:
    """Exchange packets with the robot through an open transport; takes about one second more than `seconds`."""
    states: list[LowState] = []
    lateness: list[float] = []
    start = due = time.monotonic()
    while (now := time.monotonic()) < start + seconds:
        if now >= due:
            lateness.append(now - due)
            transport.send(MOTORS_OFF)
            due = max(due + PERIOD, now)
        if (reception := transport.receive()) is not None:
            states.append(reception.state)
        time.sleep(_POLL)
    duration = time.monotonic() - start
    counters = replace(transport.counters, rejected=dict(transport.counters.rejected))
    unasked = _unasked(transport) if states else 0
    answer_times = _answer_times(transport) if states and not unasked else np.zeros(0)
    return Recording(duration, states, np.array(lateness), unasked, answer_times, counters)


def watch_joints(transport: Transport, seconds: float) -> list[str]:
    """Print the name of every joint that a person moves within `seconds`, motors off; returns the names in their order.

    This is the one check of the joint order that no number can cheat.
    """
    print(f"Move one joint after the other by hand for {seconds:g} s; its name and its angle appear here.", flush=True)
    named, resting = [], None
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        transport.send(MOTORS_OFF)
        time.sleep(PERIOD)
        if (reception := transport.receive()) is None:
            continue
        position = reception.state.position
        resting = position.copy() if resting is None else resting
        joint = int(np.argmax(np.abs(position - resting)))
        if abs(position[joint] - resting[joint]) > _MOVED:
            resting[joint] = position[joint]
            named.append(JOINT_NAMES[joint])
            print(f"  {JOINT_NAMES[joint]:<16} {position[joint]:+.2f} rad", flush=True)
    return named


def _unasked(transport: Transport) -> int:
    """States that come although no command has been sent for a while."""
    time.sleep(_LATEST)
    transport.receive()
    before = transport.counters.received
    time.sleep(_PAUSE)
    transport.receive()
    return transport.counters.received - before


def _answer_times(transport: Transport) -> Array:
    """Times [s] from a command to its answer, where one came; nothing may be under way at the beginning."""
    found = []
    for _ in range(_ANSWERS):
        asked = time.monotonic()
        transport.send(MOTORS_OFF)
        while time.monotonic() < asked + _LATEST:
            if (reception := transport.receive()) is not None:
                found.append(reception.received - asked)
                break
            time.sleep(_POLL)
    return np.array(found)
