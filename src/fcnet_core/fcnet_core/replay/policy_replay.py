"""One policy over one recorded run: by the steps that were recorded, or as near to them as the bag allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fcnet_core.command import CommandShaper
from fcnet_core.model_file import PolicyModel
from fcnet_core.replay.closed_comparison import compare_closed
from fcnet_core.replay.counted_steps import counted_steps
from fcnet_core.replay.lone_states import lone_states
from fcnet_core.replay.open_loop import OpenLoop, replay_steps
from fcnet_core.replay.recorded_run import RecordedRun
from fcnet_core.robot import JOINT_NAMES, Robot

SLOWEST = 0.8  # share of the policy's rate at which targets must come to be compared with its own

# "recorded": every step as the controller took it; "counted": steps put together from targets, see counted_steps.py;
# "alone": no targets were recorded, so the policy was told its own.
Basis = Literal["recorded", "counted", "alone"]


@dataclass(frozen=True)
class PolicyReplay:
    """label: A, B, ...; name: the policy's file; unknown_phase: steps of which nobody knows the gait's phase."""

    label: str
    name: str
    model: PolicyModel
    basis: Basis
    loop: OpenLoop
    unknown_phase: int = 0

    @property
    def period(self) -> float:
        """Time [s] between its steps."""
        return 1.0 / self.model.card.control_rate


def replay_policy(
    run: RecordedRun, label: str, name: str, model: PolicyModel, robot: Robot, control_rate: float | None
) -> PolicyReplay:
    """Replay one policy; control_rate [Hz] of the controller, None where it is that of the policy."""
    period = 1.0 / (control_rate or model.card.control_rate)
    if len(run.steps.target_stamp):
        return PolicyReplay(label, name, model, "recorded", replay_steps(run, run.steps, model, robot, period))
    counted = counted_steps(run, CommandShaper(model.command_ranges, model.gait, 1.0 / model.card.control_rate))
    steps = counted.steps
    if len(steps.target_stamp) < 2 or np.median(np.diff(steps.target_stamp)) * model.card.control_rate > 1.0 / SLOWEST:
        return PolicyReplay(label, name, model, "alone", _alone(run, model, robot))
    unknown = int((~counted.phase_known).sum())
    loop = replay_steps(run, steps, model, robot, period, told=False)
    return PolicyReplay(label, name, model, "counted", loop, unknown)


def _alone(run: RecordedRun, model: PolicyModel, robot: Robot) -> OpenLoop:
    from fcnet_core.runtime import load_policy  # compiles, which the other ways do without

    states = lone_states(run)
    if not len(states):
        nothing = np.empty((0, len(JOINT_NAMES)))
        never = np.empty(0, dtype=np.bool_)
        return OpenLoop(np.empty(0), nothing, nothing, never, never, len(run.joints.stamp), 0)
    unknown = np.full_like(states.joint_position, np.nan)
    compared = compare_closed(load_policy(model), model, robot, states, unknown, feedback="own")
    rows = compared.rows
    never = np.zeros(len(rows), dtype=np.bool_)
    return OpenLoop(states.time[rows], compared.action, unknown[rows], states.first[rows], never, 0, 0)
