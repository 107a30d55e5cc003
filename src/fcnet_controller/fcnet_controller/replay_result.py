"""What has come out of a replay."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from fcnet_controller.replay_steps import ReplayedStep
from fcnet_core.replay.action_error import AGREEMENT


@dataclass
class ReplayResult:
    """steps: that were taken; lost: that could not be; faults: lost ones with which the controller was in fault;
    restarts: cold starts that the recorded policy did not have; compared: steps whose memory held what the recorded
    policy's did; largest_difference [rad] among those. same_policy: whether the policy is the recorded one.
    """

    same_policy: bool
    steps: int = 0
    lost: int = 0
    faults: int = 0
    restarts: int = 0
    compared: int = 0
    largest_difference: float = 0.0

    def add(self, step: ReplayedStep) -> None:
        """Count a step."""
        self.steps += 1
        if step.comparable:
            self.compared += 1
            self.largest_difference = max(self.largest_difference, step.difference)

    @property
    def passed(self) -> bool:
        """Whether steps were taken, and the recorded policy, if it was replayed, said the same again."""
        return self.steps > 0 and not (self.same_policy and self.largest_difference > AGREEMENT)

    def sentence(self) -> str:
        """For people."""
        lost = f"{self.lost} lost, {self.faults} of them by a fault" if self.faults else f"{self.lost} lost"
        counts = f"{self.steps} steps replayed, {lost}, {self.restarts} cold starts that were not recorded"
        if not self.steps:
            return (
                f"nothing replayed ({self.lost} steps lost): the bag holds no steps of a policy, or not what they saw"
            )
        if not self.compared:
            return f"{counts}; none can be compared with what was sent"
        found = f"largest difference from what was sent: {self.largest_difference:.2g} rad in {self.compared} steps"
        if not self.same_policy:
            return f"{counts}; {found}, of another policy"
        return f"{counts}; {found}, {'as it should be' if self.passed else f'more than {AGREEMENT:g} rad'}"

    def as_json(self) -> str:
        """For programs."""
        return json.dumps(asdict(self) | {"passed": self.passed}, indent=2)
