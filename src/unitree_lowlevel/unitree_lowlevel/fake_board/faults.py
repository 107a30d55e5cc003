"""Faults of a fake board and of the line to it: values, typed commands that set them, and effects."""

import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from fcnet_core.names import BUTTONS
from fcnet_core.robot import Robot
from fcnet_core.rotation import matrix_from_xyzw, product, xyzw_from_roll_pitch
from unitree_lowlevel.codec import JOINTS, MOTORS, REMOTE_BYTES, STICKS, LowState, RemoteState

OVERTAKEN = 0.005  # [s] by which a packet is delayed so that later ones overtake it
OUTSIDE = 0.3  # [rad] beyond the upper limit, of every calf with `outside_limits`
CALVES = [row for row, name in enumerate(JOINTS) if "calf" in name]
SPIKE_JOINT = JOINTS.index("FL_thigh_joint")
BROKEN_JOINT = JOINTS.index("RR_thigh_joint")  # with a position of NaN
Packet = TypeVar("Packet")


class ValueKind(NamedTuple):
    """A type of value: description, check, and conversion from its words, one argument each."""

    takes: str
    is_valid: Callable[[Any], bool]
    convert: Callable[..., Any] = float


def _deflection(stick: str, value: str) -> dict[str, float]:
    if stick not in STICKS or not -1.0 <= float(value) <= 1.0:
        raise ValueError
    return {stick: float(value)}


SWITCH = ValueKind("on or off", lambda value: True, {"on": True, "off": False}.__getitem__)
SHARE = ValueKind("a fraction, from 0 to 1", lambda value: 0.0 <= value <= 1.0)
AMOUNT = ValueKind("a number of zero or more", lambda value: 0.0 <= value < math.inf)
FINITE = ValueKind("a finite number", math.isfinite)
TEMPERATURE = ValueKind("-128 to 127 deg C, the range of the wire", lambda value: -128.0 <= value <= 127.0)
ANGLES = ValueKind(
    "roll and pitch, finite numbers",
    lambda value: all(map(math.isfinite, value)),
    lambda roll, pitch: (float(roll), float(pitch)),
)
JOINT = ValueKind(f"one of {', '.join(JOINTS)}", JOINTS.__contains__, str)
STICK = ValueKind(f"one of {' '.join(STICKS)} and a number from -1 to 1", lambda value: True, _deflection)


def _fault(default: Any, kind: ValueKind, meaning: str) -> Any:
    return field(default=default, metadata={"kind": kind, "help": meaning})


@dataclass(frozen=True)
class BoardFaults:
    """All faults, none by default. Faults of the line act in both directions, all others only on the states.

    Raises ValueError for a value of the wrong type or range.
    """

    delay: float = _fault(0.0, AMOUNT, "delay of every packet [s]")
    jitter: float = _fault(0.0, AMOUNT, "maximum random delay of every packet [s]")
    loss: float = _fault(0.0, SHARE, "fraction of lost packets")
    duplicates: float = _fault(0.0, SHARE, "fraction of packets that arrive twice")
    reordering: float = _fault(0.0, SHARE, "fraction of packets that later ones overtake")
    corruption: float = _fault(0.0, SHARE, "fraction of states with one wrong bit")
    silence: bool = _fault(False, SWITCH, "send no states")
    frozen_tick: bool = _fault(False, SWITCH, "the board's tick stops, its sensor values change")
    frozen_state: bool = _fault(False, SWITCH, "no sensor value changes, the board's tick advances")
    not_finite: bool = _fault(False, SWITCH, "the position of one joint is NaN")
    other_generation: bool = _fault(False, SWITCH, "states in the format of the other generation")
    other_robot: bool = _fault(False, SWITCH, "the header has the identity of another robot")
    outside_limits: bool = _fault(False, SWITCH, "calf positions outside this robot's limits")
    foreign_source: bool = _fault(False, SWITCH, "another port also sends plausible states")
    temperature: float | None = _fault(None, TEMPERATURE, "temperature of all motors [deg C]")
    tilt: tuple[float, float] | None = _fault(None, ANGLES, "measured roll and pitch of the trunk [rad]")
    spin: float = _fault(0.0, FINITE, "added angular velocity of the trunk about its y axis [rad/s]")
    joint_offset: float = _fault(0.0, FINITE, "offset of all joint positions [rad]")
    velocity_spike: float = _fault(0.0, FINITE, "offset of the velocity of one joint [rad/s]")
    spike_share: float = _fault(1.0, SHARE, "fraction of states with the velocity spike")
    torque_offset: float = _fault(0.0, FINITE, "offset of all torque estimates [Nm]")
    power: float = _fault(0.0, AMOUNT, "measured total power of the motors [W]")
    blocked_joint: str | None = _fault(None, JOINT, "this joint does not move")
    dead_motor: str | None = _fault(None, JOINT, "the motor of this joint is off: no torque, no servo mode")
    remote_lost: bool = _fault(False, SWITCH, "the remote's bytes are zero")
    remote_frozen: bool = _fault(False, SWITCH, "the remote's bytes do not change")
    remote: RemoteState = field(default_factory=RemoteState)

    def __post_init__(self) -> None:
        for fault in fault_fields():
            value, kind = getattr(self, fault.name), fault.metadata["kind"]
            if not (value is None and fault.default is None) and not kind.is_valid(value):
                raise ValueError(f"{fault.name} is {value}; it takes {kind.takes}")

    def active(self) -> dict[str, Any]:
        """Return the active faults by name."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in values.items() if value != getattr(NONE, name)}

    def __str__(self) -> str:
        active = self.active()
        if remote := active.get("remote"):
            sticks = [f"{stick} {getattr(remote, stick):g}" for stick in STICKS if getattr(remote, stick)]
            active["remote"] = " ".join([*sorted(remote.buttons), *sticks])
        words = [name if value is True else f"{name} {value}" for name, value in active.items()]
        return "faults: " + ", ".join(words) if words else "no faults"


def fault_fields() -> list[Field[Any]]:
    """Return the fields of all faults except the remote. Their metadata has "kind", a ValueKind, and "help"."""
    return [one for one in fields(BoardFaults) if one.metadata]


NONE = BoardFaults()


def changed_faults(faults: BoardFaults, words: list[str]) -> BoardFaults:
    """Return `faults` after one command such as `loss 0.1`, `silence on`, `tilt 1.2 0`, `press L2 B`, `stick lx 0.5`,
    `release` or `clear`. Raises ValueError for an unknown or wrong command.
    """
    verb, *values = words
    remote = faults.remote
    if verb == "clear":
        return replace(NONE, remote=remote)
    if verb == "press":
        if unknown := sorted(set(values) - set(BUTTONS)):
            raise ValueError(f"the remote has no button {unknown[0]}; choose from {' '.join(BUTTONS)}")
        return replace(faults, remote=replace(remote, buttons=remote.buttons | set(values)))
    if verb == "release":
        return replace(faults, remote=replace(remote, buttons=remote.buttons - set(values or BUTTONS)))
    kinds = {fault.name: fault.metadata["kind"] for fault in fault_fields()} | {"stick": STICK}
    if verb not in kinds:
        raise ValueError(f"there is no fault {verb}; `help` shows all")
    if values == ["off"] and verb != "stick":
        return replace(faults, **{verb: getattr(NONE, verb)})
    try:
        value = kinds[verb].convert(*values)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{' '.join(words)} is not understood; {verb} takes {kinds[verb].takes}") from error
    return replace(faults, **({"remote": replace(remote, **value)} if verb == "stick" else {verb: value}))


class Channel(Generic[Packet]):
    """One direction of the line: loses, duplicates, delays and reorders packets, reproducibly for a seed.

    A packet is delayed by `delay` and a random fraction of `jitter`: packets closer than the jitter may be reordered.
    """

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._order = itertools.count()
        self._waiting: list[tuple[float, int, Packet]] = []

    @property
    def next_due(self) -> float:
        """Time at which the next packet leaves the line, infinity without any."""
        return self._waiting[0][0] if self._waiting else math.inf

    def put(self, packet: Packet, now: float, faults: BoardFaults) -> None:
        """Send `packet` at time `now` [s]."""
        lost, doubled, overtaken = self._rng.random(3) < (faults.loss, faults.duplicates, faults.reordering)
        for _ in range(0 if lost else 2 if doubled else 1):
            late = faults.delay + faults.jitter * self._rng.random() + (OVERTAKEN if overtaken else 0.0)
            heapq.heappush(self._waiting, (now + late, next(self._order), packet))

    def take(self, now: float) -> list[Packet]:
        """Return the packets that have arrived by time `now`, in order of arrival."""
        arrived = []
        while self._waiting and self._waiting[0][0] <= now:
            arrived.append(heapq.heappop(self._waiting)[2])
        return arrived


class StateDistortion:
    """Applies the faults of a state's content; keeps the frozen values."""

    def __init__(self, robot: Robot, seed: int) -> None:
        self._robot = robot
        self._rng = np.random.default_rng(seed)
        self._frozen: dict[str, Any] = {}

    def distort(self, state: LowState, faults: BoardFaults) -> LowState:
        """Return the state that the board sends instead of `state`."""
        changes = self._wrong_joints(state, faults)
        if faults.tilt is not None:
            tilted = product(xyzw_from_roll_pitch(*faults.tilt), state.orientation)
            level_to_tilted = matrix_from_xyzw(tilted).T @ matrix_from_xyzw(state.orientation)
            changes |= {"orientation": tilted, "linear_acceleration": level_to_tilted @ state.linear_acceleration}
        if faults.spin:
            changes["angular_velocity"] = state.angular_velocity + (0.0, faults.spin, 0.0)
        if faults.temperature is not None:
            changes["temperature"] = np.full(MOTORS, faults.temperature)
        if faults.other_robot:
            changes["identity"] = tuple(number + 1 for number in state.identity)
        remote = self._frozen_value("remote", state.remote, faults.remote_frozen)
        changes["remote"] = bytes(REMOTE_BYTES) if faults.remote_lost else remote
        tick = self._frozen_value("tick", state.tick, faults.frozen_tick)
        return replace(self._frozen_value("state", replace(state, **changes), faults.frozen_state), tick=tick)

    def _frozen_value(self, name: str, value: Any, freezes: bool) -> Any:
        """Return the first value since this one freezes, the value itself if it does not."""
        if not freezes:
            self._frozen.pop(name, None)
            return value
        return self._frozen.setdefault(name, value)

    def _wrong_joints(self, state: LowState, faults: BoardFaults) -> dict[str, Any]:
        position, velocity, torque = state.position + faults.joint_offset, state.velocity, state.torque
        if faults.outside_limits:
            position[CALVES] = self._robot.upper[CALVES] + OUTSIDE
        if faults.not_finite:
            position[BROKEN_JOINT] = np.nan
        if faults.torque_offset:
            torque = torque + faults.torque_offset
        if faults.power:
            torque = 0.5 * self._robot.torque_limit
            velocity = faults.power / MOTORS / torque
        if faults.velocity_spike and self._rng.random() < faults.spike_share:
            velocity = velocity.copy()
            velocity[SPIKE_JOINT] += faults.velocity_spike
        return {"position": position, "velocity": velocity, "torque": torque}
