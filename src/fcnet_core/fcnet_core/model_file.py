"""The model file: one self-describing `.safetensors` artifact per policy.

It holds the weights under their published names, the normalisation (`observation_mean`, `observation_std`,
`action_mean`, `action_scale`) and, as JSON in the metadata entry `fcnet`, a card that says for which robot the policy
was made and how it must be run. The network's input is clip((observation - observation_mean) / observation_std,
-observation_clip, observation_clip); the joint position targets [rad] are action_mean + action_scale * output.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.numpy

from fcnet_core.atomic_file import write_whole
from fcnet_core.policy_card import FORMAT_VERSION, CardError, PolicyCard, brief, card_from_json, card_to_json
from fcnet_core.robot import JOINT_NAMES, CommandRange, Gait, Robot

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


__all__ = [
    "FORMAT_VERSION",
    "ModelFileError",
    "PolicyCard",
    "PolicyModel",
    "check_robot",
    "load_model",
    "save_model",
]
