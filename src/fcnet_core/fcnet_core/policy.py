"""Policies of any type: load and step them, for one robot, for many or over a recording."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, cast, get_args

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Floats, Mask, Observation, Single
from fcnet_core.errors import FcnetError
from fcnet_core.model_file import PolicyModel, load_model
from fcnet_core.observation import finite_observation
from fcnet_core.policies import policy_type
from fcnet_core.policies.normalisation import Units

RuntimeName = Literal["auto", "numba", "numpy", "onnx"]
AnyObservation = npt.ArrayLike | Mapping[str, npt.ArrayLike]  # one array, or arrays by name
LIBRARIES = {"numba": ("numba",), "onnx": ("onnx", "onnxruntime")}
SINGLE = np.dtype(np.float32)


class Policy(Protocol):
    """A policy with memory: one action per control period."""

    def reset(self) -> None:
        """Forget every past observation (a cold start)."""

    def step(self, observation: Single) -> Single:
        """Return the action for an observation, in a new array.

        On a robot: joint position targets (12,) [rad] in JOINT_NAMES order for an observation (70,) of
        observation.LAYOUT. Raises NonFiniteObservation, with the memory unchanged, if an entry is NaN or infinite.
        """


class Runtime(Protocol):
    """One step of an architecture, with its memory. LoadedPolicy checks observations before, except that a
    CompiledRuntime itself checks that one vector is finite.
    """

    def reset(self, mask: Mask | None = None) -> None:
        """Forget the past of the robots in `mask` (batch,), or of all robots."""

    def step(self, observation: Any) -> Single:
        """Return the action for a finite observation of the right shape, in a new array."""


class NetworkStep(Protocol):
    """The network of an architecture in NumPy, with a memory for each robot.

    Its arguments are a PolicyModel, the number of robots and the type of floats.
    """

    def reset(self, chosen: Mask | slice) -> None:
        """Forget the past of the chosen robots."""

    def step(self, x: Any) -> Floats:
        """Return normalised actions (B, action) for normalised observations (B, ...)."""


class NumpyRuntime:
    """Runtime in NumPy: in float64 for one robot, the reference for all other runtimes; in float32 for a batch."""

    def __init__(self, model: PolicyModel, batch: int | None = None) -> None:
        kind, self._units, self._single = policy_type(model.card.policy_type), model.normalisation, batch is None
        dtype = np.float64 if batch is None else np.float32
        self.network: NetworkStep = kind.part(kind.step)(model, 1 if batch is None else batch, dtype)

    def reset(self, mask: Mask | None = None) -> None:
        self.network.reset(slice(None) if mask is None else mask)

    def step(self, observation: Observation) -> Single:
        seen = self._units.inputs(_rows(observation, None) if self._single else observation)
        actions = self._units.action(self.network.step(seen)).astype(np.float32)
        return actions[0] if self._single else actions


class CompiledRuntime:
    """Runtime of one robot in compiled code without the GIL, for a policy with one input vector.

    step: numba function of observation, action (output), number of steps since the reset, and StepData of Units,
    weights and memory; returns False if the observation is not finite. memory: named tuple of arrays, all zero after a
    reset. The constructor compiles the step; that takes some seconds the first time on a machine and is cached.
    """

    def __init__(self, model: PolicyModel, step: Any, weights: Any, memory: Any) -> None:
        from numba import typeof

        from fcnet_core.policies.compiled_layers import StepData

        config = model.card.config
        units = Units(**model.scales, clip=np.float32(model.card.observation_clip))
        self.memory = memory
        self._data: Any = StepData(units, weights, memory)
        self._action = config.action
        self._count = 0
        observation, action = np.zeros(config.observation, dtype=np.float32), np.zeros(config.action, dtype=np.float32)
        arguments = (observation, action, self._count, self._data)
        # Compiled for these types only: looking up the types in every call takes 2 us.
        self._step = step.compile(tuple(map(typeof, arguments)))
        self.step(observation)
        self.reset()

    def reset(self, mask: Mask | None = None) -> None:
        for array in self.memory:
            array[...] = 0
        self._count = 0

    def step(self, observation: Single) -> Single:
        action = np.empty(self._action, SINGLE)
        if not self._step(observation, action, self._count, self._data):
            finite_observation(observation, observation.shape)  # raises
        self._count += 1
        return action


class LoadedPolicy:
    """Policy of a model, for one robot, or for `batch` robots with a leading axis."""

    def __init__(self, model: PolicyModel, runtime: Runtime, batch: int | None = None) -> None:
        self.model = model
        self.batch = batch
        self.runtime = runtime
        self._interval = model.card.reset_interval
        self._checks = _Checks(model, () if batch is None else (batch,))
        # Shape of observations that go straight to the compiled step. None if steps may need a reset first, because a
        # step that fails must not reset.
        compiled = isinstance(runtime, CompiledRuntime) and self._interval is None
        self._shape = (model.card.config.observation,) if compiled else None
        self._steps = np.zeros(() if batch is None else batch, dtype=np.int64)  # since the reset of each robot

    def reset(self, mask: Mask | None = None) -> None:
        """Forget every past observation of the robots in `mask` (batch,), or of all robots."""
        self.runtime.reset(mask)
        self._steps[... if mask is None else mask] = 0

    def step(self, observation: AnyObservation) -> Single:
        if (  # the compiled step checks that it is finite; another call would take a twentieth of its time
            type(observation) is np.ndarray
            and observation.dtype is SINGLE
            and observation.shape == self._shape
            and observation.flags.c_contiguous
        ):
            return self.runtime.step(observation)
        checked = self._checks.of(observation)
        if self._interval is not None:
            full = self._steps == self._interval
            if full.any():
                self.reset(None if self.batch is None else full)
            self._steps += 1
        return self.runtime.step(checked)

    def warm_up(self) -> None:
        """Run some steps, which compile code and fill caches, then reset."""
        nothing = self._checks.zeros()
        for _ in range(20):
            self.step(nothing)
        self.reset()


class SequencePolicy:
    """Computes the actions of a whole recording at once; they equal those of any runtime, step by step."""

    def __init__(self, model: PolicyModel) -> None:
        kind = policy_type(model.card.policy_type)
        self.model = model
        self._run = kind.part(kind.sequence)(model).run

    def actions(self, observations: AnyObservation) -> Single:
        """Return actions (T, action) for observations (T, ...), the first one after a reset.

        Raises NonFiniteObservation if an entry is NaN or infinite.
        """
        arrays = observations.values() if isinstance(observations, Mapping) else [observations]
        steps = min(len(np.asarray(array)) for array in arrays)
        seen = self.model.normalisation.inputs(_Checks(self.model, (steps,)).of(observations))
        length = self.model.card.reset_interval or max(steps, 1)
        outputs = [self._run(_rows(seen, slice(start, start + length))) for start in range(0, steps, length)]
        empty = np.empty((0, self.model.card.config.action), dtype=np.float32)
        return self.model.normalisation.action(np.concatenate([empty, *outputs])).astype(np.float32)


class _Checks:
    """Checks observations for shape and finite values before they reach a memory."""

    def __init__(self, model: PolicyModel, leading: tuple[int, ...]) -> None:
        spec = model.card.config.observation_spec
        self._arrays = {name: ((*leading, *array.shape), np.dtype(array.dtype)) for name, array in spec.items()}
        self._only = next(iter(self._arrays.values())) if len(self._arrays) == 1 else None
        vector = self._only is not None and len(self._only[0]) == 1 and self._only[1] == SINGLE
        self._zero_vector: Single | None = np.zeros(*self._only) if self._only and vector else None

    def zeros(self) -> Observation:
        arrays = {name: np.zeros(shape, dtype) for name, (shape, dtype) in self._arrays.items()}
        return arrays if self._only is None else next(iter(arrays.values()))

    def of(self, observation: AnyObservation) -> Observation:
        nothing = self._zero_vector
        if (
            nothing is not None
            and type(observation) is np.ndarray
            and observation.dtype is SINGLE
            and observation.shape == nothing.shape
            and observation.flags.c_contiguous
            and observation.dot(nothing) == 0.0  # NaN if an entry is not finite; takes a third of isfinite's time
        ):
            return observation
        if self._only is not None:
            return finite_observation(cast(npt.ArrayLike, observation), *self._only)
        if not isinstance(observation, Mapping) or observation.keys() != self._arrays.keys():
            raise ValueError(f"the policy expects a mapping with the observations {', '.join(self._arrays)}")
        return {name: finite_observation(observation[name], *kind) for name, kind in self._arrays.items()}


def _rows(observation: Observation, chosen: slice | None) -> Observation:
    """Return the chosen rows of every array; None adds an axis of one row."""
    if isinstance(observation, Mapping):
        return {name: array[chosen] for name, array in observation.items()}
    return observation[chosen]


def load_policy(
    source: str | Path | PolicyModel, runtime: RuntimeName | str = "auto", batch: int | None = None
) -> LoadedPolicy:
    """Load a policy for one robot or for `batch` robots.

    source: a model file, a training run's folder, the name of a shipped policy (`fcnet list models`),
    `hf://owner/name[@revision][/file]` on the Hugging Face hub, or a loaded model.
    runtime: for one robot; "auto" takes numba if it is installed, otherwise NumPy; "onnx" needs onnx and onnxruntime.
    Raises FcnetError if the file or the runtime cannot be used.
    """
    if runtime not in get_args(RuntimeName):
        raise FcnetError(f"there is no runtime {runtime!r}; choose one of {', '.join(get_args(RuntimeName))}")
    model = source if isinstance(source, PolicyModel) else load_model(source)
    kind = policy_type(model.card.policy_type)
    if runtime == "auto":
        runtime = "numba" if kind.numba and importlib.util.find_spec("numba") else "numpy"
    if runtime not in kind.runtimes:
        raise FcnetError(f"{model.card.policy_type} policies have no runtime {runtime!r}; choose 'numpy'")
    if batch is not None or runtime == "numpy":
        return LoadedPolicy(model, NumpyRuntime(model, batch), batch)
    for library in LIBRARIES[runtime]:
        if importlib.util.find_spec(library) is None:
            raise FcnetError(f"runtime {runtime!r} needs {library}; install it or choose runtime 'numpy'")
    if runtime == "numba":
        return LoadedPolicy(model, CompiledRuntime(model, *kind.part(kind.numba)(model)))
    from fcnet_core.policies.onnx_graph import OnnxStep

    return LoadedPolicy(model, OnnxStep(model))
