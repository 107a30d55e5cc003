"""Energy of recorded signals over the modes of a window: Figure 1.

python -m papers.fcnet.spectrum data/aliengo --figure spectrum.png
python -m papers.fcnet.spectrum docs/examples/aliengo_walk
"""

from pathlib import Path

import numpy as np

from fcnet_core.arrays import Array
from fcnet_core.bench import ResultTable
from fcnet_core.errors import FcnetError
from fcnet_core.files import Count, option
from fcnet_core.learning.spectrum import energy_over_modes
from papers.shared import add_data, parser, recorded, run, write

ALMOST_ALL = 0.99


def table(energy: dict[str, Array], modes: int, how: str) -> ResultTable:
    """Return a row for each group: the share that the lowest modes keep, of all windows and of single windows."""
    rows = {}
    for group, of_windows in energy.items():
        density, total = of_windows.sum(0) / of_windows.sum(), of_windows.sum(1)
        single = of_windows[total > 0, :modes].sum(1) / total[total > 0]
        without_mean = density[1:modes].sum() / density[1:].sum()
        figures = (density[0], density[:modes].sum(), np.quantile(single, 0.1), without_mean)
        needed = int(np.searchsorted(np.cumsum(density), ALMOST_ALL)) + 1
        rows[group.replace("_", " ")] = (*(f"{100 * figure:.1f}" for figure in figures), str(needed))
    columns = ("mode 0 [%]", f"lowest {modes} [%]", "in 90 % of windows at least [%]", "without mode 0 [%]")
    return ResultTable("Energy over modes", (*columns, f"modes for {ALMOST_ALL:.0%}"), rows, how)


def draw(energy: dict[str, Array], modes: int, path: Path) -> None:
    """Write the figure: the energy density over the modes, a line for each group."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for group, of_windows in energy.items():
        axes.plot(100 * of_windows.sum(0) / of_windows.sum(), marker=".", label=group.replace("_", " "))
    axes.axvline(modes - 0.5, color="black", linestyle="--", label=f"the lowest {modes} modes")
    axes.set(xlabel="mode", ylabel="energy [%]", yscale="log")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper")
    figure.savefig(path, dpi=120)


def main() -> None:
    """Compute, print and draw."""
    options = parser(__doc__)
    add_data(options)
    options.add_argument("--window", type=option(Count), default=64, metavar="N", help="steps (default: 64)")
    options.add_argument("--modes", type=option(Count), default=10, metavar="M", help="kept modes (default: 10)")
    args = options.parse_args()
    if args.modes > (args.window + 1) // 2:
        raise FcnetError(f"a window of {args.window} steps has at most {(args.window + 1) // 2} modes")
    with recorded(args) as data:
        energy, rate = energy_over_modes(data, args.window), data.manifest.control_rate
    count, reach = len(next(iter(energy.values()))), (args.modes - 1) * rate / args.window
    how = f"{count:,} windows of {args.window} steps at {rate:g} Hz of {args.source}; the lowest {args.modes} modes"
    write(table(energy, args.modes, f"{how} reach to {reach:.1f} Hz"), args.json)
    if args.figure:
        draw(energy, args.modes, args.figure)


if __name__ == "__main__":
    run(main)
