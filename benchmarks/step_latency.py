"""How long one control step of a policy takes in each runtime, measured alternately in one run on one core.

    python benchmarks/step_latency.py
    python benchmarks/step_latency.py models/a1.safetensors --paced 50

Rounds of a few steps of every runtime in turn, so that whatever else the machine does meets all of them. Hot: one step
after the other, weights stay in the cache. Paced: one step per period, as on a robot, between which caches go cold.
The ratio is that of the medians of one round; its spread is the 10 to 90 % range over the rounds.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy starts its threads

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from eager_transformer import EagerTransformer
from torch import Tensor
from torch.nn import functional

from fcnet_core.model_file import PolicyModel, load_model
from fcnet_core.policies.fcnet import spectral
from fcnet_core.policy import Policy, load_policy

SHIPPED = Path(__file__).resolve().parent.parent / "models" / "aliengo.safetensors"
AGREEMENT = 1e-4  # rad; the eager form's float32 state drifts
Array = npt.NDArray[np.float32]


class EagerPolicy:
    """The published recurrent step of the Fourier Controller Network, straightforward in eager PyTorch, float32.

    The spectral state is a complex (modes, d) tensor per layer; every step rotates it, multiplies it by the complex
    weights W (modes, modes, d) and takes the last sample of the inverse DFT.
    """

    def __init__(self, model: PolicyModel) -> None:
        self.shape = shape = model.card.config
        self.w = {name: torch.from_numpy(weight) for name, weight in model.weights.items()}
        self.spectral_weights = [
            torch.view_as_complex(self.w[f"fourier_layers.{layer}.csc.weights"]) for layer in range(shape.layers)
        ]
        rotation = spectral.phase_table(shape.window, shape.modes)[:, :1]
        self.rotation = torch.from_numpy(rotation.astype(np.complex64))
        self.inverse_dft = torch.from_numpy(spectral.inverse_dft_last(shape.window, shape.modes).astype(np.complex64))
        names = ("observation_mean", "observation_std", "action_mean", "action_scale")
        self.mean, self.std, self.action_mean, self.action_scale = (torch.from_numpy(model.scales[n]) for n in names)
        self.clip = model.card.observation_clip
        self.reset()

    def reset(self) -> None:
        """Forget every past observation."""
        shape = self.shape
        self.spectrum = torch.zeros(shape.layers, shape.modes, shape.hidden, dtype=torch.complex64)
        self.inputs = torch.zeros(shape.layers, shape.window, shape.hidden)
        self.slot = 0

    @torch.inference_mode()
    def step(self, observation: Array) -> Array:
        """Joint targets (action,) [rad] for an observation (observation,)."""
        x = ((torch.from_numpy(observation) - self.mean) / self.std).clamp(-self.clip, self.clip)
        x = self._linear("fc0", x)
        for layer in range(self.shape.layers):
            prefix = f"fourier_layers.{layer}."
            x = x + functional.gelu(self._mix(layer, self._layer_norm(prefix + "ln1", x)))
            inner = functional.gelu(self._linear(prefix + "ffn.fc1", self._layer_norm(prefix + "ln2", x)))
            x = x + self._linear(prefix + "ffn.fc2", inner)
        self.slot = (self.slot + 1) % self.shape.window
        output = self._linear("fc2", functional.gelu(self._linear("fc1", x)))
        return (self.action_mean + self.action_scale * output).numpy()

    def _mix(self, layer: int, x: Tensor) -> Tensor:
        change = x - self.inputs[layer, self.slot]
        self.inputs[layer, self.slot] = x
        self.spectrum[layer] = self.rotation * (self.spectrum[layer] + change)
        mixed = torch.einsum("kd,kld->ld", self.spectrum[layer], self.spectral_weights[layer])
        return torch.einsum("ld,l->d", mixed, self.inverse_dft).real

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return functional.linear(x, self.w[name + ".weight"], self.w[name + ".bias"])

    def _layer_norm(self, name: str, x: Tensor) -> Tensor:
        return functional.layer_norm(x, x.shape, self.w[name + ".weight"], self.w[name + ".bias"])


REFERENCE = "PyTorch eager"
EAGER: dict[str, Callable[[PolicyModel], Policy]] = {"fcnet": EagerPolicy, "transformer": EagerTransformer}
RUNTIMES: dict[str, Callable[[PolicyModel], Policy]] = {
    REFERENCE: lambda model: EAGER[model.card.policy_type](model),
    "NumPy": lambda model: load_policy(model, "numpy"),
    "ONNX Runtime": lambda model: load_policy(model, "onnx"),
    "numba": lambda model: load_policy(model, "numba"),
}


def main() -> None:
    """Measure, print a table or JSON."""
    args = _arguments()
    torch.set_num_threads(1)
    model = load_model(args.model)
    policies = {name: make(model) for name, make in RUNTIMES.items()}
    rng = np.random.default_rng(0)
    observations = rng.standard_normal((args.steps, model.card.config.observation)).astype(np.float32)
    observations = model.scales["observation_mean"] + model.scales["observation_std"] * observations
    _check_agreement(policies, observations)
    period = 1 / args.paced if args.paced else 0.0
    rounds = [{name: measure(one, observations, period) for name, one in policies.items()} for _ in range(args.rounds)]
    _print({name: np.array([one[name] for one in rounds]) for name in policies}, args)


def measure(policy: Policy, observations: Array, period: float) -> list[float]:
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


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time one control step of a policy in every runtime.")
    parser.add_argument("model", nargs="?", type=Path, default=SHIPPED, help="a policy file (the shipped Aliengo's)")
    parser.add_argument("--rounds", type=int, default=40, metavar="N", help="rounds over all runtimes (40)")
    parser.add_argument("--steps", type=int, default=50, metavar="N", help="steps of a runtime in a round (50)")
    parser.add_argument("--paced", type=float, metavar="HZ", help="one step per period of this rate, such as 50")
    return parser.parse_args()


def _check_agreement(policies: dict[str, Policy], observations: Array) -> None:
    """Stop unless all runtimes compute the same thing."""
    for observation in observations:
        actions = {name: policy.step(observation) for name, policy in policies.items()}
        for name, action in actions.items():
            if (difference := np.abs(action - actions["NumPy"]).max()) > AGREEMENT:
                raise SystemExit(f"{name} differs from NumPy by {difference:.1e} rad; the times would mean nothing")


def _print(times: dict[str, npt.NDArray[np.float64]], args: argparse.Namespace) -> None:
    """times: [us] of each runtime (rounds, steps)."""
    pace = f"paced at {args.paced:g} Hz" if args.paced else "hot"
    print(f"one step, {pace}, {args.rounds} rounds of {args.steps} steps, one thread, times faster than {REFERENCE}")
    print(f"{'runtime':<14} {'p50 us':>8} {'p99 us':>8} {'faster':>7}   spread")
    reference = np.median(times[REFERENCE], axis=1)
    for name, values in times.items():
        p50, p99 = np.quantile(values, [0.5, 0.99])
        low, middle, high = np.quantile(reference / np.median(values, axis=1), [0.1, 0.5, 0.9])
        print(f"{name:<14} {p50:8.0f} {p99:8.0f} {middle:6.1f}x   {low:.1f} to {high:.1f}x")


if __name__ == "__main__":
    main()
