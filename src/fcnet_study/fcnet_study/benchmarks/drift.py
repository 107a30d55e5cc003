"""Whether a policy that runs for days still computes what its memory says: its rounding against exact arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from tqdm import tqdm

from fcnet_core.arrays import Single
from fcnet_core.errors import StudyError
from fcnet_core.model_file import PolicyModel
from fcnet_core.policy import load_policy
from fcnet_study.report import Report

BLOCK = 1000  # observations drawn at a time
COMPARED = 20  # steps at the end of each decade


def measure_drift(model: PolicyModel, steps: int) -> Report:
    """Largest difference [rad] of actions after 1,000, 10,000, ... up to `steps` steps from those of a policy in
    float64 that begins one memory earlier. Raises StudyError for a policy whose memory has no end.
    """
    if not math.isfinite(model.card.memory):
        raise StudyError(
            f"a policy of type {model.card.policy_type} with this window policy never forgets its beginning"
        )
    decades = [10**power for power in range(3, 1 + int(math.log10(steps)))]
    memory, last = int(model.card.memory), decades[-1]
    policy, reference = load_policy(model, "numba"), load_policy(model, "numpy")
    found: list[str] = []
    largest = 0.0
    for count, observation in enumerate(tqdm(observations(model, last), total=last, leave=False, disable=None), 1):
        decade = next(one for one in decades if count <= one)
        begins = decade - COMPARED - memory
        action = policy.step(observation)
        if count == begins:
            reference.reset()
        if count >= begins:
            expected = reference.step(observation)
            if count > decade - COMPARED:
                largest = max(largest, float(np.abs(action - expected).max()))
        if count == decade:
            found.append(f"{largest:.1e}")
            largest = 0.0
    columns = tuple(f"after {decade:,} steps" for decade in decades)
    how = f"largest difference [rad] from float64 over {COMPARED} steps, for random observations"
    return Report("Drift of actions", columns, {"numba": tuple(found)}, how)


def observations(model: PolicyModel, count: int) -> Iterator[Single]:
    """So many random observations in the policy's units."""
    for block in range(math.ceil(count / BLOCK)):
        noise = np.random.default_rng(block).standard_normal((BLOCK, model.card.config.observation))
        rows = model.scales["observation_mean"] + model.scales["observation_std"] * noise
        yield from rows.astype(np.float32)[: count - block * BLOCK]
