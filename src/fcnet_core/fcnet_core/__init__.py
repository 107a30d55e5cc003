"""Policies for legged robots: network, training, real-time runtimes, model files and datasets. No ROS, no simulator.

policy = fcnet_core.load_policy("aliengo")    # a policy that ships with the suite, or the path of a model file
action = policy.step(observation)             # (70,) -> joint position targets (12,) [rad], see observation.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fcnet_core.errors import FcnetError as FcnetError

# Version of all packages of the suite: `python tools/check_packages.py --write` copies it to package.xml and setup.cfg.
__version__ = "0.2.0"

if TYPE_CHECKING:
    from fcnet_core.model_file import load_model as load_model
    from fcnet_core.policy import load_policy as load_policy


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, as in "1 step" and "2,000 steps"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


_LAZY = {"load_policy": "fcnet_core.policy", "load_model": "fcnet_core.model_file"}


def __getattr__(name: str) -> Any:
    """Import load_policy and load_model at their first use, because most users of the package need neither."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)
