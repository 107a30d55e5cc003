"""A policy of any type without normalisation, and every form in which it is run, for the tests of one type."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
import torch

from fcnet_core.model_file import PolicyModel, card_for_robot
from fcnet_core.policies import PolicyConfig, policy_type, policy_type_of
from fcnet_core.policies.onnx_graph import onnx_graph
from fcnet_core.policy import SequencePolicy, load_policy
from fcnet_core.robot import load_robot


def model_of(config: PolicyConfig, weights: dict[str, np.ndarray]) -> PolicyModel:
    """A policy whose network sees observations as they are, and whose outputs are the actions."""
    return PolicyModel(
        card_for_robot(load_robot("aliengo"), config, observation_clip=1e6),
        weights,
        {
            "observation_mean": np.zeros(config.observation, np.float32),
            "observation_std": np.ones(config.observation, np.float32),
            "action_mean": np.zeros(config.action, np.float32),
            "action_scale": np.ones(config.action, np.float32),
        },
    )


def untrained(config: PolicyConfig, seed: int = 3) -> PolicyModel:
    torch.manual_seed(seed)
    kind = policy_type(policy_type_of(config))
    network = kind.part(kind.network)(config)
    return model_of(config, {name: weight.numpy().copy() for name, weight in network.state_dict().items()})


def loaded(network: torch.nn.Module, weights: dict[str, np.ndarray]) -> torch.nn.Module:
    network.load_state_dict({name: torch.from_numpy(weight) for name, weight in weights.items()})
    return network


def network_of(model: PolicyModel) -> torch.nn.Module:
    kind = policy_type(model.card.policy_type)
    return loaded(kind.part(kind.network)(model.card.config), model.weights)


def parallel(model: PolicyModel, seen: np.ndarray) -> np.ndarray:
    """The network that is trained, over a whole sequence (T, observation)."""
    with torch.no_grad():
        return network_of(model)(torch.from_numpy(seen)[None])[0].numpy()


def noise(model: PolicyModel, *leading: int) -> np.ndarray:
    shape = (*leading, model.card.config.observation)
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def stepped(model: PolicyModel, runtime: str, seen: np.ndarray) -> np.ndarray:
    policy = load_policy(model, runtime)
    return np.stack([policy.step(row) for row in seen])


def batched(model: PolicyModel, seen: np.ndarray) -> np.ndarray:
    policy = load_policy(model, batch=2)
    return np.stack([policy.step(np.stack([-row, row]))[1] for row in seen])


FORMS = {
    "numpy": lambda model, seen: stepped(model, "numpy", seen),
    "numba": lambda model, seen: stepped(model, "numba", seen),
    "onnx": lambda model, seen: stepped(model, "onnx", seen),
    "batch": batched,
    "sequence": lambda model, seen: SequencePolicy(model).actions(seen),
}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


def check_foreign_caller(model: PolicyModel, inputs: list[str]) -> None:
    """The graph's inputs begin with these; to zero one robot's rows of its memory resets that robot."""
    proto, memories = onnx_graph(model)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    assert [entry.name for entry in session.get_inputs()][: len(inputs)] == inputs
    memory = {kept.name: np.repeat(kept.zeros(), 3, axis=0) for kept in memories}
    reference, results = load_policy(model, batch=3), [kept.result for kept in memories]
    for step, seen in enumerate(noise(model, 60, 3)):
        if step % 17 == 8:
            reference.reset(np.array([False, True, False]))
            for array in memory.values():
                array[1] = 0
        action, *arrays = session.run(["action", *results], {"observation": seen, **memory})
        memory = dict(zip(memory, arrays, strict=True))
        np.testing.assert_allclose(action, reference.step(seen), atol=2e-6, rtol=0)
