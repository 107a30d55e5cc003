"""Durations of control steps: the alternatives of `fcnet bench step` and of scripts in papers/, and their table.

Alternatives run in turn, so that other load on the machine affects all of them.
"""

import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Protocol

import numpy as np
from tqdm import tqdm

from fcnet_core.arrays import Array, Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies import policy_type
from fcnet_core.policy import load_policy
from fcnet_core.verbs import text_table

LIBRARIES = ("numpy", "numba", "onnxruntime", "torch")
WARM_UP = 2  # calls of an alternative before the timed calls of a round
ONNX = "ONNX Runtime"
Call = Callable[[int], object]  # takes its number within the round


def machine() -> dict[str, str]:
    """Return the processor and the versions of Python and of the LIBRARIES that are installed."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    facts = {"processor": f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"}
    facts["Python"] = platform.python_version()
    for library in LIBRARIES:
        with suppress(PackageNotFoundError):
            facts[library] = version(library)
    return facts


@dataclass(frozen=True)
class ResultTable:
    """title: the measured quantity; rows: a cell for each column, by label; how: the conditions."""

    title: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[str, ...]]
    how: str
    command: str = field(default_factory=lambda: " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]))
    machine: dict[str, str] = field(default_factory=machine)

    def text(self) -> str:
        """Return the table for a terminal."""
        rows = [[label, *cells] for label, cells in self.rows.items()]
        return "\n".join([self.title, text_table(["", *self.columns], rows), self.how])


@dataclass(frozen=True)
class Timing:
    """Wall time [s] of every call (rounds, calls) and processor time [s] of every round (rounds,), by alternative."""

    wall: dict[str, Array]
    processor: dict[str, Array]

    def quantile(self, name: str, q: float) -> float:
        """Return a quantile of the wall time of a call [s]."""
        return float(np.quantile(self.wall[name], q))

    def mean_processor(self, name: str) -> float:
        """Return the processor time of a call [s] in the median round."""
        return float(np.median(self.processor[name])) / self.wall[name].shape[1]

    def ratio(self, name: str, reference: str) -> Array:
        """Return the 10, 50 and 90 % quantiles over the rounds of reference / name, in processor time."""
        return np.quantile(self.processor[reference] / self.processor[name], [0.1, 0.5, 0.9])

    def ratio_text(self, name: str, reference: str) -> str:
        """Return the ratio as a cell of a table."""
        low, middle, high = self.ratio(name, reference)
        return f"{middle:.2f} ({low:.2f} to {high:.2f})"


@dataclass(frozen=True)
class Pace:
    """How often an alternative is called: rounds, calls in a round, and seconds between calls (0: no pause)."""

    rounds: int
    steps: int
    period: float = 0.0

    def __str__(self) -> str:
        how = f"one every {1e3 * self.period:g} ms" if self.period else "without a pause"
        return f"{self.rounds} rounds of {self.steps} steps of each in turn, {how}, one thread"


def interleave(alternatives: Mapping[str, Call], pace: Pace) -> Timing:
    """Time `pace.steps` calls of each alternative in every round.

    With a period, as on a robot, caches go cold between two calls.
    """
    wall: dict[str, Array] = {name: np.zeros((pace.rounds, pace.steps)) for name in alternatives}
    processor: dict[str, Array] = {name: np.zeros(pace.rounds) for name in alternatives}
    for number in tqdm(range(pace.rounds), desc="rounds", leave=False, disable=None):
        for name, call in alternatives.items():
            for index in range(WARM_UP):
                call(index)
            wall[name][number], processor[name][number] = _run(call, pace)
    return Timing(wall, processor)


def _run(call: Call, pace: Pace) -> tuple[Sequence[float], float]:
    """Return the wall time of each call and the processor time of all, without the time of waiting [s]."""
    times, waited = [], 0.0
    start, used = time.perf_counter(), time.thread_time()
    for index in range(pace.steps):
        if pace.period:
            before = time.thread_time()
            time.sleep(max(0.0, start + index * pace.period - time.perf_counter()))
            waited += time.thread_time() - before
        called = time.perf_counter()
        call(index)
        times.append(time.perf_counter() - called)
    return times, time.thread_time() - used - waited


class Form(Protocol):
    """A policy of which only steps are timed."""

    def step(self, observation: Single) -> Single:
        """Return the action for an observation."""


def forms(model: PolicyModel) -> dict[str, Form]:
    """Return the policy in every runtime, the reference of durations first."""
    policies: dict[str, Form] = {ONNX: load_policy(model, "onnx")}
    if policy_type(model.card.policy_type).numba:
        half = load_policy(model.in_half_precision(), "numba")
        policies |= {"numba": load_policy(model, "numba"), "numba, fp16 weights": half}
    return policies


def observations(model: PolicyModel, steps: int = 50) -> Single:
    """Return random observations (steps, observation) in the policy's units."""
    noise = np.random.default_rng(0).standard_normal((steps, model.card.config.observation))
    seen: Single = (model.scales["observation_mean"] + model.scales["observation_std"] * noise).astype(np.float32)
    return seen


def time_forms(model: PolicyModel, policies: Mapping[str, Form], pace: Pace) -> ResultTable:
    """Time forms of one policy; the first one is the reference."""
    seen = observations(model)
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
