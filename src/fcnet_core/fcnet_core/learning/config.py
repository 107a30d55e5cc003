"""Settings of a training run: one YAML file of config/train/, checked before anything starts."""

import os
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from fcnet_core.errors import FcnetError
from fcnet_core.files import (
    CONFIG,
    Count,
    NotNegative,
    Positive,
    Seed,
    Share,
    Workers,
    converted,
    expanded,
    preset,
    read_settings,
)
from fcnet_core.model_file import WindowPolicy
from fcnet_core.observation import Commands, Input, JointTargets, PolicyInterface, SensorModel
from fcnet_core.observation.sensors import DEFAULT
from fcnet_core.observation.terms import VELOCITY_TERMS
from fcnet_core.policies import Legs, PolicyConfig, policy_type
from fcnet_core.robot import FIXED, LEG_JOINTS, LEGS, NO_GAIT, SETPOINT_FIELDS

MOST_STEPS = 10**9  # of the optimiser
LARGEST_BATCH = 2**22  # control periods of one optimiser step; the paper's have 2^16
PRESETS = CONFIG / "train"
DEFAULT_PRESET = "imitation"
SENSORS = "sensors"  # observation_noise: sensors stands for those of the robot, DEFAULT
FILE = "training configuration"
LENGTH = {"steps", "epochs"}  # a file gives one of them

EXAMPLE_LEGS = {leg: tuple(f"{leg}_{joint}_joint" for joint in LEG_JOINTS) for leg in LEGS}
EXAMPLE = PolicyInterface(  # with which a file is checked before there are data
    rate=50.0,
    joints=tuple(joint for joints in EXAMPLE_LEGS.values() for joint in joints),
    default_pose=0.0,
    kp=0.0,
    kd=0.0,
    inputs={"observation": Input(terms=VELOCITY_TERMS)},
    action=JointTargets(offset=0.0),
    commands=Commands(ranges=dict.fromkeys(SETPOINT_FIELDS, FIXED), gait=NO_GAIT),
)

ConfigT = TypeVar("ConfigT", bound=PolicyConfig)
Precision = Literal["float32", "tf32", "bfloat16"]  # of products of matrices


class TrainConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a run and their defaults; a file gives the settings that differ. The length of a run is a number of
    optimiser steps (`steps` or `epochs`), never a time: the same data, settings and seed give the same policy on any
    machine.

    policy_type: a folder of fcnet_core/policies; config: settings of its network. data: folders, or hf://owner/name
    on the hub, each with an optional `:weight` (default 1; steps of a folder with weight 2 are sampled twice as often);
    crop: control periods of one training sequence; batch: crops of one optimiser step, summed over all processes;
    warmup: fraction of the steps in which the learning rate rises linearly, before a cosine decay to zero;
    gradient_clip: maximum norm, 0 disables it; observation_noise: a model of the sensors in config/sensors.yaml
    (`sensors` in a file: board), or standard deviation by part of the observation, in its unit; both scaled by a random
    factor in 0..1 per crop; episode_start_share: fraction of the crops that start at the start of an episode;
    held_out_share: fraction of the sequences held out for validation; action_scale [rad]: unit of the network's output;
    observation_clip: in standard deviations; device: cuda is one GPU per process; precision: of matrix products,
    weights are always float32, tf32 is for GPUs; compile: the passes through the network as CUDA graphs, auto: on a
    GPU, true on a CPU: compiled to C++; threads: of each process; intervals: in optimiser steps.
    """

    policy_type: str = "fcnet"
    config: dict[str, Any] = {}
    data: Annotated[tuple[str, ...], Meta(max_length=1000)] = ()
    window_policy: WindowPolicy = "sliding"
    crop: Annotated[int, Meta(ge=2, le=LARGEST_BATCH)] = 128
    batch: Count = 8
    steps: Annotated[int, Meta(ge=1, le=MOST_STEPS)] | None = None
    epochs: Positive | None = None
    learning_rate: Positive = 2.5e-3
    betas: tuple[Share, Share] = (0.9, 0.98)
    eps: Positive = 1e-8
    warmup: Share = 0.1
    gradient_clip: NotNegative = 1.0
    loss: Literal["mse", "huber"] = "mse"
    observation_noise: dict[str, Annotated[float, Meta(ge=0, le=1000)]] | SensorModel = {}
    episode_start_share: Share = 0.08
    held_out_share: Share = 0.05
    action_scale: Annotated[float, Meta(ge=1e-6, le=1e6)] = 0.3
    observation_clip: Annotated[float, Meta(ge=0.1, le=1e6)] = 6.0
    seed: Seed = 0
    device: Literal["cpu", "cuda"] = "cpu"
    precision: Precision = "float32"
    compile: Literal["auto"] | bool = "auto"
    threads: Workers = 1
    log_interval: Count = 100
    validation_interval: Count = 1000
    checkpoint_interval: Count = 1000

    def __post_init__(self) -> None:
        if self.steps is not None and self.epochs is not None:
            raise FcnetError("give steps or epochs, not both")
        if self.batch * self.crop > LARGEST_BATCH:
            size = f"batch ({self.batch}) times crop ({self.crop}) is {self.batch * self.crop} control periods"
            raise FcnetError(f"{size} in one optimiser step, but must not exceed {LARGEST_BATCH}")
        interval = self.policy_config.window
        if self.window_policy == "reset_every_n" and self.crop > interval:
            longest = f"must not exceed the window ({interval})"
            raise FcnetError(f"with window_policy reset_every_n, as the policy will run, crop ({self.crop}) {longest}")

    @property
    def policy_config(self) -> PolicyConfig:
        """The configuration of the network; what `config` does not give follows from a robot with four legs."""
        return self.for_interface(EXAMPLE, EXAMPLE_LEGS)

    def for_interface(self, interface: PolicyInterface, legs: Legs) -> PolicyConfig:
        """Return the configuration of the network for an interface and the legs of its robot."""
        kind = policy_type(self.policy_type)
        return converted(msgspec.to_builtins(kind.config.defaults(interface, legs)) | self.config, kind.config)

    @property
    def entries(self) -> dict[str, Any]:
        """All settings as plain values, with the defaults of the network."""
        return msgspec.to_builtins(self) | {"config": msgspec.to_builtins(self.policy_config)}

    def total_steps(self, recorded: int) -> int:
        """Return the optimiser steps of the run on `recorded` control periods of training data."""
        if self.steps is not None:
            return self.steps
        if self.epochs is not None:
            steps = self.epochs * recorded / (self.crop * self.batch)
            if steps > MOST_STEPS:
                raise FcnetError(f"epochs is {self.epochs:g}: {steps:.3g} steps, maximum {MOST_STEPS:g}")
            return max(1, round(steps))
        raise FcnetError("the length of the run is missing: give steps or epochs in the file, or --steps")


def example_config(kind: type[ConfigT], **settings: Any) -> ConfigT:
    """Return a configuration for the observation and action of a robot with four legs."""
    return kind(**(kind.defaults(EXAMPLE, EXAMPLE_LEGS) | settings))


def load_train_config(path: str | Path) -> TrainConfig:
    """Read a YAML file of a TrainConfig, or a preset of config/train/ by its name. A file with `base: PRESET` gives its
    differences from that preset.

    `config` is merged key by key unless policy_type differs; steps and epochs override each other; any other key
    replaces the key of the base. Raises FcnetError that names the file and the invalid key.
    """
    path = preset(path, PRESETS.name, FILE)
    entries = _entries(path)
    if entries.get("observation_noise") == SENSORS:
        entries["observation_noise"] = DEFAULT
    try:
        return converted(entries, TrainConfig)
    except FcnetError as error:
        raise FcnetError(f"{FILE} {path} cannot be used: {error}; compare it with the suite's config/") from error


def _entries(path: Path, derived: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the settings of a file merged with its base; derived: presets that are based on this one."""
    own = read_settings(path, dict[str, Any], FILE)
    if "base" not in own:
        return own
    name, presets = str(own.pop("base")), {preset.stem: preset for preset in PRESETS.glob("*.yaml")}
    if name not in presets.keys() - set(derived):
        reason = "leads back to this file" if name in derived else "is not a preset"
        known = ", ".join(sorted(presets))
        raise FcnetError(f"{FILE} {path} cannot be used: base {name} {reason}; choose one of {known}")
    base = _entries(presets[name], (*derived, name))
    if own.keys() & LENGTH:
        base = {entry: value for entry, value in base.items() if entry not in LENGTH}
    config = own.setdefault("config", {})
    if isinstance(config, dict) and own.get("policy_type", base.get("policy_type")) == base.get("policy_type"):
        own["config"] = base.get("config", {}) | config
    return base | own


def with_settings(settings: TrainConfig, /, **changes: Any) -> TrainConfig:
    """Return the configuration with these changes, validated like a file."""
    return converted(msgspec.to_builtins(settings) | changes, TrainConfig)


def folders_and_weights(data: tuple[str, ...]) -> tuple[list[str], list[float]]:
    """Split the entries `DIR` and `DIR:weight` of a configuration's data. Raises FcnetError for a bad weight."""
    folders, weights = [], []
    for entry in data:
        folder, colon, weight = entry.rpartition(":")
        if not colon or "/" in weight:  # as in hf://owner/name
            folder, weight = entry, "1"
        try:
            weights.append(float(weight))
        except ValueError as error:
            raise FcnetError(f"data {entry!r}: after the colon expected a weight such as 2, not {weight!r}") from error
        folders.append(expanded(folder))
        if not 1e-6 <= weights[-1] <= 1e6:
            raise FcnetError(f"data {entry!r}: the weight is {weight}, expected a number from 1e-6 to 1e6")
    if twice := [folder for folder, count in Counter(os.path.realpath(f) for f in folders).items() if count > 1]:
        raise FcnetError(f"the data folder {twice[0]} is given twice; give it once, with a weight such as {twice[0]}:2")
    return folders, weights
