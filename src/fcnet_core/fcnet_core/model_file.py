"""Model files: one self-describing `.safetensors` file per policy.

A file has the weights by their names in the network, the scales of the normalisation (normalisation.py) and, as JSON in
the metadata entry `fcnet`, a card with the type of the policy and its interface. In format 2 it also has the exported
step (policies/exported_step.py). A file of format 1 has neither step nor terms: with a robot it means VELOCITY_TERMS.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.numpy
from msgspec import Struct, field, structs

from fcnet_core.arrays import Floats, Single
from fcnet_core.control.command import CommandShaper
from fcnet_core.errors import FcnetError
from fcnet_core.files import Positive, converted, write_whole
from fcnet_core.hub import hub_model, is_hub
from fcnet_core.observation import ROBOT_SIGNALS, JointTargets, PolicyInterface, vector_interface, velocity_interface
from fcnet_core.policies import PolicyConfig, policy_type, policy_type_of
from fcnet_core.policies.normalisation import Normalisation, scale_shapes
from fcnet_core.robot import Robot

FORMAT_VERSIONS = (1, 2)
METADATA_ENTRY = "fcnet"
STEP = "exported_step"  # array of bytes
LARGEST_STEP = 2**24  # [bytes] compressed
TYPES = {np.dtype(np.float32): "F32", np.dtype(np.float16): "F16"}  # names in safetensors
MODEL_FOLDER = Path(__file__).parent / "models"  # the shipped policies
RUN_POLICIES = ("best.safetensors", "last.safetensors")  # of a training run's folder, by preference
WindowPolicy = Literal["sliding", "reset_every_n"]
LARGEST_CARD = 2**20  # [characters]


class PolicyCard(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a policy sees and does, its network, and how to run it.

    config: PolicyConfig of the policy type (in the file: `shape`). window_policy: "sliding" never clears the memory,
    "reset_every_n" clears it after each reset interval (as the published evaluation does). observation_clip in standard
    deviations; training: a free summary; created: ISO 8601 in UTC. format_version: 2 if the file has the exported step.
    """

    interface: PolicyInterface
    config: Any = field(name="shape")  # a PolicyConfig; msgspec would refuse its subclasses
    window_policy: WindowPolicy
    observation_clip: Positive
    training: dict[str, Any] = {}
    created: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds"))
    policy_type: str = "fcnet"
    format_version: Literal[1, 2] = 1

    @property
    def reset_interval(self) -> int | None:
        """Steps after which all memory must be cleared; None if the window slides."""
        interval: int = self.config.window
        return interval if self.window_policy == "reset_every_n" else None

    @property
    def memory(self) -> float:
        """Steps after which an earlier observation has no influence.

        Infinite with resets: the memories of two policies that count from different steps never become equal.
        """
        steps: float = self.config.memory_steps
        return steps if self.window_policy == "sliding" else math.inf

    def __post_init__(self) -> None:
        given, taken = self.interface.shapes, {name: spec.shape for name, spec in self.config.observation_spec.items()}
        if given != taken:
            raise ValueError(f"the terms of the interface give {given}, the network takes {taken}")
        if (size := self.interface.outputs["action"]) != self.config.action:
            raise ValueError(f"the action of the interface has {size} values, that of the network {self.config.action}")


def fitting(interface: PolicyInterface, config: PolicyConfig) -> PolicyInterface:
    """Return the interface or, if its terms do not give the sizes of the network, one with vectors of these sizes."""
    spec, sizes = config.observation_spec, interface.outputs["action"]
    if interface.shapes == {name: array.shape for name, array in spec.items()} and sizes == config.action:
        return interface
    vectors = vector_interface(spec, config.action)
    return structs.replace(interface, inputs=vectors.inputs, action=vectors.action)


def card_for_robot(
    robot: Robot,
    config: PolicyConfig,
    control_rate: float = 50.0,
    observation_clip: float = 5.0,
    training: dict[str, Any] | None = None,
) -> PolicyCard:
    """Return a card with joints, gains, pose, gait and command ranges from the robot's file."""
    return PolicyCard(
        interface=fitting(velocity_interface(robot, control_rate), config),
        policy_type=policy_type_of(config),
        config=config,
        window_policy="sliding",
        observation_clip=observation_clip,
        training=training or {},
    )


def card_to_json(card: PolicyCard) -> str:
    """Return the card as JSON, the same text for the same card."""
    return json.dumps(msgspec.to_builtins(card), sort_keys=True)


def stored_card(card: PolicyCard) -> str:
    """Return the card as JSON as a file has it, in format 1 without an interface, if that format can express it.

    Format 1 has the facts of the interface and no terms. Fingerprints are hashes of this text.
    """
    if card.format_version != 1:
        return card_to_json(card)
    at, commands = card.interface, card.interface.commands
    entries: dict[str, Any] = msgspec.to_builtins(card)
    del entries["interface"]
    entries |= {"robot": at.name, "joint_names": at.joints, "control_rate": at.rate}
    entries |= {name: getattr(at, name) or () for name in ("kp", "kd", "default_pose")}
    entries["gait"] = msgspec.to_builtins(commands.gait) or {}
    entries["command_ranges"] = msgspec.to_builtins(commands.ranges)
    if commands.envelope:
        entries["envelope"] = msgspec.to_builtins(commands.envelope)
    with suppress(ValueError):
        if _interface_of(dict(entries), card.config) == at:
            return json.dumps(entries, sort_keys=True)
    return card_to_json(card)


def _interface_of(entries: dict[str, Any], config: PolicyConfig) -> PolicyInterface:
    """Take the facts of the interface from the entries of a card of format 1. A robot's policy tracks velocities."""
    name, rate, joints = (entries.pop(entry) for entry in ("robot", "control_rate", "joint_names"))
    facts = {entry: entries.pop(entry, None) for entry in ("kp", "kd", "default_pose")}
    commands = {entry: entries.pop(entry, None) for entry in ("gait", "envelope")}
    commands["ranges"] = entries.pop("command_ranges", {})
    if not joints:
        return vector_interface(config.observation_spec, config.action, rate, name)
    facts |= {
        "rate": rate,
        "robot": name,
        "joints": joints,
        "inputs": {"observation": {"terms": [{"term": "preset", "name": "fcnet_70"}]}},
        "action": {"kind": "joint_position", "offset": 0.0},
        "commands": commands,
    }
    return fitting(converted(facts, PolicyInterface), config)


def brief(values: npt.ArrayLike) -> str:
    """Format a vector: one number if all entries are equal."""
    numbers = np.atleast_1d(values)
    return ", ".join(f"{number:g}" for number in (numbers[:1] if np.ptp(numbers) == 0 else numbers))


@dataclass(frozen=True)
class PolicyModel:
    """A policy as stored.

    weights: by their names in the network, float32, or matrices as float16; scales: of Normalisation, float32; step:
    the exported step, see policies/exported_step.py, empty in a file of format 1.
    """

    card: PolicyCard
    weights: dict[str, Floats]
    scales: dict[str, Single]
    step: bytes = b""

    @cached_property
    def normalisation(self) -> Normalisation:
        """The scaling of the network's inputs and outputs."""
        return Normalisation(self.scales, float(self.card.observation_clip))

    def command_shaper(self, batch: int = 1) -> CommandShaper:
        """Return a CommandShaper of this policy for `batch` robots, at its rate."""
        return CommandShaper.of(self.card.interface, batch)

    @property
    def half(self) -> bool:
        """Whether matrices are stored in half precision."""
        return any(weight.dtype == np.float16 for weight in self.weights.values())

    def in_half_precision(self) -> PolicyModel:
        """Return the policy with its matrices rounded to float16."""
        matrices = {name: weight.astype(np.float16) for name, weight in self.weights.items() if weight.ndim > 1}
        return replace(self, weights=self.weights | matrices)

    @property
    def tensors(self) -> dict[str, Floats]:
        """All stored arrays by name."""
        return self.weights | self.scales

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) over card and arrays: equal fingerprints mean equal behaviour. The same in both formats."""
        digest = hashlib.sha256(stored_card(structs.replace(self.card, format_version=1)).encode())
        for name, tensor in sorted(self.tensors.items()):
            digest.update(f"{name}{tensor.shape}".encode())
            digest.update(np.ascontiguousarray(tensor, dtype="<f4").tobytes())
        return digest.hexdigest()


def save_model(model: PolicyModel, path: str | Path) -> None:
    """Write the model to `path` atomically, in format 2 if it has a step.

    Raises FcnetError if arrays do not fit the card or are not finite, or if the card is too long to be read again;
    OSError if writing fails.

    >>> save_model(load_model("aliengo").in_half_precision(), "half.safetensors")
    >>> load_policy("half.safetensors").step(np.zeros(70)).shape
    (12,)
    """
    path, name = Path(path), f"the model for {path}"
    card = stored_card(structs.replace(model.card, format_version=2 if model.step else 1))
    if len(card) > LARGEST_CARD:
        raise FcnetError(f"{name} has a card of {len(card)} characters, the limit is {LARGEST_CARD}; shorten training")
    found = {key: (TYPES.get(array.dtype, str(array.dtype)), array.shape) for key, array in model.tensors.items()}
    _check_shapes(found, model.card, name)
    _check_values(model, name)
    tensors: dict[str, npt.NDArray[Any]] = {name: np.ascontiguousarray(array) for name, array in model.tensors.items()}
    if model.step:
        tensors[STEP] = np.frombuffer(model.step, np.uint8)
    write_whole(path, safetensors.numpy.save(tensors, metadata={METADATA_ENTRY: card}))


def shipped_model(name: str) -> Path:
    """Return the path of the shipped policy of that name, such as a robot's; it may not exist."""
    return MODEL_FOLDER / f"{name}.safetensors"


def shipped_names() -> list[str]:
    """Return the names of the shipped policies."""
    return sorted(path.stem for path in MODEL_FOLDER.glob("*.safetensors"))


def model_path(source: str | Path) -> Path:
    """Return the file at that path, the best one of a training run's folder, the shipped one of that name, or the
    download of `hf://owner/name` (hub.py). Raises FcnetError if there is none.
    """
    path = Path(source)
    if is_hub(source):
        return hub_model(source)
    if path.is_file():
        return path
    if saved := [path / name for name in RUN_POLICIES if (path / name).is_file()]:
        return saved[0]
    if path.is_dir():
        raise FcnetError(f"{source} has no policy; give a policy file or the folder of a run that has saved one")
    if str(source) in shipped_names():
        return shipped_model(str(source))
    shipped = ", ".join(shipped_names())
    raise FcnetError(f"there is no model file {source}; check the path, or name a shipped policy: {shipped}")


def load_model(source: str | Path) -> PolicyModel:
    """Read and check a model file: a path, a training run's folder (its best model), the name of a shipped model such
    as "aliengo", or `hf://owner/name[@revision][/file]` on the Hugging Face hub.

    Raises FcnetError if it is missing, damaged, too new or inconsistent.

    >>> model = load_model("aliengo")
    >>> model.card.policy_type, model.card.config.parameters
    ('fcnet', 787852)
    """
    path = model_path(source)
    name = f"model file {path}"
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            card = _card((file.metadata() or {}).get(METADATA_ENTRY), name)
            arrays = {key: file.get_slice(key) for key in file.keys()}  # noqa: SIM118 - not a mapping
            shapes = {key: (array.get_dtype(), tuple(array.get_shape())) for key, array in arrays.items()}
            step = _step(file, shapes.pop(STEP, None), card, name)
            _check_shapes(shapes, card, name)
            tensors = {key: file.get_tensor(key) for key in shapes}
    except (safetensors.SafetensorError, OSError) as error:
        raise FcnetError(f"{name} is damaged or not a model ({error}); copy or train it again") from error
    scales = {entry: tensors.pop(entry) for entry in scale_shapes(card.config.observation_spec, card.config.action)}
    model = PolicyModel(card, weights=tensors, scales=scales, step=step)
    _check_values(model, name)
    return model


def check_robot(model: PolicyModel, robot: Robot, provides: Iterable[str] = ROBOT_SIGNALS) -> None:
    """Check that the model was made for this robot. provides: the names of the signals that it can read.

    Raises FcnetError if robot, joint names, gains, default pose, signals, kind of action or body graph do not fit.
    """
    at = model.card.interface
    if at.robot != robot.name:
        raise FcnetError(f"the model was made for the robot {at.name}, not {robot.name}; choose another model")
    at.check_signals(provides, robot.name)
    if not isinstance(at.action, JointTargets):
        raise FcnetError(f"the model does not command the joints of {robot.name}; choose one with joint positions")
    rows = at.rows(robot.joint_names)
    model.card.config.check_robot(at, robot)
    gains = ("stiffness kp", at.stiffness, robot.kp), ("damping kd", at.damping, robot.kd)
    for what, trained, present in (*gains, ("default pose", at.pose, robot.stand_pose)):
        if not np.allclose(trained, present[rows], rtol=1e-6, atol=1e-9):
            found = f"the robot file of {robot.name} has {brief(present[rows])}; train again or restore the robot file"
            raise FcnetError(f"the model was trained with {what} {brief(trained)}, but {found}")


def _card(text: str | None, name: str) -> PolicyCard:
    if text is None:
        raise FcnetError(f"{name} has no fcnet card; use a file that `fcnet train` wrote")
    try:
        if len(text) > LARGEST_CARD:
            raise ValueError(f"it has {len(text)} characters, at most {LARGEST_CARD} are read")
        entries = json.loads(text)
        if (version := entries["format_version"]) not in FORMAT_VERSIONS:
            raise ValueError(f"format version {version}, this fcnet reads versions 1 and 2; update fcnet")
        entries["shape"] = converted(entries["shape"], policy_type(entries["policy_type"]).config)
        if "interface" not in entries:
            entries["interface"] = _interface_of(entries, entries["shape"])
        return converted(entries, PolicyCard)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FcnetError(f"{name} has a card that lacks or misplaces {error}") from error
    except ValueError as error:
        raise FcnetError(f"{name} has a card that cannot be used: {error}") from error


def _step(file: Any, found: tuple[str, tuple[int, ...]] | None, card: PolicyCard, name: str) -> bytes:
    """Read the exported step, which files of format 2 have. found: its type and shape."""
    if (found is None) != (card.format_version == 1):
        raise FcnetError(f"{name} of format {card.format_version} must have a step in format 2 only; export it again")
    if found is None:
        return b""
    kind, shape = found
    if kind != "U8" or len(shape) != 1 or shape[0] > LARGEST_STEP:
        raise FcnetError(f"{name} has a step as {kind} of shape {shape}, expected up to {LARGEST_STEP} bytes")
    step: bytes = file.get_tensor(STEP).tobytes()
    return step


def _check_shapes(found: Mapping[str, tuple[str, tuple[int, ...]]], card: PolicyCard, name: str) -> None:
    """Compare arrays with the card. found: type (safetensors name) and shape of each array."""
    scales = scale_shapes(card.config.observation_spec, card.config.action)
    expected = card.config.weight_shapes() | scales
    if odd := sorted(set(expected) ^ set(found)):
        raise FcnetError(f"{name} lacks or has an unknown array {odd[0]}; train it again")
    for entry, shape in expected.items():
        kinds = ("F32", "F16") if len(shape) > 1 and entry not in scales else ("F32",)
        kind, other = found[entry]
        if kind not in kinds or other != shape:
            expected = f"{' or '.join(kinds)} of shape {shape}"
            raise FcnetError(f"{name} has {entry} as {kind} of shape {other}, expected {expected}; train it again")


def _check_values(model: PolicyModel, name: str) -> None:
    for entry, tensor in model.tensors.items():
        if not np.isfinite(tensor).all():
            raise FcnetError(f"{name} has values that are not finite in {entry}; train it again")
    for entry, scale in model.scales.items():
        if entry.endswith("_std") and not (scale > 0).all():
            raise FcnetError(f"{name} has an {entry} that is not positive; train it again")
