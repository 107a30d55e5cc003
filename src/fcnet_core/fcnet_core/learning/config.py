"""What defines a training run: one YAML file of config/train/, checked before anything starts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_args

import yaml

from fcnet_core.model_file import WindowPolicy
from fcnet_core.observation import LAYOUT
from fcnet_core.policies.fcnet.config import NetworkShape

LOSSES = ("mse", "huber")


class TrainConfigError(ValueError):
    """A training configuration cannot be used; the message names the entry and what it must be."""


@dataclass(frozen=True)
class TrainConfig:
    """Settings of a run. Its length is a number of optimiser steps (given, or as epochs), never a time, so that the
    same data, settings and seed give the same policy on a slow machine and on a fast one.

    data: folders, each may end in `:weight`, how often its steps are drawn (default 1); crop: control periods of one
    training sequence; batch: crops of one optimiser step; warmup: share of the steps over which the learning rate
    rises linearly, before a cosine takes it to zero; gradient_clip: largest norm, 0 is off; observation_noise: standard
    deviation added to a part of the observation in its own unit, scaled by a random factor in 0..1 per crop;
    episode_start_share: share of the crops that begin where an episode begins; held_out_share: share of the sequences
    kept for the held-out error; action_scale [rad]: unit of the network's output; observation_clip: in standard
    deviations; intervals: in optimiser steps.
    """

    data: tuple[str, ...] = ()
    shape: NetworkShape = field(default_factory=NetworkShape)
    window_policy: WindowPolicy = "sliding"
    crop: int = 128
    batch: int = 8
    steps: int | None = None
    epochs: float | None = None
    learning_rate: float = 2.5e-3
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-8
    warmup: float = 0.1
    gradient_clip: float = 1.0
    loss: str = "mse"
    observation_noise: dict[str, float] = field(default_factory=dict)
    episode_start_share: float = 0.08
    held_out_share: float = 0.05
    action_scale: float = 0.3
    observation_clip: float = 6.0
    seed: int = 0
    threads: int = 1
    log_interval: int = 100
    validation_interval: int = 1000
    checkpoint_interval: int = 1000

    def __post_init__(self) -> None:
        for name, (holds, what) in RULES.items():
            value = getattr(self, name)
            if not holds(value):
                raise TrainConfigError(f"{name} must be {what}, not {value!r}")
        if self.steps is not None and self.epochs is not None:
            raise TrainConfigError("give steps or epochs, not both")
        if self.window_policy == "reset_every_n" and self.crop > self.shape.window:
            raise TrainConfigError(
                f"with window_policy reset_every_n the crop ({self.crop}) must not exceed the window"
                f" ({self.shape.window}), or the policy would be run otherwise than it was trained"
            )

    def total_steps(self, recorded: int) -> int:
        """Optimiser steps of the run on `recorded` control periods of training data."""
        if self.steps is not None:
            return self.steps
        if self.epochs is not None:
            return max(1, round(self.epochs * recorded / (self.crop * self.batch)))
        raise TrainConfigError("the length of the run is missing: give steps or epochs in the file, or --steps")


def load_train_config(path: str | Path) -> TrainConfig:
    """Read a YAML file; TrainConfigError names the file and the entry that cannot be used."""
    path = Path(path)
    if not path.is_file():
        raise TrainConfigError(f"there is no training configuration {path}; the suite's own are in config/train")
    try:
        entries = yaml.safe_load(path.read_text()) or {}
        if not isinstance(entries, dict):
            raise TrainConfigError("expected lines of the form `name: value`")
        return config_from_dict(entries)
    except (yaml.YAMLError, TrainConfigError) as error:
        raise TrainConfigError(f"training configuration {path} cannot be used: {error}") from error


def config_from_dict(entries: dict[str, Any]) -> TrainConfig:
    """A configuration from plain values, as YAML or JSON holds them."""
    known = {entry.name: entry for entry in fields(TrainConfig)}
    if unknown := sorted(str(name) for name in entries if name not in known):
        raise TrainConfigError(f"{unknown[0]} is not a setting; known are {', '.join(known)}")
    return TrainConfig(**{name: _converted(name, str(known[name].type), value) for name, value in entries.items()})


def _converted(name: str, kind: str, value: Any) -> Any:
    """Plain values to the field's type: YAML reads 1e-9 as text and [a, b] as a list."""
    try:
        if name == "shape":
            return NetworkShape(**value)
        if name == "observation_noise":
            return {part: float(std) for part, std in value.items()}
        if name == "betas":
            return tuple(float(beta) for beta in value)
        if name == "data":
            return tuple(str(folder) for folder in value) if isinstance(value, list | tuple) else (str(value),)
        return float(value) if "float" in kind and isinstance(value, str | int) and value is not True else value
    except (TypeError, ValueError, AttributeError) as error:
        raise TrainConfigError(f"{name}: {error}") from error


def _whole(least: int) -> tuple[Callable[[Any], bool], str]:
    return lambda value: type(value) is int and value >= least, f"a whole number of at least {least}"


def _number(holds: Callable[[float], bool], what: str) -> tuple[Callable[[Any], bool], str]:
    return lambda value: isinstance(value, float | int) and math.isfinite(value) and holds(value), what


def _share(value: Any) -> bool:
    return isinstance(value, float | int) and 0 <= value < 1


POSITIVE = _number(lambda value: value > 0, "a number above 0")
SHARE = (_share, "a share: at least 0 and less than 1")

RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "window_policy": (lambda value: value in get_args(WindowPolicy), f"one of {', '.join(get_args(WindowPolicy))}"),
    "loss": (lambda value: value in LOSSES, f"one of {', '.join(LOSSES)}"),
    "crop": _whole(2),
    "batch": _whole(1),
    "steps": (lambda value: value is None or _whole(1)[0](value), _whole(1)[1]),
    "epochs": (lambda value: value is None or POSITIVE[0](value), POSITIVE[1]),
    "learning_rate": POSITIVE,
    "betas": (lambda value: len(value) == 2 and all(map(_share, value)), "two numbers from 0 to below 1"),
    "eps": POSITIVE,
    "warmup": SHARE,
    "gradient_clip": _number(lambda value: value >= 0, "a number of at least 0 (0 is off)"),
    "observation_noise": (
        lambda value: set(value) <= set(LAYOUT) and all(math.isfinite(std) and std >= 0 for std in value.values()),
        f"standard deviations of at least 0 for {', '.join(LAYOUT)}",
    ),
    "episode_start_share": SHARE,
    "held_out_share": SHARE,
    "action_scale": POSITIVE,
    "observation_clip": POSITIVE,
    "seed": _whole(0),
    "threads": _whole(1),
    "log_interval": _whole(1),
    "validation_interval": _whole(1),
    "checkpoint_interval": _whole(1),
}
