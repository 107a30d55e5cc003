"""Running a policy of any type: the checks and the memory rule that hold for all, around a runtime of its own."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, cast, get_args

import numpy as np
import numpy.typing as npt

from fcnet_core import FcnetError
from fcnet_core.arrays import Mask, Single
from fcnet_core.model_file import PolicyModel, load_model
from fcnet_core.observation import finite_observation
from fcnet_core.policies.registry import policy_type

RuntimeName = Literal["auto", "numba", "numpy", "onnx"]
Observation = npt.ArrayLike | Mapping[str, npt.ArrayLike]  # the array itself where a policy sees but one
LIBRARIES = {"numba": ("numba",), "onnx": ("onnx", "onnxruntime")}


class Runtime(Protocol):
    """What an architecture provides: one step, with a memory of its own. Observations are checked before."""

    def reset(self, mask: Mask | None) -> None:
        """Forget the past of the robots in `mask` (batch,); of all, or of the only one, without a mask."""

    def step(self, observation: Any) -> Single:
        """The action for a finite observation of the right shape, in an array that belongs to the caller."""


class LoadedPolicy:
    """A Policy (see policy.py) made of a model, for one robot, or for `batch` robots with a leading axis."""

    def __init__(self, model: PolicyModel, runtime: Runtime, batch: int | None = None) -> None:
        self.model = model
        self.batch = batch
        self._runtime = runtime
        self._checks = _Checks(model, () if batch is None else (batch,))
        self._interval = model.card.reset_interval
        self._steps = np.zeros(() if batch is None else batch, dtype=np.int64)  # since the reset of each robot

    def reset(self, mask: Mask | None = None) -> None:
        """Forget every past observation: of the robots in `mask` (batch,), or of all."""
        self._runtime.reset(mask)
        self._steps[... if mask is None else mask] = 0

    def step(self, observation: Observation) -> Single:
        """See Policy."""
        checked = self._checks.of(observation)
        if self._interval is not None:
            full = self._steps == self._interval
            if full.any():
                self.reset(None if self.batch is None else full)
            self._steps += 1
        return self._runtime.step(checked)


    def warm_up(self, steps: int = 20) -> None:
        """Let the first steps, which compile and fill caches, happen before anything depends on them; then reset."""
        nothing = self._checks.zeros()
        for _ in range(steps):
            self.step(nothing)
        self.reset()


class SequencePolicy:
    """Gives the actions that any runtime of the model gives step by step, with all observations known beforehand."""

    def __init__(self, model: PolicyModel) -> None:
        self.model = model
        self._run = policy_type(model.card.policy_type).part(policy_type(model.card.policy_type).sequence)(model).run

    def actions(self, observations: Observation) -> Single:
        """Actions (T, action) for observations (T, ...), the first one after a reset.

        Raises NonFiniteObservation when an entry is NaN or infinite.
        """
        arrays = observations.values() if isinstance(observations, Mapping) else [observations]
        steps = min(len(np.asarray(array)) for array in arrays)
        checked = _Checks(self.model, (steps,)).of(observations)
        length = self.model.card.reset_interval or max(steps, 1)
        parts = [self._run(_rows(checked, slice(start, start + length))) for start in range(0, steps, length)]
        empty = np.empty((0, self.model.card.config.action), dtype=np.float32)
        return np.concatenate([empty, *parts], dtype=np.float32)


class _Checks:
    """Observations are finite and of the right shape, or they reach no memory."""

    def __init__(self, model: PolicyModel, leading: tuple[int, ...]) -> None:
        spec = model.card.config.observation_spec
        self._arrays = {name: ((*leading, *array.shape), np.dtype(array.dtype)) for name, array in spec.items()}
        self._only = next(iter(self._arrays.values())) if len(self._arrays) == 1 else None

    def zeros(self) -> Observation:
        arrays = {name: np.zeros(shape, dtype) for name, (shape, dtype) in self._arrays.items()}
        return arrays if self._only is None else next(iter(arrays.values()))

    def of(self, observation: Observation) -> Any:
        if self._only is not None:
            return finite_observation(cast(npt.ArrayLike, observation), *self._only)
        if not isinstance(observation, Mapping) or observation.keys() != self._arrays.keys():
            raise ValueError(f"the policy expects a mapping with the observations {', '.join(self._arrays)}")
        return {name: finite_observation(observation[name], *kind) for name, kind in self._arrays.items()}


def load_policy(
    source: str | Path | PolicyModel, runtime: RuntimeName | str = "auto", batch: int | None = None
) -> LoadedPolicy:
    """A policy, ready to step, from a model file or a loaded model, for one robot or for `batch` robots.

    runtime: for one robot; "auto" takes numba where it is installed and NumPy elsewhere, "onnx" needs onnx and
    onnxruntime. Raises FcnetError for a file that cannot be used, FcnetError for a runtime that cannot.
    """
    if runtime not in get_args(RuntimeName):
        raise FcnetError(f"there is no runtime {runtime!r}; choose one of {', '.join(get_args(RuntimeName))}")
    model = source if isinstance(source, PolicyModel) else load_model(source)
    kind = policy_type(model.card.policy_type)
    if batch is not None:
        return LoadedPolicy(model, kind.part(kind.batch)(model, batch), batch)
    if runtime == "auto":
        runtime = "numba" if "numba" in kind.runtimes and importlib.util.find_spec("numba") else "numpy"
    if runtime not in kind.runtimes:
        raise FcnetError(f"{model.card.policy_type} policies have no runtime {runtime!r}; choose 'numpy'")
    for library in LIBRARIES.get(runtime, ()):
        if importlib.util.find_spec(library) is None:
            raise FcnetError(f"runtime {runtime!r} needs {library}; install it or choose runtime 'numpy'")
    return LoadedPolicy(model, kind.part(kind.runtimes[runtime])(model))


def _rows(observations: Any, chosen: slice) -> Any:
    if isinstance(observations, Mapping):
        return {name: array[chosen] for name, array in observations.items()}
    return observations[chosen]
