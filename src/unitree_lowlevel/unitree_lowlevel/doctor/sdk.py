"""Check of the vendor's Python module, which only the transport "sdk" needs."""

from __future__ import annotations

from unitree_lowlevel.doctor.finding import Finding, failed, ok
from unitree_lowlevel.generation import Generation
from unitree_lowlevel.sdk_module import find_sdk
from unitree_lowlevel.transport import TransportError


def check_sdk(transport: str, generation: Generation) -> Finding:
    """Which one is installed, and whether it speaks this robot's generation where it is wanted."""
    try:
        sdk = find_sdk()
    except TransportError as error:
        return (
            failed("sdk", str(error)) if transport == "sdk" else ok("sdk", "none installed, and none needed for wire")
        )
    told = f"{sdk.module.__name__} speaks {sdk.generation.name}"
    if transport == "sdk" and sdk.generation is not generation:
        return failed("sdk", f"{told}, this robot {generation.name}: use --transport wire, or install the robot's SDK")
    return ok("sdk", told if transport == "sdk" else f"{told}, not needed for wire")
