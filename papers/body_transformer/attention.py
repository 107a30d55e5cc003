"""Attention of a Body Transformer between the nodes of its body over a recorded walk, as a figure.

The policy sees the recorded observations. Attention is the share (0 to 1) of each node's values in the output of a
node; the shares of one node add up to 1 in every layer and head.

    python -m papers.body_transformer.attention models/aliengo-bot-mix.safetensors docs/examples/aliengo_walk \
        --figure attention.png
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fcnet_core.arrays import Array, Floats, Single
from fcnet_core.bench import ResultTable
from fcnet_core.errors import FcnetError
from fcnet_core.files import Count, option
from fcnet_core.learning.dataset import Dataset
from fcnet_core.learning.spectrum import episodes
from fcnet_core.model_file import PolicyModel, load_model
from fcnet_core.policies.attention import attention
from fcnet_core.policies.body_transformer import BodyTransformerConfig
from fcnet_core.policies.body_transformer.network import BodyTransformer
from papers.shared import add_data, parser, recorded, run, write

PARTS = 20  # of a stride: at 50 Hz and 2.5 strides a second one step each
BLOCK = 128  # steps computed at a time
PAIRS = 6  # pairs of nodes over the stride


@dataclass(frozen=True)
class WalkAttention:
    """Attention from n nodes (rows) to n nodes in L layers, averaged over the heads.

    mean (L, n, n): over all steps; strides (PARTS, L, n, n): over the steps of each phase, NaN if there are none.
    """

    config: BodyTransformerConfig
    mean: Array
    strides: Array
    steps: int


def check_fits(model: PolicyModel, data: Dataset) -> None:
    """Raise FcnetError unless the model is a Body Transformer of the robot of the data."""
    if not isinstance(model.card.config, BodyTransformerConfig) or model.card.interface.name != data.manifest.robot:
        raise FcnetError(
            f"the model is a {model.card.policy_type} for {model.card.interface.name}; give a Body Transformer for"
            f" {data.manifest.robot}, the robot of the data"
        )


def attention_over(model: PolicyModel, data: Dataset, most: int) -> WalkAttention:
    """Compute the attention over the first `most` steps of data that fit the model."""
    config: BodyTransformerConfig = model.card.config
    command = data.manifest.arrays["observation"].slices()["command"]
    nodes = len(config.graph.nodes)
    total, counts = np.zeros((PARTS + 1, config.layers, nodes, nodes)), np.zeros(PARTS + 1)  # the last: unknown phase
    for walk in _observations(data, most):
        phase = gait_phase(walk[:, command])
        part = np.where(np.isnan(phase), PARTS, np.rint(PARTS * np.nan_to_num(phase)) % PARTS).astype(np.intp)
        done = 0
        for block in _attention(model, walk):
            np.add.at(total, part[done : done + len(block)], block.mean(2))
            done += len(block)
        counts += np.bincount(part, minlength=PARTS + 1)
    with np.errstate(invalid="ignore"):  # parts without a step
        strides = total[:PARTS] / counts[:PARTS, None, None, None]
    return WalkAttention(config, total.sum(0) / counts.sum(), strides, int(counts.sum()))


def gait_phase(commands: Single) -> Array:
    """Return the gait phase (...) in [0, 1) of the entries of part `command` (..., 16); NaN at rest."""
    phase = np.arctan2(commands[..., 8], commands[..., 9]) / (2 * np.pi) % 1.0
    return np.where(commands[..., 10] > 0.5, phase, np.nan)


def _observations(data: Dataset, most: int) -> Iterator[Single]:
    """Yield the observations (T, observation) of each episode, `most` steps in all."""
    for shard in data.shards:
        for sequence, start, end in episodes(shard.first):
            taken = min(end - start, most)
            if not taken:
                return
            yield np.array(shard.observation[sequence, start : start + taken])
            most -= taken


@torch.no_grad()
def _attention(model: PolicyModel, walk: Single) -> Iterator[Floats]:
    """Yield attention (B, L, H, n, n) in successive steps of a walk that starts after a reset."""
    network = BodyTransformer(model.card.config)
    network.load_state_dict({name: torch.tensor(weight) for name, weight in model.weights.items()})
    projected: list[Tensor] = []  # queries, keys and values of every layer
    for layer in network.layers:
        layer.get_submodule("qkv").register_forward_hook(lambda _layer, _inputs, output: projected.append(output))
    seen = torch.from_numpy(model.normalisation.input(walk).astype(np.float32))
    length = model.card.reset_interval or len(seen)
    for part in seen.split(length):
        state = None
        for block in part.split(BLOCK):
            projected.clear()
            _, state = network(block[None], state)
            yield np.stack([_shares(network, layer, qkv) for layer, qkv in enumerate(projected)], axis=1)


def _shares(network: BodyTransformer, layer: int, qkv: Tensor) -> Floats:
    """Return the attention (B, H, n, n) of a layer from its queries, keys and values (B, n, 3 d)."""
    heads: int = network.layers[layer].heads  # type: ignore[assignment]
    q, k, _ = qkv.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
    # The values of the identity are the shares themselves.
    identity = torch.eye(q.shape[2]).expand(*q.shape[:2], -1, -1)
    return attention(q, k, identity, network.mask(layer)).numpy()


def table(attention: WalkAttention, how: str) -> ResultTable:
    """Return a row for each layer: the shares by distance in the body; in brackets with equal attention."""
    config, rows = attention.config, {}
    for layer, shares in enumerate(attention.mean):
        admitted = config.admitted(layer)
        equal = admitted / admitted.sum(1, keepdims=True)
        paths = config.graph.paths
        cells = [
            f"{100 * shares[near].sum() / len(shares):.1f} ({100 * equal[near].sum() / len(shares):.1f})"
            for near in (paths == 0, paths == 1, paths > 1)
        ]
        rows[f"layer {layer + 1}" + (", masked" if config.is_masked(layer) else "")] = tuple(cells)
    return ResultTable("Attention by distance", ("itself [%]", "joined nodes [%]", "other nodes [%]"), rows, how)


def draw(attention: WalkAttention, path: Path) -> None:
    """Write the figure: a map of every layer, and over the stride the pairs that vary most; crosses: excluded pairs."""
    from matplotlib.figure import Figure

    config = attention.config
    names = [node.name for node in config.graph.nodes]
    columns = 4
    rows = -(-config.layers // columns) + 1
    figure = Figure(figsize=(4 * columns, 3.8 * rows), layout="constrained")
    grid = figure.add_gridspec(rows, columns)
    for layer, shares in enumerate(attention.mean):
        axes = figure.add_subplot(grid[layer // columns, layer % columns])
        axes.imshow(np.sqrt(shares), vmin=0, vmax=1, cmap="Blues")
        axes.plot(*np.nonzero(~config.admitted(layer).T), "x", color="lightgrey", markersize=4)
        axes.set_title(f"layer {layer + 1}" + (", masked" if config.is_masked(layer) else ""))
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize=6)
        axes.set_yticks(range(len(names)), names, fontsize=6)
    axes = figure.add_subplot(grid[-1, :])
    variation = np.nan_to_num(np.nanstd(attention.strides, axis=0))
    for place in np.argsort(-variation, axis=None)[:PAIRS]:
        layer, query, key = np.unravel_index(place, variation.shape)
        label = f"layer {layer + 1}: {names[query]} at {names[key]}"
        axes.plot(np.arange(PARTS) / PARTS, 100 * attention.strides[:, layer, query, key], label=label)
    axes.set(xlabel="gait phase [strides]", ylabel="share [%]")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path, dpi=80)


def main() -> None:
    """Compute, print and draw."""
    options = parser(__doc__)
    options.add_argument("model", metavar="MODEL", help="a Body Transformer")
    add_data(options)
    options.add_argument("--steps", type=option(Count), default=10_000, metavar="N", help="at most (default: 10,000)")
    args = options.parse_args()
    model = load_model(args.model)
    with recorded(args) as data:
        check_fits(model, data)
        attention = attention_over(model, data, args.steps)
    how = f"{args.model} over {attention.steps:,} steps of {args.source}, mean of all heads"
    write(table(attention, how), args.json)
    if args.figure:
        draw(attention, args.figure)


if __name__ == "__main__":
    run(main)
