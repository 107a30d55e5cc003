"""How the time of a step grows with context, layers and width, beside the peers: the FCNet paper's Figure 6.

Each side in its best eager form and compiled by numba, with random weights; memories are full before anything counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fcnet_core.model_file import PolicyModel
from fcnet_core.policies import PolicyConfig
from fcnet_core.policies.fcnet import FCNetConfig
from fcnet_core.policies.retnet import RetNetConfig
from fcnet_core.policies.transformer import TransformerConfig
from fcnet_core.policy import Policy, load_policy
from fcnet_study.benchmarks.eager import EAGER
from fcnet_study.benchmarks.steps import Pace, observations, ratio_text, stepping, untrained
from fcnet_study.benchmarks.timing import Timing, interleave
from fcnet_study.report import Report, draw_lines

SUBJECT = "FCNet"
RUNTIMES = ("eager", "numba")
TRIAL = (5, 10)  # rounds and steps that choose an eager form


@dataclass(frozen=True)
class Sweep:
    """One size is varied: which one, its values, and each side's configuration at a value."""

    size: str
    values: tuple[int, ...]
    sides: Mapping[str, Callable[[int], PolicyConfig]]


SWEEPS = {
    # At equal numbers of parameters, 0.8 million.
    "context": Sweep(
        "window n",
        (16, 64, 256, 1024),
        {
            SUBJECT: lambda n: FCNetConfig(window=n, modes=min(10, (n + 1) // 2)),
            "Transformer": lambda n: TransformerConfig(window=n),
            "RetNet": lambda n: RetNetConfig(window=n),
        },
    ),
    # At equal width, as the paper has it.
    "layers": Sweep(
        "layers",
        (4, 8, 16, 32),
        {SUBJECT: lambda n: FCNetConfig(layers=n), "Transformer": lambda n: TransformerConfig(layers=n, hidden=256)},
    ),
    "hidden": Sweep(
        "hidden size",
        (256, 512, 1024, 2048),
        {SUBJECT: lambda n: FCNetConfig(hidden=n), "Transformer": lambda n: TransformerConfig(hidden=n)},
    ),
}


@dataclass(frozen=True)
class Swept:
    """What a sweep found: the timing of every value, whose alternatives are called "SIDE, RUNTIME"."""

    sweep: Sweep
    timings: dict[int, Timing]

    def report(self, pace: Pace) -> Report:
        """A row for each value and runtime."""
        sides, rows = list(self.sweep.sides), {}
        for value, timing in self.timings.items():
            for runtime in RUNTIMES:
                names = [f"{side}, {runtime}" for side in sides]
                times = (f"{1e6 * timing.quantile(name, 0.5):.1f}" for name in names)
                ratios = (ratio_text(timing, names[0], name) for name in names[1:])
                rows[f"{value}, {runtime}"] = (*times, *ratios)
        columns = (*(f"{side} p50 [us]" for side in sides), *(f"{SUBJECT} faster than {side}" for side in sides[1:]))
        return Report(f"One step against {self.sweep.size}", columns, rows, how=str(pace))

    def draw(self, path: Path) -> None:
        """Write a figure: a line for each side and runtime."""
        names = [f"{side}, {runtime}" for side in self.sweep.sides for runtime in RUNTIMES]
        lines = {
            name: [[1e3 * timing.quantile(name, q) for timing in self.timings.values()] for q in (0.1, 0.5, 0.9)]
            for name in names
        }
        draw_lines(path, self.sweep.size, "one step [ms], 10 to 90 %", list(self.timings), lines)


def run_sweep(sweep: Sweep, pace: Pace) -> Swept:
    """Measure every value, all sides and runtimes of one in turn."""
    return Swept(sweep, {value: _time(sweep, value, pace) for value in sweep.values})


def _quickest(model: PolicyModel) -> Policy:
    """The eager form whose step takes least: FCNet's depends on n, m and width."""
    forms = {name: form(model) for name, form in EAGER[model.card.policy_type].items()}
    timing = interleave({name: stepping(form, observations(model)) for name, form in forms.items()}, *TRIAL)
    return forms[min(forms, key=lambda name: timing.quantile(name, 0.5))]


def _time(sweep: Sweep, value: int, pace: Pace) -> Timing:
    policies: dict[str, Policy] = {}
    for side, config_of in sweep.sides.items():
        model = untrained(config_of(value))
        policies |= {f"{side}, eager": _quickest(model), f"{side}, numba": load_policy(model, "numba")}
    calls = {name: stepping(policy, observations(model)) for name, policy in policies.items()}
    for call in calls.values():
        for index in range(model.card.config.window):
            call(index)
    return interleave(calls, pace.rounds, pace.steps, pace.period)
