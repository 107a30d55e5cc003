"""The faults of the fault matrix, with the outcome that the design requires in each mode.

A cell with another outcome is an error of the design or of the code.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from unitree_lowlevel.codec import RemoteState
from unitree_lowlevel.fake_board.faults import NONE, BoardFaults

if TYPE_CHECKING:
    from distortions import Change
    from fault_rig import FaultRig as Rig

SOFT_MODES = ("passive", "fault")  # in which no joint is stiff
MODES = ("passive", "standing_up", "standing", "walking", "lying_down", "recovering", "fault")

# Outcomes. "trip NAME": the bridge damps, latched until reset; "warning NAME": in diagnostics, while the robot goes on.
TOLERATED = "tolerated"  # nothing at all
DAMPED = "damped"  # damping that nothing has latched
CONTROLLER_FAULT = "controller's fault"  # damped and latched by the controller, which saw it first
LET_GO = f"{DAMPED} | {CONTROLLER_FAULT}"
BUSY = f"{LET_GO} | trip io_process | trip loop_late | warning loop_late"  # of a busy computer
UNCHANGED = f"{TOLERATED} | {BUSY}"  # the fault changes nothing; the attack itself takes time from the processes


@dataclass(frozen=True)
class FaultCase:
    """A fault, and the outcomes ("one | another") allowed if joints follow targets and if they are soft; recovering: of
    a robot that turns over, if they differ.

    deadline [s]: within which the joints must be damped if that is expected, from the thresholds in the robot's file,
    with room for a computer of two cores. faults: of the board and its line; change: of its datagrams, see distortions;
    begin and end: other actions. ends: the program that may exit, "bridge" or "controller". controller_fault: whether
    the controller must be in fault at last if it commands joints.
    """

    name: str
    following: str
    soft: str
    deadline: float = 0.3
    faults: BoardFaults = NONE
    change: Change | None = None
    begin: Callable[[Rig], Any] = lambda _rig: None
    end: Callable[[Rig], Any] = lambda _rig: None
    ends: str = ""
    controller_fault: bool = False
    recovering: str = ""

    def expected(self, mode: str) -> list[str]:
        """The outcomes allowed in this mode."""
        if mode == "recovering" and self.recovering:
            return self.recovering.split(" | ")
        return (self.soft if mode in SOFT_MODES else self.following).split(" | ")

    def must_damp(self, mode: str) -> bool:
        """Whether the joints must be damped."""
        return not any(outcome == TOLERATED or outcome.startswith("warning") for outcome in self.expected(mode))


def _board(
    name: str, following: str, soft: str, deadline: float = 0.3, recovering: str = "", **faults: Any
) -> FaultCase:
    """A fault of the board or of its line."""
    return FaultCase(name, following, soft, deadline, BoardFaults(**faults), recovering=recovering)


def signalled(
    name: str,
    number: signal.Signals,
    *processes: str,
    following: str = "",
    lasting: float = 0.0,
    deadline: float = 0.1,
    ends: str = "",
) -> FaultCase:
    """A signal to processes; SIGSTOP for `lasting` [s]. By default the joints are damped, and stay so; programs that
    exited are started by the recovery.
    """

    def begin(rig: Rig) -> None:
        for process in [rig.process_id(process) for process in processes]:
            with suppress(ProcessLookupError):
                os.kill(process, number)
            if number is signal.SIGSTOP:
                threading.Timer(lasting, os.kill, (process, signal.SIGCONT)).start()

    def end(rig: Rig) -> None:
        time.sleep(lasting + 0.7)
        if ends and number is not signal.SIGKILL:
            rig.end(ends)

    by_io = " | trip io_process" if "io" in processes or "io_process" in following else ""
    following, soft = following or f"{LET_GO}{by_io}", f"{TOLERATED}{by_io}"
    return FaultCase(name, following, soft, deadline, begin=begin, end=end, ends=ends)


def stopped(process: str, duration: float, following: str = "") -> FaultCase:
    """A process that is stopped for `duration` [s]."""
    name = f"{process} stopped for {duration:g} s"
    return signalled(name, signal.SIGSTOP, process, following=following, lasting=duration)


def _late_io() -> FaultCase:
    """An I/O process that is stopped for 18 ms out of each 20 ms."""
    ended = threading.Event()

    def run(number: int) -> None:
        while not ended.is_set():
            os.kill(number, signal.SIGSTOP)
            time.sleep(0.018)
            os.kill(number, signal.SIGCONT)
            time.sleep(0.002)

    def begin(rig: Rig) -> None:
        ended.clear()
        threading.Thread(target=run, args=(rig.process_id("io"),), daemon=True).start()

    def end(_rig: Rig) -> None:
        ended.set()
        time.sleep(0.02)

    return FaultCase("I/O process gets 2 ms in 20", "trip loop_late", TOLERATED, 2.0, begin=begin, end=end)


_POSITION = "trip joint_position | trip joint_error | trip joint_velocity | trip velocity_mismatch"
_FROZEN = f"trip frozen_state | trip velocity_mismatch | {CONTROLLER_FAULT}"
_FAST = "trip joint_velocity | trip motor_power | trip velocity_mismatch"
_STOP = "trip emergency_stop"
_LOST = f"{TOLERATED} | warning remote_lost"
_ODD_VELOCITY = f"{TOLERATED} | warning velocity_mismatch"
# An error of less than max_joint_error is a leg that works hard; standing, there is none at all.
_BLOCKED = f"trip joint_error | trip joint_torque | trip tilt | {CONTROLLER_FAULT} | {TOLERATED}"

_TURNS_OVER = f"{TOLERATED} | {CONTROLLER_FAULT}"  # who turns over is tilted and turns, and gives up at last

CASES = (
    # The line.
    _board("1 % loss, 2 ms jitter", TOLERATED, TOLERATED, loss=0.01, jitter=0.002),
    _board("delay 5 ms", TOLERATED, TOLERATED, delay=0.005),
    _board("delay 200 ms", "trip stale_state", f"{TOLERATED} | warning stale_state", delay=0.2),
    _board("jitter 10 ms", TOLERATED, TOLERATED, jitter=0.01),
    _board("duplicates 20 %", TOLERATED, TOLERATED, duplicates=0.2),
    _board("reordering 10 %", TOLERATED, TOLERATED, reordering=0.1),
    _board("loss 12 %", "warning packet_loss", "warning packet_loss", loss=0.12),
    _board("loss 40 %", "trip packet_loss", "warning packet_loss", deadline=1.5, loss=0.4),
    _board("cable pulled (loss 100 %)", "trip stale_state", "warning stale_state", loss=1.0),
    _board("corruption 1 %", "warning rejected_packets", "warning rejected_packets", corruption=0.01),
    _board("corruption 100 %", "trip stale_state", "warning stale_state", corruption=1.0),
    # The board.
    _board("silence", "trip stale_state", "warning stale_state", silence=True),
    _board("frozen tick", "trip frozen_state", "warning frozen_state", frozen_tick=True),
    _board("frozen sensors", _FROZEN, "warning frozen_state", deadline=0.5, frozen_state=True),
    _board("NaN in a state", "trip not_finite", "warning not_finite", not_finite=True),
    _board("other generation", "trip stale_state", "warning stale_state", other_generation=True),
    _board("other robot", "trip identity", "trip identity", other_robot=True),
    _board("foreign source", "warning foreign_packets", "warning foreign_packets", foreign_source=True),
    # The body.
    _board("joints outside limits", _POSITION, "warning joint_position", outside_limits=True),
    _board("joint offset 1.2 rad", _POSITION, "warning joint_position", deadline=0.5, joint_offset=1.2),
    _board("velocity spikes in 2 %", TOLERATED, TOLERATED, velocity_spike=30.0, spike_share=0.02),
    _board("velocity 40 rad/s", _FAST, _ODD_VELOCITY, 0.5, velocity_spike=40.0),
    _board("velocity 8 rad/s, positions unchanged", "trip velocity_mismatch", _ODD_VELOCITY, 0.6, velocity_spike=8.0),
    _board("torque +40 Nm", "trip joint_torque | trip motor_power", TOLERATED, 1.0, torque_offset=40.0),
    _board("power 2000 W", "trip motor_power", TOLERATED, 0.5, power=2000.0),
    _board("motors at 70 C", "warning temperature", "warning temperature", temperature=70.0),
    _board("motors at 90 C", "trip temperature", "trip temperature", temperature=90.0),
    _board("trunk turns at 5 rad/s", "trip fall_rate", f"{TOLERATED} | warning fall_rate", 0.4, _TURNS_OVER, spin=5.0),
    _board("tilt 1.2 rad", "trip tilt", "warning tilt", recovering=_TURNS_OVER, tilt=(1.2, 0.0)),
    _board("dead motor FR_calf_joint", "trip servo_lost", TOLERATED, dead_motor="FR_calf_joint"),
    _board("blocked FR_calf_joint", _BLOCKED, TOLERATED, 2.5, blocked_joint="FR_calf_joint"),
    # An operator.
    _board("B on the remote", "trip remote_stop", "trip remote_stop", remote=RemoteState(buttons=frozenset({"B"}))),
    _board("remote frozen, stick held", "warning remote_lost", _LOST, remote=RemoteState(ly=0.5), remote_frozen=True),
    # Whole programs and ROS. Programs that exited are started again by the recovery.
    FaultCase("board restarts", TOLERATED, TOLERATED, begin=lambda rig: rig.board.restart()),
    FaultCase("bridge's emergency_stop", _STOP, _STOP, 0.5, begin=lambda rig: rig.client.emergency_stop(rig.bridge)),
    signalled("controller killed (-9)", signal.SIGKILL, "controller", ends="controller"),
    signalled("bridge killed (-9)", signal.SIGKILL, "bridge", ends="bridge"),
    signalled("io killed (-9)", signal.SIGKILL, "io", ends="bridge"),
    stopped("controller", 0.5),
    *(stopped(process, duration) for process in ("bridge", "io") for duration in (0.5, 3.0)),
    _late_io(),
    replace(stopped("controller", 0.15), name="controller late by 0.15 s", controller_fault=True),
    signalled("bridge ended (SIGTERM)", signal.SIGTERM, "bridge", following=DAMPED, deadline=0.3, ends="bridge"),
)
