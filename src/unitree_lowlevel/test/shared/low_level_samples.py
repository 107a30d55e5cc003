"""Commands and states of a motor board for the tests of several modules."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from fcnet_core.robot import Robot
from unitree_lowlevel.codec import SERVO, LowCommand, LowState, RemoteState, encode_remote

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


def random_commands(count: int) -> Iterator[LowCommand]:
    """Yield commands over the whole range of the wire."""
    for row in np.random.default_rng(33).random((count, 6, 12)):
        spans = COMMAND_SPANS.values()
        values = [low + (high - low) * numbers for (low, high), numbers in zip(spans, row[1:], strict=True)]
        yield LowCommand((row[0] * 256).astype(np.uint8), *values)


def random_states(count: int) -> Iterator[LowState]:
    """Yield states with values over the whole range of the wire."""
    for row in np.random.default_rng(38).random((count, 120)):
        joints = row[:60].reshape(5, 12)
        yield LowState(
            mode=(joints[0] * 256).astype(np.uint8),
            position=joints[1] * 20 - 10,
            velocity=joints[2] * 100 - 50,
            torque=joints[3] * 255.9 - 127.9,
            temperature=np.floor(joints[4] * 256) - 128,
            orientation=row[60:64] * 2 - 1,
            angular_velocity=row[64:67] * 40 - 20,
            linear_acceleration=row[67:70] * 40 - 20,
            imu_temperature=float(np.floor(row[70] * 256) - 128),
            foot_force=np.floor(row[71:75] * 65536) - 32768,
            tick=int(row[75] * 2**32),
            remote=(row[76:116] * 256).astype(np.uint8).tobytes(),
            identity=(int(row[116] * 65536), int(row[117] * 65536)),
        )
