"""The parameters of the replay."""

from __future__ import annotations

from dataclasses import dataclass, fields

from rcl_interfaces.msg import ParameterDescriptor
from rclpy.node import Node


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
    fixed = ParameterDescriptor(read_only=True)
    names = [field.name for field in fields(ReplaySettings)]
    settings = ReplaySettings(
        **{name: node.declare_parameter(name, getattr(ReplaySettings, name), fixed).value for name in names}
    )
    if not settings.bag:
        raise ReplaySettingsError("which bag shall be replayed? Give bag:=FOLDER")
    if not 0.0 < settings.rate < float("inf"):
        raise ReplaySettingsError(f"rate is {settings.rate:g}; it must be a positive number")
    return settings
