"""A transport by its name."""

from __future__ import annotations

from collections.abc import Callable

from unitree_lowlevel.generation import Generation
from unitree_lowlevel.network_check import Address
from unitree_lowlevel.sdk_transport import SdkTransport
from unitree_lowlevel.transport import Transport, TransportError
from unitree_lowlevel.wire_transport import LOCAL_PORT, WireTransport

TRANSPORTS: dict[str, Callable[[Generation, Address, int], Transport]] = {"wire": WireTransport, "sdk": SdkTransport}


def make_transport(kind: str, generation: Generation, target: Address, local_port: int = LOCAL_PORT) -> Transport:
    """The transport of this kind, "wire" or "sdk", not yet opened; TransportError for another kind."""
    if kind not in TRANSPORTS:
        raise TransportError(f'there is no transport called "{kind}": set it to {" or ".join(TRANSPORTS)}')
    return TRANSPORTS[kind](generation, target, local_port)
