"""When a policy that was trained on cold-start windows must forget."""

from __future__ import annotations

from fcnet_core.policy_card import PolicyCard


class WindowCounter:
    """Counts the steps since the last reset for the card's window policy."""

    def __init__(self, card: PolicyCard) -> None:
        self._limit = card.shape.window if card.window_policy == "reset_every_n" else None
        self._steps = 0

    def restart(self) -> None:
        """Count from zero again."""
        self._steps = 0

    def count(self) -> None:
        """One more step is taken."""
        self._steps += 1

    def is_full(self) -> bool:
        """Whether the policy must be reset before its next step; never for a sliding window."""
        return self._steps == self._limit
