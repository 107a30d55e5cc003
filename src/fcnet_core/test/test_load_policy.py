"""The runtime is chosen by name, by what is installed, and never needs torch."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from fcnet_core.arrays import ArraySpec
from fcnet_core.errors import FcnetError
from fcnet_core.model_file import save_model
from fcnet_core.policies import policy_type
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


class ColourSum:
    """A network that sees a vector and an image, and remembers the sum of both."""

    def __init__(self, model, batch, dtype) -> None:
        self.total = np.zeros((batch, 3), dtype=dtype)

    def reset(self, chosen) -> None:
        self.total[chosen] = 0

    def step(self, seen):
        self.total += seen["observation"][:, :1] + seen["image"].mean(axis=(1, 2))
        return self.total.copy()


def test_a_policy_may_see_several_arrays_and_images_as_they_are(small, monkeypatch) -> None:
    config = small.model.card.config
    spec = {"observation": ArraySpec((11,)), "image": ArraySpec((4, 4, 3), "uint8")}
    kind = replace(policy_type("fcnet"), numba="", onnx="")
    monkeypatch.setattr(type(kind), "part", lambda kind, place: ColourSum)
    monkeypatch.setattr(type(config), "observation_spec", spec)
    monkeypatch.setattr("fcnet_core.policy.policy_type", lambda name: kind)
    scales = {**small.model.scales, "observation_std": np.full(11, 2, dtype=np.float32)}
    model = replace(small.model, scales=scales)
    image = np.zeros((2, 4, 4, 3), dtype=np.uint8)
    image[..., 1] = 200
    vector = np.full((2, 11), 4, dtype=np.float32)
    single, batch = load_policy(model), load_policy(model, batch=2)
    np.testing.assert_allclose(single.step({"observation": vector[0], "image": image[0]}), [2, 202, 2])
    for expected in ([2, 202, 2], [4, 404, 4]):
        np.testing.assert_allclose(batch.step({"observation": vector, "image": image}), [expected] * 2)
    batch.reset(np.array([True, False]))
    after = batch.step({"observation": vector, "image": image})
    np.testing.assert_allclose(after, [[2, 202, 2], [6, 606, 6]])
    with pytest.raises(ValueError, match="observation, image"):
        single.step({"observation": vector[0]})


def test_no_runtime_needs_torch(small, tmp_path) -> None:
    save_model(small.model, tmp_path / "policy.safetensors")
    subprocess.run([sys.executable, "-c", TORCH_FREE, str(tmp_path / "policy.safetensors")], check=True)
