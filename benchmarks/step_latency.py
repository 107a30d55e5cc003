"""How long one control step of a policy takes in each runtime, measured alternately in one run on one core.

    python benchmarks/step_latency.py                         # random weights in the legged configuration
    python benchmarks/step_latency.py models/aliengo.safetensors --paced 50

Rounds of a few steps of every runtime in turn, so that whatever else the machine does meets all of them. Hot: one step
after the other, weights stay in the cache. Paced: one step per period, as on a robot, between which caches go cold.
The ratio is that of the medians of one round; its spread is the 10 to 90 % range over the rounds.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy starts its threads

import argparse
import json
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from eager_step import EagerPolicy

from fcnet_core.model_file import PolicyModel, card_for_robot, load_model
from fcnet_core.policies.fcnet.config import FCNetConfig
from fcnet_core.policies.fcnet.numba_step import NumbaStep
from fcnet_core.policy import Policy
from fcnet_core.robot import load_robot
from fcnet_core.runtime import LoadedPolicy, load_policy

REFERENCE = "PyTorch eager"
RUNTIMES: dict[str, Callable[[PolicyModel], Policy]] = {
    REFERENCE: EagerPolicy,
    "NumPy": lambda model: load_policy(model, "numpy"),
    "ONNX Runtime": lambda model: load_policy(model, "onnx"),
    "numba, FIR": lambda model: LoadedPolicy(model, NumbaStep(model, "fir")),
    "numba": lambda model: load_policy(model, "numba"),
}
AGREEMENT = 1e-4  # rad; the eager form's float32 state drifts


@dataclass
class Series:
    """Times [us] of one runtime, a list per round."""

    policy: Policy
    rounds: list[list[float]] = field(default_factory=list)

    def medians(self) -> npt.NDArray[np.float64]:
        """Median of every round [us]."""
        return np.median(self.rounds, axis=1)

    def quantile(self, share: float) -> float:
        """Quantile over all steps [us]."""
        return float(np.quantile(self.rounds, share))


@dataclass(frozen=True)
class Row:
    """One runtime's line of the result."""

    runtime: str
    p50_us: float
    p99_us: float
    times_faster: float
    spread: tuple[float, float]


def main() -> None:
    """Measure, print a table or JSON."""
    args = _arguments()
    torch.set_num_threads(1)
    model = load_model(args.model) if args.model else random_model()
    series = {name: Series(make(model)) for name, make in RUNTIMES.items()}
    rng = np.random.default_rng(0)
    observations = rng.standard_normal((args.steps, model.card.config.observation)).astype(np.float32)
    observations = model.scales["observation_mean"] + model.scales["observation_std"] * observations
    _check_agreement(series, observations)
    period = 1 / args.paced if args.paced else 0.0
    for _ in range(args.rounds):
        for one in series.values():
            one.rounds.append(measure(one.policy, observations, period))
    _print(series, args)


def measure(policy: Policy, observations: npt.NDArray[np.float32], period: float) -> list[float]:
    """Time [us] of one step per observation, started `period` seconds apart (0: at once), after two to warm up."""
    for observation in observations[:2]:
        policy.step(observation)
    times, start = [], time.perf_counter()
    for index, observation in enumerate(observations):
        time.sleep(max(0.0, start + index * period - time.perf_counter()))
        begin = time.perf_counter_ns()
        policy.step(observation)
        times.append((time.perf_counter_ns() - begin) / 1000)
    return times


def random_model() -> PolicyModel:
    """A model in the legged configuration with seeded random weights."""
    config, rng = FCNetConfig(), np.random.default_rng(1)
    weights = {name: rng.normal(0, 0.05, size).astype(np.float32) for name, size in config.weight_shapes().items()}
    ones, zeros = np.ones(70, dtype=np.float32), np.zeros(70, dtype=np.float32)
    scales = {"observation_mean": zeros, "observation_std": ones, "action_mean": zeros[:12], "action_scale": ones[:12]}
    return PolicyModel(card_for_robot(load_robot("aliengo"), config), weights, scales)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time one control step of a policy in every runtime.")
    parser.add_argument("model", nargs="?", help="a policy file (default: random weights, which take as long)")
    parser.add_argument("--rounds", type=int, default=40, metavar="N", help="rounds over all runtimes (40)")
    parser.add_argument("--steps", type=int, default=50, metavar="N", help="steps of a runtime in a round (50)")
    parser.add_argument("--paced", type=float, metavar="HZ", help="one step per period of this rate, such as 50")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    return parser.parse_args()


def _check_agreement(series: dict[str, Series], observations: npt.NDArray[np.float32]) -> None:
    """Stop unless all runtimes compute the same thing."""
    for observation in observations:
        actions = {name: one.policy.step(observation) for name, one in series.items()}
        for name, action in actions.items():
            if (difference := np.abs(action - actions["NumPy"]).max()) > AGREEMENT:
                raise SystemExit(f"{name} differs from NumPy by {difference:.1e} rad; the times would mean nothing")


def _print(series: dict[str, Series], args: argparse.Namespace) -> None:
    rows = [_row(name, one, series[REFERENCE]) for name, one in series.items()]
    if args.json:
        print(json.dumps({"machine": platform.machine(), "paced_hz": args.paced, "runtimes": list(map(asdict, rows))}))
        return
    pace = f"paced at {args.paced:g} Hz" if args.paced else "hot"
    print(f"one step, {pace}, {args.rounds} rounds of {args.steps} steps, one thread, times faster than {REFERENCE}")
    print(f"{'runtime':<14} {'p50 us':>8} {'p99 us':>8} {'faster':>7}   spread")
    for row in rows:
        spread = f"{row.spread[0]:.1f} to {row.spread[1]:.1f}x"
        print(f"{row.runtime:<14} {row.p50_us:8.0f} {row.p99_us:8.0f} {row.times_faster:6.1f}x   {spread}")


def _row(name: str, series: Series, reference: Series) -> Row:
    low, middle, high = np.quantile(reference.medians() / series.medians(), [0.1, 0.5, 0.9]).tolist()
    return Row(name, series.quantile(0.5), series.quantile(0.99), middle, (low, high))


if __name__ == "__main__":
    main()
