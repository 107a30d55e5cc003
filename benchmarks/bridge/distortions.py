"""Faults of a motor board as they happen to real robots: wrong contents of states, and a line that changes datagrams.

They complement BoardFaults, which also a user can switch on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array
from fcnet_core.rotation import product
from unitree_lowlevel.codec import (
    GEN33,
    GEN38,
    JOINTS,
    MOTORS,
    OFF,
    PERIOD,
    LowState,
    decode_state,
    encode_state,
    sealed,
)

THIGH, CALF = JOINTS.index("FR_thigh_joint"), JOINTS.index("FR_calf_joint")
MOTOR_TURN = 2.0 * np.pi / 9.1  # [rad] of a joint per turn of its motor, which has the encoder
HALF_TURN = {axis: np.eye(4)[row] for row, axis in enumerate("xyz")}  # quaternions x, y, z, w
SATURATED = 34.9  # [rad/s], 2000 degrees per second
SWAPPED_LEGS = [3, 4, 5, 0, 1, 2, *range(6, MOTORS)]

# A state that is sent instead of one, given the first one of the fault and the time [s] since then.
Content = Callable[[LowState, LowState, float], LowState]
# The datagrams that are sent instead of one, given the datagrams held back, and the time [s] since the beginning.
Line = Callable[[bytes, list[bytes], float], Sequence[bytes]]


def _frozen(*names: str, joint: int | None = None) -> Content:
    """Keep the first values of these sensors, of all joints or of one."""

    def change(state: LowState, first: LowState, _time: float) -> LowState:
        if joint is None:
            return replace(state, **{name: getattr(first, name) for name in names})
        return replace(
            state, **{name: _with(getattr(state, name), joint, getattr(first, name)[joint]) for name in names}
        )

    return change


def _with(values: npt.NDArray[Any], place: int | slice, value: Any) -> Any:
    changed = values.copy()
    changed[place] = value
    return changed


def _scaled(name: str, factor: float | Array) -> Content:
    return lambda state, _first, _time: replace(state, **{name: getattr(state, name) * factor})


def _offset(joint: int, angle: float, during: Callable[[int], bool] = lambda _cycle: True) -> Content:
    """Shift one joint's position in the cycles in which `during` is true."""

    def change(state: LowState, _first: LowState, time: float) -> LowState:
        if not during(round(time / PERIOD)):
            return state
        return replace(state, position=_with(state.position, joint, state.position[joint] + angle))

    return change


def _turned(axis: str) -> Content:
    return lambda state, _first, _time: replace(state, orientation=product(HALF_TURN[axis], state.orientation))


def _swapped_axes(state: LowState, _first: LowState, _time: float) -> LowState:
    return replace(
        state,
        orientation=state.orientation[[1, 0, 2, 3]],
        angular_velocity=state.angular_velocity[[1, 0, 2]],
        linear_acceleration=state.linear_acceleration[[1, 0, 2]],
    )


def _flipped_bit(state: LowState, _first: LowState, time: float) -> LowState:
    """Flip one bit of one position in every 20th state: the checksum is made after it."""
    if round(time / PERIOD) % 20:
        return state
    words = np.array([state.position[CALF]], dtype="<f4").view("<u4")
    words ^= np.uint32(1 << (round(time / PERIOD) // 20) % 30)
    value = float(words.view("<f4")[0])
    return replace(state, position=_with(state.position, CALF, value if abs(value) < 1e6 else 0.0))


def _motor(mode: int | None = None, temperature: float | None = None, joints: Any = CALF) -> Content:
    def change(state: LowState, _first: LowState, _time: float) -> LowState:
        changes: dict[str, Any] = {}
        if mode is not None:
            changes["mode"] = _with(state.mode, joints, mode)
        if temperature is not None:
            changes["temperature"] = _with(state.temperature, joints, temperature)
        return replace(state, **changes)

    return change


def _zeroed(*names: str, joints: slice = slice(0, 3)) -> Content:
    return lambda state, _first, _time: replace(
        state, **{name: _with(getattr(state, name), joints, 0) for name in names}
    )


def _tick(change: Callable[[int, int, float], float]) -> Content:
    """Replace the tick: change(tick, first tick, time)."""
    return lambda state, first, time: replace(state, tick=int(change(state.tick, first.tick, time)) % 2**32)


def _swapped_legs(state: LowState, _first: LowState, _time: float) -> LowState:
    return replace(state, **{name: getattr(state, name)[SWAPPED_LEGS] for name in ("position", "velocity", "torque")})


CONTENTS: dict[str, Content] = {
    "IMU frozen": _frozen("orientation", "angular_velocity", "linear_acceleration"),
    "gyro frozen": _frozen("angular_velocity"),
    "attitude frozen": _frozen("orientation"),
    "quaternion changes its sign": lambda state, _first, time: replace(
        state, orientation=state.orientation * (-1.0) ** round(time / PERIOD)
    ),
    "IMU axes swapped": _swapped_axes,
    "gyro about z saturated": lambda state, _first, _time: replace(
        state, angular_velocity=_with(state.angular_velocity, 2, SATURATED)
    ),
    "gyro of other sign": _scaled("angular_velocity", -1.0),
    "gyro in degrees per second": _scaled("angular_velocity", 57.3),
    "heading jumps by half a turn": _turned("z"),
    "roll jumps by half a turn": _turned("x"),
    "no gravity": _scaled("linear_acceleration", 0.0),
    "gravity upside down": _scaled("linear_acceleration", -1.0),
    "acceleration in g": _scaled("linear_acceleration", 1.0 / 9.81),
    "attitude without values": _scaled("orientation", 0.0),
    "attitude of length 2": _scaled("orientation", 2.0),
    "attitude always level": lambda state, _first, _time: replace(state, orientation=np.array([0.0, 0.0, 0.0, 1.0])),
    "one joint frozen": _frozen("position", "velocity", "torque", joint=CALF),
    "one encoder frozen, velocity alive": _frozen("position", joint=CALF),
    "joints frozen, IMU alive": _frozen("position", "velocity", "torque"),
    "encoder jumps by 2 pi": _offset(CALF, 2.0 * np.pi),
    "encoder jumps by half a turn": _offset(THIGH, np.pi),
    "encoder jumps by one motor turn": _offset(THIGH, MOTOR_TURN),
    "encoder off in one state of 100": _offset(THIGH, 0.6, lambda cycle: cycle % 100 == 0),
    "bit flips in a position": _flipped_bit,
    "one leg's data zero": _zeroed("position", "velocity", "torque"),
    "one leg's motors without data": _zeroed("position", "velocity", "torque", "mode", "temperature"),
    "all velocities zero": _scaled("velocity", 0.0),
    "velocities of other sign": _scaled("velocity", -1.0),
    "velocities in rpm": _scaled("velocity", 9.55),
    "torques of other sign": _scaled("torque", -1.0),
    "left and right front legs swapped": _swapped_legs,
    "one motor in error": _motor(mode=OFF),
    "all motors in another mode": _motor(mode=9, joints=slice(None)),
    "one motor at 85 C": _motor(temperature=85.0),
    "one motor at 130 C, which the wire cannot say": _motor(temperature=-126.0),
    "one motor without a temperature": _motor(temperature=-128.0),
    "tick jumps ahead by 2 s": _tick(lambda tick, _first, _time: tick + 2000),
    "tick jumps ahead by an hour": _tick(lambda tick, _first, _time: tick + 3_600_000),
    "tick jumps back by 1 s": _tick(lambda tick, _first, _time: tick - 1000),
    "tick jumps by half its range": _tick(lambda tick, _first, _time: tick + 2**31),
    "tick wraps around": _tick(lambda tick, first, _time: 2**32 - 200 + tick - first),
    "tick runs at half speed": _tick(lambda tick, first, _time: first + (tick - first) // 2),
    "tick in microseconds from now on": _tick(lambda tick, first, _time: first + 1000 * (tick - first)),
    "tick jumps to and fro": _tick(lambda tick, _first, time: tick + 500 * (round(time / PERIOD) % 3)),
    "tick runs backwards": _tick(lambda tick, first, _time: first - (tick - first)),
    "tick of zero": _tick(lambda _tick, _first, _time: 0),
}


def _held(cycles: int) -> Line:
    """Hold datagrams back and send them together."""

    def change(datagram: bytes, held: list[bytes], _time: float) -> Sequence[bytes]:
        held.append(datagram)
        if len(held) < cycles:
            return ()
        sent = [*held]
        held.clear()
        return sent

    return change


def _reversed_groups(datagram: bytes, held: list[bytes], time: float) -> Sequence[bytes]:
    return _held(5)(datagram, held, time)[::-1]


def _later(cycles: Callable[[float], int]) -> Line:
    """Send each datagram later by a number of cycles, given the time."""

    def change(datagram: bytes, held: list[bytes], time: float) -> Sequence[bytes]:
        held.append(datagram)
        sent = []
        while len(held) > cycles(time):
            sent.append(held.pop(0))
        return sent

    return change


def _repeated_later(datagram: bytes, held: list[bytes], _time: float) -> Sequence[bytes]:
    """Send each datagram again after 1 s, as a loop in the network does."""
    held.append(datagram)
    return (datagram, held.pop(0)) if len(held) > 500 else (datagram,)


def _second_board(tick: int, position: float = 0.0, identity: tuple[int, ...] | None = None, every: int = 1) -> Line:
    """Another board at the same address answers as well, with joints `position` [rad] away, in each `every`th cycle."""

    def change(datagram: bytes, held: list[bytes], time: float) -> Sequence[bytes]:
        if round(time / PERIOD) % every:
            return (datagram,)
        state = decode_state(GEN33, datagram)
        other = replace(
            state,
            tick=(state.tick + tick) % 2**32,
            position=state.position + position,
            identity=identity or state.identity,
        )
        return datagram, encode_state(GEN33, other)

    return change


def _high_level(datagram: bytes, _held: list[bytes], _time: float) -> Sequence[bytes]:
    return (sealed(b"\xee" + datagram[1:]),)


def _other_generation(datagram: bytes, held: list[bytes], _time: float) -> Sequence[bytes]:
    held.append(b"")
    return (encode_state(GEN38, decode_state(GEN33, datagram)) if len(held) % 2 else datagram,)


def _pauses(silent: float, period: float) -> Line:
    return lambda datagram, _held, time: () if time % period < silent else (datagram,)


LINES: dict[str, Line] = {
    "truncated datagrams, every second": lambda datagram, _held, time: (
        (datagram[: len(datagram) // 2],) if round(time / PERIOD) % 2 else (datagram,)
    ),
    "datagrams in two fragments": lambda datagram, _held, _time: (datagram[:400], datagram[400:]),
    "two states in one datagram": lambda datagram, _held, _time: (2 * datagram,),
    "every state ten times": lambda datagram, _held, _time: (datagram,) * 10,
    "groups of 5 in reverse": _reversed_groups,
    "bursts every 40 ms": _held(20),
    "bursts every 90 ms": _held(45),
    "pauses of 40 ms, ten a second": _pauses(0.04, 0.1),
    "pauses of 90 ms, twice a second": _pauses(0.09, 0.5),
    "delay grows to 150 ms": _later(lambda time: int(min(time * 0.05, 0.15) / PERIOD)),
    "delay jumps from 0 to 60 ms": _later(lambda _time: 30),
    "every state again 1 s later": _repeated_later,
    "second board, earlier tick": _second_board(-5000, 0.3),
    "second board, later tick": _second_board(5000, 0.3),
    "second board, identity in one of 100": _second_board(1, 0.0, (1, 1), 100),
    "other generation in every second state": _other_generation,
    "board leaves the low level": _high_level,
    "commands come back": lambda datagram, _held, _time: (datagram, datagram[:610]),
    "250 Hz": lambda datagram, _held, time: (datagram,) if round(time / PERIOD) % 2 else (),
    "50 Hz": lambda datagram, _held, time: () if round(time / PERIOD) % 10 else (datagram,),
    "13 Hz": lambda datagram, _held, time: () if round(time / PERIOD) % 38 else (datagram,),
}
