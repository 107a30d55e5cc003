"""What is wrong with a datagram."""

from __future__ import annotations

from typing import Literal

WireFault = Literal["size", "generation", "head", "checksum", "level", "not_finite"]


class WireError(ValueError):
    """A datagram is not what its generation prescribes, or values do not fit into one.

    kind says what: "size"; "generation", the size of the other generation's datagram; "head"; "checksum"; "level",
    not for motors; "not_finite", NaN or infinity.
    """

    def __init__(self, kind: WireFault, sentence: str) -> None:
        super().__init__(sentence)
        self.kind: WireFault = kind
