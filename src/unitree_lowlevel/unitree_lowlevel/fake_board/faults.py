"""What can be wrong with a fake board and with the line to it: the faults, their words, and what they do to states."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any

import numpy as np

from fcnet_core.robot import JOINT_NAMES, Robot
from fcnet_core.rotation import matrix_from_xyzw
from unitree_lowlevel.messages import BUTTONS, Array, LowState, RemoteState


def _fault(default: Any, meaning: str) -> Any:
    return field(default=default, metadata={"help": meaning})


OF_A_JOINT = ("blocked_joint", "dead_motor")  # faults whose value is a joint's name


@dataclass(frozen=True)
class BoardFaults:
    """Every fault, none by default. Those of the line act in both directions, all others on the states alone.

    Raises ValueError with a sentence for a value that cannot be.
    """

    delay: float = _fault(0.0, "every packet is late by this [s]")
    jitter: float = _fault(0.0, "every packet is late by a random time up to this [s]")
    loss: float = _fault(0.0, "share of the packets that are lost")
    duplicates: float = _fault(0.0, "share of the packets that arrive twice")
    reordering: float = _fault(0.0, "share of the packets that later ones overtake")
    corruption: float = _fault(0.0, "share of the states in which one bit is wrong")
    silence: bool = _fault(False, "no states are sent")
    frozen_tick: bool = _fault(False, "the board's time stands still, its sensors live")
    frozen_state: bool = _fault(False, "all sensors say the same for ever, the board's time goes on")
    not_finite: bool = _fault(False, "one joint's position is not a number")
    other_generation: bool = _fault(False, "states in the format of the other generation")
    other_robot: bool = _fault(False, "the header says that another robot answers")
    outside_limits: bool = _fault(False, "calves stand where this robot's cannot be")
    foreign_source: bool = _fault(False, "besides, another port sends plausible states")
    temperature: float | None = _fault(None, "all motors are as warm as this [deg C]")
    tilt: tuple[float, float] | None = _fault(None, "the trunk seems turned by roll and pitch [rad]")
    joint_offset: float = _fault(0.0, "all joint positions are wrong by this [rad]")
    velocity_spike: float = _fault(0.0, "one joint seems faster by this [rad/s]")
    spike_share: float = _fault(1.0, "share of the states that carry the velocity spike")
    torque_offset: float = _fault(0.0, "all torque estimates are wrong by this [Nm]")
    power: float = _fault(0.0, "the motors seem to take this [W] together")
    blocked_joint: str | None = _fault(None, "this joint does not move, whatever its motor does")
    dead_motor: str | None = _fault(None, "the motor of this joint has cut itself out: no torque, no servo mode")
    remote: RemoteState = field(default_factory=RemoteState)

    def __post_init__(self) -> None:
        for name in ("loss", "duplicates", "reordering", "corruption", "spike_share"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} is {getattr(self, name):g}; it is a share, from 0 to 1")
        for name in ("delay", "jitter", "power"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name):g}; it must be zero or more")
        for name in ("joint_offset", "velocity_spike", "torque_offset"):
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name} is {getattr(self, name):g}; it must be a finite number")
        if self.tilt is not None and not all(math.isfinite(angle) for angle in self.tilt):
            raise ValueError(f"tilt is {self.tilt[0]:g} {self.tilt[1]:g}; it must be two finite numbers")
        if self.temperature is not None and not -128.0 <= self.temperature <= 127.0:
            raise ValueError(f"temperature is {self.temperature:g}; the wire carries -128 to 127 deg C")
        for joint in (self.blocked_joint, self.dead_motor):
            if joint not in (None, *JOINT_NAMES):
                raise ValueError(f"there is no joint {joint}; choose one of {', '.join(JOINT_NAMES)}")

    @property
    def line_is_good(self) -> bool:
        """Whether packets arrive at once, once and in order."""
        return not (self.delay or self.jitter or self.loss or self.duplicates or self.reordering)

    def active(self) -> dict[str, Any]:
        """The faults that differ from none, by name."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in values.items() if value != getattr(NONE, name)}


NONE = BoardFaults()


STICKS = ("lx", "ly", "rx", "ry", "L2")
ON_OFF = {"on": True, "off": False}


def fault_fields() -> list[Field[Any]]:
    """The faults that one word or number switches: all but the remote, which has words of its own."""
    return [one for one in fields(BoardFaults) if one.name != "remote"]


def changed_faults(faults: BoardFaults, words: list[str]) -> BoardFaults:
    """`faults` after one command such as `loss 0.1`, `silence on`, `tilt 1.2 0`, `press L2 B`, `stick lx 0.5`,
    `release` or `clear`. Raises ValueError with a sentence.
    """
    verb, *values = words
    if verb == "clear":
        return replace(NONE, remote=faults.remote)
    if verb in ("press", "release", "stick"):
        return replace(faults, remote=_REMOTE[verb](faults, values))
    for fault in fault_fields():
        if fault.name == verb:
            return replace(faults, **{verb: fault_value(fault, values)})
    raise ValueError(f"there is no fault {verb}; `help` shows all")


def fault_value(fault: Field[Any], words: list[str]) -> Any:
    """The value of one fault, read from words. Raises ValueError with a sentence."""
    if words == ["off"] and not isinstance(fault.default, bool):
        return fault.default
    read, wanted = _reader(fault)
    try:
        return read(words)
    except (KeyError, ValueError) as error:
        raise ValueError(f"{fault.name} {' '.join(words)} is not understood; {fault.name} takes {wanted}") from error


def _reader(fault: Field[Any]) -> tuple[Callable[[list[str]], Any], str]:
    if isinstance(fault.default, bool):
        return _switch, "on or off"
    if fault.name == "tilt":
        return _two_numbers, "roll and pitch in radians, or off"
    if fault.name in OF_A_JOINT:
        return _one_word, "a joint's name, or off"
    return _number, "a number, or off"


def _switch(words: list[str]) -> bool:
    (word,) = words
    return ON_OFF[word]


def _number(words: list[str]) -> float:
    (word,) = words
    return float(word)


def _two_numbers(words: list[str]) -> tuple[float, float]:
    roll, pitch = words
    return float(roll), float(pitch)


def _one_word(words: list[str]) -> str:
    (word,) = words
    return word


def _press(faults: BoardFaults, buttons: list[str]) -> RemoteState:
    if unknown := sorted(set(buttons) - set(BUTTONS)):
        raise ValueError(f"the remote has no button {unknown[0]}; choose from {' '.join(BUTTONS)}")
    return replace(faults.remote, buttons=faults.remote.buttons | set(buttons))


def _release(faults: BoardFaults, buttons: list[str]) -> RemoteState:
    left = faults.remote.buttons - set(buttons) if buttons else frozenset()
    return replace(faults.remote, buttons=frozenset(left))


def _stick(faults: BoardFaults, words: list[str]) -> RemoteState:
    try:
        name, word = words
        place = float(word)
    except ValueError:
        name, place = "", 0.0
    if name not in STICKS or not -1.0 <= place <= 1.0:
        said = " ".join(["stick", *words])
        raise ValueError(f"{said} is not understood; stick takes one of {' '.join(STICKS)} and a number from -1 to 1")
    moved: dict[str, Any] = {name: place}
    return replace(faults.remote, **moved)


_REMOTE = {"press": _press, "release": _release, "stick": _stick}


OUTSIDE = 0.3  # [rad] beyond its upper limit where `outside_limits` puts every calf
CALVES = [2, 5, 8, 11]
SPIKE_JOINT = 4  # FL_thigh_joint
BROKEN_JOINT = 7  # RR_thigh_joint, whose position is not a number


class StateDistortion:
    """Applies the faults that concern one state's content; remembers what it needs to freeze."""

    def __init__(self, robot: Robot, seed: int) -> None:
        self._robot = robot
        self._rng = np.random.default_rng(seed)
        self._frozen_tick: int | None = None
        self._frozen_state: LowState | None = None

    def distort(self, state: LowState, faults: BoardFaults) -> LowState:
        """What the board says in place of `state`."""
        changed = self._wrong_joints(state, faults)
        if faults.tilt is not None:
            changed = _tilted(changed, *faults.tilt)
        if faults.temperature is not None:
            changed = replace(changed, temperature=np.full(12, faults.temperature))
        if faults.other_robot:
            changed = replace(changed, identity=tuple(number + 1 for number in changed.identity))
        return self._frozen(changed, faults)

    def _wrong_joints(self, state: LowState, faults: BoardFaults) -> LowState:
        position, velocity, torque = state.position, state.velocity, state.torque
        if faults.joint_offset:
            position = position + faults.joint_offset
        if faults.outside_limits:
            position = position.copy()
            position[CALVES] = self._robot.upper[CALVES] + OUTSIDE
        if faults.not_finite:
            position = position.copy()
            position[BROKEN_JOINT] = np.nan
        if faults.torque_offset:
            torque = torque + faults.torque_offset
        if faults.power:
            torque = 0.5 * self._robot.torque_limit
            velocity = faults.power / 12 / torque
        if faults.velocity_spike and self._rng.random() < faults.spike_share:
            velocity = velocity.copy()
            velocity[SPIKE_JOINT] += faults.velocity_spike
        return replace(state, position=position, velocity=velocity, torque=torque)

    def _frozen(self, state: LowState, faults: BoardFaults) -> LowState:
        if not faults.frozen_tick:
            self._frozen_tick = None
        elif self._frozen_tick is None:
            self._frozen_tick = state.tick
        if not faults.frozen_state:
            self._frozen_state = None
        elif self._frozen_state is None:
            self._frozen_state = state
        tick = state.tick if self._frozen_tick is None else self._frozen_tick
        return replace(self._frozen_state or state, tick=tick)


def foreign_state(state: LowState) -> LowState:
    """A plausible state that another sender might send: other joint positions, and later than the board's own."""
    return replace(state, position=state.position + 0.1, tick=(state.tick + 1000) % 2**32)


def _tilted(state: LowState, roll: float, pitch: float) -> LowState:
    orientation = _product(_quaternion(roll, pitch), state.orientation)
    felt = matrix_from_xyzw(orientation).T @ matrix_from_xyzw(state.orientation) @ state.linear_acceleration
    return replace(state, orientation=orientation, linear_acceleration=felt)


def _quaternion(roll: float, pitch: float) -> Array:
    half_roll, half_pitch = 0.5 * roll, 0.5 * pitch
    about_y = np.array([0.0, np.sin(half_pitch), 0.0, np.cos(half_pitch)])
    return _product(about_y, np.array([np.sin(half_roll), 0.0, 0.0, np.cos(half_roll)]))


def _product(left: Array, right: Array) -> Array:
    """The rotation `right` followed by `left`, quaternions (4,) x, y, z, w."""
    vector = left[3] * right[:3] + right[3] * left[:3] + np.cross(left[:3], right[:3])
    return np.append(vector, left[3] * right[3] - left[:3] @ right[:3])
