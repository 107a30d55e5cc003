"""How differently two policies answer to the same situations."""

from __future__ import annotations

from typing import Any

import numpy as np

from fcnet_core.replay.open_loop import OpenLoop
from fcnet_core.replay.quantities import root_mean_square, spread


def policy_difference(one: OpenLoop, other: OpenLoop) -> dict[str, Any]:
    """Figures [rad] of the targets of the same steps, over all joints; steps that only one of them has do not count."""
    _, mine, theirs = np.intersect1d(one.time, other.time, return_indices=True)
    difference = other.action[theirs] - one.action[mine]
    return {"steps": len(mine), "rmse": root_mean_square(difference), **spread(np.abs(difference))}
