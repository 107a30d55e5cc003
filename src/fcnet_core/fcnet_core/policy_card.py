"""The card inside a model file: everything about a policy that is not a weight."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from fcnet_core.network_shape import NetworkShape
from fcnet_core.robot import JOINT_NAMES, SETPOINT_FIELDS, Gait, Robot

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
