"""Every fault of the fault matrix, and what the design says must follow from it in each mode.

The expectations are the design's, not what happens to come out: a cell that does otherwise is an error of one of both.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unitree_lowlevel.codec import RemoteState
from unitree_lowlevel.fake_board.faults import BoardFaults

if TYPE_CHECKING:
    from fault_rig import FaultRig, LocalBoard

    Rig = FaultRig[LocalBoard]

SOFT_MODES = ("passive", "fault")  # in which no joint is stiff
MODES = ("passive", "standing_up", "standing", "walking", "lying_down", "fault")

# Outcomes. "trip NAME": the bridge damps, latched until reset; "warning NAME": in diagnostics, while the robot goes on.
TOLERATED = "tolerated"  # nothing at all
DAMPED = "damped"  # damping that nothing has latched
CONTROLLER_FAULT = "controller's fault"  # damped and latched by the controller, which saw it first
NO_FAULTS = BoardFaults()
RESTART_TIME = 5.0  # [s] for a bridge: its imports, a second of discovery, and a computer of two cores


def nothing(_rig: Rig) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class FaultCase:
    """A fault, and the outcomes ("one | another") allowed where joints follow targets and where they are soft.

    deadline [s]: within which the joints must be damped where that is expected, from the thresholds in the robot's
    file with room for a computer of two cores. faults: of the board and its line; intruder: see FaultRig; begin and
    end: what else happens.
    """

    name: str
    following: str
    soft: str
    deadline: float = 0.3
    faults: BoardFaults = NO_FAULTS
    intruder: str = ""
    begin: Callable[[Rig], Any] = nothing
    end: Callable[[Rig], Any] = nothing

    def expected(self, mode: str) -> list[str]:
        """The outcomes allowed in this mode."""
        return (self.soft if mode in SOFT_MODES else self.following).split(" | ")

    def must_damp(self, mode: str) -> bool:
        """Whether the joints must be damped."""
        return not any(outcome == TOLERATED or outcome.startswith("warning") for outcome in self.expected(mode))


def _board(name: str, following: str, soft: str, deadline: float = 0.3, **faults: Any) -> FaultCase:
    """A fault of the board or of its line."""
    return FaultCase(name, following, soft, deadline, BoardFaults(**faults))


def _resume_controller(rig: Rig) -> None:
    """Let the controller go on, and see for a second that the robot does not."""
    rig.send("controller", signal.SIGCONT)
    time.sleep(1.0)


_POSITION = "trip joint_position | trip joint_error | trip joint_velocity"
_FROZEN = f"trip frozen_state | {CONTROLLER_FAULT}"
# An error of less than max_joint_error is a leg that works hard; standing, there is none at all.
_BLOCKED = f"trip joint_error | trip joint_torque | trip tilt | {CONTROLLER_FAULT} | {TOLERATED}"

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
    _board("velocity 40 rad/s", "trip joint_velocity | trip motor_power", TOLERATED, 0.5, velocity_spike=40.0),
    _board("torque +40 Nm", "trip joint_torque | trip motor_power", TOLERATED, 1.0, torque_offset=40.0),
    _board("power 2000 W", "trip motor_power", TOLERATED, 0.5, power=2000.0),
    _board("motors at 70 C", "warning temperature", "warning temperature", temperature=70.0),
    _board("motors at 90 C", "trip temperature", "trip temperature", temperature=90.0),
    _board("tilt 1.2 rad", "trip tilt", "warning tilt", tilt=(1.2, 0.0)),
    _board("dead motor FR_calf_joint", "trip servo_lost", TOLERATED, dead_motor="FR_calf_joint"),
    _board("blocked FR_calf_joint", _BLOCKED, TOLERATED, 2.5, blocked_joint="FR_calf_joint"),
    # An operator.
    _board("B on the remote", "trip remote_stop", "trip remote_stop", remote=RemoteState(buttons=frozenset({"B"}))),
    # Whole programs and ROS. What has ended is started again by the recovery.
    FaultCase("board restarts", TOLERATED, TOLERATED, begin=lambda rig: rig.board.restart()),
    FaultCase(
        "bridge's emergency_stop",
        "trip emergency_stop",
        "trip emergency_stop",
        deadline=0.5,
        begin=lambda rig: rig.client.emergency_stop(f"{rig.robot.name}_bridge"),
    ),
    FaultCase(
        "controller killed (-9)",
        DAMPED,
        TOLERATED,
        deadline=0.1,
        begin=lambda rig: rig.send("controller", signal.SIGKILL),
        end=lambda rig: rig.end("controller"),
    ),
    FaultCase(
        "controller stopped (SIGSTOP)",
        DAMPED,
        TOLERATED,
        deadline=0.1,
        begin=lambda rig: rig.send("controller", signal.SIGSTOP),
        end=_resume_controller,
    ),
    # The bridge keeps the newest message alone: an intruder in step with the controller hides its targets.
    FaultCase("NaN in joint_trajectory", f"{TOLERATED} | {DAMPED}", TOLERATED, intruder="nan"),
    FaultCase("jump in joint_trajectory", "trip target_jump", TOLERATED, intruder="jump"),
    FaultCase(
        "bridge ended (SIGTERM)",
        DAMPED,
        TOLERATED,
        begin=lambda rig: rig.send("bridge", signal.SIGTERM),
        end=lambda rig: rig.end("bridge"),
    ),
    FaultCase(
        # The board holds the last command until the next bridge is there: the worst that a board can do.
        "bridge killed (-9), started again",
        f"{DAMPED} | {CONTROLLER_FAULT}",
        TOLERATED,
        deadline=RESTART_TIME,
        begin=lambda rig: rig.replace_bridge(),
    ),
)
