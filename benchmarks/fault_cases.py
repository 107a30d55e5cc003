"""Every fault of the fault matrix, and what the design says must follow from it in each mode.

The expectations are the design's, not what happens to come out: a cell that does otherwise is an error of one of both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unitree_lowlevel.fake_board.faults import BoardFaults
from unitree_lowlevel.messages import RemoteState

if TYPE_CHECKING:
    from fault_rig import FaultRig

DAMPED = ("passive", "fault")  # modes in which no joint is stiff
FOLLOWING = ("standing_up", "standing", "walking", "lying_down")
MODES = ("passive", "standing_up", "standing", "walking", "lying_down", "fault")

# What may follow: "trip NAME" latches damping until reset, "damped" is damping that nobody latched, "told NAME" is a
# warning in /diagnostics while the robot goes on, "tolerated" is nothing at all.
TOLERATED = "tolerated"
LET_GO = "damped"
RESTART_TIME = 5.0  # [s] for a bridge: its imports, a second of looking for others, and a computer of two cores
BY_CONTROLLER = "controller's fault"  # damped and latched by the controller, which saw it first


@dataclass(frozen=True)
class FaultCase:
    """A fault, how it begins and ends, and what may follow while joints follow targets and while they are damped.

    `deadline` [s]: within which the joints must be let go where that is expected, from the thresholds in the robot's
    file with room for a computer of two cores.
    """

    name: str
    following: tuple[str, ...]
    damped: tuple[str, ...]
    deadline: float
    begin: Callable[[FaultRig], None]
    end: Callable[[FaultRig], None]
    modes: tuple[str, ...] = MODES

    def expected(self, mode: str) -> tuple[str, ...]:
        """What may follow in this mode."""
        return self.damped if mode in DAMPED else self.following

    def tolerated(self, mode: str) -> bool:
        """Whether nothing need be said about it."""
        return TOLERATED in self.expected(mode)

    def lets_go(self, mode: str) -> bool:
        """Whether the joints must be let go."""
        return not any(outcome == TOLERATED or outcome.startswith("told") for outcome in self.expected(mode))


_STALE = ("trip stale_state",), ("told stale_state",)
_FROZEN = ("trip frozen_state",), ("told frozen_state",)
_POSITION = ("trip joint_position", "trip joint_error", "trip joint_velocity"), ("told joint_position",)
_PASSES = (TOLERATED,), (TOLERATED,)
_STOP = RemoteState(buttons=frozenset({"B"}))


def _alike(outcome: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return (outcome,), (outcome,)


# Faults of the board and of its line: name, fault, what may follow in FOLLOWING and in DAMPED modes, deadline [s].
BOARD_FAULTS: tuple[tuple[str, BoardFaults, tuple[tuple[str, ...], tuple[str, ...]], float], ...] = (
    # The line.
    ("1 % loss, 2 ms jitter", BoardFaults(loss=0.01, jitter=0.002), _PASSES, 0.3),
    ("delay 5 ms", BoardFaults(delay=0.005), _PASSES, 0.3),
    ("delay 200 ms", BoardFaults(delay=0.2), (_STALE[0], (TOLERATED, "told stale_state")), 0.3),
    ("jitter 10 ms", BoardFaults(jitter=0.01), _PASSES, 0.3),
    ("duplicates 20 %", BoardFaults(duplicates=0.2), _PASSES, 0.3),
    ("reordering 10 %", BoardFaults(reordering=0.1), _PASSES, 0.3),
    ("loss 12 %", BoardFaults(loss=0.12), _alike("told packet_loss"), 0.3),
    ("loss 40 %", BoardFaults(loss=0.4), (("trip packet_loss",), ("told packet_loss",)), 1.5),
    ("cable pulled (loss 100 %)", BoardFaults(loss=1.0), _STALE, 0.3),
    ("corruption 1 %", BoardFaults(corruption=0.01), _alike("told rejected_packets"), 0.3),
    ("corruption 100 %", BoardFaults(corruption=1.0), _STALE, 0.3),
    # The board.
    ("silence", BoardFaults(silence=True), _STALE, 0.3),
    ("frozen tick", BoardFaults(frozen_tick=True), _FROZEN, 0.3),
    ("frozen sensors", BoardFaults(frozen_state=True), ((*_FROZEN[0], BY_CONTROLLER), _FROZEN[1]), 0.5),
    ("NaN in a state", BoardFaults(not_finite=True), (("trip not_finite",), ("told not_finite",)), 0.3),
    ("other generation", BoardFaults(other_generation=True), _STALE, 0.3),
    ("other robot", BoardFaults(other_robot=True), _alike("trip identity"), 0.3),
    ("foreign source", BoardFaults(foreign_source=True), _alike("told foreign_packets"), 0.3),
    # The body.
    ("joints outside limits", BoardFaults(outside_limits=True), _POSITION, 0.3),
    ("joint offset 1.2 rad", BoardFaults(joint_offset=1.2), _POSITION, 0.5),
    ("velocity spikes in 2 %", BoardFaults(velocity_spike=30.0, spike_share=0.02), _PASSES, 0.3),
    (
        "velocity 40 rad/s",
        BoardFaults(velocity_spike=40.0),
        (("trip joint_velocity", "trip motor_power"), (TOLERATED,)),
        0.5,
    ),
    ("torque +40 Nm", BoardFaults(torque_offset=40.0), (("trip joint_torque", "trip motor_power"), (TOLERATED,)), 1.0),
    ("power 2000 W", BoardFaults(power=2000.0), (("trip motor_power",), (TOLERATED,)), 0.5),
    ("motors at 70 C", BoardFaults(temperature=70.0), _alike("told temperature"), 0.3),
    ("motors at 90 C", BoardFaults(temperature=90.0), _alike("trip temperature"), 0.3),
    ("tilt 1.2 rad", BoardFaults(tilt=(1.2, 0.0)), (("trip tilt",), ("told tilt",)), 0.3),
    ("dead motor FR_calf_joint", BoardFaults(dead_motor="FR_calf_joint"), (("trip servo_lost",), (TOLERATED,)), 0.3),
    (
        # An error of less than max_joint_error is a leg that works hard; standing, there is none at all.
        "blocked FR_calf_joint",
        BoardFaults(blocked_joint="FR_calf_joint"),
        (("trip joint_error", "trip joint_torque", "trip tilt", BY_CONTROLLER, TOLERATED), (TOLERATED,)),
        2.5,
    ),
    # A person.
    ("B on the remote", BoardFaults(remote=_STOP), _alike("trip remote_stop"), 0.3),
)


def _of_board(
    name: str, faults: BoardFaults, outcomes: tuple[tuple[str, ...], tuple[str, ...]], deadline: float
) -> FaultCase:
    return FaultCase(
        name,
        *outcomes,
        deadline,
        begin=lambda rig: rig.set_faults(faults),
        end=lambda rig: rig.set_faults(BoardFaults()),
    )


def _other_cases() -> list[FaultCase]:
    return [
        FaultCase(
            "board restarts",
            *_PASSES,
            0.3,
            begin=lambda rig: rig.board.restart(),
            end=lambda rig: None,
        ),
        FaultCase(
            "bridge's emergency_stop",
            *_alike("trip emergency_stop"),
            0.5,
            begin=lambda rig: rig.stop_bridge(),
            end=lambda rig: None,
        ),
        FaultCase(
            "controller killed (-9)",
            (LET_GO,),
            (TOLERATED,),
            0.1,
            begin=lambda rig: rig.controller.kill(),
            end=lambda rig: rig.controller.start(),
        ),
        FaultCase(
            "controller stopped (SIGSTOP)",
            (LET_GO,),
            (TOLERATED,),
            0.1,
            begin=lambda rig: rig.controller.freeze(),
            end=_thaw,
        ),
        FaultCase(
            "NaN in joint_trajectory",
            # The bridge keeps the newest message alone: an intruder in step with the controller hides its targets.
            (TOLERATED, LET_GO),
            (TOLERATED,),
            0.3,
            begin=lambda rig: rig.intrude("nan"),
            end=lambda rig: rig.intrude(""),
        ),
        FaultCase(
            "jump in joint_trajectory",
            ("trip target_jump",),
            (TOLERATED,),
            0.3,
            begin=lambda rig: rig.intrude("jump"),
            end=lambda rig: rig.intrude(""),
        ),
        FaultCase(
            "bridge ended (SIGTERM)",
            (LET_GO,),
            (TOLERATED,),
            0.3,
            begin=lambda rig: rig.bridge.terminate(),
            end=_start_bridge_again,
        ),
        FaultCase(
            # The board holds the last command until the next bridge is there: the worst that a board can do.
            "bridge killed (-9), started again",
            (LET_GO, BY_CONTROLLER),
            (TOLERATED,),
            RESTART_TIME,
            begin=lambda rig: rig.replace_bridge(),
            end=lambda rig: rig.bring_up(),
        ),
    ]


def _start_bridge_again(rig: FaultRig) -> None:
    rig.bridge.end()
    rig.bring_up()


def _thaw(rig: FaultRig) -> None:
    """Let the controller go on, and see for a second that the robot does not."""
    rig.controller.thaw()
    time.sleep(1.0)


CASES = [*(_of_board(*fault) for fault in BOARD_FAULTS), *_other_cases()]
