"""Which kinds of policy there are: every folder beside this file, and what other packages add by entry points.

A policy type is a package whose `POLICY` says where its parts are. Nothing outside that package names it: model files,
training, replay, evaluation and export find it here by the `policy_type` that a model file or a training
configuration carries. Parts are named "module:attribute", relative to the package, and imported when they are used, so
that torch, numba and onnx are loaded by those who need them only.
"""

from __future__ import annotations

import math
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Literal

import msgspec
from msgspec import Struct

from fcnet_core import FcnetError

ENTRY_POINTS = "fcnet.policies"  # a third party's policy: NAME = package:POLICY


class ArraySpec(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One named array of a control step: its shape and type, and names of consecutive entries of a vector.

    Arrays of float32 are normalised before a network sees them; images of uint8 are passed as they are.
    """

    shape: tuple[int, ...]
    dtype: Literal["float32", "uint8", "bool"] = "float32"
    parts: dict[str, int] = {}

    def slices(self) -> dict[str, slice]:
        """Where each of the named parts is in the vector."""
        ends = {}
        start = 0
        for name, size in self.parts.items():
            ends[name] = slice(start, start + size)
            start += size
        return ends


Spec = Mapping[str, ArraySpec]


class PolicyConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """What defines a network of one architecture; a subclass adds its sizes.

    Sizes are whole numbers of at least 1; what else cannot be built, a subclass refuses in __post_init__ by ValueError.
    """

    observation: int  # entries of the observation vector
    action: int

    def __post_init__(self) -> None:
        for name, size in msgspec.structs.asdict(self).items():
            if type(size) is int and size < 1:
                raise ValueError(f"network size {name} must be a whole number of at least 1, not {size}")

    @property
    def observation_spec(self) -> Spec:
        """The arrays that a step is given. A policy with one is given the array itself, else a mapping of arrays."""
        return {"observation": ArraySpec((self.observation,))}

    @property
    def reset_interval(self) -> int:
        """Steps after which the memory is cleared by a policy whose window policy is reset_every_n."""
        raise NotImplementedError

    @property
    def memory_steps(self) -> float:
        """Past steps that can influence an action when the window slides; infinite for a decaying memory."""
        raise NotImplementedError

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every weight, by the name under which the network and the model file have it."""
        raise NotImplementedError

    @property
    def parameters(self) -> int:
        """Number of trainable parameters."""
        return sum(math.prod(shape) for shape in self.weight_shapes().values())


@dataclass(frozen=True)
class PolicyType:
    """Where the parts of one architecture are.

    network: a torch module made of a config, (B, T, ...) normalised observations -> (B, T, action), causal.
    runtimes: by name ("numpy", and as there are, "numba", "onnx"), each a runtime.Runtime made of a PolicyModel.
    batch: a runtime.Runtime made of a PolicyModel and the number of robots. sequence: made of a PolicyModel; its
    `run` gives the actions (T, action) of whole recorded observations (T, ...). onnx_graph: a function from PolicyModel
    to ModelProto. See policies/mlp for a short example.
    """

    package: str
    config: type[PolicyConfig]
    network: str
    batch: str
    sequence: str
    onnx_graph: str
    runtimes: Mapping[str, str] = field(default_factory=dict)

    def part(self, place: str) -> Any:
        """The class or function at "module:attribute" of the package."""
        module, _, attribute = place.partition(":")
        return getattr(import_module(f"{self.package}.{module}"), attribute)

    def config_from(self, entries: Any) -> PolicyConfig:
        """A configuration from plain values; FcnetError says what cannot be."""
        try:
            return msgspec.convert(entries, self.config)
        except ValueError as error:
            raise FcnetError(str(error)) from error


@cache
def policy_type_names() -> tuple[str, ...]:
    """The known policy types."""
    own = [module.name for module in pkgutil.iter_modules(import_module(__package__).__path__) if module.ispkg]
    return (*sorted(own), *sorted(entry_points(group=ENTRY_POINTS).names - set(own)))


@cache
def policy_type(name: str) -> PolicyType:
    """The policy type of that name; FcnetError when there is none."""
    if name not in policy_type_names():
        raise FcnetError(f"there is no policy type {name!r}; known are {', '.join(policy_type_names())}")
    for entry in entry_points(group=ENTRY_POINTS, name=name):
        found: PolicyType = entry.load()
        return found
    own: PolicyType = import_module(f"{__package__}.{name}").POLICY
    return own


def policy_type_of(config: PolicyConfig) -> str:
    """The name of the policy type that a configuration belongs to."""
    return next(name for name in policy_type_names() if policy_type(name).config is type(config))
