"""Duration of one control step of a policy in every runtime, for one robot on one core."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fcnet_core.arrays import Single
from fcnet_core.bench.eager import FCNET_FORMS
from fcnet_core.bench.table import ResultTable
from fcnet_core.bench.timing import Call, Pace, Timing, interleave
from fcnet_core.errors import FcnetError
from fcnet_core.model_file import PolicyModel
from fcnet_core.policy import Policy, load_policy

AGREEMENT = 1e-4  # [rad] between forms in single precision: the state of the published form drifts
HALF_AGREEMENT = 1e-2  # [rad] of the form in half precision, whose weights are rounded
OBSERVATIONS = 50
REFERENCE = "NumPy"
READING = "reading the weights once"


def forms(model: PolicyModel) -> dict[str, Policy]:
    """Return the policy in every form: eager PyTorch for FCNet, NumPy, ONNX Runtime, numba in float32 and float16."""
    eager = FCNET_FORMS if model.card.policy_type == "fcnet" else {}
    return {
        **{name: form(model) for name, form in eager.items()},
        REFERENCE: load_policy(model, "numpy"),
        "ONNX Runtime": load_policy(model, "onnx"),
        "numba": load_policy(model, "numba"),
        "numba, fp16 weights": load_policy(model.in_half_precision(), "numba"),
    }


def observations(model: PolicyModel) -> Single:
    """Return random observations (OBSERVATIONS, observation) in the policy's units."""
    noise = np.random.default_rng(0).standard_normal((OBSERVATIONS, model.card.config.observation))
    seen: Single = (model.scales["observation_mean"] + model.scales["observation_std"] * noise).astype(np.float32)
    return seen


def check_agreement(policies: Mapping[str, Policy], seen: Single) -> None:
    """Raise FcnetError unless all forms compute the same actions."""
    actions = {name: np.array([policy.step(row) for row in seen]) for name, policy in policies.items()}
    for name, action in actions.items():
        limit = HALF_AGREEMENT if "fp16" in name else AGREEMENT
        if (difference := np.abs(action - actions[REFERENCE]).max()) > limit:
            raise FcnetError(f"{name} differs from {REFERENCE} by {difference:.1e} rad: its duration has no meaning")


def time_forms(model: PolicyModel, pace: Pace) -> ResultTable:
    """Time every form of one policy. Raises FcnetError if forms disagree."""
    policies, seen = forms(model), observations(model)
    check_agreement(policies, seen)
    calls = {name: stepping(policy, seen) for name, policy in policies.items()}
    calls[READING] = reading(folded_size(model))
    timing = interleave(calls, pace)
    references = [name for name in policies if "eager" in name] or [REFERENCE]
    rows = {name: _row(timing, name, references) for name in calls}
    columns = ("p50 [us]", "p99 [us]", "CPU [us]", *(f"faster than {reference}" for reference in references))
    return ResultTable(f"One step of a policy of type {model.card.policy_type}", columns, rows, how=str(pace))


def _row(timing: Timing, name: str, references: list[str]) -> tuple[str, ...]:
    figures = (timing.quantile(name, 0.5), timing.quantile(name, 0.99), timing.mean_processor(name))
    return (*(f"{1e6 * figure:.1f}" for figure in figures), *(timing.ratio_text(name, one) for one in references))


def stepping(policy: Policy, seen: Single) -> Call:
    """Return a call that steps the policy over the observations, again and again."""
    rows, step = list(seen), policy.step
    return lambda index: step(rows[index % len(rows)])


def reading(size: int) -> Call:
    """Return a call that sums `size` float32 numbers, the lower bound of a step that reads as many weights."""
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
    """Return the number of matrix weights that a step reads; FCNet's inverse DFT is folded into its filters."""
    config = model.card.config
    numbers = sum(weight.size for weight in model.weights.values() if weight.ndim > 1)
    if model.card.policy_type != "fcnet":
        return numbers
    spectral = 2 * config.layers * config.modes * config.hidden
    return int(numbers - spectral * config.modes + spectral)
