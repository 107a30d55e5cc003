"""Targets of recorded steps."""

import numpy as np

from fcnet_core.control.runner import recorded_targets
from fcnet_core.model_file import load_model
from fcnet_core.observation import Known, RobotState
from fcnet_core.robot import load_robot

STEPS, COLD = 90, 80


def test_a_cold_start_in_a_recording_clears_the_memory() -> None:
    robot, rng = load_robot("aliengo"), np.random.default_rng(0)
    position = robot.stand_pose + rng.normal(0.0, 0.1, (STEPS, 12))
    arrays = position, 0.0 * position, np.tile([0.0, 0.0, 0.0, 1.0], (STEPS, 1)), rng.normal(size=(STEPS, 3))
    setpoint, clock = np.zeros((STEPS, 9)), np.zeros(STEPS)

    def targets(rows: slice, cold: list[int]) -> np.ndarray:
        state = RobotState(*(array[rows] for array in arrays))
        known = Known(setpoint[rows], clock[rows], clock[rows] > 0, (position[rows], position[rows]))
        starts = np.isin(np.arange(STEPS)[rows], cold)
        return recorded_targets(load_model("aliengo"), robot, 0.02, state, known, starts)

    whole, warm = (targets(slice(None), cold) for cold in ([0, COLD], [0]))
    np.testing.assert_allclose(whole[COLD:], targets(slice(COLD, None), [COLD]), atol=1e-6, rtol=0)
    assert np.abs(whole[COLD:] - warm[COLD:]).max() > 1e-4
