"""Policies of any type: load and step them, for one robot or for many."""

from __future__ import annotations

import copy
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

RuntimeName = Literal["auto", "numba", "onnx"]
AnyObservation = npt.ArrayLike | Mapping[str, npt.ArrayLike]  # one array, or arrays by name
PolicyState = Mapping[str, npt.NDArray[Any]]  # recurrent state by name, each array (B, ...); B is 1 for one robot
LIBRARIES = {"numba": "numba", "onnx": "onnxruntime"}
SINGLE = np.dtype(np.float32)
STEPS = "steps_since_reset"


class Policy(Protocol):
    """A policy with memory: one action per control period."""

    def reset(self, mask: Mask | None = None) -> None:
        """Forget every past observation (a cold start) of the robots in `mask` (batch,), or of all robots."""

    def step(self, observation: Any) -> Single:
        """Return the action for an observation, in a new array; both as in the interface of the policy's model.

        Raises NonFiniteObservation, with the memory unchanged, if an entry is NaN or infinite.
        """


class Runtime(Policy, Protocol):
    """One step of an architecture, with its memory; LoadedPolicy checks observations before."""

    @property
    def state(self) -> PolicyState:
        """The memory; arrays may be views."""

    def restore(self, state: PolicyState) -> None:
        """Continue from a copy of a `state` with the same names and shapes."""

    def sequence(self, observations: Single) -> Single:
        """Return the actions (T, action) of T steps of one robot."""

    def copy(self) -> Runtime:
        """Return a runtime with the same weights and a copy of the memory."""


class LoadedPolicy:
    """Policy of a model, for one robot, or for `batch` robots with a leading axis.

    >>> policy = load_policy("aliengo")
    >>> policy(np.zeros(70)).shape  # the same as policy.step
    (12,)
    """

    def __init__(self, model: PolicyModel, runtime: Runtime, batch: int | None, compiled: bool) -> None:
        self.model = model
        self.batch = batch
        self.runtime = runtime
        self._interval = model.card.reset_interval
        leading = () if batch is None else (batch,)
        spec = model.card.config.observation_spec
        self._inputs = {name: ((*leading, *array.shape), np.dtype(array.dtype)) for name, array in spec.items()}
        # Shape of observations that go straight to the compiled step. None if steps may need a reset first, because a
        # step that fails must not reset.
        compiled = compiled and self._interval is None and batch is None
        self._shape = (model.card.config.observation,) if compiled else None
        self._steps = np.zeros(leading, dtype=np.int64)  # since the reset of each robot

    @property
    def state(self) -> dict[str, npt.NDArray[Any]]:
        """A copy of the recurrent state by name, each array (B, ...); B is 1 for one robot.

        Assigning a state of a policy with the same model and runtime continues from there. Raises FcnetError if names
        or shapes differ.

        >>> one, many = load_policy("aliengo"), load_policy("aliengo", batch=3)
        >>> action = one.step(np.ones(70))
        >>> many.state = {name: np.repeat(array, 3, axis=0) for name, array in one.state.items()}
        """
        return {name: array.copy() for name, array in self._state().items()}

    @state.setter
    def state(self, state: PolicyState) -> None:
        found, expected = ({name: array.shape for name, array in arrays.items()} for arrays in (state, self._state()))
        if found != expected:
            raise FcnetError(f"a state of this policy has {expected}, not {found}; use the same model and runtime")
        self.runtime.restore(state)
        if self._interval is not None:
            self._steps[...] = state[STEPS].reshape(self._steps.shape)

    def _state(self) -> PolicyState:
        """Return the memory, and if it is cleared at intervals the steps since then."""
        return {**self.runtime.state} | ({} if self._interval is None else {STEPS: np.atleast_1d(self._steps)})

    def copy(self) -> LoadedPolicy:
        """Return a policy with the same weights and a copy of the recurrent state; the two then run independently.

        >>> policy = load_policy("aliengo")
        >>> trial = policy.copy()
        """
        other = copy.copy(self)
        other.runtime, other._steps = self.runtime.copy(), self._steps.copy()
        return other

    def reset(self, mask: Mask | None = None) -> None:
        """Forget every past observation of the robots in `mask` (batch,), or of all robots."""
        self.runtime.reset(mask)
        self._steps[... if mask is None else mask] = 0

    def step(self, observation: AnyObservation) -> Single:
        """Return the action (..., action) for an observation, see Policy; a mapping if there are several arrays."""
        if (  # the compiled step checks that it is finite; another call would take a twentieth of its time
            type(observation) is np.ndarray
            and observation.dtype is SINGLE
            and observation.shape == self._shape
            and observation.flags.c_contiguous
        ):
            return self.runtime.step(observation)
        checked = self._checked(observation)
        if self._interval is not None:
            full = self._steps == self._interval
            if full.any():
                self.reset(None if self.batch is None else full)
            self._steps += 1
        return self.runtime.step(checked)

    __call__ = step

    def sequence(self, observations: Floats) -> Single:
        """Return the actions (T, action) of T steps of one robot, T >= 1, for observations (T, observation).

        The same as T calls of `step`, but faster if the policy's file has a graph for sequences. Raises
        NonFiniteObservation before the first step if an entry is NaN or infinite.
        """
        if self._interval is not None:
            return np.stack([self.step(observation) for observation in observations])
        ((shape, dtype),) = self._inputs.values()
        return self.runtime.sequence(finite_observation(observations, (len(observations), *shape), dtype))

    def warm_up(self) -> None:
        """Run some steps, which compile code and fill caches, then reset."""
        zeros = {name: np.zeros(*kind) for name, kind in self._inputs.items()}
        for _ in range(20):
            self.step(zeros if len(zeros) > 1 else next(iter(zeros.values())))
        self.reset()

    def _checked(self, observation: AnyObservation) -> Observation:
        """Return the observation with its shapes and types. Raises ValueError or NonFiniteObservation."""
        if len(self._inputs) == 1:
            return finite_observation(cast(npt.ArrayLike, observation), *next(iter(self._inputs.values())))
        if not isinstance(observation, Mapping) or observation.keys() != self._inputs.keys():
            raise ValueError(f"the policy expects a mapping with the observations {', '.join(self._inputs)}")
        return {name: finite_observation(observation[name], *kind) for name, kind in self._inputs.items()}


def load_policy(
    source: str | Path | PolicyModel, runtime: RuntimeName = "auto", batch: int | None = None
) -> LoadedPolicy:
    """Load a policy for one robot or for `batch` robots.

    source: a model file, a training run's folder, the name of a shipped policy (`fcnet list models`),
    `hf://owner/name[@revision][/file]` on the Hugging Face hub, or a loaded model.
    runtime: "auto" takes numba for a policy that has a compiled step if numba is installed, otherwise ONNX Runtime.
    Raises FcnetError if the file or the runtime cannot be used.

    >>> policy = load_policy("aliengo", batch=2)
    >>> policy.step(np.zeros((2, 70))).shape  # joint position targets [rad] of two robots
    (2, 12)
    """
    if runtime not in get_args(RuntimeName):
        raise FcnetError(f"there is no runtime {runtime!r}; choose one of {', '.join(get_args(RuntimeName))}")
    model = source if isinstance(source, PolicyModel) else load_model(source)
    kind = policy_type(model.card.policy_type)
    if runtime == "auto":
        runtime = "numba" if kind.numba and importlib.util.find_spec("numba") else "onnx"
    if runtime not in kind.runtimes:
        raise FcnetError(f"{model.card.policy_type} policies have no runtime {runtime!r}; choose 'onnx'")
    if importlib.util.find_spec(LIBRARIES[runtime]) is None:
        raise FcnetError(f"runtime {runtime!r} needs {LIBRARIES[runtime]}; install it or choose another runtime")
    if runtime == "numba":
        return LoadedPolicy(model, kind.part(kind.numba)(model, batch), batch, compiled=True)
    if not model.step:
        remedy = "on a computer with PyTorch run `fcnet export FILE --format 2 -o FILE`"
        raise FcnetError(f"this {model.card.policy_type} policy of format 1 has no exported step; {remedy}")
    from fcnet_core.policies.exported_step import ExportedStep

    return LoadedPolicy(model, ExportedStep(model, batch), batch, compiled=False)
