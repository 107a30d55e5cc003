"""Commands and states of a motor board for the tests of several modules."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fcnet_core.robot import Robot
from unitree_lowlevel.codec import SERVO, LowCommand, LowState, RemoteState, encode_remote

VECTORS = Path(__file__).parents[1] / "data" / "wire_vectors.npz"
COMMAND_SPANS = {  # lowest and highest that the wire can say
    "position": (-10.0, 10.0),
    "velocity": (-50.0, 50.0),
    "torque": (-127.999, 127.99),
    "stiffness": (0.0, 1023.96),
    "damping": (0.0, 2047.93),
}

ON_ITS_SIDE, ON_ITS_BACK = np.array([np.sin(0.7), 0.0, 0.0, np.cos(0.7)]), np.array([1.0, 0.0, 0.0, 0.0])
STOP_PRESSED = RemoteState(frozenset({"L2", "B"}))


def command(**changes: Any) -> LowCommand:
    """Motors in servo mode that give no torque, with changes."""
    return replace(LowCommand(np.full(12, SERVO, dtype=np.uint8), *np.zeros((5, 12))), **changes)


def healthy_state(robot: Robot, **changes: Any) -> LowState:
    """A robot that lies at rest."""
    state = LowState(
        mode=np.full(12, SERVO, dtype=np.uint8),
        position=robot.lie_pose.copy(),
        velocity=np.zeros(12),
        torque=np.zeros(12),
        temperature=np.full(12, 35.0),
        orientation=np.array([0.0, 0.0, 0.0, 1.0]),
        angular_velocity=np.zeros(3),
        linear_acceleration=np.array([0.0, 0.0, 9.81]),
        imu_temperature=40.0,
        foot_force=np.zeros(4),
        tick=1,
        remote=encode_remote(RemoteState()),
        identity=(0, 0),
    )
    return replace(state, **changes)
