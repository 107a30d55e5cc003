"""Attention that skips the pairs which a mask excludes, compared with masked dense attention: Figures 6 and 13.

One head over the n nodes of one sample, in NumPy, as in the paper. Masked dense attention computes all scores and adds
the mask to them. Skipping computes scores and softmax of the admitted pairs only; softmax(S) V stays dense. Masks are
known in advance: finding their pairs is not timed.

    OPENBLAS_NUM_THREADS=1 python -m papers.body_transformer.sparse_attention --figure attention.png
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from fcnet_core.arrays import Floats, Mask, Single
from fcnet_core.bench.table import ResultTable
from fcnet_core.bench.timing import Call, Pace, Timing, interleave
from fcnet_core.errors import FcnetError
from fcnet_core.learning.config import example_config
from fcnet_core.policies.body_transformer import BodyTransformerConfig
from papers.shared import pace_of, parser, run, write

CHANNELS = 64  # of a head; the robots' policy has 32
SPARSITY = 0.908  # share of excluded pairs in the paper's Figure 6: the mask of the MoCapAct humanoid
SIZES = (16, 32, 64, 128)  # nodes
SPARSITIES = (0.0, 0.4, 0.6, 0.8, 0.9)
SIZES_OF_SPARSITIES = (13, 16, 32, 64)
HEADS = 10  # random heads a row, each with a mask of its own
EMPTY = -1e30  # added to the score of a masked pair, so its attention is 0
DENSE, SKIPPING = "masked dense", "skipping"
AGREEMENT = 1e-5  # of outputs of order 1
Attention = Callable[[], Floats]  # returns the output (n, d)
Timings = Mapping[tuple[str, float], Timing]  # by kind of mask, and number of nodes or share of excluded pairs


class Head(NamedTuple):
    """Queries, keys and values (n, d) of a head, and which node attends to which (n, n)."""

    q: Single
    k: Single
    v: Single
    mask: Mask


def dense(head: Head) -> Attention:
    """Compute all scores."""
    bias = np.where(head.mask, 0, EMPTY).astype(np.float32)
    scale = np.float32(1 / math.sqrt(head.q.shape[1]))

    def attend() -> Floats:
        scores = head.q @ head.k.T
        scores *= scale
        scores += bias
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        output: Floats = scores @ head.v
        return output

    return attend


def skipping(head: Head) -> Attention:
    """Compute scores and softmax of the admitted pairs."""
    rows, columns = np.nonzero(head.mask)
    starts = np.searchsorted(rows, np.arange(len(head.mask)))
    scale = np.float32(1 / math.sqrt(head.q.shape[1]))
    q, k = (np.empty((len(rows), head.q.shape[1]), np.float32) for _ in range(2))
    shares = np.zeros(head.mask.shape, np.float32)

    def attend() -> Floats:
        head.q.take(rows, axis=0, out=q, mode="clip")  # with "raise", the default, NumPy would copy once more
        head.k.take(columns, axis=0, out=k, mode="clip")
        scores = np.einsum("pd,pd->p", q, k)
        scores *= scale
        scores -= np.maximum.reduceat(scores, starts)[rows]
        np.exp(scores, out=scores)
        scores /= np.add.reduceat(scores, starts)[rows]
        shares[rows, columns] = scores
        output: Floats = shares @ head.v
        return output

    return attend


FORMS: Mapping[str, Callable[[Head], Attention]] = {DENSE: dense, SKIPPING: skipping}


def random_body(rng: np.random.Generator, nodes: int) -> Mask:
    """Return the mask (n, n) of a tree: every node but the first is joined to an earlier one."""
    mask = np.eye(nodes, dtype=np.bool_)
    for node in range(1, nodes):
        other = rng.integers(node)
        mask[node, other] = mask[other, node] = True
    return mask


def random_mask(rng: np.random.Generator, nodes: int, sparsity: float) -> Mask:
    """Return a mask (n, n) that excludes this share of all pairs, but never the diagonal."""
    mask = np.eye(nodes, dtype=np.bool_)
    admitted = max(round((1 - sparsity) * mask.size) - nodes, 0)
    mask.flat[rng.choice(np.flatnonzero(~mask), admitted, replace=False)] = True
    return mask


def random_head(rng: np.random.Generator, mask: Mask, channels: int = CHANNELS) -> Head:
    """Return a head of random numbers with this mask."""
    q, k, v = rng.standard_normal((3, len(mask), channels)).astype(np.float32)
    return Head(q, k, v, mask)


def check_agreement(head: Head) -> None:
    """Raise FcnetError unless all FORMS compute softmax(Q K^T / sqrt(d) + mask) V, here in float64."""
    q, k, v = (part.astype(np.float64) for part in head[:3])
    expected = softmax(np.where(head.mask, q @ k.T / math.sqrt(q.shape[1]), -np.inf), axis=1) @ v
    for name, form in FORMS.items():
        if not (difference := np.abs(form(head)() - expected).max()) <= AGREEMENT:
            raise FcnetError(f"{name} attention differs from float64 by {difference:.1e}: its duration has no meaning")


def time_forms(heads: Sequence[Head], pace: Pace) -> Timing:
    """Time all FORMS of the heads. Raises FcnetError if forms disagree."""
    for head in heads:
        check_agreement(head)

    def calling(form: Callable[[Head], Attention]) -> Call:
        attentions = [form(head) for head in heads]
        return lambda index: attentions[index % len(attentions)]()

    return interleave({name: calling(form) for name, form in FORMS.items()}, pace)


def measure(pace: Pace) -> Timings:
    """Time every kind of mask at every number of nodes, or share of excluded pairs."""
    rng, policy = np.random.default_rng(0), example_config(BodyTransformerConfig, mask="hard")
    nodes, channels = len(policy.graph.nodes), policy.hidden // policy.heads
    own = random_head(rng, policy.attended, channels)
    timings = {(f"the robots' policy, {channels} channels", float(nodes)): time_forms([own], pace)}
    kinds: dict[str, Callable[[np.random.Generator, int], Mask]] = {
        "bodies": random_body,
        f"random, {SPARSITY:.1%} excluded": partial(random_mask, sparsity=SPARSITY),
    }
    for kind, draw_mask in kinds.items():
        for size in SIZES:
            timings[kind, size] = time_forms([random_head(rng, draw_mask(rng, size)) for _ in range(HEADS)], pace)
    for size in SIZES_OF_SPARSITIES:
        for sparsity in SPARSITIES:
            heads = [random_head(rng, random_mask(rng, size, sparsity)) for _ in range(HEADS)]
            timings[f"{size} nodes, random", sparsity] = time_forms(heads, pace)
    return timings


def table(timings: Timings, pace: Pace) -> ResultTable:
    """Return a row for each mask."""
    rows = {}
    for (kind, value), timing in timings.items():
        times = (f"{1e6 * timing.quantile(name, 0.5):.2f}" for name in FORMS)
        label = f"{kind}: {value:.0%} excluded" if value < 1 else f"{kind}: {value:g} nodes"
        rows[label] = (*times, timing.ratio_text(SKIPPING, DENSE))
    columns = (f"{DENSE} p50 [us]", f"{SKIPPING} p50 [us]", f"{SKIPPING} faster")
    how = f"{pace}, a step being the attention of one head of {CHANNELS} channels"
    return ResultTable("Attention without the pairs that a mask excludes", columns, rows, how)


def draw(timings: Timings, path: Path) -> None:
    """Write the figure: dense over skipping, against the number of nodes and against the share of excluded pairs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for kind in dict.fromkeys(kind for kind, _ in timings):
        found = {value: timing.ratio(SKIPPING, DENSE) for (other, value), timing in timings.items() if other == kind}
        low, middle, high = np.array(list(found.values())).T
        axes = right if min(found) < 1 else left
        (line,) = axes.plot(list(found), middle, marker="o", label=kind)
        axes.fill_between(list(found), low, high, alpha=0.2, color=line.get_color(), linewidth=0)
    left.set(xlabel="nodes", ylabel="skipping: times as fast as masked dense", xscale="log", yscale="log")
    right.set(xlabel="share of pairs that a random mask excludes")
    for axes in (left, right):
        axes.axhline(1, color="black", linewidth=1)
        axes.grid(alpha=0.3)
        axes.legend(fontsize="x-small")
    figure.savefig(path, dpi=120)


def main() -> None:
    """Measure, print and draw."""
    args = parser(__doc__, rounds=40, steps=50).parse_args()
    pace = pace_of(args)
    timings = measure(pace)
    write(table(timings, pace), args.json)
    if args.figure:
        draw(timings, args.figure)


if __name__ == "__main__":
    run(main)
