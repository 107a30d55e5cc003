"""Duration of one control step of a policy in every runtime, for one robot on one core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from fcnet_core.arrays import Single
from fcnet_core.bench.table import ResultTable
from fcnet_core.bench.timing import Call, Pace, interleave
from fcnet_core.errors import FcnetError
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies import policy_type
from fcnet_core.policy import load_policy

AGREEMENT = 1e-4  # [rad] between forms in single precision
HALF_AGREEMENT = 1e-2  # [rad] of the form in half precision, whose weights are rounded
OBSERVATIONS = 50
ONNX, HALF = "ONNX Runtime", "numba, fp16 weights"


class Form(Protocol):
    """A policy of which only steps are timed."""

    def step(self, observation: Single) -> Single:
        """Return the action for an observation."""


def forms(model: PolicyModel) -> dict[str, Form]:
    """Return the policy in every runtime, the reference of durations first."""
    policies: dict[str, Form] = {ONNX: load_policy(model, "onnx")}
    if "numba" in policy_type(model.card.policy_type).runtimes:
        policies |= {"numba": load_policy(model, "numba"), HALF: load_policy(model.in_half_precision(), "numba")}
    return policies


def observations(model: PolicyModel) -> Single:
    """Return random observations (OBSERVATIONS, observation) in the policy's units."""
    noise = np.random.default_rng(0).standard_normal((OBSERVATIONS, model.card.config.observation))
    seen: Single = (model.scales["observation_mean"] + model.scales["observation_std"] * noise).astype(np.float32)
    return seen


def check_agreement(policies: Mapping[str, Form], seen: Single) -> None:
    """Raise FcnetError unless all forms compute the actions of ONNX Runtime."""
    actions = {name: np.array([policy.step(row) for row in seen]) for name, policy in policies.items()}
    for name, action in actions.items():
        difference = np.abs(action - actions[ONNX]).max()
        if difference > (HALF_AGREEMENT if name == HALF else AGREEMENT):
            raise FcnetError(f"{name} differs from {ONNX} by {difference:.1e} rad: its duration has no meaning")


def time_forms(model: PolicyModel, policies: Mapping[str, Form], pace: Pace) -> ResultTable:
    """Time forms of one policy; the first one is the reference. Raises FcnetError if they disagree."""
    seen = observations(model)
    check_agreement(policies, seen)
    timing = interleave({name: stepping(policy, seen) for name, policy in policies.items()}, pace)
    reference = next(iter(policies))
    rows = {}
    for name in policies:
        times = (timing.quantile(name, 0.5), timing.quantile(name, 0.99), timing.mean_processor(name))
        rows[name] = (*(f"{1e6 * time:.1f}" for time in times), timing.ratio_text(name, reference))
    columns = ("p50 [us]", "p99 [us]", "CPU [us]", f"faster than {reference}")
    return ResultTable(f"One step of a policy of type {model.card.policy_type}", columns, rows, how=str(pace))


def stepping(policy: Form, seen: Single) -> Call:
    """Return a call that steps the policy over the observations, again and again."""
    rows, step = list(seen), policy.step
    return lambda index: step(rows[index % len(rows)])
