"""The parameters of the replay."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from rclpy.node import Node

from fcnet_controller.replay_bag import ReplayBag, ReplayBagError
from fcnet_core.model_file import load_model
from fcnet_core.replay.recording_notes import STYLE
from fcnet_core.robot import load_robot


class ReplaySettingsError(ValueError):
    """A parameter of the replay cannot be; the sentence says what to give."""


@dataclass(frozen=True)
class ReplaySettings:
    """bag: its folder; rate: recorded seconds per second; policy: a model file, empty for the recorded one; robot:
    empty for the recorded one; namespace: the robot's in the bag, empty for the only one; loop: begin again at the end;
    summary: JSON file to write the result to, or empty.
    """

    bag: str = ""
    rate: float = 1.0
    policy: str = ""
    robot: str = ""
    namespace: str = ""
    loop: bool = False
    summary: str = ""


def declare_settings(node: Node) -> ReplaySettings:
    """Declare the parameters and read them. Raises ReplaySettingsError."""
    names = [field.name for field in fields(ReplaySettings)]
    settings = ReplaySettings(
        **{name: node.declare_parameter(name, getattr(ReplaySettings, name)).value for name in names}
    )
    if not settings.bag:
        raise ReplaySettingsError("which bag shall be replayed? Give bag:=FOLDER")
    if not 0.0 < settings.rate < float("inf"):
        raise ReplaySettingsError(f"rate is {settings.rate:g}; it must be a positive number")
    return settings


def controller_parameters(bag: ReplayBag, settings: ReplaySettings) -> dict[str, Any]:
    """The controller's parameters as they were when the bag was recorded; the policy may be another.

    Raises ReplayBagError, or ValueError of another kind with one sentence.
    """
    notes = bag.notes
    robot = settings.robot or notes.robot or _ask_for_robot(bag)
    policy = settings.policy or str(bag.policy(load_robot(robot).name))
    return {
        "robot": robot,
        "policy": policy,
        "control_rate": notes.control_rate or load_model(policy).card.control_rate,
        "cmd_vel_timeout": notes.command_timeout,
        **dict(zip(STYLE, notes.style, strict=True)),
        "follows_targets": False,  # these are the targets' recorded consequences, or of another policy's
        "auto_start": False,
    }


def _ask_for_robot(bag: ReplayBag) -> str:
    raise ReplayBagError(f"the bag {bag.path} does not say which robot it is of; add robot:=aliengo, for example")
