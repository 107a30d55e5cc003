"""Every fault of the fault matrix, and what the design says must follow from it in each mode.

The expectations are the design's, not what happens to come out: a cell that does otherwise is an error of one of both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unitree_lowlevel.fake_board.board_faults import BoardFaults
from unitree_lowlevel.wireless_remote import RemoteState

if TYPE_CHECKING:
    from fault_rig import FaultRig

DAMPED = ("passive", "fault")  # modes in which no joint is stiff
FOLLOWING = ("standing_up", "standing", "walking", "lying_down")
MODES = ("passive", "standing_up", "standing", "walking", "lying_down", "fault")

# What may follow: "trip NAME" latches damping until reset, "damped" is damping that nobody latched, "told NAME" is a
# warning in /diagnostics while the robot goes on, "tolerated" is nothing at all.
TOLERATED = "tolerated"
LET_GO = "damped"
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


def _of_board(
    name: str, faults: BoardFaults, following: tuple[str, ...], damped: tuple[str, ...], deadline: float = 0.3
) -> FaultCase:
    return FaultCase(
        name,
        following,
        damped,
        deadline,
        begin=lambda rig: rig.set_faults(faults),
        end=lambda rig: rig.set_faults(BoardFaults()),
    )


def _board_cases() -> list[FaultCase]:
    tolerated = (TOLERATED,)
    stale, stale_told = ("trip stale_state",), ("told stale_state",)
    frozen, frozen_told = ("trip frozen_state",), ("told frozen_state",)
    position = ("trip joint_position", "trip joint_error", "trip joint_velocity")
    stop = RemoteState(buttons=frozenset({"B"}))
    return [
        # The line.
        _of_board("1 % loss, 2 ms jitter", BoardFaults(loss=0.01, jitter=0.002), tolerated, tolerated),
        _of_board("delay 5 ms", BoardFaults(delay=0.005), tolerated, tolerated),
        _of_board("delay 200 ms", BoardFaults(delay=0.2), stale, (TOLERATED, "told stale_state")),
        _of_board("jitter 10 ms", BoardFaults(jitter=0.01), tolerated, tolerated),
        _of_board("duplicates 20 %", BoardFaults(duplicates=0.2), tolerated, tolerated),
        _of_board("reordering 10 %", BoardFaults(reordering=0.1), tolerated, tolerated),
        _of_board("loss 12 %", BoardFaults(loss=0.12), ("told packet_loss",), ("told packet_loss",)),
        _of_board("loss 40 %", BoardFaults(loss=0.4), ("trip packet_loss",), ("told packet_loss",), 1.5),
        _of_board("cable pulled (loss 100 %)", BoardFaults(loss=1.0), stale, stale_told),
        _of_board(
            "corruption 1 %", BoardFaults(corruption=0.01), ("told rejected_packets",), ("told rejected_packets",)
        ),
        _of_board("corruption 100 %", BoardFaults(corruption=1.0), stale, stale_told),
        # The board.
        _of_board("silence", BoardFaults(silence=True), stale, stale_told),
        _of_board("frozen tick", BoardFaults(frozen_tick=True), frozen, frozen_told),
        _of_board("frozen sensors", BoardFaults(frozen_state=True), (*frozen, BY_CONTROLLER), frozen_told, 0.5),
        _of_board("NaN in a state", BoardFaults(not_finite=True), ("trip not_finite",), ("told not_finite",)),
        _of_board("other generation", BoardFaults(other_generation=True), stale, stale_told),
        _of_board("other robot", BoardFaults(other_robot=True), ("trip identity",), ("trip identity",)),
        _of_board(
            "foreign source", BoardFaults(foreign_source=True), ("told foreign_packets",), ("told foreign_packets",)
        ),
        FaultCase(
            "board restarts",
            tolerated,
            tolerated,
            0.3,
            begin=lambda rig: rig.board.restart(),
            end=lambda rig: None,
        ),
        # The body.
        _of_board("joints outside limits", BoardFaults(outside_limits=True), position, ("told joint_position",)),
        _of_board("joint offset 1.2 rad", BoardFaults(joint_offset=1.2), position, ("told joint_position",), 0.5),
        _of_board("velocity spikes in 2 %", BoardFaults(velocity_spike=30.0, spike_share=0.02), tolerated, tolerated),
        _of_board(
            "velocity 40 rad/s",
            BoardFaults(velocity_spike=40.0),
            ("trip joint_velocity", "trip motor_power"),
            tolerated,
            0.5,
        ),
        _of_board(
            "torque +40 Nm", BoardFaults(torque_offset=40.0), ("trip joint_torque", "trip motor_power"), tolerated, 1.0
        ),
        _of_board("power 2000 W", BoardFaults(power=2000.0), ("trip motor_power",), tolerated, 0.5),
        _of_board("motors at 70 C", BoardFaults(temperature=70.0), ("told temperature",), ("told temperature",)),
        _of_board("motors at 90 C", BoardFaults(temperature=90.0), ("trip temperature",), ("trip temperature",)),
        _of_board("tilt 1.2 rad", BoardFaults(tilt=(1.2, 0.0)), ("trip tilt",), ("told tilt",)),
        _of_board(
            # An error of less than max_joint_error is a leg that works hard; standing, there is none at all.
            "blocked FR_calf_joint",
            BoardFaults(blocked_joint="FR_calf_joint"),
            ("trip joint_error", "trip joint_torque", "trip tilt", BY_CONTROLLER, TOLERATED),
            tolerated,
            2.5,
        ),
        # A person.
        _of_board("B on the remote", BoardFaults(remote=stop), ("trip remote_stop",), ("trip remote_stop",)),
        FaultCase(
            "bridge's emergency_stop",
            ("trip emergency_stop",),
            ("trip emergency_stop",),
            0.5,
            begin=lambda rig: rig.stop_bridge(),
            end=lambda rig: None,
        ),
    ]


def _ros_cases() -> list[FaultCase]:
    return [
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
    ]


def _start_bridge_again(rig: FaultRig) -> None:
    rig.bridge.end()
    rig.bring_up()


def _thaw(rig: FaultRig) -> None:
    """Let the controller go on, and see for a second that the robot does not."""
    rig.controller.thaw()
    time.sleep(1.0)


CASES = [*_board_cases(), *_ros_cases()]
