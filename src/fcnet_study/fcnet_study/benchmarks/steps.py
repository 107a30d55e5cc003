"""How long one control step of a policy takes, in every form and beside its peers, for one robot on one core."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from fcnet_core.arrays import Single
from fcnet_core.errors import StudyError
from fcnet_core.model_file import PolicyModel, card_for_robot
from fcnet_core.policies import PolicyConfig, policy_type, policy_type_of
from fcnet_core.policy import Policy, load_policy
from fcnet_core.robot import load_robot
from fcnet_study.benchmarks.eager import EAGER
from fcnet_study.benchmarks.timing import Timing, interleave
from fcnet_study.report import Report

AGREEMENT = 1e-4  # [rad] between forms in single precision: the published one's state drifts
HALF_AGREEMENT = 1e-2  # [rad] of the form in half precision, whose weights are others
OBSERVATIONS = 50
READING = "reading the weights once"
Call = Callable[[int], object]  # with its number in the round


@dataclass(frozen=True)
class Pace:
    """How much is measured: rounds over all forms, steps of a form in a round, seconds from step to step or 0."""

    rounds: int
    steps: int
    period: float = 0.0

    def __str__(self) -> str:
        how = f"one step every {1e3 * self.period:g} ms" if self.period else "one step after the other"
        return f"{self.rounds} rounds of {self.steps} steps of each in turn, {how}, one thread"


def untrained(config: PolicyConfig) -> PolicyModel:
    """A policy with random weights: steps take the same time."""
    kind = policy_type(policy_type_of(config))
    torch.manual_seed(0)
    network = kind.part(kind.network)(config)
    return PolicyModel(
        card_for_robot(load_robot("aliengo"), config),
        {name: weight.detach().numpy().copy() for name, weight in network.state_dict().items()},
        {
            "observation_mean": np.zeros(config.observation, dtype=np.float32),
            "observation_std": np.ones(config.observation, dtype=np.float32),
            "action_mean": np.zeros(config.action, dtype=np.float32),
            "action_scale": np.full(config.action, 0.3, dtype=np.float32),
        },
    )


def forms(model: PolicyModel) -> dict[str, Policy]:
    """A policy in every form: eager, NumPy, ONNX Runtime, numba in single and in half precision."""
    policies = {name: make(model) for name, make in EAGER.get(model.card.policy_type, {}).items()}
    policies |= {"NumPy": load_policy(model, "numpy"), "ONNX Runtime": load_policy(model, "onnx")}
    policies |= {"numba": load_policy(model, "numba")}
    return policies | {"numba, fp16 weights": load_policy(model.in_half_precision(), "numba")}


def observations(model: PolicyModel) -> Single:
    """What a round begins with (OBSERVATIONS, observation), in the policy's units."""
    noise = np.random.default_rng(0).standard_normal((OBSERVATIONS, model.card.config.observation))
    seen: Single = (model.scales["observation_mean"] + model.scales["observation_std"] * noise).astype(np.float32)
    return seen


def check_agreement(policies: Mapping[str, Policy], seen: Single) -> None:
    """Raise StudyError unless all forms compute the same."""
    actions = {name: np.array([policy.step(row) for row in seen]) for name, policy in policies.items()}
    for name, action in actions.items():
        limit = HALF_AGREEMENT if "fp16" in name else AGREEMENT
        if (difference := np.abs(action - actions["NumPy"]).max()) > limit:
            raise StudyError(f"{name} differs from NumPy by {difference:.1e} rad: its time would mean nothing")


def time_forms(model: PolicyModel, pace: Pace) -> Report:
    """Every form of one policy. Raises StudyError where forms disagree."""
    policies, seen = forms(model), observations(model)
    check_agreement(policies, seen)
    calls = {name: stepping(policy, seen) for name, policy in policies.items()}
    calls[READING] = reading(folded_size(model))
    timing = interleave(calls, pace.rounds, pace.steps, pace.period)
    references = [name for name in policies if "eager" in name]
    rows = {name: _row(timing, name, references) for name in calls}
    columns = ("p50 [us]", "p99 [us]", "CPU [us]", *(f"faster than {reference}" for reference in references))
    return Report(f"One step of a policy of type {model.card.policy_type}", columns, rows, how=str(pace))


def _row(timing: Timing, name: str, references: list[str]) -> tuple[str, ...]:
    figures = (timing.quantile(name, 0.5), timing.quantile(name, 0.99), timing.mean_processor(name))
    return (*(f"{1e6 * figure:.1f}" for figure in figures), *(ratio_text(timing, name, one) for one in references))


def ratio_text(timing: Timing, name: str, reference: str) -> str:
    """A ratio with its spread."""
    low, middle, high = timing.ratio(name, reference)
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def stepping(policy: Policy, seen: Single) -> Call:
    """Steps over the observations, again and again."""
    rows, step = list(seen), policy.step
    return lambda index: step(rows[index % len(rows)])


def reading(size: int) -> Call:
    """Reads so many numbers, as quickly as one core can: it sums them."""
    from numba import njit

    numbers: Single = np.ones(size, dtype=np.float32)

    @njit(fastmath=True)
    def total(numbers: Single) -> np.float32:
        result = np.float32(0)
        for index in range(numbers.size):
            result += numbers[index]
        return result

    return lambda _index: total(numbers)


def folded_size(model: PolicyModel) -> int:
    """How many weights of matrices a step reads: for the Fourier Controller Network those of the folded one."""
    config = model.card.config
    numbers = sum(weight.size for weight in model.weights.values() if weight.ndim > 1)
    if model.card.policy_type != "fcnet":
        return numbers
    spectral = 2 * config.layers * config.modes * config.hidden
    return int(numbers - spectral * config.modes + spectral)
