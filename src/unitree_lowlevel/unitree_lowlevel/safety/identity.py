"""Whether it is still the same robot that answers."""

from __future__ import annotations

from unitree_lowlevel.safety.trip import Finding, Severity

NAME = "identity"


class IdentityWatch:
    """Remembers who answered first."""

    def __init__(self) -> None:
        self._known: tuple[int, ...] | None = None

    def reset(self) -> None:
        """Accept whoever answers next."""
        self._known = None

    def check(self, identity: tuple[int, ...]) -> Finding | None:
        """A trip for the header of a state that comes from another robot."""
        if self._known is None:
            self._known = identity
        if identity == self._known:
            return None
        return Finding(
            NAME,
            f"a robot that calls itself {identity} answers instead of {self._known}; "
            "leave one robot on this network, then reset",
            Severity.ALWAYS,
        )
