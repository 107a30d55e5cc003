"""The two generations of Unitree's low-level datagrams: where every value lies.

Everything is little-endian and packed. Sources: the vendor's unitree_legged_sdk, releases 3.2 to 3.3.4 and 3.8.2, 3.8.4
(A1, Aliengo) and 3.8.0 to 3.8.6 (Go1), and the bytes that its libraries put on the wire.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LOW_LEVEL = 0xFF  # levelFlag of everything that speaks to motors

_MOTOR_COMMAND = np.dtype(
    [
        ("mode", "u1"),
        ("position", "<f4"),
        ("velocity", "<f4"),
        ("torque", "<i2"),  # in 1/256 Nm
        ("stiffness", "<u2"),  # in 1/32 Nm/rad
        ("damping", "<u2"),  # in 1/16 Nms/rad
        ("reserve", "<u4", 3),
    ]
)
_MOTOR_STATE = np.dtype(
    [
        ("mode", "u1"),
        ("position", "<f4"),
        ("velocity", "<f4"),
        ("acceleration", "<i2"),
        ("torque", "<i2"),  # in 1/256 Nm
        ("raw_position", "<f4"),
        ("raw_velocity", "<f4"),
        ("raw_acceleration", "<i2"),
        ("temperature", "i1"),
        ("reserve", "<u4", 2),
    ]
)
_IMU = [
    ("quaternion", "<f4", 4),  # w, x, y, z
    ("angular_velocity", "<f4", 3),
    ("linear_acceleration", "<f4", 3),
    ("roll_pitch_yaw", "<f4", 3),
    ("imu_temperature", "i1"),
]
_FEET = [("foot_force", "<i2", 4), ("foot_force_estimate", "<i2", 4), ("tick", "<u4")]
_END = [("remote", "u1", 40), ("reserve", "<u4"), ("checksum", "<u4")]

_HEADER_33 = [("level", "u1"), ("identity", "<u2", 2), ("sequence", "<u4"), ("bandwidth", "u1")]
_HEADER_38 = [
    ("head", "u1", 2),
    ("level", "u1"),
    ("frame_reserve", "u1"),
    ("sequence", "<u4", 2),
    ("identity", "<u4", 2),
    ("bandwidth", "<u2"),
]


@dataclass(frozen=True)
class Generation:
    """One generation of the wire format.

    command and state are packed dtypes of whole datagrams; `identity` in them is commVersion and robotID (gen33) or
    the two version words (gen38). head: the bytes that open every datagram, if any. The checksum, always the last
    four bytes, covers the first command_checked or state_checked bytes.
    """

    name: str
    command: np.dtype[np.void]
    state: np.dtype[np.void]
    head: bytes
    command_checked: int
    state_checked: int

    @property
    def command_size(self) -> int:
        """Bytes of a command datagram."""
        return self.command.itemsize

    @property
    def state_size(self) -> int:
        """Bytes of a state datagram."""
        return self.state.itemsize


GEN33 = Generation(
    name="gen33",
    command=np.dtype([*_HEADER_33, ("motors", _MOTOR_COMMAND, 20), ("led", "u1", 12), *_END]),
    state=np.dtype([*_HEADER_33, *_IMU, ("motors", _MOTOR_STATE, 20), *_FEET, *_END]),
    head=b"",
    command_checked=604,
    state_checked=764,
)
GEN38 = Generation(
    name="gen38",
    command=np.dtype([*_HEADER_38, ("motors", _MOTOR_COMMAND, 20), ("battery", "u1", 4), *_END]),
    state=np.dtype([*_HEADER_38, *_IMU, ("motors", _MOTOR_STATE, 20), ("battery", "u1", 24), *_FEET, *_END]),
    head=b"\xfe\xef",
    command_checked=608,
    state_checked=800,
)
GENERATIONS = {generation.name: generation for generation in (GEN33, GEN38)}
