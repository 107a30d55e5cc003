"""Policy types: every folder of this package, and policies of other packages by entry points.

A policy type is a package whose `POLICY` names its parts. No code outside that package names it: model files, training,
replay, evaluation and export find it by the `policy_type` of a model file or a training configuration. A part is named
"module:attribute", relative to the package, and imported at its first use, so torch and numba are loaded only if they
are needed.
"""

from __future__ import annotations

import math
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from fcnet_core.arrays import ArraySpec, Spec
from fcnet_core.errors import FcnetError

if TYPE_CHECKING:
    from fcnet_core.observation import PolicyInterface
    from fcnet_core.robot import Robot

Size = Annotated[int, Meta(ge=1, le=2**16)]  # of a layer, of a vector or of a window
Layers = Annotated[int, Meta(ge=1, le=1000)]
Legs = Mapping[str, Sequence[str]]  # joints by leg, as in a robot file
Shapes = dict[str, tuple[int, ...]]
MOST_PARAMETERS = 500_000_000  # training them takes 8 GB
ENTRY_POINTS = "fcnet.policies"  # policies of other packages: NAME = package:POLICY


class PolicyConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes of a network; each architecture has a subclass with its own.

    Every field has a range, such as Size. A subclass raises ValueError in __post_init__ if the fields do not fit each
    other.
    """

    observation: Size  # entries of the observation vector
    action: Size
    window: Size  # [steps]; with the window policy reset_every_n, the memory is cleared after so many

    def __post_init__(self) -> None:
        if self.parameters > MOST_PARAMETERS:
            raise ValueError(f"these sizes give {self.parameters:,} parameters, the limit is {MOST_PARAMETERS:,}")

    @property
    def observation_spec(self) -> Spec:
        """The input arrays of a step by name; a policy with only one gets that array itself."""
        return {"observation": ArraySpec((self.observation,))}

    @property
    def memory_steps(self) -> float:
        """Past steps that influence an action if the window slides; infinite for a decaying memory.

        By default the window without the present step.
        """
        return self.window - 1

    def weight_shapes(self) -> Shapes:
        """Return the shape of every weight by its name in the network and the model file."""
        raise NotImplementedError

    @property
    def parameters(self) -> int:
        """Number of trainable parameters."""
        return sum(math.prod(shape) for shape in self.weight_shapes().values())

    @classmethod
    def defaults(cls, interface: PolicyInterface, legs: Legs) -> dict[str, Any]:
        """Return the settings that follow from an interface and the legs of its robot, which has none if there is no
        robot; by default the sizes of the input vector `observation` and of the action. Raises FcnetError for other
        inputs.
        """
        shapes = interface.shapes
        if shapes.keys() != {"observation"} or len(shapes["observation"]) != 1:
            raise FcnetError(f"this policy type takes one vector, observation, but the interface has inputs {shapes}")
        return {"observation": shapes["observation"][0], "action": interface.outputs["action"]}

    def check_robot(self, interface: PolicyInterface, robot: Robot) -> None:
        """Raise FcnetError if the network is for another body; the sizes are those of the interface."""


def weights_and_biases(shapes: Shapes) -> Shapes:
    """Return the shapes of NAME.weight and NAME.bias for layers with these weights (outputs, inputs) or (channels,)."""
    pairs = ({f"{name}.weight": shape, f"{name}.bias": shape[:1]} for name, shape in shapes.items())
    return {name: shape for pair in pairs for name, shape in pair.items()}


def block_shapes(prefix: str, width: int, inner: int) -> Shapes:
    """Return the shapes of an attention.Block as weights_and_biases takes them; linear weights are (outputs, inputs).

    The outputs of qkv are queries, keys and values of `width` channels each, sorted by head.
    """
    shapes: Shapes = {"qkv": (3 * width, width), "project": (width, width), "norm1": (width,), "norm2": (width,)}
    shapes |= {"expand": (inner, width), "contract": (width, inner)}
    return {prefix + name: shape for name, shape in shapes.items()}


def check_heads(heads: int, width: int, name: str = "hidden") -> None:
    """Raise ValueError unless the heads divide the channels of the size called `name`."""
    if width % heads:
        raise ValueError(f"{name} ({width}) cannot be divided among {heads} heads; choose heads so that it can")


@dataclass(frozen=True)
class PolicyType:
    """The parts of one architecture, each as "module:attribute". policies/mlp is a short example.

    network: network.PolicyNetwork of a config, a torch module; its step is exported to ONNX.
    numba: returns the compiled_layers.CompiledRuntime of a PolicyModel and `batch`, as in load_policy; optional.
    exports_sequences: also export `forward`, for sequences of at least `window` steps, which makes replays fast.
    """

    package: str
    config: type[PolicyConfig]
    network: str
    numba: str = ""
    exports_sequences: bool = False

    @property
    def runtimes(self) -> tuple[str, ...]:
        """Names of its runtimes."""
        return ("numba", "onnx") if self.numba else ("onnx",)

    def part(self, place: str) -> Any:
        """Import the class or function at "module:attribute" of the package."""
        module, _, attribute = place.partition(":")
        return getattr(import_module(f"{self.package}.{module}"), attribute)


@cache
def policy_type(name: str) -> PolicyType:
    """Return the policy type of that name. Raises FcnetError if there is none."""
    found: PolicyType
    if name in _own():
        found = import_module(f"{__name__}.{name}").POLICY
    elif name in _foreign():
        found = _foreign()[name].load()
    else:
        raise FcnetError(f"there is no policy type {name!r}; known are {', '.join(policy_type_names())}")
    return found


def policy_type_names() -> tuple[str, ...]:
    """Return the names of this package's policy types and of those of others."""
    return (*_own(), *sorted(_foreign().keys() - set(_own())))


def policy_type_of(config: PolicyConfig) -> str:
    """Return the name of the policy type of a configuration."""
    return next(name for name in policy_type_names() if policy_type(name).config is type(config))


@cache
def _own() -> tuple[str, ...]:
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg))


@cache
def _foreign() -> dict[str, Any]:
    """Return entry points by name; reading them takes longer than loading this package's policies."""
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
