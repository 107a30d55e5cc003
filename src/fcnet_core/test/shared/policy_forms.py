"""A policy of any type without normalisation, and every form in which it is run, for the tests of one type."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from made_robots import plain_scales
from msgspec import structs

from fcnet_core.errors import FcnetError
from fcnet_core.learning.config import TrainConfig
from fcnet_core.model_file import PolicyModel, card_for_robot
from fcnet_core.policies import PolicyConfig, policy_type, policy_type_of
from fcnet_core.policies.export import exported_step
from fcnet_core.policies.network import advanced, load_network
from fcnet_core.policy import load_policy
from fcnet_core.robot import load_robot

Form = Callable[[PolicyModel, np.ndarray], np.ndarray]  # observations (T, n), the first after a reset -> actions (T, a)


def model_of(config: PolicyConfig, weights: dict[str, np.ndarray], export: bool = True) -> PolicyModel:
    """A policy whose network sees observations as they are, and whose outputs are the actions."""
    card = card_for_robot(load_robot("aliengo"), config, observation_clip=1e6)
    scales = plain_scales(config.observation, np.zeros(config.action))
    return PolicyModel(card, weights, scales, exported_step(config) if export else b"")


def with_units(model: PolicyModel) -> PolicyModel:
    """The policy with a clip and a normalisation like those of real data."""
    config, rng = model.card.config, np.random.default_rng(7)
    scales = {
        "observation_mean": rng.normal(0, 0.5, config.observation).astype(np.float32),
        "observation_std": rng.uniform(0.1, 2.0, config.observation).astype(np.float32),
        "action_mean": rng.normal(0, 0.8, config.action).astype(np.float32),
        "action_scale": rng.uniform(0.1, 0.5, config.action).astype(np.float32),
    }
    return replace(model, card=structs.replace(model.card, observation_clip=3.0), scales=scales)


def untrained(config: PolicyConfig, seed: int = 3, export: bool = True) -> PolicyModel:
    torch.manual_seed(seed)
    kind = policy_type(policy_type_of(config))
    network = kind.part(kind.network)(config)
    weights = {name: weight.numpy().copy() for name, weight in network.state_dict().items()}
    return model_of(config, weights, export)


def loaded(network: torch.nn.Module, weights: dict[str, np.ndarray]) -> torch.nn.Module:
    network.load_state_dict({name: torch.from_numpy(weight) for name, weight in weights.items()})
    return network


@torch.no_grad()
def parallel(model: PolicyModel, seen: np.ndarray) -> np.ndarray:
    """The network in float64, over a whole sequence (T, observation)."""
    return load_network(model).double()(torch.from_numpy(seen).double()[None])[0][0].numpy()


def noise(model: PolicyModel, *leading: int) -> np.ndarray:
    shape = (*leading, model.card.config.observation)
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def stepped(model: PolicyModel, runtime: str, seen: np.ndarray) -> np.ndarray:
    policy = load_policy(model, runtime)
    return np.stack([policy.step(row) for row in seen])


def batched(model: PolicyModel, seen: np.ndarray) -> np.ndarray:
    """One of three robots that see different things."""
    policy = load_policy(model, batch=3)
    return np.stack([policy.step(np.stack([row * np.float32(0.5), row, -row]))[1] for row in seen])


def in_sequences(model: PolicyModel, seen: np.ndarray) -> np.ndarray:
    policy = load_policy(model, "onnx")
    return np.concatenate([policy.sequence(part) for part in (seen[:2], seen[2:])])


FORMS: dict[str, Form] = {
    "numba": lambda model, seen: stepped(model, "numba", seen),
    "onnx": lambda model, seen: stepped(model, "onnx", seen),
    "batch": batched,
    "sequences": in_sequences,
}


@torch.no_grad()
def steps_of_network(model: PolicyModel, seen: np.ndarray) -> np.ndarray:
    """The step that is exported, in float64."""
    network = load_network(model).double()
    state, outputs = network.cold(1), []
    for row in torch.from_numpy(seen).double():
        output, written = network.step(row[None], state)
        state = advanced(state, written)
        outputs.append(output[0].numpy())
    return np.stack(outputs)


def forms_of(name: str) -> dict[str, Form]:
    """The forms of a policy type."""
    return {form: run for form, run in FORMS.items() if form in (*policy_type(name).runtimes, "batch", "sequences")}


def every_form(name: str) -> pytest.MarkDecorator:
    """Parametrise a test of one type with its forms."""
    return pytest.mark.parametrize("form", forms_of(name).values(), ids=forms_of(name))


def check_refused(name: str, settings: Mapping[str, Any], named: str) -> None:
    """Check that a network of these settings is refused in a sentence that names what is wrong."""
    with pytest.raises(FcnetError, match=named) as caught:
        TrainConfig(policy_type=name, config=dict(settings))
    assert "\n" not in str(caught.value)
