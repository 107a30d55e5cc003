"""One policy over one recorded run: by the steps that were recorded, or as near to them as the bag allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fcnet_core.model_file import PolicyModel
from fcnet_core.replay.aligned_steps import aligned_steps, timed_states
from fcnet_core.replay.closed_comparison import compare_closed
from fcnet_core.replay.open_loop import OpenLoop, replay_steps
from fcnet_core.replay.recorded_run import RecordedRun
from fcnet_core.robot import JOINT_NAMES, Robot

# "recorded": every step as the controller took it; "aligned": steps put together by stamps; "alone": no targets were
# recorded, so the policy was told its own.
Basis = Literal["recorded", "aligned", "alone"]


@dataclass(frozen=True)
class PolicyReplay:
    """label: A, B, ...; name: the policy's file; period [s] between its steps."""

    label: str
    name: str
    model: PolicyModel
    basis: Basis
    loop: OpenLoop

    @property
    def period(self) -> float:
        return 1.0 / self.model.card.control_rate


def replay_policy(
    run: RecordedRun, label: str, name: str, model: PolicyModel, robot: Robot, control_rate: float | None
) -> PolicyReplay:
    """Replay one policy; control_rate [Hz] of the controller, None where it is that of the policy."""
    period = 1.0 / (control_rate or model.card.control_rate)
    if len(run.steps.target_stamp):
        return PolicyReplay(label, name, model, "recorded", replay_steps(run, run.steps, model, robot, period))
    steps = aligned_steps(run, model)
    if steps is not None:
        return PolicyReplay(label, name, model, "aligned", replay_steps(run, steps, model, robot, period))
    return PolicyReplay(label, name, model, "alone", _alone(run, model, robot))


def _alone(run: RecordedRun, model: PolicyModel, robot: Robot) -> OpenLoop:
    from fcnet_core.runtime import load_policy  # compiles, which the other ways do without

    states = timed_states(run)
    if not len(states):
        nothing = np.empty((0, len(JOINT_NAMES)))
        return OpenLoop(np.empty(0), nothing, nothing, np.empty(0, dtype=np.bool_), len(run.joints.stamp))
    unknown = np.full_like(states.joint_position, np.nan)
    compared = compare_closed(load_policy(model), model, robot, states, unknown, feedback="own")
    rows = compared.rows
    return OpenLoop(states.time[rows], compared.action, unknown[rows], states.first[rows], 0)
