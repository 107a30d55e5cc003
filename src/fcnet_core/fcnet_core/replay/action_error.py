"""How far a policy's targets are from the recorded ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from fcnet_core.replay.open_loop import OpenLoop
from fcnet_core.replay.quantities import root_mean_square, spread
from fcnet_core.robot import JOINT_NAMES

AGREEMENT = 1e-5  # [rad] largest difference between what one and the same policy sends and what its replay computes


def action_error(replayed: OpenLoop) -> dict[str, Any]:
    """Figures [rad] over all joints and of each, of the steps that can be compared; `agrees` where every one of these
    is within AGREEMENT.
    """
    compared = np.isfinite(replayed.error).all(axis=1)
    error = replayed.error[compared]
    size = np.abs(error)
    return {
        "steps": len(error),
        "uncompared_steps": int((~compared).sum()),
        "lost_steps": replayed.lost,
        "missing_steps": replayed.missing,
        "rmse": root_mean_square(error),
        **spread(size),
        "agrees": bool(len(error) and size.max() <= AGREEMENT),
        "joints": {
            joint: {"rmse": root_mean_square(error[:, index]), **spread(size[:, index])}
            for index, joint in enumerate(JOINT_NAMES)
        },
    }
