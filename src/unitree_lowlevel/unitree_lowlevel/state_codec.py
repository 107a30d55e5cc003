"""States of the robot from bytes, and back."""

from __future__ import annotations

import numpy as np

from fcnet_core.rotation import xyzw_from_wxyz
from unitree_lowlevel.datagram import blank, opened, sealed
from unitree_lowlevel.finite import require_finite
from unitree_lowlevel.generation import Generation
from unitree_lowlevel.low_state import LowState

MOTORS = 12  # the wire has room for 20
_TORQUE_STEPS = 256  # per Nm
_INT16 = (-32768, 32767)
_INT8 = (-128, 127)
_WXYZ = [3, 0, 1, 2]


def decode_state(generation: Generation, datagram: bytes) -> LowState:
    """The state that a datagram holds.

    Raises WireError for a wrong size, head or checksum and for a position, velocity or IMU value that is not finite.
    The level is not looked at, as in the vendor's library.
    """
    record = opened(generation, generation.state, generation.state_checked, datagram)[0]
    motors = record["motors"][:MOTORS]
    imu = (record["quaternion"], record["angular_velocity"], record["linear_acceleration"])
    require_finite("a state holds a joint or IMU value", motors["position"], motors["velocity"], *imu)
    return LowState(
        mode=motors["mode"].copy(),
        position=motors["position"].astype(np.float64),
        velocity=motors["velocity"].astype(np.float64),
        torque=motors["torque"] / _TORQUE_STEPS,
        temperature=motors["temperature"].astype(np.float64),
        orientation=xyzw_from_wxyz(imu[0]),
        angular_velocity=imu[1].astype(np.float64),
        linear_acceleration=imu[2].astype(np.float64),
        imu_temperature=float(record["imu_temperature"]),
        foot_force=record["foot_force"].astype(np.float64),
        tick=int(record["tick"]),
        remote=record["remote"].tobytes(),
        identity=tuple(record["identity"].tolist()),
    )


def encode_state(generation: Generation, state: LowState) -> bytes:
    """The datagram that a board sends for a state; values beyond the wire's range are sent as its nearest ones."""
    record = blank(generation, generation.state)
    record["identity"][0] = state.identity
    record["quaternion"][0] = np.asarray(state.orientation)[_WXYZ]
    record["angular_velocity"][0] = state.angular_velocity
    record["linear_acceleration"][0] = state.linear_acceleration
    record["imu_temperature"][0] = np.clip(state.imu_temperature, *_INT8)
    record["foot_force"][0] = np.clip(state.foot_force, *_INT16)
    record["tick"][0] = state.tick % 2**32
    record["remote"][0] = np.frombuffer(state.remote, dtype=np.uint8)
    motors = record["motors"][0, :MOTORS]
    motors["mode"] = state.mode
    motors["position"] = motors["raw_position"] = state.position
    motors["velocity"] = motors["raw_velocity"] = state.velocity
    motors["torque"] = np.clip(np.asarray(state.torque) * _TORQUE_STEPS, *_INT16)
    motors["temperature"] = np.clip(state.temperature, *_INT8)
    return sealed(record, generation.state_checked)
