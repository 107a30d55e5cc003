"""The interface of a policy: what it sees and does. The same section in a model file, a data set and a task."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate, chain
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from fcnet_core.arrays import Array, ArraySpec, Single, Spec
from fcnet_core.control.envelope import Envelope
from fcnet_core.errors import FcnetError
from fcnet_core.files import Number, Positive
from fcnet_core.observation import terms as kinds
from fcnet_core.observation.terms import PRESETS, VELOCITY_TERMS, AnyTerm, Frames, Size, Term
from fcnet_core.robot import FIXED, SETPOINT_FIELDS, CommandRange, Gait, PerJoint, Robot, per_joint

SETPOINT_TERMS = (kinds.Command, kinds.Clock, kinds.Constant)  # neighbours of these types are one part, `command`


class History(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Past values that the runner keeps for an input: `length` of them, the newest included. layout: frame by frame, or
    all values of a term together. start: what fills it after a reset, zeros or the first value.
    """

    length: Frames
    order: Literal["newest_first", "oldest_first"]
    layout: Literal["frame", "term"]
    start: Literal["zeros", "first"]


class Input(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One input array of a network: its terms in order, float32 (n,), or one image, uint8. clip: after scale."""

    terms: Annotated[tuple[AnyTerm, ...], Meta(min_length=1, max_length=1000)]
    clip: Positive = math.inf
    history: History | None = None

    def __post_init__(self) -> None:
        if any(isinstance(term, kinds.Preset) for term in self.terms):
            expanded = [PRESETS[term.name] if isinstance(term, kinds.Preset) else (term,) for term in self.terms]
            force_setattr(self, "terms", tuple(chain(*expanded)))
        if len(self.terms) > 1 and any(isinstance(term, kinds.Image) for term in self.terms):
            raise ValueError("an image must be alone in its input")

    def frames(self, term: Term) -> int:
        """Return the number of values of a term in the input."""
        return term.history or (self.history.length if self.history else 1)


class Action(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind"):
    """Base of actions: value = offset + scale x clip(output, -clip, clip). With a table, `output` is the row of the
    table at the largest output of the network. further: names and sizes of outputs next to the action.
    """

    clip: Positive = math.inf
    further: dict[str, Size] = {}


class JointTargets(Action, frozen=True, tag="joint_position"):
    """Position targets [rad] of the interface's joints, for the joint limiter. offset: default_pose if it is None;
    clip_target [rad]: of the value; max_torque [Nm]: targets are moved so that position gains ask for at most that.
    """

    scale: PerJoint = 1.0
    offset: PerJoint | None = None
    clip_target: Positive = math.inf
    max_torque: Positive = math.inf


Table = tuple[tuple[Number, ...], ...]


class CommandAction(Action, frozen=True, tag="command"):
    """A velocity command: vx, vy [m/s] and yaw_rate [rad/s] by name."""

    fields: Annotated[tuple[Literal["vx", "vy", "yaw_rate"], ...], Meta(min_length=1, max_length=3)]
    scale: tuple[Number, ...]
    table: Table = ()


class VectorAction(Action, frozen=True, tag="vector"):
    """Numbers, such as the action of a Gymnasium task."""

    size: Size
    scale: Number | tuple[Number, ...] = 1.0
    offset: Number | tuple[Number, ...] = 0.0
    table: Table = ()


AnyAction = JointTargets | CommandAction | VectorAction


class Commands(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Setpoints of a policy. ranges: of the fields of robot.SETPOINT_FIELDS that a user moves; fixed: values of others;
    deadband: (vx, vy) of at most this length [m/s] count as zero; heading_hold: the yaw rate follows from a heading;
    gait: the clock's; envelope: the trained setpoints within the ranges, None for all of them.
    """

    ranges: dict[str, CommandRange] = {}
    fixed: dict[str, Number] = {}
    deadband: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    heading_hold: bool = False
    gait: Gait | None = None
    envelope: Envelope | None = None

    def __post_init__(self) -> None:
        if unknown := sorted(self.ranges.keys() - {*SETPOINT_FIELDS}):
            known = ", ".join(SETPOINT_FIELDS)
            raise ValueError(f"{unknown[0]} in commands.ranges is no setpoint; choose from {known}")
        if twice := self.ranges.keys() & self.fixed.keys():
            raise ValueError(f"the setpoint {min(twice)} is in ranges and fixed; give one of them")
        for name, (low, high) in (self.envelope.outermost if self.envelope else {}).items():
            limits = self.ranges.get(name, FIXED)
            if low < limits.lowest or high > limits.highest:
                raise ValueError(f"the envelope admits {name} from {low:g} to {high:g}, beyond its command range")


def _numbers(field: str) -> cached_property[Array]:
    return cached_property(lambda interface: np.array(getattr(interface, field) or (), dtype=np.float64))


class PolicyInterface(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, dict=True):
    """What a policy sees and does. Vectors of joints are in the order of `joints`, the network's.

    rate [Hz]: of the policy's steps; inputs: the arrays that the network takes, by name. A policy is for a robot, for
    an environment (a Gymnasium id) or for any robot. joints: joints of the robot that it sees and moves; the others
    hold their standing position. default_pose [rad], kp [Nm/rad], kd [Nms/rad]: a number, a list, or a mapping of name
    patterns, of which each joint matches exactly one; read as a list. Raises ValueError if the parts do not fit each
    other.
    """

    rate: Positive
    inputs: Annotated[dict[str, Input], Meta(min_length=1, max_length=100)]
    action: AnyAction
    robot: str = ""
    environment: str = ""
    joints: Annotated[tuple[str, ...], Meta(max_length=1000)] = ()
    default_pose: PerJoint | None = None
    kp: PerJoint | None = None
    kd: PerJoint | None = None
    commands: Commands = Commands()

    def __post_init__(self) -> None:
        if twice := Counter(self.joints) - Counter({*self.joints}):
            raise ValueError(f"joints names {min(twice)} twice")
        moves_joints = isinstance(self.action, JointTargets)
        if moves_joints and not self.joints:
            raise ValueError("joints must be named for an action of kind joint_position")
        for name in ("default_pose", "kp", "kd"):
            value = getattr(self, name)
            if value is None and moves_joints:
                raise ValueError(f"{name} is missing; an action of kind joint_position needs it")
            if value is not None:
                force_setattr(self, name, tuple(per_joint(value, self.joints, name).tolist()))
        joints = self.joints if moves_joints else [""] * self.values
        for name in ("scale", "offset"):
            value = getattr(self.action, name, 0.0)
            if value is not None:
                per_joint(value, joints, f"action.{name}")
        if any(len(row) != self.values for row in self.table):
            raise ValueError(f"each row of the action's table needs {self.values} values")
        for name, seen in self.inputs.items():
            for term in seen.terms:
                self._check_term(name, term)

    def _check_term(self, name: str, term: Term) -> None:
        commands, size = self.commands, self.size(term)
        if not size:
            raise ValueError(f"input {name}: {term.part} needs joints")
        setpoints = term.fields if isinstance(term, kinds.Command) else ()
        if isinstance(term, kinds.Clock) and term.form == "foot_sines":
            setpoints = (term.frequency, *chain(*term.offsets.values()))
        if unknown := sorted({*setpoints} - {*commands.ranges, *commands.fixed}):
            raise ValueError(f"input {name}: the setpoints {unknown} are neither in commands.ranges nor fixed")
        if isinstance(term.scale, tuple) and len(term.scale) != size:
            raise ValueError(f"input {name}: scale of {term.part} has {len(term.scale)} numbers, but needs {size}")
        if isinstance(term, kinds.LastAction) and term.of == "index" and not self.table:
            raise ValueError(f"input {name}: a last action by index needs an action table")
        if isinstance(term, kinds.Clock) and term.form == "gait" and commands.gait is None:
            raise ValueError(f"input {name}: a gait clock needs commands.gait")
        if isinstance(term, kinds.JointPosition) and term.form == "relative" and self.default_pose is None:
            raise ValueError(f"input {name}: relative joint positions need default_pose")

    @property
    def name(self) -> str:
        """Name of the robot or environment; empty if there is none."""
        return self.robot or self.environment

    @property
    def table(self) -> Table:
        """The actions among which the network chooses; empty if its action is continuous."""
        return () if isinstance(self.action, JointTargets) else self.action.table

    @property
    def values(self) -> int:
        """Number of values of an action."""
        if isinstance(self.action, JointTargets):
            return len(self.joints)
        return self.action.size if isinstance(self.action, VectorAction) else len(self.action.fields)

    pose = _numbers("default_pose")  #: the default pose (N,) [rad]
    stiffness = _numbers("kp")  #: the gains kp (N,) [Nm/rad]
    damping = _numbers("kd")  #: the gains kd (N,) [Nms/rad]

    def size(self, term: Term) -> int:
        """Return the number of entries of a term in one frame."""
        match term:
            case kinds.JointPosition() | kinds.JointVelocity():
                return len(self.joints)
            case kinds.LastAction(of="index"):
                return 1
            case kinds.LastAction():
                return self.values
            case kinds.Command():
                return len(term.fields)
            case kinds.Clock():
                return {"gait": 3, "sin_cos": 2}.get(term.form, len(term.offsets))
            case kinds.Constant() | kinds.Vector():
                return term.size
            case kinds.Image():
                return math.prod(term.shape)
        return term.SIZE

    @cached_property
    def spec(self) -> dict[str, ArraySpec]:
        """Shape and type of every input, with its parts by name: neighbouring setpoints, clocks and constants are the
        part `command`; a part that occurs again, or an earlier frame, has a number behind its name.
        """
        return {name: self._spec(seen) for name, seen in self.inputs.items()}

    def _spec(self, seen: Input) -> ArraySpec:
        first = seen.terms[0]
        if isinstance(first, kinds.Image):
            return ArraySpec(first.shape, "uint8")
        if isinstance(first, kinds.LastAction) and first.of == "index" and len(seen.terms) == 1:
            return ArraySpec((seen.frames(first),), "int64")
        sizes: list[tuple[str, int]] = []
        for _, term in self.blocks(seen):
            part, size = "command" if isinstance(term, SETPOINT_TERMS) else term.part, self.size(term)
            if sizes and part == "command" == sizes[-1][0]:
                size += sizes.pop()[1]
            sizes.append((part, size))
        parts, count = {}, Counter[str]()
        for part, size in sizes:
            count[part] += 1
            parts[part if count[part] == 1 else f"{part}.{count[part]}"] = size
        return ArraySpec((sum(parts.values()),), parts=parts)

    def blocks(self, seen: Input) -> list[tuple[int, AnyTerm]]:
        """Return age in frames and term of every block of entries, in the order of the input."""
        history = seen.history
        newest_first = history is not None and history.order == "newest_first"
        if history and history.layout == "frame":
            ages = range(history.length)[:: 1 if newest_first else -1]
            return [(age, term) for age in ages for term in seen.terms]
        blocks: list[tuple[int, AnyTerm]] = []
        for term in seen.terms:
            ages = range(seen.frames(term))[:: 1 if newest_first and not term.history else -1]
            blocks += [(age, term) for age in ages]
        return blocks

    @property
    def placed_terms(self) -> list[tuple[AnyTerm, range]]:
        """Every block of the first input, with its entries."""
        terms = [term for _, term in self.blocks(next(iter(self.inputs.values())))]
        ends = accumulate(map(self.size, terms))
        return [(term, range(end - self.size(term), end)) for term, end in zip(terms, ends, strict=True)]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every input."""
        return {name: spec.shape for name, spec in self.spec.items()}

    @property
    def outputs(self) -> dict[str, int]:
        """The sizes of the network's outputs by name: `action`, and further ones."""
        return {"action": len(self.table) or self.values, **self.action.further}

    def scales(self, name: str) -> Single:
        """Return the scale (n,) of every entry of an input."""
        pairs = self.blocks(self.inputs[name])
        return np.concatenate([np.broadcast_to(term.scale, self.size(term)) for _, term in pairs]).astype(np.float32)

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """Names of the signals that its terms read."""
        return tuple(sorted({term.reads for term in self._terms} - {""}))

    @property
    def _terms(self) -> list[AnyTerm]:
        return [term for seen in self.inputs.values() for term in seen.terms]

    @property
    def has_past(self) -> bool:
        """Whether an input depends on more than the signals and commands of its step and the target sent before it."""
        return any(
            seen.history or term.history or isinstance(term, kinds.Reward | kinds.ReturnToGo)
            or (isinstance(term, kinds.LastAction) and (term.of != "sent" or term.age > 1))
            or (isinstance(term, kinds.Clock) and term.form != "gait")
            for seen in self.inputs.values()
            for term in seen.terms
        )  # fmt: skip

    def check_signals(self, provided: Iterable[str], who: str) -> None:
        """Raise FcnetError unless `who` provides every signal that a term reads."""
        names = set(provided)
        if missing := [term for term in self._terms if term.reads and term.reads not in names]:
            needed = f"the policy's term {missing[0].part} needs the signal {missing[0].reads}"
            raise FcnetError(f"{needed}; {who} provides {', '.join(sorted(names)) or 'none'}")

    def rows(self, joints: Sequence[str]) -> list[int]:
        """Return the indices of the interface's joints among `joints`, a robot's. Raises FcnetError."""
        if unknown := [joint for joint in self.joints if joint not in joints]:
            raise FcnetError(f"the policy's joint {unknown[0]} is none of the robot's joints {', '.join(joints)}")
        return [list(joints).index(joint) for joint in self.joints]


def velocity_interface(robot: Robot, rate: float = 50.0) -> PolicyInterface:
    """Return the interface of a policy that tracks velocity, pose and gait: VELOCITY_TERMS to targets [rad]."""
    return PolicyInterface(
        rate=rate,
        robot=robot.name,
        joints=robot.joint_names,
        default_pose=tuple(robot.stand_pose.tolist()),
        kp=tuple(robot.kp.tolist()),
        kd=tuple(robot.kd.tolist()),
        inputs={"observation": Input(terms=VELOCITY_TERMS)},
        action=JointTargets(offset=0.0),
        commands=Commands(ranges=robot.commands, gait=robot.gait),
    )


def vector_interface(spec: Spec, action: int, rate: float = 1.0, name: str = "") -> PolicyInterface:
    """Return the interface of a policy that maps arrays of this spec, each a signal of its name, to `action` numbers.

    name: of the environment.
    """
    inputs = {}
    for key, array in spec.items():
        if array.dtype == "float32":
            term: AnyTerm = kinds.Vector(name=key, size=math.prod(array.shape))
        else:
            height, width, channels = array.shape
            term = kinds.Image(camera=key, size=(height, width), encoding="mono8" if channels == 1 else "rgb8")
        inputs[key] = Input(terms=(term,))
    return PolicyInterface(rate=rate, environment=name, inputs=inputs, action=VectorAction(size=action))
