"""Observation terms: what a policy sees, number by number.

A term is scale x clip(value, -clip, clip), in the unit of its value [SI, radians, body frame]. Its value comes from one
signal, `reads`, or from the runner itself (last actions, setpoints, clock).
"""

import math
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from fcnet_core.files import Number, Positive

Size = Annotated[int, Meta(ge=1, le=2**20)]
Frames = Annotated[int, Meta(ge=1, le=1000)]
Scale = Number | tuple[Number, ...]


def _tag(name: str) -> str:
    """Return a class name in snake case."""
    return "".join("_" * letter.isupper() + letter.lower() for letter in name)[1:]


class Term(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="term", tag=_tag
):
    """Base of all terms. scale: one number, or one per entry; history: number of past values, the newest included, that
    replaces the history of its input; oldest first and, after a reset, filled with the first value.
    """

    SIGNAL: ClassVar[str] = ""  # the signal that a term of this type reads
    SIZE: ClassVar[int] = 0  # of its value; 0: see PolicyInterface.size

    scale: Scale = 1.0
    clip: Positive = math.inf
    history: Frames | None = None

    @property
    def reads(self) -> str:
        """Name of the signal; empty if the runner has the value."""
        return self.SIGNAL

    @property
    def part(self) -> str:
        """Name of its entries in ArraySpec.parts, by which noise and units are chosen."""
        return str(self.__struct_config__.tag)


class AngularVelocity(Term, frozen=True):
    """Angular velocity of the trunk [rad/s]."""

    SIGNAL, SIZE = "angular_velocity", 3


class LinearVelocity(Term, frozen=True):
    """Velocity of the trunk [m/s], which no robot measures."""

    SIGNAL, SIZE = "linear_velocity", 3


class ProjectedGravity(Term, frozen=True):
    """Direction of gravity, a unit vector."""

    SIGNAL, SIZE = "orientation", 3


class JointVelocity(Term, frozen=True):
    """Velocities of the interface's joints [rad/s]."""

    SIGNAL = "joint_velocity"


class JointPosition(Term, frozen=True):
    """Positions of the interface's joints [rad]: relative to default_pose, absolute, or their sine or cosine."""

    SIGNAL = "joint_position"
    form: Literal["relative", "absolute", "sin", "cos"]

    @property
    def part(self) -> str:
        return f"{self.form}_joint_position" if self.form in ("sin", "cos") else "joint_position"


class LastAction(Term, frozen=True):
    """The action of 1 or 2 steps ago: `sent`, as it left the runner, in the action's unit; `output` of the network,
    clipped, not scaled; `index` into the action's table. After a reset: zeros, for index the length of the table.
    """

    of: Literal["sent", "output", "index"]
    age: Literal[1, 2] = 1


class Command(Term, frozen=True):
    """Setpoints by name, within their ranges."""

    fields: Annotated[tuple[str, ...], Meta(min_length=1, max_length=100)]


class Clock(Term, frozen=True):
    """A clock that starts at a reset. gait: sine and cosine of the gait's phase, and 1 while it moves. sin_cos: sine
    and cosine of 2 pi time / period [s]. foot_sines: for each foot sin 2 pi (phase + its offsets); frequency [Hz] and
    offsets name setpoints. lag: steps by which the last two are late; without it the first step has moved them already.
    """

    form: Literal["gait", "sin_cos", "foot_sines"]
    period: Positive | None = None
    frequency: str = ""
    offsets: dict[str, tuple[str, ...]] = {}
    lag: Literal[0, 1] = 0

    def __post_init__(self) -> None:
        if (self.form == "sin_cos") != (self.period is not None):
            raise ValueError("a clock has a period if its form is sin_cos, otherwise none")
        if (self.form == "foot_sines") != bool(self.frequency and self.offsets):
            raise ValueError("a clock has frequency and offsets if its form is foot_sines, otherwise none")


class Constant(Term, frozen=True):
    """The same value in all entries."""

    size: Size
    value: Number


class Vector(Term, frozen=True):
    """Any other signal: of a Gymnasium task, an estimator or a simulator."""

    name: str
    size: Size

    @property
    def reads(self) -> str:
        return self.name

    @property
    def part(self) -> str:
        return self.name


class Reward(Term, frozen=True):
    """The reward of the last step; 0 after a reset."""

    SIGNAL, SIZE = "reward", 1


class ReturnToGo(Term, frozen=True):
    """(return still to come - reference[0]) / span of reference: `target` after a reset, less reward / span in each
    step. hold: it stays at the target, because no reward is measured.
    """

    SIZE = 1
    reference: tuple[Number, Number]
    target: Number = 1.0
    hold: bool = False

    def __post_init__(self) -> None:
        if not self.reference[0] < self.reference[1]:
            raise ValueError("the reference of return_to_go must rise")

    @property
    def reads(self) -> str:
        return "" if self.hold else "reward"


class Image(Term, frozen=True):
    """A picture of a camera, uint8 (height, width, channels), alone in its input and scaled in the network. fovy: its
    vertical field of view [deg].
    """

    camera: str
    size: tuple[Size, Size]
    encoding: Literal["rgb8", "mono8"]
    fovy: Positive | None = None

    @property
    def reads(self) -> str:
        return f"camera/{self.camera}"

    @property
    def shape(self) -> tuple[int, int, int]:
        return (*self.size, 3 if self.encoding == "rgb8" else 1)


class Preset(Term, frozen=True):
    """Stands for a list of terms in files that people write; `Input` replaces it by them."""

    name: Literal["fcnet_70"]


BodyTerm = AngularVelocity | LinearVelocity | ProjectedGravity | JointVelocity | JointPosition
AnyTerm = BodyTerm | LastAction | Command | Clock | Constant | Vector | Reward | ReturnToGo | Image | Preset
# The 70 numbers of a robot with 12 joints (appendix C.3 of the FCNet paper), 4 N + 22 for N joints.
VELOCITY_TERMS: tuple[AnyTerm, ...] = (
    ProjectedGravity(),
    JointVelocity(),
    JointPosition(form="sin"),
    JointPosition(form="cos"),
    AngularVelocity(),
    LastAction(of="sent"),
    Command(fields=("vx", "vy", "yaw_rate", "height", "roll", "pitch", "width", "clearance")),
    Clock(form="gait"),
    Command(fields=("frequency",)),
    Constant(size=4, value=0.0),
)
PRESETS: dict[str, tuple[AnyTerm, ...]] = {"fcnet_70": VELOCITY_TERMS}
