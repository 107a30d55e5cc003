"""The runtime is chosen by name and by what is installed."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from msgspec import structs

from fcnet_core.arrays import ArraySpec
from fcnet_core.errors import FcnetError
from fcnet_core.model_file import PolicyModel
from fcnet_core.observation import vector_interface
from fcnet_core.policies import PolicyConfig, PolicyType
from fcnet_core.policies.compiled_layers import CompiledRuntime
from fcnet_core.policies.export import _exported, exported_step
from fcnet_core.policies.exported_step import ExportedStep
from fcnet_core.policies.network import PolicyNetwork
from fcnet_core.policy import load_policy


@pytest.fixture(scope="module")
def exported(small) -> PolicyModel:
    return replace(small.model, step=exported_step(small.model.card.config))


def test_auto_is_numba_if_it_is_installed_and_else_the_exported_step(exported, monkeypatch) -> None:
    assert isinstance(load_policy(exported).runtime, CompiledRuntime)
    monkeypatch.setitem(sys.modules, "numba", None)
    assert isinstance(load_policy(exported).runtime, ExportedStep)
    with pytest.raises(FcnetError, match="--format 2"):
        load_policy(replace(exported, step=b""))


@pytest.mark.parametrize(("runtime", "named"), [("onnx", "needs onnxruntime; install it"), ("tensorrt", "numba, onnx")])
def test_a_runtime_that_cannot_be_had_is_one_sentence(small, monkeypatch, runtime, named) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(FcnetError, match=named):
        load_policy(small.model, runtime)


class Colours(PolicyConfig, frozen=True):
    """A policy that sees a vector and an image, and remembers the sum of both."""

    observation: int = 11
    action: int = 3
    window: int = 1

    @property
    def observation_spec(self):
        return {"observation": ArraySpec((11,)), "image": ArraySpec((4, 4, 3), "uint8")}

    def weight_shapes(self):
        return {"gain": (3,)}


class ColourSum(PolicyNetwork):
    def __init__(self, config) -> None:
        super().__init__()
        self.gain = torch.nn.Parameter(torch.ones(3))

    def cold(self, batch):
        return {"total": self.zeros(batch, 3)}

    def step(self, seen, state):
        added = seen["observation"][:, :1] + seen["image"].to(self.gain).mean(dim=(1, 2))
        total = state["total"] + added
        return self.gain * total, {"total": total}


def test_a_policy_may_see_several_arrays_and_images_as_they_are(small, monkeypatch) -> None:
    kind = PolicyType(__name__, Colours, f"{__name__}:ColourSum")
    monkeypatch.setattr(PolicyType, "part", lambda kind, place: ColourSum)
    for module in ("policy", "policies.export"):
        monkeypatch.setattr(f"fcnet_core.{module}.policy_type", lambda name: kind)
    monkeypatch.setattr("fcnet_core.policies.export.policy_type_of", lambda config: "colours")
    scales = {**small.model.scales, "observation_std": np.full(11, 2, dtype=np.float32)}
    interface = vector_interface(Colours().observation_spec, Colours().action)
    card = structs.replace(small.model.card, interface=interface, config=Colours())
    model = PolicyModel(card, {"gain": np.ones(3, np.float32)}, scales, _exported(Colours()))
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
