"""The runtime is chosen by name, by what is installed, and never needs torch."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from fcnet_core import FcnetError
from fcnet_core.model_file import save_model
from fcnet_core.policy import CompiledRuntime, NumpyRuntime, load_policy

TORCH_FREE = """
import sys
sys.modules["torch"] = None
import numpy, fcnet_core.cli, fcnet_core.learning.dataset
import fcnet_core.verbs.info, fcnet_core.verbs.export, fcnet_core.verbs.train
from fcnet_core import load_policy
for runtime in ("auto", "numpy", "onnx"):
    assert load_policy(sys.argv[1], runtime).step(numpy.zeros(11)).shape == (3,)
assert load_policy(sys.argv[1], batch=2).step(numpy.zeros((2, 11))).shape == (2, 3)
"""


@pytest.mark.parametrize("runtime", ["auto", "numba", "numpy", "onnx"])
def test_every_runtime_loads_the_same_file(runtime, small, tmp_path) -> None:
    save_model(small.model, tmp_path / "policy.safetensors")
    policy = load_policy(tmp_path / "policy.safetensors", runtime)
    np.testing.assert_allclose(policy.step(small.observation[0, 0]), small.output[0, 0], atol=3e-6, rtol=0)


def test_auto_is_numba_where_it_is_installed_and_numpy_elsewhere(small, monkeypatch) -> None:
    assert isinstance(load_policy(small.model).runtime, CompiledRuntime)
    monkeypatch.setitem(sys.modules, "numba", None)
    assert isinstance(load_policy(small.model).runtime, NumpyRuntime)


def test_a_runtime_whose_library_is_missing_is_one_sentence(small, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(FcnetError, match="needs onnxruntime; install it"):
        load_policy(small.model, "onnx")


def test_an_unknown_runtime_is_one_sentence(small) -> None:
    with pytest.raises(FcnetError, match="choose one of auto, numba, numpy, onnx"):
        load_policy(small.model, "tensorrt")


def test_a_missing_file_is_refused_before_anything_is_compiled(tmp_path) -> None:
    with pytest.raises(FcnetError, match="there is no model file"):
        load_policy(tmp_path / "nothing.safetensors")


def test_no_runtime_needs_torch(small, tmp_path) -> None:
    save_model(small.model, tmp_path / "policy.safetensors")
    subprocess.run([sys.executable, "-c", TORCH_FREE, str(tmp_path / "policy.safetensors")], check=True)
