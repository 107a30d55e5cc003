"""The vendor's Python module, where one is installed."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from unitree_lowlevel.generation import GEN33, GEN38, LOW_LEVEL, Generation
from unitree_lowlevel.network_check import Address
from unitree_lowlevel.transport import TransportError

_NAMES = (
    "unitree_legged_sdk.robot_interface",
    "robot_interface",
)  # the wheel's, and what builds of one's own are called
_FOREVER = -1  # the time-out that the vendor's examples for the Aliengo give


@dataclass(frozen=True)
class SdkModule:
    """An installed module that speaks to motors, and the generation of its datagrams."""

    module: ModuleType
    generation: Generation

    def connect(self, target: Address, local_port: int) -> Any:
        """The module's UDP object; it ends the process where the port is in use or there is no route: check first."""
        host, port = target
        if self.generation is GEN38:
            arguments: tuple[Any, ...] = (LOW_LEVEL, local_port, host, port)
        else:
            sizes = (self.generation.command_size, self.generation.state_size)
            arguments = (local_port, host, port, *sizes, _FOREVER)
        try:
            return self.module.UDP(*arguments)
        except TypeError as error:
            raise TransportError(
                f"{self.module.__name__} is built for other arguments than those of the vendor's releases 3.8: "
                "set the transport to wire"
            ) from error


def find_sdk() -> SdkModule:
    """The vendor's module that is installed.

    Raises TransportError where there is none, where it does not load, or where it is something else of that name.
    """
    reasons = []
    for name in _NAMES:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        except ImportError as error:
            reasons.append(f"{name} does not load ({error})")
            continue
        generation = _generation(module)
        if generation is not None:
            return SdkModule(module, generation)
        reasons.append(f"{name} is another program's, without UDP and LowCmd of the vendor")
    found = "; ".join(reasons) or "no module of the vendor is installed"
    raise TransportError(
        f"{found}: set the transport to wire, or install one (pip install --no-deps unitree-legged-sdk)"
    )


def _generation(module: ModuleType) -> Generation | None:
    if not all(hasattr(module, name) for name in ("UDP", "LowCmd", "LowState")):
        return None
    if hasattr(module.LowCmd, "commVersion"):
        return GEN33
    return GEN38 if hasattr(module.LowCmd, "version") else None
