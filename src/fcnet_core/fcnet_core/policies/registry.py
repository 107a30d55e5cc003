"""What runs a policy: one model file, several runtimes that agree within 2e-6."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Literal, get_args

from fcnet_core.model_file import PolicyModel, load_model
from fcnet_core.policy import Policy

Runtime = Literal["auto", "numba", "numpy", "onnx"]


class RuntimeMissingError(ValueError):
    """A runtime was asked for that is unknown or whose library is not installed."""


def load_policy(source: str | Path | PolicyModel, runtime: str = "auto") -> Policy:
    """A policy, ready to step, from a model file or a loaded model.

    "auto" takes numba where it is installed and NumPy elsewhere; "onnx" needs onnx and onnxruntime. Raises
    ModelFileError for a file that cannot be used, RuntimeMissingError for a runtime that cannot.
    """
    if runtime not in get_args(Runtime):
        raise RuntimeMissingError(f"there is no runtime {runtime!r}; choose one of {', '.join(get_args(Runtime))}")
    model = source if isinstance(source, PolicyModel) else load_model(source)
    if runtime == "auto":
        runtime = "numba" if importlib.util.find_spec("numba") else "numpy"
    for library in {"numba": ["numba"], "onnx": ["onnx", "onnxruntime"]}.get(runtime, []):
        if importlib.util.find_spec(library) is None:
            raise RuntimeMissingError(f"runtime {runtime!r} needs {library}; install it or choose runtime 'numpy'")
    return _make(model, runtime)


def _make(model: PolicyModel, runtime: str) -> Policy:
    """Import a runtime only when it is wanted: each brings its own library."""
    if runtime == "numba":
        from fcnet_core.policies.fcnet.numba_step import NumbaPolicy

        return NumbaPolicy(model)
    if runtime == "onnx":
        from fcnet_core.policies.fcnet.onnx import OnnxPolicy

        return OnnxPolicy(model)
    from fcnet_core.policies.fcnet.numpy_step import NumpyPolicy

    return NumpyPolicy(model)
