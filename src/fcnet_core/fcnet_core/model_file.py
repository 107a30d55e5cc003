"""The model file: one self-describing `.safetensors` artifact per policy.

It holds the weights under their published names, the normalisation (`observation_mean`, `observation_std`,
`action_mean`, `action_scale`) and, as JSON in the metadata entry `fcnet`, a card that says for which robot the policy
was made and how it must be run. The network's input is clip((observation - observation_mean) / observation_std,
-observation_clip, observation_clip); the joint position targets [rad] are action_mean + action_scale * output.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.numpy

from fcnet_core.files import write_whole
from fcnet_core.policies.fcnet.config import NetworkShape
from fcnet_core.robot import JOINT_NAMES, SETPOINT_FIELDS, CommandRange, Gait, Robot

# The card inside a model file: everything about a policy that is not a weight.

FORMAT_VERSION = 1
WindowPolicy = Literal["sliding", "reset_every_n"]


class CardError(ValueError):
    """A card cannot be used; the message continues a sentence that begins with the file's name."""


@dataclass(frozen=True)
class PolicyCard:
    """For which robot a policy was made and how it must be run; vectors of 12 follow joint_names.

    window_policy: "sliding" filters without end, "reset_every_n" forgets everything after each window of n steps (as
    the published evaluation does). control_rate [Hz]; observation_clip in standard deviations; kp [Nm/rad], kd
    [Nms/rad], default_pose [rad]; gait: the fields of robot.Gait; command_ranges: field -> (lowest, highest, rate);
    training: a free summary of the training; created: ISO 8601 in UTC.
    """

    robot: str
    joint_names: tuple[str, ...]
    shape: NetworkShape
    window_policy: WindowPolicy
    control_rate: float
    observation_clip: float
    kp: tuple[float, ...]
    kd: tuple[float, ...]
    default_pose: tuple[float, ...]
    gait: dict[str, float]
    command_ranges: dict[str, tuple[float, float, float]]
    training: dict[str, Any] = field(default_factory=dict)
    created: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds"))
    policy_type: str = "fcnet"
    format_version: int = FORMAT_VERSION

    @property
    def memory(self) -> float:
        """Steps after which a policy remembers nothing of what was before, in its last layer either.

        Infinite where it forgets by counting: two that count from different steps never remember the same.
        """
        return self.shape.layers * (self.shape.window - 1) if self.window_policy == "sliding" else math.inf

    def __post_init__(self) -> None:
        if self.policy_type != "fcnet":
            raise CardError(f"holds a policy of type {self.policy_type!r}; this version runs fcnet policies")
        if self.window_policy not in get_args(WindowPolicy):
            raise CardError(f"has window policy {self.window_policy!r}; known: {', '.join(get_args(WindowPolicy))}")
        for name in ("control_rate", "observation_clip"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise CardError(f"has {name} {value}; it must be positive and finite")
        if any(len(limits) != 3 for limits in self.command_ranges.values()):
            raise CardError("must give every command range as lowest, highest and rate")
        for name in ("kp", "kd", "default_pose"):
            if len(getattr(self, name)) != len(self.joint_names):
                raise CardError(f"has {len(getattr(self, name))} entries in {name} for {len(self.joint_names)} joints")
        if set(self.command_ranges) != set(SETPOINT_FIELDS):
            raise CardError(f"must give command ranges for {', '.join(SETPOINT_FIELDS)}")
        if set(self.gait) != {entry.name for entry in fields(Gait)}:
            raise CardError(f"must give the gait's {', '.join(entry.name for entry in fields(Gait))}")


def card_for_robot(
    robot: Robot,
    shape: NetworkShape,
    window_policy: WindowPolicy = "sliding",
    control_rate: float = 50.0,
    observation_clip: float = 5.0,
    training: dict[str, Any] | None = None,
) -> PolicyCard:
    """A card whose joint names, gains, pose, gait and command ranges are those of the robot's file."""
    return PolicyCard(
        robot=robot.name,
        joint_names=JOINT_NAMES,
        shape=shape,
        window_policy=window_policy,
        control_rate=control_rate,
        observation_clip=observation_clip,
        kp=(robot.gains.kp,) * len(JOINT_NAMES),
        kd=(robot.gains.kd,) * len(JOINT_NAMES),
        default_pose=tuple(robot.stand_pose.tolist()),
        gait=asdict(robot.gait),
        command_ranges={name: (r.lowest, r.highest, r.rate) for name, r in robot.commands.items()},
        training=training or {},
    )


def card_to_json(card: PolicyCard) -> str:
    """The card as JSON, the same text for the same card."""
    return json.dumps(asdict(card), sort_keys=True)


def card_from_json(text: str) -> PolicyCard:
    """Read a card. Raises CardError when it was written by a newer version or lacks something."""
    try:
        entries = json.loads(text)
        version = entries["format_version"]
        if version != FORMAT_VERSION:
            raise CardError(f"has format version {version}, this fcnet reads version {FORMAT_VERSION}; update fcnet")
        for name in ("joint_names", "kp", "kd", "default_pose"):
            entries[name] = tuple(entries[name])
        entries["shape"] = NetworkShape(**entries["shape"])
        entries["command_ranges"] = {name: tuple(limits) for name, limits in entries["command_ranges"].items()}
        return PolicyCard(**entries)
    except CardError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CardError(f"has a card that cannot be read ({error}); train it again") from error


def brief(values: npt.ArrayLike) -> str:
    """A vector in few characters: one number when all its entries are equal."""
    numbers = np.atleast_1d(values)
    return ", ".join(f"{number:g}" for number in (numbers[:1] if np.ptp(numbers) == 0 else numbers))


Array = npt.NDArray[np.float32]
NORMALISATION = ("observation_mean", "observation_std", "action_mean", "action_scale")
METADATA_ENTRY = "fcnet"


class ModelFileError(ValueError):
    """A model file cannot be used; the message is one sentence that says what to do."""


@dataclass(frozen=True)
class PolicyModel:
    """A policy as stored: its card, its weights by published name, and its normalisation, all float32.

    observation_mean and observation_std are (observation,), action_mean and action_scale [rad] are (action,).
    """

    card: PolicyCard
    weights: dict[str, Array]
    observation_mean: Array
    observation_std: Array
    action_mean: Array
    action_scale: Array

    @property
    def gait(self) -> Gait:
        """The gait clock's parameters that the policy was trained with."""
        return Gait(**self.card.gait)

    @property
    def command_ranges(self) -> dict[str, CommandRange]:
        """Ranges and rates of the setpoint fields that the policy was trained for."""
        return {field: CommandRange(*limits) for field, limits in self.card.command_ranges.items()}

    @property
    def tensors(self) -> dict[str, Array]:
        """Every array that is stored, by name."""
        return self.weights | {name: getattr(self, name) for name in NORMALISATION}

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) over card and arrays: equal fingerprints mean equal behaviour."""
        digest = hashlib.sha256(card_to_json(self.card).encode())
        for name, tensor in sorted(self.tensors.items()):
            digest.update(f"{name}{tensor.shape}".encode())
            digest.update(np.ascontiguousarray(tensor, dtype="<f4").tobytes())
        return digest.hexdigest()


def save_model(model: PolicyModel, path: str | Path) -> None:
    """Write the model to `path`, whole or not at all: a reader never sees half a file.

    Raises ModelFileError when arrays do not fit the card or are not finite, OSError when the disk refuses.
    """
    path = Path(path)
    _check_tensors(model.tensors, model.card, f"the model for {path}")
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in model.tensors.items()}
    content = safetensors.numpy.save(tensors, metadata={METADATA_ENTRY: card_to_json(model.card)})
    write_whole(path, content)


def load_model(path: str | Path) -> PolicyModel:
    """Read and check a model file. Raises ModelFileError when it is missing, damaged, too new or inconsistent."""
    path = Path(path)
    if not path.is_file():
        raise ModelFileError(f"there is no model file {path}; check the path, or train a policy with `fcnet train`")
    name = f"model file {path}"
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get(METADATA_ENTRY)
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a mapping
    except (safetensors.SafetensorError, OSError) as error:
        raise ModelFileError(f"{name} is damaged or no model ({error}); copy or train it again") from error
    if text is None:
        raise ModelFileError(f"{name} has no fcnet card; use a file that `fcnet train` wrote")
    try:
        card = card_from_json(text)
    except CardError as error:
        raise ModelFileError(f"{name} {error}") from error
    _check_tensors(tensors, card, name)
    normalisation = {entry: tensors.pop(entry) for entry in NORMALISATION}
    return PolicyModel(card=card, weights=tensors, **normalisation)


def check_robot(model: PolicyModel, robot: Robot) -> None:
    """Make sure that the model was made for this very robot.

    Raises ModelFileError when robot, joint names or their order, gains, default pose or vector sizes differ.
    """
    card = model.card
    if card.robot != robot.name:
        raise ModelFileError(f"the model was made for the robot {card.robot}, not {robot.name}; choose another model")
    if card.joint_names != JOINT_NAMES:
        raise ModelFileError(f"the model's joints are {', '.join(card.joint_names)}, not {', '.join(JOINT_NAMES)}")
    if card.shape.action != len(JOINT_NAMES):
        raise ModelFileError(f"the model commands {card.shape.action} joints, {robot.name} has {len(JOINT_NAMES)}")
    facts: dict[str, tuple[npt.ArrayLike, npt.ArrayLike]] = {
        "stiffness kp": (card.kp, robot.gains.kp),
        "damping kd": (card.kd, robot.gains.kd),
        "default pose": (card.default_pose, robot.stand_pose),
    }
    for what, (trained, present) in facts.items():
        if not np.allclose(trained, present, rtol=1e-6, atol=1e-9):
            raise ModelFileError(
                f"the model was trained with {what} {brief(trained)}, but the robot file of {robot.name} says "
                f"{brief(present)}; train again or restore the robot file"
            )


def _check_tensors(tensors: dict[str, Array], card: PolicyCard, name: str) -> None:
    sizes = {"observation": (card.shape.observation,), "action": (card.shape.action,)}
    expected = card.shape.weight_shapes() | {entry: sizes[entry.split("_")[0]] for entry in NORMALISATION}
    if odd := sorted(set(expected) ^ set(tensors)):
        raise ModelFileError(f"{name} lacks or has an unknown array {odd[0]}; train it again")
    for entry, shape in expected.items():
        tensor = tensors[entry]
        if tensor.shape != shape or tensor.dtype != np.float32:
            raise ModelFileError(
                f"{name} has {entry} as {tensor.dtype} of shape {tensor.shape}, expected float32 of shape {shape}; "
                "train it again"
            )
        if not np.isfinite(tensor).all():
            raise ModelFileError(f"{name} holds values that are not finite in {entry}; train it again")
    if not (tensors["observation_std"] > 0).all():
        raise ModelFileError(f"{name} holds an observation_std that is not positive; train it again")
