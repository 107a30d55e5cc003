"""Which types of policy there are: every folder beside this file, and what other packages add by entry points.

A policy type is a package whose `POLICY` says where its parts are. Nothing outside that package names it: model files,
training, replay, evaluation and export find it here by the `policy_type` that a model file or a training
configuration carries. Parts are named "module:attribute", relative to the package, and imported when they are used, so
that torch, numba and onnx are loaded by those who need them only.
"""

from __future__ import annotations

import math
import pkgutil
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from fcnet_core.arrays import ArraySpec, Spec
from fcnet_core.errors import FcnetError
from fcnet_core.files import converted

if TYPE_CHECKING:
    from fcnet_core.robot import Robot

Size = Annotated[int, Meta(ge=1, le=2**16)]  # of a layer, of a vector or of a window
Layers = Annotated[int, Meta(ge=1, le=1000)]
MOST_PARAMETERS = 500_000_000  # the training of which takes 8 GB
ENTRY_POINTS = "fcnet.policies"  # a third party's policy: NAME = package:POLICY


class PolicyConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """What defines a network of one architecture; a subclass adds its sizes.

    A field is a Size, or has a range of its own; what else cannot be built, a subclass refuses in __post_init__ by
    ValueError.
    """

    observation: Size  # entries of the observation vector
    action: Size
    window: Size  # steps; after as many the memory is cleared by a policy whose window policy is reset_every_n

    def __post_init__(self) -> None:
        if self.parameters > MOST_PARAMETERS:
            raise ValueError(f"these sizes give {self.parameters:,} parameters, at most {MOST_PARAMETERS:,} can be")

    @property
    def observation_spec(self) -> Spec:
        """The arrays that a step is given. A policy with one, `observation`, is given that array itself."""
        return {"observation": ArraySpec((self.observation,))}

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

    def check_robot(self, robot: Robot) -> None:
        """Raise FcnetError where the network is of another body than the robot's; sizes are checked for every type."""


@dataclass(frozen=True)
class PolicyType:
    """Where the parts of one architecture are.

    network: a torch module made of a config, (B, T, ...) normalised observations -> (B, T, action), causal.
    step: a policy.NetworkStep, the network in NumPy for any number of robots.
    sequence: made of a PolicyModel; its `run` gives the normalised actions (T, action) of whole recorded sequences of
    normalised observations (T, ...).
    numba: from a PolicyModel, what a policy.CompiledRuntime is made of.
    onnx: adds a step of a PolicyModel to an onnx_graph.GraphBuilder.
    A type without numba or onnx runs in NumPy alone. See policies/mlp for a short example.
    """

    package: str
    config: type[PolicyConfig]
    network: str
    step: str
    sequence: str
    numba: str = ""
    onnx: str = ""

    @property
    def runtimes(self) -> tuple[str, ...]:
        """Names of the runtimes for one robot."""
        return ("numpy", *(name for name in ("numba", "onnx") if getattr(self, name)))

    def part(self, place: str) -> Any:
        """The class or function at "module:attribute" of the package."""
        module, _, attribute = place.partition(":")
        return getattr(import_module(f"{self.package}.{module}"), attribute)

    def config_from(self, entries: Any) -> PolicyConfig:
        """A configuration from plain values; FcnetError says what cannot be."""
        return converted(entries, self.config)


@cache
def policy_type(name: str) -> PolicyType:
    """The policy type of that name; FcnetError when there is none."""
    found: PolicyType
    if name in _own():
        found = import_module(f"{__name__}.{name}").POLICY
    elif name in _foreign():
        found = _foreign()[name].load()
    else:
        raise FcnetError(f"there is no policy type {name!r}; known are {', '.join(policy_type_names())}")
    return found


def policy_type_names() -> tuple[str, ...]:
    """The known policy types."""
    return (*_own(), *sorted(_foreign().keys() - set(_own())))


def policy_type_of(config: PolicyConfig) -> str:
    """The name of the policy type that a configuration belongs to."""
    return next(name for name in policy_type_names() if policy_type(name).config is type(config))


@cache
def _own() -> tuple[str, ...]:
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg))


@cache
def _foreign() -> dict[str, Any]:
    """Entry points by name; reading them takes longer than loading the suite's own policies."""
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
