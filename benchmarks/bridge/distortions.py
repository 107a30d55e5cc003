"""Faults of a motor board as they happen to real robots, with the outcomes that the design requires: wrong contents of
states, and a line that changes datagrams.

They complement BoardFaults, which also a user can switch on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from fault_cases import CONTROLLER_FAULT, TOLERATED, UNCHANGED, FaultCase

from fcnet_core.arrays import Array
from fcnet_core.rotation import product
from unitree_lowlevel.codec import GEN33, GEN38, JOINTS, MOTORS, OFF, LowState, encode_state, sealed

if TYPE_CHECKING:
    from fault_rig import FaultRig as Rig

THIGH, CALF = JOINTS.index("FR_thigh_joint"), JOINTS.index("FR_calf_joint")
ALL, LEG = slice(None), slice(0, 3)
MOTOR_TURN = 2.0 * np.pi / 9.1  # [rad] of a joint per turn of its motor, which has the encoder
HALF_TURN = {axis: np.eye(4)[row] for row, axis in enumerate("xyz")}  # quaternions x, y, z, w
SATURATED = 34.9  # [rad/s], 2000 degrees per second
SWAPPED_AXES = [1, 0, 2, 3]  # x and y of a vector, or of a quaternion x, y, z, w
SWAPPED_LEGS = [3, 4, 5, 0, 1, 2, *range(6, MOTORS)]
IMU = ("orientation", "angular_velocity", "linear_acceleration")
MOTION = ("position", "velocity", "torque")
TILTED = "trunk tilted"
LEVEL, PITCHED = (0.0, 0.0, 0.0, 1.0), (0.0, 0.1736, 0.0, 0.9848)  # and 20 degrees, to which a policy must respond
ATTACK_PERIOD = 25  # cycles between two groups of an attacker's datagrams


@dataclass(frozen=True)
class Sent:
    """A datagram that leaves the board during a fault, and its state.

    first: state of the first datagram of the fault; cycle: number of datagrams since then; held: datagrams that are
    held back; rng: of the fault.
    """

    datagram: bytes
    state: LowState
    first: LowState
    cycle: int
    held: list[bytes]
    rng: np.random.Generator

    def encoded(self, **values: Any) -> bytes:
        """Return the datagram of the state with other values."""
        return encode_state(GEN33, replace(self.state, **values))


Change = Callable[[Sent], Sequence[bytes]]  # returns the datagrams that are sent instead of one


def _each(change: Callable[[Any, Any], Any], *names: str) -> Change:
    """Replace these values of a state by change(value, first value)."""
    return lambda sent: (
        sent.encoded(**{name: change(getattr(sent.state, name), getattr(sent.first, name)) for name in names}),
    )


def _with(values: Array, place: int | slice, value: Any) -> Array:
    changed = values.copy()
    changed[place] = value
    return changed


def _frozen(*names: str, place: int | slice = ALL) -> Change:
    return _each(lambda values, first: _with(values, place, first[place]), *names)


def _set(value: Any, *names: str, place: int | slice = ALL) -> Change:
    return _each(lambda values, _first: _with(values, place, value), *names)


def _scaled(factor: float, name: str) -> Change:
    return _each(lambda values, _first: factor * values, name)


def _reordered(order: list[int], *names: str) -> Change:
    return _each(lambda values, _first: values[order[: len(values)]], *names)


def _offset(joint: int, angle: float) -> Change:
    return _each(lambda position, _first: _with(position, joint, position[joint] + angle), "position")


def _turned(axis: str) -> Change:
    return _each(lambda orientation, _first: product(HALF_TURN[axis], orientation), "orientation")


def _tick(change: Callable[[int, int], int]) -> Change:
    return _each(change, "tick")


def _every(cycles: int, change: Change) -> Change:
    """Change one datagram out of `cycles`."""
    return lambda sent: (sent.datagram,) if sent.cycle % cycles else change(sent)


def _flipped_bit(sent: Sent) -> Sequence[bytes]:
    """Flip one bit of one position: the checksum is made after it."""
    words = np.array([sent.state.position[CALF]], dtype="<f4").view("<u4")
    words ^= np.uint32(1 << (sent.cycle // 20) % 30)
    value = float(words.view("<f4")[0])
    return (sent.encoded(position=_with(sent.state.position, CALF, value if abs(value) < 1e6 else 0.0)),)


def _held(cycles: int, step: int = 1) -> Change:
    """Hold datagrams back and send them together; step -1: in reverse order."""

    def change(sent: Sent) -> Sequence[bytes]:
        sent.held.append(sent.datagram)
        if len(sent.held) < cycles:
            return ()
        together = sent.held[::step]
        sent.held.clear()
        return together

    return change


def _later(cycles: Callable[[int], int]) -> Change:
    """Send each datagram later by a number of cycles, given the number of this one."""

    def change(sent: Sent) -> Sequence[bytes]:
        sent.held.append(sent.datagram)
        return [sent.held.pop(0) for _ in range(len(sent.held) - cycles(sent.cycle))]

    return change


def _repeated_later(sent: Sent) -> Sequence[bytes]:
    """Send each datagram again after 1 s, as a loop in the network does."""
    return sent.datagram, *_later(lambda _cycle: 500)(sent)


def _second_board(tick: int, position: float = 0.0, **values: Any) -> Change:
    """Another board at the same address answers as well, with joints `position` [rad] away."""
    return lambda sent: (
        sent.datagram,
        sent.encoded(tick=sent.state.tick + tick, position=sent.state.position + position, **values),
    )


def _other_generation(sent: Sent) -> Sequence[bytes]:
    return (encode_state(GEN38, sent.state),)


def _paused(silent: int, period: int) -> Change:
    """Lose the first `silent` datagrams out of each `period`."""
    return lambda sent: () if sent.cycle % period < silent else (sent.datagram,)


def _fault(
    name: str, change: Change, following: str, deadline: float = 1.0, soft: str = "", lasting: float = 0.0
) -> FaultCase:
    """A fault that is observed from `lasting` [s] after its beginning; soft: by default, trips are warnings."""

    def begin(rig: Rig) -> None:
        rig.board.distort(name)
        time.sleep(lasting)

    if not soft:
        soft = f"{following.replace('trip', 'warning')} | {TOLERATED}" if "trip" in following else following
    end: Callable[[Rig], Any] = lambda rig: rig.board.distort("")  # noqa: E731
    return FaultCase(name, following, soft, deadline, begin=begin, end=end, change=change)


FALLS = "trip tilt | trip fall_rate"
RESTARTED, TICK_JUMP = "warning board_restarted", "warning tick_jump"
_FROZEN, _ODD_IMU = "trip frozen_state", f"trip frozen_state | trip velocity_mismatch | {FALLS}"
_STUCK = "trip frozen_state | trip velocity_mismatch"
_JOINT = f"trip velocity_mismatch | trip joint_error | trip joint_position | {FALLS} | {CONTROLLER_FAULT}"
_JUMPED = "trip joint_position | trip joint_error | trip velocity_mismatch"
_SPEED = f"{_JOINT} | trip joint_velocity | trip motor_power"
_RARE = f"{TOLERATED} | trip velocity_mismatch | trip joint_position"
_HOT, _OLD, _OTHER = "warning temperature", "warning old_states", "trip identity"
_LOST, _LEG_LOST = "trip servo_lost", "trip joint_position | trip servo_lost"
_STOPPED, _PAUSES = "trip stale_state | trip frozen_state", f"trip packet_loss | warning packet_loss | {FALLS}"
_REJECTED, _HALF = "warning rejected_packets", "warning rejected_packets | trip packet_loss"
_FEW, _SLOW = f"{TOLERATED} | trip packet_loss", f"trip packet_loss | trip stale_state | {FALLS}"
_BURSTS, _LATE = f"{TOLERATED} | trip stale_state | {FALLS}", f"{TOLERATED} | {FALLS}"

DISTORTIONS = (
    # The IMU.
    _fault("IMU frozen", _frozen(*IMU), _FROZEN, 0.6),
    _fault("gyro frozen", _frozen("angular_velocity"), _FROZEN, 0.6),
    _fault("attitude frozen", _frozen("orientation"), _FROZEN, 0.6),
    _fault("attitude always level", _set(LEVEL, "orientation"), _FROZEN, 0.6),
    _fault("no gravity", _set(0.0, "linear_acceleration"), _FROZEN, 0.6),
    _fault("gyro about z saturated", _set(SATURATED, "angular_velocity", place=2), _ODD_IMU, 3.0),
    _fault("gyro of other sign", _scaled(-1.0, "angular_velocity"), _ODD_IMU, 3.0),
    _fault("gyro in degrees per second", _scaled(57.3, "angular_velocity"), _ODD_IMU, 3.0),
    # Consistent until the robot falls.
    _fault("IMU axes swapped", _reordered(SWAPPED_AXES, *IMU), f"{TOLERATED} | {_ODD_IMU}"),
    _fault("quaternion changes its sign", _every(2, _scaled(-1.0, "orientation")), TOLERATED),
    _fault("heading jumps by half a turn", _turned("z"), TOLERATED),  # no policy uses the heading
    _fault("roll jumps by half a turn", _turned("x"), "trip tilt"),
    _fault("gravity upside down", _scaled(-1.0, "linear_acceleration"), TOLERATED),  # nothing uses it
    _fault("acceleration in g", _scaled(1.0 / 9.81, "linear_acceleration"), TOLERATED),
    _fault("attitude without values", _set(0.0, "orientation"), "trip invalid_state"),
    _fault("attitude of length 2", _scaled(2.0, "orientation"), "trip invalid_state"),
    # Joints.
    _fault("one joint frozen", _frozen(*MOTION, place=CALF), _STUCK),
    _fault("one encoder frozen, velocity alive", _frozen("position", place=CALF), _STUCK),
    _fault("joints frozen, IMU alive", _frozen(*MOTION), _STUCK),
    _fault("encoder jumps by 2 pi", _offset(CALF, 2.0 * np.pi), _JUMPED),
    _fault("encoder jumps by half a turn", _offset(THIGH, np.pi), _JUMPED),
    _fault("encoder jumps by one motor turn", _offset(THIGH, MOTOR_TURN), _JUMPED),
    _fault("encoder off in one state of 100", _every(100, _offset(THIGH, 0.6)), _RARE),
    _fault("bit flips in a position", _every(20, _flipped_bit), _RARE),
    _fault("one leg's data zero", _set(0, *MOTION, place=LEG), "trip joint_position"),
    _fault("one leg's motors without data", _set(0, *MOTION, "mode", "temperature", place=LEG), _LEG_LOST),
    _fault("all velocities zero", _set(0.0, "velocity"), _SPEED, 3.0),
    _fault("velocities of other sign", _scaled(-1.0, "velocity"), _SPEED, 3.0),
    _fault("velocities in rpm", _scaled(9.55, "velocity"), _SPEED, 3.0),
    _fault("left and right front legs swapped", _reordered(SWAPPED_LEGS, *MOTION), f"{TOLERATED} | {_JOINT}"),
    _fault("torques of other sign", _scaled(-1.0, "torque"), TOLERATED),
    _fault("one motor in error", _set(OFF, "mode", place=CALF), _LOST),
    _fault("all motors in another mode", _set(9, "mode"), _LOST),
    _fault("board leaves the low level", lambda sent: (sealed(b"\xee" + sent.datagram[1:]),), _LOST),
    _fault("one motor at 85 C", _set(85.0, "temperature", place=CALF), "trip temperature", soft="trip temperature"),
    _fault("one motor at 130 C, which the wire cannot say", _set(-126.0, "temperature", place=CALF), _HOT),
    _fault("one motor without a temperature", _set(-128.0, "temperature", place=CALF), _HOT),
    # The board's time.
    _fault("tick jumps ahead by 2 s", _tick(lambda tick, _first: tick + 2000), TICK_JUMP),
    _fault("tick jumps ahead by an hour", _tick(lambda tick, _first: tick + 3_600_000), TICK_JUMP),
    _fault("tick jumps back by 1 s", _tick(lambda tick, _first: tick - 1000), RESTARTED),
    _fault("tick jumps by half its range", _tick(lambda tick, _first: tick + 2**31), RESTARTED),
    _fault("tick wraps around", _tick(lambda tick, first: tick - first - 200), f"{TOLERATED} | {RESTARTED}"),
    _fault("tick runs at half speed", _tick(lambda tick, first: first + (tick - first) // 2), _FEW),
    _fault("tick in microseconds from now on", _tick(lambda tick, first: first + 1000 * (tick - first)), TOLERATED),
    _fault(
        "tick jumps to and fro",
        lambda sent: (sent.encoded(tick=sent.state.tick + 500 * (sent.cycle % 3)),),
        f"{_OLD} | {TICK_JUMP}",
    ),
    _fault("tick runs backwards", _tick(lambda tick, first: first - (tick - first)), _STOPPED),
    _fault("tick of zero", _tick(lambda _tick, _first: 0), _STOPPED),
    # The line.
    _fault("truncated datagrams, every second", _every(2, lambda sent: (sent.datagram[:385],)), _HALF, 2.0),
    _fault("datagrams in two fragments", lambda sent: (sent.datagram[:400], sent.datagram[400:]), "trip stale_state"),
    _fault("two states in one datagram", lambda sent: (2 * sent.datagram,), "trip stale_state"),
    # It changes nothing, but takes time from the processes.
    _fault("every state ten times", lambda sent: (sent.datagram,) * 10, UNCHANGED),
    _fault("groups of 5 in reverse", _held(5, step=-1), f"{TOLERATED} | {_OLD}"),
    _fault("bursts every 40 ms", _held(20), _BURSTS),
    _fault("bursts every 90 ms", _held(45), _BURSTS),
    _fault("pauses of 40 ms, ten a second", _paused(20, 50), _PAUSES, 2.0),
    _fault("pauses of 90 ms, twice a second", _paused(45, 250), _PAUSES, 2.0),
    _fault("delay grows to 150 ms", _later(lambda cycle: min(cycle // 20, 75)), _LATE, lasting=5.0),
    _fault("delay jumps from 0 to 60 ms", _later(lambda _cycle: 30), _LATE),
    _fault("every state again 1 s later", _repeated_later, _OLD),
    _fault("second board, earlier tick", _second_board(-5000, 0.3), _OLD),
    _fault("second board, later tick", _second_board(5000, 0.3), f"{_JOINT} | {_OLD}"),
    _fault("second board, identity in one of 100", _every(100, _second_board(1, identity=(1, 1))), _OTHER, soft=_OTHER),
    _fault("other generation in every second state", _every(2, _other_generation), _HALF),
    _fault("commands come back", lambda sent: (sent.datagram, sent.datagram[:610]), _REJECTED),
    _fault("250 Hz", _paused(1, 2), _SLOW, 2.0),
    _fault("50 Hz", _paused(9, 10), _SLOW, 2.0),
    _fault("13 Hz", _paused(37, 38), _SLOW, 2.0),
)


def _attack(make: Callable[[Sent, int], bytes], count: int = 20) -> Change:
    """Send `count` datagrams of an attacker among the states, given the number of each."""
    return _every(ATTACK_PERIOD, lambda sent: (sent.datagram, *(make(sent, number) for number in range(count))))


def _old(sent: Sent, number: int) -> bytes:
    position = sent.state.position + sent.rng.uniform(-0.3, 0.3, MOTORS)
    return sent.encoded(tick=sent.state.tick - 2000 + number, position=position)


def _corrupted(sent: Sent, _number: int) -> bytes:
    datagram = bytearray(sent.datagram)
    datagram[int(sent.rng.integers(len(datagram)))] ^= 1 << int(sent.rng.integers(8))
    return bytes(datagram)


def _not_finite(sent: Sent, _number: int) -> bytes:
    return sent.encoded(velocity=_with(sent.state.velocity, int(sent.rng.integers(MOTORS)), np.nan))


# Datagrams of an attacker from the board's own port.
WIRE_ATTACKS: dict[str, Change] = {
    "old": _attack(_old),
    "corrupted": _attack(_corrupted),
    "not_finite": _attack(_not_finite),
    "short": _attack(lambda sent, _number: sent.datagram[:100]),
    "long": _attack(lambda sent, _number: sent.datagram + bytes(1000)),
    "random": _attack(lambda sent, _number: sent.rng.bytes(int(sent.rng.integers(1, 1500)))),
    "future": _attack(lambda sent, number: sent.encoded(tick=sent.state.tick + 100_000 + number), count=1),
}
CHANGES = {case.name: case.change for case in DISTORTIONS} | WIRE_ATTACKS
CHANGES[TILTED] = _set(PITCHED, "orientation")
