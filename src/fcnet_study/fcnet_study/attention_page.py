"""The attention of a Body Transformer over a walk as one HTML page that loads nothing: maps of every layer and head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array, Mask
from fcnet_core.document import Page, table, text
from fcnet_core.document.plots import Line, Plot, Plots
from fcnet_study.attention import EXCERPT, PARTS, WalkAttention

CELL, LETTER = 22, 6.2  # width of a map's cell and of a label's letter, at most
LEAST = 0.005  # share that a map shows
WRITTEN = 0.15  # share that a map writes into its cell
STEP = 0.02  # [%] that shares over time are rounded to
SHOWN = 6  # pairs over the stride and over time, where none is named
SCALE = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0)  # shares in the legend
Trace = tuple[int, int, int]  # layer, query and key

READING = """Read a row from left to right: the node that it is named after looks at those of the columns; the stronger
a cell's colour, the larger their share in what it takes, and the shares of a row add up to 100 %. Framed cells are a
node itself and those that the body joins to it; crossed cells are excluded by the layer's mask."""
DISTANCES = """Where the shares of all nodes go, on average; in brackets where they would if every node looked alike at
all that its mask admits."""
STRIDES = f"""The mean over all strides at {PARTS} phases; phase 0 is where the gait clock begins. A flat line
looks there all the time; a wave does so at one part of the stride."""
NO_PHASE = "The gait's phase is not known: the data have no gait clock, or the robot stands all the time."
STYLE = """
section { display: none; } main > label { margin-right: 18px; cursor: pointer; }
.grid { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: 4px 14px; }
@media screen and (max-width: 760px) { .grid { grid-template-columns: minmax(0, 1fr); } }
svg .title { font-weight: 600; font-size: 12.5px; } svg .tick { fill: var(--soft); }
svg .share { fill: var(--c1); } svg .excluded { stroke: var(--rule); stroke-width: 1; }
svg .joined { stroke: var(--soft); stroke-width: .8; } svg .cell { font-size: 9px; }
"""


def page(attention: WalkAttention, model: str, source: str, robot: str, pair: tuple[str, str] | None = None) -> str:
    """The page. model and source: names of files; pair: of nodes that are shown over the stride and over time in every
    layer, else those that vary most.
    """
    heads = attention.config.heads
    choices: dict[str, int | None] = {"mean of all heads": None} if heads > 1 else {}
    choices |= {f"head {head + 1}": head for head in range(heads)}
    seconds = attention.steps / attention.rate
    part = "" if attention.steps == attention.recorded else f", the first of {attention.recorded:,}"
    lead = f"{model} over {attention.steps:,} steps{part} ({seconds:.1f} s) of {robot} in {source}"
    made, plots = Page(f"Attention of {model}", style=[STYLE]), Plots()
    made.body += [text("Which joint looks at which", "h1"), f'<p class="lead">{escape(lead)}</p>']
    made.body += [text(READING), _legend()]
    for index, name in enumerate(choices):
        checked = "" if index else " checked"
        made.body.append(
            f'<input type="radio" name="head" id="head{index}"{checked}><label for="head{index}">{name}</label> '
        )
        made.style.append(f"#head{index}:checked ~ .head{index} {{ display: block; }}")
    for index, (name, head) in enumerate(choices.items()):
        elements = "".join(_section(attention.of_head(head), name, pair, plots))
        made.body.append(f'<section class="head{index}">{elements}</section>')
    plots.add_to(made)
    return made.html()


def _section(attention: WalkAttention, name: str, pair: tuple[str, str] | None, plots: Plots) -> Iterator[str]:
    """Of one head, or of the mean of all."""
    config = attention.config
    open_kind = "path bias" if config.mask == "soft" else "no mask"
    kinds = ["masked" if config.is_masked(layer) else open_kind for layer in range(config.layers)]
    layers = [
        (f"layer {layer + 1}, {kind}", attention.mean[layer, 0], config.admitted(layer))
        for layer, kind in enumerate(kinds)
    ]
    maps = (_map(name, *layer, attention.names, config.graph.mask) for layer in layers)
    yield text(f"Layer by layer: {name}", "h2")
    yield f'<div class="grid">{"".join(maps)}</div>'
    yield text("Near and far", "h3")
    yield text(DISTANCES)
    yield table(
        ["", "a node itself [%]", "joined to it [%]", "others [%]"],
        [[title, *_distances(shares, admitted, config.graph.paths)] for title, shares, admitted in layers],
    )
    traces = list(_named(attention, pair) if pair else _varying(attention))
    which = "of the pair in every layer that admits it" if pair else "where they vary most"
    yield text(f"Over the stride, {which}", "h2")
    if attention.has_phase:
        yield text(STRIDES)
        phases, whole = np.linspace(0, 1, PARTS + 1), np.append(np.arange(PARTS), 0)
        yield _charts(attention, traces, phases, attention.strides[whole], "gait phase [strides]", plots)
    else:
        yield text(NO_PHASE)
    yield text(f"Over time, {which}: the first {EXCERPT:g} s of the longest walk", "h2")
    time = np.arange(len(attention.excerpt)) / attention.rate
    yield _charts(attention, traces, time, attention.excerpt, "time [s]", plots)


def _varying(attention: WalkAttention) -> Iterator[Trace]:
    variation = attention.variation()[:, 0]
    for place in np.argsort(-variation, axis=None)[:SHOWN]:
        if variation.flat[place] > 0:
            layer, query, key = np.unravel_index(place, variation.shape)
            yield int(layer), int(query), int(key)


def _named(attention: WalkAttention, pair: tuple[str, str]) -> Iterator[Trace]:
    query, key = (attention.names.index(node) for node in pair)
    for layer in range(attention.config.layers):
        if attention.config.admitted(layer)[query, key]:
            yield layer, query, key


def _charts(
    attention: WalkAttention, traces: Sequence[Trace], x: Array, values: Array, x_label: str, plots: Plots
) -> str:
    """Small plots of values (len(x), L, 1, n, n), one a trace."""
    names, elements = attention.names, []
    for layer, query, key in traces:
        line = Line("share", 100.0 * values[:, layer, 0, query, key], 1, STEP)
        title = f"layer {layer + 1}: {names[query]} at {names[key]}"
        elements.append(plots.element(Plot(title, x_label, "%", x, [line], zero=True, group=x_label, height=150)))
    return f'<div class="columns">{"".join(elements)}</div>'


def _distances(shares: Array, admitted: Mask, paths: npt.NDArray[np.intp]) -> Iterator[str]:
    """Shares (n, n) by the length of the path to who is looked at, and in brackets those of a node that looks alike."""
    alike = admitted / admitted.sum(1, keepdims=True)
    for places in (paths == 0, paths == 1, paths > 1):
        yield f"{100 * shares[places].sum() / len(shares):.1f} ({100 * alike[places].sum() / len(shares):.1f})"


def _map(head: str, title: str, shares: Array, admitted: Mask, names: Sequence[str], joined: Mask) -> str:
    """Shares (n, n) as a drawing: a row looks at columns."""
    n = len(names)
    left = round(LETTER * max(map(len, names))) + 8
    top, size = left + 18, CELL * n
    labels = "".join(
        _label(name, f"translate(-5,{at})", "end") + _label(name, f"translate({at},-5) rotate(-90)", "start")
        for name, at in zip(names, range(15, size, CELL), strict=True)
    )
    cells = "".join(
        _cell(CELL * column, CELL * row, shares[row, column], f"{names[row]} at {names[column]}: ")
        for row, column in np.argwhere(shares >= LEAST).tolist()
    )
    crosses, frames = (
        "".join(path(CELL * column, CELL * row) for row, column in np.argwhere(places).tolist())
        for path, places in ((_cross, ~admitted), (_frame, joined))
    )
    return (
        f'<figure><svg viewBox="0 0 {left + size + 2} {top + size + 2}" role="img" '
        f'aria-label="{escape(f"attention in {title}, {head}: {n} nodes look at {n}")}">'
        f'<text class="title" x="{left}" y="12">{escape(title)}</text><g transform="translate({left},{top})">'
        f'{labels}{cells}<path class="excluded" d="{crosses}"/><path class="joined" d="{frames}"/></g></svg></figure>'
    )


def _legend() -> str:
    """What the colours and signs of the maps mean."""
    signs = [(_cell(60 * index, 0, share), 60 * index, f"{share:.0%}") for index, share in enumerate(SCALE)]
    signs.append((f'<path class="joined" d="{_frame(370, 0)}"/>', 370, "joined"))
    signs.append((f'<path class="excluded" d="{_cross(450, 0)}"/>', 450, "excluded by the mask"))
    parts = "".join(f'{sign}<text class="tick" x="{x + CELL + 4}" y="15">{label}</text>' for sign, x, label in signs)
    return f'<figure><svg viewBox="0 0 720 {CELL}" role="img" aria-label="legend of the maps">{parts}</svg></figure>'


def _cell(x: int, y: int, share: float, label: str = "") -> str:
    """A coloured cell, with its share in words where there is a label: the square root, for 1/13 is to be seen, too."""
    title = f"<title>{escape(label)}{share:.1%}</title>" if label else ""
    box = f'x="{x}" y="{y}" width="{CELL}" height="{CELL}"'
    cell = f'<rect class="share" {box} fill-opacity="{share**0.5:.2f}">{title}</rect>'
    if not label or share < WRITTEN:
        return cell
    return f'{cell}<text class="cell" x="{x + CELL // 2}" y="{y + 14}" text-anchor="middle">{100 * share:.0f}</text>'


def _label(name: str, transform: str, anchor: str) -> str:
    return f'<text class="tick" transform="{transform}" text-anchor="{anchor}">{escape(name)}</text>'


def _cross(x: int, y: int) -> str:
    return f"M{x + 6} {y + 6}l10 10m0 -10l-10 10"


def _frame(x: int, y: int) -> str:
    return f"M{x + 1} {y + 1}h{CELL - 2}v{CELL - 2}h{2 - CELL}z"
