"""How long one step of training takes (forward, backward, optimiser), for whole networks of equal size, on one core.

The published form is that of published.py, with the same optimiser as the others. Products of matrices in bfloat16 are
those of autocast, as `fcnet train` has them; the published form, whose convolution is complex, stays in float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from fcnet_core.policies.fcnet import FCNetConfig
from fcnet_core.policies.fcnet.network import FourierControllerNetwork
from fcnet_core.policies.retnet import RetNetConfig
from fcnet_core.policies.retnet.network import RetNet
from fcnet_core.policies.transformer import TransformerConfig
from fcnet_core.policies.transformer.network import CausalTransformer
from fcnet_study.benchmarks.published import published_network
from fcnet_study.benchmarks.steps import Call, Pace, ratio_text
from fcnet_study.benchmarks.timing import Timing, interleave
from fcnet_study.report import Report, draw_lines

BATCHES = {64: 64, 256: 4, 1024: 1}  # sequences of a step by window n, which is also their length
PUBLISHED, PEERS = "published", ("Transformer", "RetNet")
FULL, HALF = "float32", "bf16"


def networks(window: int) -> dict[str, nn.Module]:
    """The networks by name, of 0.8 million parameters each."""
    size = FCNetConfig(window=window, modes=min(10, (window + 1) // 2))
    return {
        PUBLISHED: published_network(size),
        "FCNet": FourierControllerNetwork(size),
        "Transformer": CausalTransformer(TransformerConfig(window=window)),
        "RetNet": RetNet(RetNetConfig(window=window)),
    }


def training(network: nn.Module, batch: int, window: int, half: bool) -> Call:
    """A step of training on the same random sequences again and again."""
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)
    generator = torch.Generator().manual_seed(0)
    seen = torch.randn(batch, window, FCNetConfig().observation, generator=generator)
    wanted = torch.randn(batch, window, FCNetConfig().action, generator=generator)

    def step(_index: int) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = (network(seen) - wanted).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


@dataclass(frozen=True)
class TrainingTimes:
    """The timing for every window n, of alternatives called "NETWORK, PRECISION"; sequences of a step by window."""

    timings: Mapping[int, Timing]
    batches: Mapping[int, int]

    def report(self, pace: Pace) -> Report:
        """A row for each window and alternative; a peer is compared with in the same precision."""
        rows = {}
        for window, timing in self.timings.items():
            for name in timing.wall:
                precision = name.partition(", ")[2]
                references = [f"{PUBLISHED}, {FULL}", *(f"{peer}, {precision}" for peer in PEERS)]
                times = (1e3 * timing.quantile(name, 0.5), 1e3 * timing.mean_processor(name))
                ratios = (ratio_text(timing, name, reference) for reference in references)
                rows[f"n {window} x {self.batches[window]}, {name}"] = (*(f"{time:.1f}" for time in times), *ratios)
        columns = ("p50 [ms]", "CPU [ms]", *(f"faster than {name}" for name in (PUBLISHED, *PEERS)))
        return Report("One step of training", columns, rows, how=str(pace))

    def draw(self, path: Path) -> None:
        """Write a figure: time for each control period, a line for each alternative."""
        lines: dict[str, list[list[float]]] = {}
        for name in next(iter(self.timings.values())).wall:
            lines[name] = [
                [1e6 * timing.quantile(name, q) / (n * self.batches[n]) for n, timing in self.timings.items()]
                for q in (0.1, 0.5, 0.9)
            ]
        draw_lines(path, "window n", "training, one control period [us], 10 to 90 %", list(self.timings), lines)


def time_training(pace: Pace, half: bool, batches: Mapping[int, int] = BATCHES) -> TrainingTimes:
    """Measure every window, all alternatives of one in turn; half: in bfloat16, too."""
    return TrainingTimes({window: _time(window, batch, pace, half) for window, batch in batches.items()}, batches)


def _time(window: int, batch: int, pace: Pace, half: bool) -> Timing:
    calls: dict[str, Call] = {}
    for precision in (FULL, HALF) if half else (FULL,):
        for name, network in networks(window).items():
            if name != PUBLISHED or precision == FULL:
                calls[f"{name}, {precision}"] = training(network, batch, window, precision == HALF)
    return interleave(calls, pace.rounds, pace.steps)
