"""The transport around the vendor's library, for those who trust its bytes more than ours."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from fcnet_core.rotation import xyzw_from_wxyz
from unitree_lowlevel.finite import require_finite
from unitree_lowlevel.fixed_point import STEPS, wire_values
from unitree_lowlevel.generation import GEN33, GEN38, LOW_LEVEL, Generation
from unitree_lowlevel.low_command import OFF, LowCommand
from unitree_lowlevel.low_state import LowState
from unitree_lowlevel.network_check import Address, check_port_free, check_target
from unitree_lowlevel.sdk_module import SdkModule, find_sdk
from unitree_lowlevel.tick_order import Age, TickOrder
from unitree_lowlevel.transport import Reception, TransportCounters, TransportError
from unitree_lowlevel.wire_error import WireError
from unitree_lowlevel.wire_transport import LOCAL_PORT

MOTORS = 12
_GOOD = 0
_BAD_CHECKSUM = {GEN38.name: -3}  # gen33 says -3 to an empty queue as well

_Endpoint = tuple[Address, int]
_connections: dict[_Endpoint, Any] = {}  # for as long as the process lives: making one again would end it


class SdkTransport:
    """Sends and receives through the vendor's module; its Safety is not used, since its protections end the process.

    The module itself drops datagrams with a wrong head or checksum, mostly without telling, and does not tell who sent
    one: foreign is never counted here. close() keeps the module's port until the process ends.
    """

    name = "sdk"

    def __init__(self, generation: Generation, target: Address, local_port: int = LOCAL_PORT) -> None:
        self.counters = TransportCounters()
        self._generation = generation
        self._target = target
        self._local_port = local_port
        self._connection: Any = None
        self._order = TickOrder()

    def open(self) -> None:
        sdk = find_sdk()
        if sdk.generation is not self._generation:
            raise TransportError(
                f"the installed {sdk.module.__name__} speaks {sdk.generation.name}, not this robot's "
                f"{self._generation.name}: set the transport to wire"
            )
        self._connection = _connect(sdk, check_target(self._target, self._local_port), self._local_port)
        self._command, self._state = sdk.module.LowCmd(), sdk.module.LowState()
        self._prepare()
        self._order = TickOrder()
        self.counters = TransportCounters()

    def send(self, command: LowCommand) -> None:
        values = wire_values(command) / STEPS  # cut to the wire's range here, since the module wraps round
        for motor, mode, row in zip(self._motors, command.mode.tolist(), values.T.tolist(), strict=True):
            motor.mode = mode
            motor.q, motor.dq, motor.tau, motor.Kp, motor.Kd = row
        connection = self._opened()
        connection.SetSend(self._command)
        if connection.Send() == self._generation.command_size:
            self.counters.sent += 1
        else:
            self.counters.send_errors += 1

    def receive(self) -> Reception | None:
        connection = self._opened()
        code = connection.Recv()
        if code != _GOOD:
            if code == _BAD_CHECKSUM.get(self._generation.name):
                self.counters.reject("checksum", "the vendor's library found a wrong checksum")
            return None
        connection.GetRecv(self._state)
        state = _low_state(self._generation, self._state)
        return self._judged(state)

    def close(self) -> None:
        self._connection = None

    def _prepare(self) -> None:
        connection = self._opened()
        connection.InitCmdData(self._command)
        self._command.levelFlag = LOW_LEVEL
        motors = list(self._command.motorCmd)  # looked up once: each look-up makes 20 objects
        for motor in motors:
            motor.mode, motor.q, motor.dq = OFF, 0.0, 0.0
        self._motors = motors[:MOTORS]

    def _judged(self, state: LowState) -> Reception | None:
        try:
            imu = (state.orientation, state.angular_velocity, state.linear_acceleration)
            require_finite("a state holds a joint or IMU value", state.position, state.velocity, *imu)
        except WireError as error:
            self.counters.reject(error.kind, str(error))
            return None
        age = self._order.judge(state.tick)
        self.counters.count(age)
        return None if age is Age.OLD else Reception(state, time.monotonic())

    def _opened(self) -> Any:
        if self._connection is None:
            raise TransportError("the transport is not open: open it first")
        return self._connection


def _connect(sdk: SdkModule, target: Address, local_port: int) -> Any:
    endpoint = (target, local_port)
    if endpoint not in _connections:
        check_port_free(local_port)
        _connections[endpoint] = sdk.connect(target, local_port)
    return _connections[endpoint]


def _low_state(generation: Generation, raw: Any) -> LowState:
    motors = raw.motorState[:MOTORS]
    rows = [(m.mode, m.q, m.dq, m.tauEst, m.temperature) for m in motors]
    mode, position, velocity, torque, temperature = np.array(rows, dtype=np.float64).T
    imu = raw.imu
    return LowState(
        mode=mode.astype(np.uint8),
        position=position,
        velocity=velocity,
        torque=torque,
        temperature=temperature,
        orientation=xyzw_from_wxyz(imu.quaternion),
        angular_velocity=np.array(imu.gyroscope, dtype=np.float64),
        linear_acceleration=np.array(imu.accelerometer, dtype=np.float64),
        imu_temperature=float(imu.temperature),
        foot_force=np.array(raw.footForce, dtype=np.float64),
        tick=int(raw.tick),
        remote=bytes(raw.wirelessRemote),
        identity=(raw.commVersion, raw.robotID) if generation is GEN33 else tuple(raw.version),
    )
