"""The transport around the vendor's Python module, for those who trust its bytes more than ours."""

from __future__ import annotations

import importlib
import math
import stat
import time
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

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
from unitree_lowlevel.network import Address, check_port_free, check_target
from unitree_lowlevel.transport import LOCAL_PORT, Reception, TransportCounters

_MODULES = ("unitree_legged_sdk.robot_interface", "robot_interface")  # the wheel's name, and that of own builds
_NO_TIMEOUT = -1  # as in the vendor's examples for the Aliengo
_GOOD = 0
_BAD_CHECKSUM = {GEN38.name: -3}  # gen33 says -3 to an empty queue as well


class _Connection(NamedTuple):
    """The module's UDP object, and the file descriptor of its socket where that could be found."""

    udp: Any
    descriptor: int | None


# The module's connections, for as long as the process lives: a second one to the same port would end it.
_connections: dict[tuple[Address, int], _Connection] = {}


class SdkModule(NamedTuple):
    """An installed module of the vendor, and the generation of its datagrams."""

    module: ModuleType
    generation: Generation


def find_sdk(wanted: Generation | None = None) -> SdkModule:
    """The vendor's module that is installed.

    Raises TransportError where there is none, where it does not load, where it is something else of that name, or where
    it does not speak the generation that is wanted.
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
        if (generation := _generation(module)) is None:
            reasons.append(f"{name} is another program's, without UDP and LowCmd of the vendor")
        elif wanted not in (None, generation):
            reasons.append(f"the installed {name} speaks {generation.name}, not this robot's {wanted.name}")
        else:
            return SdkModule(module, generation)
    found = "; ".join(reasons) or "no module of the vendor is installed"
    raise TransportError(
        f"{found}: set the transport to wire, or install one (pip install --no-deps unitree-legged-sdk)"
    )


class SdkTransport:
    """Sends and receives through the vendor's module; its Safety is not used, since its protections end the process.

    The module itself drops datagrams with a wrong head or checksum, mostly without an error code, and does not say who
    sent one: foreign is never counted here. close() keeps the module's port until the process ends.
    """

    def __init__(self, generation: Generation, target: Address, local_port: int = LOCAL_PORT) -> None:
        self.counters = TransportCounters()
        self._generation = generation
        self._target = target
        self._local_port = local_port
        self._connection: Any = None
        self._descriptor: int | None = None

    def open(self) -> None:
        sdk = find_sdk(self._generation)
        connection = _connect(sdk, check_target(self._target, self._local_port), self._local_port)
        self._connection, self._descriptor = connection
        self._command, self._state = sdk.module.LowCmd(), sdk.module.LowState()
        self._connection.InitCmdData(self._command)
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
        connection = self._open_connection()
        connection.SetSend(self._command)
        if time.monotonic() > until:
            return
        if connection.Send() == self._generation.command.itemsize:
            self.counters.sent += 1
        else:
            self.counters.send_errors += 1

    def receive(self) -> Reception | None:
        connection = self._open_connection()
        code = connection.Recv()
        if code != _GOOD:
            if code == _BAD_CHECKSUM.get(self._generation.name):
                self.counters.reject(WireError("checksum", "the vendor's library found a wrong checksum"))
            return None
        connection.GetRecv(self._state)
        try:
            return self.counters.accept(_low_state(self._generation, self._state))
        except WireError as error:
            self.counters.reject(error)
            return None

    def fileno(self) -> int | None:
        return self._descriptor

    def close(self) -> None:
        self._connection = None

    def _open_connection(self) -> Any:
        if self._connection is None:
            raise TransportError("the transport is not open: open it first")
        return self._connection


def _generation(module: ModuleType) -> Generation | None:
    if not all(hasattr(module, name) for name in ("UDP", "LowCmd", "LowState")):
        return None
    if hasattr(module.LowCmd, "commVersion"):
        return GEN33
    return GEN38 if hasattr(module.LowCmd, "version") else None


def _connect(sdk: SdkModule, target: Address, local_port: int) -> _Connection:
    """The module's connection, made once; it ends the process where the port is in use or there is no route."""
    endpoint = (target, local_port)
    if endpoint in _connections:
        return _connections[endpoint]
    check_port_free(local_port)
    host, port = target
    if sdk.generation is GEN38:
        arguments: tuple[Any, ...] = (LOW_LEVEL, local_port, host, port)
    else:
        arguments = (local_port, host, port, GEN33.command.itemsize, GEN33.state.itemsize, _NO_TIMEOUT)
    before = _open_sockets()
    try:
        udp = sdk.module.UDP(*arguments)
    except TypeError as error:
        raise TransportError(
            f"{sdk.module.__name__} is built for other arguments than those of the vendor's releases 3.8: "
            "set the transport to wire"
        ) from error
    _connections[endpoint] = _Connection(udp, next(iter(_open_sockets() - before), None))
    return _connections[endpoint]


def _open_sockets() -> set[int]:
    """File descriptors of this process's sockets."""
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that with which the folder was listed
            if stat.S_ISSOCK(link.stat().st_mode):
                found.add(int(link.name))
    return found


def _low_state(generation: Generation, raw: Any) -> LowState:
    """The module's state as ours; WireError for a joint or IMU value that is not finite."""
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
