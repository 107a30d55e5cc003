"""How far a policy's targets are from the recorded ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from fcnet_core.replay.open_loop import OpenLoop
from fcnet_core.replay.quantities import root_mean_square, spread
from fcnet_core.robot import JOINT_NAMES

AGREEMENT = 1e-5  # [rad] largest difference between what one and the same policy sends and what its replay computes


def action_error(replayed: OpenLoop) -> dict[str, Any]:
    """Figures [rad] over all joints and of each; `agrees` where every target is within AGREEMENT."""
    error = replayed.error
    size = np.abs(error)
    return {
        "steps": len(error),
        "lost_steps": replayed.lost,
        "rmse": root_mean_square(error),
        **spread(size),
        "agrees": bool(len(error) and size.max() <= AGREEMENT),
        "joints": {
            joint: {"rmse": root_mean_square(error[:, index]), **spread(size[:, index])}
            for index, joint in enumerate(JOINT_NAMES)
        },
    }
