"""The error for a name of upstream's launch that the stand-in does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn


def refuse_unknown_names(module: str) -> Callable[[str], NoReturn]:
    """Return a module's `__getattr__` that tells which name is missing, and where it would go."""

    def refuse(name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ImportError(
            f"the ros2 stand-in has no {module}.{name}: use what tools/ros2_standin/README.md lists, or add it there"
        )

    return refuse
