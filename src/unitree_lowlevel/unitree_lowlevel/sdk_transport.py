"""The transport through the vendor's Python module, as an alternative to the wire format of codec.py."""

import importlib
import math
import time
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from fcnet_core.errors import TransportError, WireError
from fcnet_core.rotation import xyzw_from_wxyz
from unitree_lowlevel.codec import (
    GEN33,
    GEN38,
    LOW_LEVEL,
    MOTORS,
    OFF,
    STEPS,
    Generation,
    LowCommand,
    LowState,
    finite_values,
    wire_values,
)
from unitree_lowlevel.network import Address, bound_socket, check_target
from unitree_lowlevel.transport import LOCAL_PORT, Reception, TransportCounters

_MODULES = ("unitree_legged_sdk.robot_interface", "robot_interface")  # the wheel's name, and that of own builds
_NO_TIMEOUT = -1  # as in the vendor's examples for the Aliengo
_BAD_CHECKSUM = {GEN38.name: -3}  # gen33 says -3 to an empty queue as well


# The module's UDP objects with the file descriptors of their sockets, None if unknown. They are kept for the life of
# the process: a second one to the same port would exit it.
_connections: dict[tuple[Address, int], tuple[Any, int | None]] = {}


def find_sdk(required: Generation | None = None) -> tuple[ModuleType, Generation]:
    """Return the vendor's installed module and the generation of its datagrams.

    Raises TransportError if there is no module that loads, is the vendor's and uses the required generation.
    """
    reasons = []
    for name in _MODULES:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        except ImportError as error:
            reasons.append(f"{name} does not load ({error})")
            continue
        has_classes = all(hasattr(module, part) for part in ("UDP", "LowCmd", "LowState"))
        versions = {"commVersion": GEN33, "version": GEN38} if has_classes else {}
        generation = next((known for field, known in versions.items() if hasattr(module.LowCmd, field)), None)
        if generation is None:
            reasons.append(f"{name} is another program's, without UDP and LowCmd of the vendor")
        elif required not in (None, generation):
            reasons.append(f"the installed {name} uses {generation.name}, not this robot's {required.name}")
        else:
            return module, generation
    found = "; ".join(reasons) or "no module of the vendor is installed"
    raise TransportError(
        f"{found}: set the transport to wire, or install one (pip install --no-deps unitree-legged-sdk)"
    )


class SdkTransport:
    """Sends and receives through the vendor's module. Its Safety is not used, because its protections exit the process.

    The module drops datagrams with a wrong head or checksum, mostly without an error code, and does not report their
    sender: `foreign` is never counted. The module's port stays open after close(), until the process exits.
    """

    def __init__(self, generation: Generation, target: Address, local_port: int = LOCAL_PORT) -> None:
        self.counters = TransportCounters()
        self._generation = generation
        self._target = target
        self._local_port = local_port
        self._connection: tuple[Any, int | None] | None = None

    def open(self) -> None:
        sdk, _ = find_sdk(self._generation)
        target, _local = check_target(self._target, self._local_port)
        self._connection = _connect(sdk, self._generation, target, self._local_port)
        self._command, self._state = sdk.LowCmd(), sdk.LowState()
        self._udp().InitCmdData(self._command)
        self._command.levelFlag = LOW_LEVEL
        motors = list(self._command.motorCmd)  # looked up once: each look-up makes 20 objects
        for motor in motors:
            motor.mode, motor.q, motor.dq = OFF, 0.0, 0.0
        self._motors = motors[:MOTORS]
        self.counters = TransportCounters()

    def send(self, command: LowCommand, until: float = math.inf) -> None:
        values = wire_values(command) / STEPS  # clipped to the wire's range here, since the module wraps round
        for motor, mode, row in zip(self._motors, command.mode.tolist(), values.T.tolist(), strict=True):
            motor.mode = mode
            motor.q, motor.dq, motor.tau, motor.Kp, motor.Kd = row
        udp = self._udp()
        udp.SetSend(self._command)
        if time.monotonic() > until:
            return
        if udp.Send() == self._generation.command.itemsize:
            self.counters.sent += 1
        else:
            self.counters.send_errors += 1

    def receive(self) -> Reception | None:
        udp = self._udp()
        code = udp.Recv()
        if code != 0:
            if code == _BAD_CHECKSUM.get(self._generation.name):
                self.counters.reject(WireError("checksum", "the vendor's library found a wrong checksum"))
            return None
        udp.GetRecv(self._state)
        return self.counters.take(partial(_low_state, self._generation, self._state))

    def fileno(self) -> int | None:
        return self._connection and self._connection[1]

    def close(self) -> None:
        self._connection = None

    def _udp(self) -> Any:
        if self._connection is None:
            raise TransportError("the transport is not open: open it first")
        return self._connection[0]


def _connect(sdk: ModuleType, generation: Generation, target: Address, local_port: int) -> tuple[Any, int | None]:
    """Return the module's connection, made once. The module exits the process if the port is in use or has no route."""
    endpoint = (target, local_port)
    if endpoint in _connections:
        return _connections[endpoint]
    bound_socket(local_port).close()  # raises TransportError if it is in use
    if generation is GEN38:
        arguments: tuple[Any, ...] = (LOW_LEVEL, local_port, *target)
    else:
        arguments = (local_port, *target, GEN33.command.itemsize, GEN33.state.itemsize, _NO_TIMEOUT)
    before = _open_sockets()
    try:
        udp = sdk.UDP(*arguments)
    except TypeError as error:
        raise TransportError(
            f"{sdk.__name__} is built for other arguments than those of the vendor's releases 3.8: "
            "set the transport to wire"
        ) from error
    _connections[endpoint] = udp, next(iter(_open_sockets() - before), None)
    return _connections[endpoint]


def _open_sockets() -> set[int]:
    return {int(link.name) for link in Path("/proc/self/fd").iterdir() if link.is_socket()}


def _low_state(generation: Generation, raw: Any) -> LowState:
    """Convert the module's state; raises WireError for a non-finite joint or IMU value."""
    rows = [(m.mode, m.q, m.dq, m.tauEst, m.temperature) for m in raw.motorState[:MOTORS]]
    mode, position, velocity, torque, temperature = np.array(rows, dtype=np.float64).T
    imu = [np.array(part, dtype=np.float64) for part in (raw.imu.quaternion, raw.imu.gyroscope, raw.imu.accelerometer)]
    finite_values("a state holds a joint or IMU value", position, velocity, *imu)
    return LowState(
        mode=mode.astype(np.uint8),
        position=position,
        velocity=velocity,
        torque=torque,
        temperature=temperature,
        orientation=xyzw_from_wxyz(imu[0]),
        angular_velocity=imu[1],
        linear_acceleration=imu[2],
        imu_temperature=float(raw.imu.temperature),
        foot_force=np.array(raw.footForce, dtype=np.float64),
        tick=int(raw.tick),
        remote=bytes(raw.wirelessRemote),
        identity=(raw.commVersion, raw.robotID) if generation is GEN33 else tuple(raw.version),
    )
