"""Policies for legged robots: network, training, real-time runtimes, model files and datasets. No ROS, no simulator.

>>> policy = load_policy("aliengo")  # a policy that ships with the suite, or the path of a model file
>>> action = policy(numpy.zeros(70))  # (70,) -> joint position targets (12,) [rad], see docs/python.md

Names of `__all__` are the public interface. They are imported at their first use, so `import fcnet_core` loads no
library; only load_network and PolicyNetwork need torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fcnet_core.errors import FcnetError, NonFiniteObservation, RefusedCommandError
    from fcnet_core.model_file import PolicyCard, PolicyModel, load_model, save_model
    from fcnet_core.observation import PolicyInterface
    from fcnet_core.policies import PolicyConfig, PolicyType
    from fcnet_core.policies.network import PolicyNetwork, load_network
    from fcnet_core.policy import LoadedPolicy, Policy, RuntimeName, load_policy
    from fcnet_core.robot import Robot, load_robot

__all__ = [
    "FcnetError",
    "LoadedPolicy",
    "NonFiniteObservation",
    "Policy",
    "PolicyCard",
    "PolicyConfig",
    "PolicyInterface",
    "PolicyModel",
    "PolicyNetwork",
    "PolicyType",
    "RefusedCommandError",
    "Robot",
    "RuntimeName",
    "load_model",
    "load_network",
    "load_policy",
    "load_robot",
    "save_model",
]

# Version of all packages of the suite: `python tools/check_packages.py --write` copies it to package.xml and setup.cfg.
__version__ = "0.2.0"

_MODULES = ("errors", "robot", "observation", "policies", "model_file", "policy", "policies.network")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, as in "1 step" and "2,000 steps"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def __getattr__(name: str) -> Any:
    from importlib import import_module

    modules = (import_module(f"{__name__}.{module}") for module in _MODULES if name in __all__)
    for module in modules:
        if name in vars(module):
            return vars(module)[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
