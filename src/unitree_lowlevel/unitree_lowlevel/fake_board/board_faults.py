"""What can be wrong with a fake board and with the line to it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

from fcnet_core.robot import JOINT_NAMES
from unitree_lowlevel.wireless_remote import RemoteState


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
