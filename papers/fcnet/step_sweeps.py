"""Duration of a control step against window, layers and width, compared with the peers: Figure 6.

Each side in its fastest eager form and compiled by numba, with random weights. Memories are full before timing starts.

    python -m papers.fcnet.step_sweeps context --rounds 20 --steps 30 --figure step_context.png
    python -m papers.fcnet.step_sweeps layers --rounds 10 --steps 30
    python -m papers.fcnet.step_sweeps hidden --rounds 6 --steps 10
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fcnet_core.bench import Form, Pace, ResultTable, Timing, interleave, observations, stepping
from fcnet_core.learning.config import example_config
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies import PolicyConfig
from fcnet_core.policies.fcnet import FCNetConfig
from fcnet_core.policies.retnet import RetNetConfig
from fcnet_core.policies.transformer import TransformerConfig
from fcnet_core.policy import load_policy
from papers.fcnet.eager import FilterStep, RetNetStep, TransformerStep
from papers.fcnet.published_step import PublishedStep
from papers.shared import pace_of, parser, run, untrained, write

SUBJECT = "FCNet"
RUNTIMES = ("eager", "suite")  # the latter: compiled for FCNet and the Transformer, ONNX Runtime for RetNet
TRIAL = Pace(5, 10)  # to choose the faster of two eager forms
EAGER: dict[str, list[Callable[[PolicyModel], Form]]] = {
    "fcnet": [PublishedStep, FilterStep],
    "transformer": [TransformerStep],
    "retnet": [RetNetStep],
}


@dataclass(frozen=True)
class Sweep:
    """One size is varied: its name, its values, and each side's configuration at a value."""

    size: str
    values: tuple[int, ...]
    sides: Mapping[str, Callable[[int], PolicyConfig]]


SWEEPS = {
    # With equal numbers of parameters, 0.8 million.
    "context": Sweep(
        "window n",
        (16, 64, 256, 1024),
        {
            SUBJECT: lambda n: example_config(FCNetConfig, window=n, modes=min(10, (n + 1) // 2)),
            "Transformer": lambda n: example_config(TransformerConfig, window=n),
            "RetNet": lambda n: example_config(RetNetConfig, window=n),
        },
    ),
    # With equal widths, as in the paper.
    "layers": Sweep(
        "layers",
        (4, 8, 16, 32),
        {
            SUBJECT: lambda n: example_config(FCNetConfig, layers=n),
            "Transformer": lambda n: example_config(TransformerConfig, layers=n, hidden=256),
        },
    ),
    "hidden": Sweep(
        "hidden size",
        (256, 512, 1024, 2048),
        {
            SUBJECT: lambda n: example_config(FCNetConfig, hidden=n),
            "Transformer": lambda n: example_config(TransformerConfig, hidden=n),
        },
    ),
}


def fastest_eager(model: PolicyModel) -> Form:
    """Return the faster eager form: which form of FCNet is faster depends on n, m and width."""
    forms = {str(index): form(model) for index, form in enumerate(EAGER[model.card.policy_type])}
    timing = interleave({name: stepping(form, observations(model)) for name, form in forms.items()}, TRIAL)
    return forms[min(forms, key=lambda name: timing.quantile(name, 0.5))]


def time_value(sweep: Sweep, value: int, pace: Pace) -> Timing:
    """Time all sides and runtimes, called "SIDE, RUNTIME", in turn at one value."""
    policies: dict[str, Form] = {}
    for side, config_of in sweep.sides.items():
        model = untrained(config_of(value))
        policies |= {f"{side}, eager": fastest_eager(model), f"{side}, suite": load_policy(model)}
    calls = {name: stepping(policy, observations(model)) for name, policy in policies.items()}
    for call in calls.values():
        for index in range(model.card.config.window):
            call(index)
    return interleave(calls, pace)


def table(sweep: Sweep, timings: Mapping[int, Timing], pace: Pace) -> ResultTable:
    """Return a row for each value and runtime."""
    sides, rows = list(sweep.sides), {}
    for value, timing in timings.items():
        for runtime in RUNTIMES:
            names = [f"{side}, {runtime}" for side in sides]
            times = (f"{1e6 * timing.quantile(name, 0.5):.1f}" for name in names)
            ratios = (timing.ratio_text(names[0], name) for name in names[1:])
            rows[f"{value}, {runtime}"] = (*times, *ratios)
    columns = (*(f"{side} p50 [us]" for side in sides), *(f"{SUBJECT} faster than {side}" for side in sides[1:]))
    return ResultTable(f"One step against {sweep.size}", columns, rows, how=str(pace))


def draw(sweep: Sweep, timings: Mapping[int, Timing], path: Path) -> None:
    """Write the figure: median and 10 to 90 % of the duration; sides differ in colour, runtimes in dashes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes, values = figure.subplots(), list(timings)
    for colour, side in enumerate(sweep.sides):
        for runtime, dashes in zip(RUNTIMES, ("--", "-"), strict=True):
            name = f"{side}, {runtime}"
            low, middle, high = (
                [1e3 * timing.quantile(name, q) for timing in timings.values()] for q in (0.1, 0.5, 0.9)
            )
            axes.plot(values, middle, dashes, marker="o", color=f"C{colour}", label=name)
            axes.fill_between(values, low, high, alpha=0.2, color=f"C{colour}", linewidth=0)
    axes.set(xlabel=sweep.size, ylabel="one step [ms], 10 to 90 %", xscale="log", yscale="log")
    axes.set_xticks(values, [f"{value:g}" for value in values], minor=False)
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper")
    figure.savefig(path, dpi=120)


def main() -> None:
    """Measure, print and draw."""
    options = parser(__doc__, rounds=40, steps=50)
    options.add_argument("size", choices=SWEEPS)
    options.add_argument("--values", type=int, nargs="+", metavar="N", help="values of the size (default: the paper's)")
    args = options.parse_args()
    sweep, pace = SWEEPS[args.size], pace_of(args)
    timings = {value: time_value(sweep, value, pace) for value in args.values or sweep.values}
    write(table(sweep, timings, pace), args.json)
    if args.figure:
        draw(sweep, timings, args.figure)


if __name__ == "__main__":
    run(main)
