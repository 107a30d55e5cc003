"""What attention gains by leaving out the pairs that a mask excludes: the Body Transformer paper's Figures 6 and 13.

One head over the n nodes of one sample. Masked dense attention computes all scores and adds the mask to them. Skipping
computes scores and softmax of the admitted pairs alone; in NumPy softmax(S) V stays dense, as in the paper, compiled it
is skipped as well. The compiled dense form is what a robot runs. A body's mask is known beforehand, so that finding its
pairs is not counted, and every form has its inputs laid out as it reads them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from numba import njit

from fcnet_core.arrays import Floats, Mask, Single
from fcnet_core.errors import StudyError
from fcnet_core.policies.body_transformer import EMPTY, BodyTransformerConfig
from fcnet_core.policies.body_transformer.numba_step import ROWS, attend
from fcnet_core.policies.compiled_layers import COMPILE, ONE, ZERO, exponential
from fcnet_core.policies.layers import softmax
from fcnet_core.policies.simd import whole
from fcnet_core.policy import load_policy
from fcnet_study.benchmarks.steps import Call, Pace, observations, ratio_text, stepping, untrained
from fcnet_study.benchmarks.timing import Timing, interleave
from fcnet_study.report import Report
from quadruped_sim.worker_pool import worker_pool

CHANNELS = 64  # of a head, but for those of the robots' policy
SPARSITY = 0.908  # share of excluded pairs in the paper's Figure 6: that of the MoCapAct humanoid
SIZES = (16, 32, 64, 128)  # nodes
SPARSITIES = (0.0, 0.4, 0.6, 0.8, 0.9)
SIZES_OF_SPARSITIES = (13, 16, 32, 64)
HEADS = 10  # drawn for a size and a sparsity, each with a mask of its own
REPEATS = 20  # attentions of a call: a compiled one is over sooner than its call from Python
RUNTIMES = ("NumPy", "numba")
DENSE, SKIPPING = "masked dense", "skipping"
STEP = "step of the robots' policy"
AGREEMENT = 1e-5  # of outputs of order 1
DrawMask = Callable[[np.random.Generator, int], Mask]  # for so many nodes
Attention = Callable[[int], Floats]  # computes it so many times, and returns the output (n, d)


@dataclass(frozen=True)
class Head:
    """What a head attends with: queries, keys and values (n, d), and which node attends to which (n, n)."""

    q: Single
    k: Single
    v: Single
    mask: Mask


def numpy_dense(head: Head) -> Attention:
    """All scores in NumPy."""
    bias = np.where(head.mask, 0, EMPTY).astype(np.float32)
    scale = np.float32(1 / math.sqrt(head.q.shape[1]))

    def run(times: int) -> Floats:
        for _ in range(times):
            scores = head.q @ head.k.T
            scores *= scale
            scores += bias
            output: Floats = softmax(scores) @ head.v
        return output

    return run


def numpy_skipping(head: Head) -> Attention:
    """Scores and softmax of the admitted pairs in NumPy."""
    rows, columns = np.nonzero(head.mask)
    starts = np.searchsorted(rows, np.arange(len(head.mask)))
    scale = np.float32(1 / math.sqrt(head.q.shape[1]))
    q, k = (np.empty((len(rows), head.q.shape[1]), np.float32) for _ in range(2))
    shares = np.zeros(head.mask.shape, np.float32)

    def run(times: int) -> Floats:
        for _ in range(times):
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

    return run


def numba_dense(head: Head) -> Attention:
    """The Body Transformer's own compiled attention."""
    nodes, d = head.q.shape
    width = whole(nodes)
    qkv = np.zeros((3 * d + ROWS, width), np.float32)
    qkv[: 3 * d, :nodes] = np.concatenate([head.q, head.k, head.v], axis=1).T
    bias = np.zeros((nodes, width), np.float32)
    bias[:, :nodes] = np.where(head.mask.T, 0, EMPTY)
    shares = np.zeros((1, math.ceil(nodes / ROWS) * ROWS, width), np.float32)
    mixed, columns = np.zeros((d + ROWS, width), np.float32), np.zeros((2, width), np.float32)

    def run(times: int) -> Floats:
        _attend_densely(times, qkv, bias, shares, mixed, columns, d)
        return mixed[:d, :nodes].T

    return run


def numba_skipping(head: Head) -> Attention:
    """The admitted pairs, row by row, in compiled loops."""
    rows, columns = np.nonzero(head.mask)
    starts = np.searchsorted(rows, np.arange(len(head.mask) + 1))
    shares, output = np.zeros(len(rows), np.float32), np.zeros_like(head.q)

    def run(times: int) -> Floats:
        _attend_to_pairs(times, head.q, head.k, head.v, starts, columns, shares, output)
        return output

    return run


@njit(**COMPILE)
def _attend_densely(
    times: int, qkv: Single, bias: Single, shares: Single, mixed: Single, columns: Single, d: int
) -> None:
    for _ in range(times):
        attend(qkv, bias, shares, mixed, columns, d)


@njit(**COMPILE)
def _attend_to_pairs(
    times: int,
    q: Single,
    k: Single,
    v: Single,
    starts: npt.NDArray[np.intp],
    columns: npt.NDArray[np.intp],
    shares: Single,
    output: Single,
) -> None:
    nodes, d = q.shape
    scale = ONE / np.sqrt(np.float32(d))
    for _ in range(times):
        for query in range(nodes):
            highest = np.float32(EMPTY)
            for pair in range(starts[query], starts[query + 1]):
                total, key = ZERO, columns[pair]
                for c in range(d):
                    total += q[query, c] * k[key, c]
                shares[pair] = scale * total
                highest = max(highest, shares[pair])
            for pair in range(starts[query], starts[query + 1]):
                shares[pair] -= highest
        for pair in range(shares.size):  # one loop over all pairs, which fills vectors
            shares[pair] = exponential(shares[pair])
        for query in range(nodes):
            total = ZERO
            for pair in range(starts[query], starts[query + 1]):
                total += shares[pair]
            output[query] = ZERO
            for pair in range(starts[query], starts[query + 1]):
                share, key = shares[pair] / total, columns[pair]
                for c in range(d):
                    output[query, c] += share * v[key, c]


FORMS: Mapping[str, Callable[[Head], Attention]] = {
    f"{DENSE}, NumPy": numpy_dense,
    f"{SKIPPING}, NumPy": numpy_skipping,
    f"{DENSE}, numba": numba_dense,
    f"{SKIPPING}, numba": numba_skipping,
}


@dataclass(frozen=True)
class AttentionTimes:
    """Timings of all FORMS: of the robots' policy, with its whole compiled STEP; by kind of mask and number of nodes;
    by number of nodes and sparsity of random masks.
    """

    policy: BodyTransformerConfig
    of_policy: Timing
    by_nodes: Mapping[str, Mapping[int, Timing]]
    by_sparsity: Mapping[int, Mapping[float, Timing]]

    def report(self, pace: Pace) -> Report:
        """A row for each mask and, below those of a kind, where skipping breaks even."""
        nodes, channels = len(self.policy.graph.nodes), self.policy.hidden // self.policy.heads
        rows = {f"the robots' policy, {nodes} nodes of {channels} channels": _cells(self.of_policy)}
        for kind, timings in self.by_nodes.items():
            rows |= {f"{kind}: {nodes} nodes": _cells(timing) for nodes, timing in timings.items()}
            rows[f"{kind}: break-even [nodes]"] = _break_even(timings, lambda nodes: f"{nodes:.0f}")
        for nodes, of_nodes in self.by_sparsity.items():
            kind = f"{nodes} nodes, random"
            rows |= {f"{kind}: {sparsity:.0%} excluded": _cells(timing) for sparsity, timing in of_nodes.items()}
            rows[f"{kind}: break-even"] = _break_even(of_nodes, lambda sparsity: f"{sparsity:.0%} excluded")
        columns = tuple(
            f"{runtime}: {what}"
            for runtime in RUNTIMES
            for what in (f"{DENSE} p50 [us]", f"{SKIPPING} p50 [us]", f"{SKIPPING} faster")
        )
        how = (
            f"{pace}, a step being {REPEATS} attentions of one head of {CHANNELS} channels where nothing else is said, "
            f"times those of one attention; {self._of_step()}"
        )
        return Report("Attention without the pairs that a mask excludes", columns, rows, how)

    def _of_step(self) -> str:
        """What skipping could save of a compiled step, where all its layers are masked."""
        step, count = self.of_policy.mean_processor(STEP), self.policy.layers * self.policy.heads
        dense, skipping = (
            count * self.of_policy.mean_processor(f"{form}, numba") / REPEATS for form in (DENSE, SKIPPING)
        )
        return (
            f"a compiled step of the robots' policy takes {1e6 * step:.0f} us, attention {dense / step:.1%} of it, "
            f"and skipping would save {(dense - skipping) / step:.1%} at most; the excluded pairs are "
            f"{excluded_share(self.policy):.1%} of the operations of its layers"
        )

    def draw(self, path: Path) -> None:
        """Write a figure: how many times as fast skipping is, against the number of nodes and against sparsity."""
        from matplotlib.figure import Figure
        from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

        figure = Figure(figsize=(9.5, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        own = len(self.policy.graph.nodes)
        for runtime, dashes in zip(RUNTIMES, ("--", "-"), strict=True):
            for index, (kind, timings) in enumerate(self.by_nodes.items()):
                sizes, colour = list(timings), f"C{index}"
                low, middle, high = np.array([_ratios(timing, runtime) for timing in timings.values()]).T
                left.plot(sizes, middle, dashes, marker="o", color=colour, label=f"{kind}, {runtime}")
                left.fill_between(sizes, low, high, alpha=0.2, color=colour, linewidth=0)
            label, fill = f"the robots' policy, {runtime}", "full" if runtime == "numba" else "none"
            left.plot(own, _ratio(self.of_policy, runtime), "kD", fillstyle=fill, label=label)
            for index, (nodes, of_nodes) in enumerate(self.by_sparsity.items()):
                ratios, label = [_ratio(one, runtime) for one in of_nodes.values()], f"{nodes} nodes, {runtime}"
                right.plot(list(of_nodes), ratios, dashes, marker="o", color=f"C{index + 2}", label=label)
        ticks = sorted({own, *(nodes for timings in self.by_nodes.values() for nodes in timings)})
        left.set(xlabel="nodes", ylabel="skipping: times as fast as masked dense", xscale="log", yscale="log")
        left.set_xticks(ticks, [str(nodes) for nodes in ticks])
        left.set_xticks([], minor=True)
        right.set(xlabel="share of pairs that a random mask excludes")
        for axes in (left, right):
            axes.axhline(1, color="black", linewidth=1)
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axes.yaxis.set_minor_formatter(NullFormatter())
            axes.grid(alpha=0.3)
            axes.legend(fontsize="x-small")
        figure.savefig(path, dpi=120)


def time_attention(pace: Pace) -> AttentionTimes:
    """Measure in a process of its own, whose NumPy multiplies with one thread: processor time counts that thread's."""
    with worker_pool(1) as pool:
        return pool.submit(measure, pace).result()


def measure(
    pace: Pace,
    sizes: Sequence[int] = SIZES,
    sizes_of_sparsities: Sequence[int] = SIZES_OF_SPARSITIES,
    sparsities: Sequence[float] = SPARSITIES,
) -> AttentionTimes:
    """Measure every mask, all forms of one in turn. Raises StudyError where forms disagree."""
    rng, policy = np.random.default_rng(0), BodyTransformerConfig(mask="hard")
    kinds: dict[str, DrawMask] = {
        "bodies": random_body,
        f"random, {SPARSITY:.1%} excluded": partial(random_mask, sparsity=SPARSITY),
    }
    model = untrained(policy)
    step = stepping(load_policy(model, "numba"), observations(model))
    own = time_forms([random_head(rng, policy.attended, policy.hidden // policy.heads)], pace, {STEP: step})

    def drawn(mask: DrawMask, nodes: int) -> Timing:
        return time_forms([random_head(rng, mask(rng, nodes)) for _ in range(HEADS)], pace)

    return AttentionTimes(
        policy,
        own,
        {kind: {nodes: drawn(mask, nodes) for nodes in sizes} for kind, mask in kinds.items()},
        {
            nodes: {sparsity: drawn(partial(random_mask, sparsity=sparsity), nodes) for sparsity in sparsities}
            for nodes in sizes_of_sparsities
        },
    )


def time_forms(heads: Sequence[Head], pace: Pace, others: Mapping[str, Call] | None = None) -> Timing:
    """Time all FORMS of the heads, and other calls beside them. Raises StudyError where forms disagree."""
    runs = {name: [form(head) for head in heads] for name, form in FORMS.items()}
    for index in range(len(heads)):
        check_agreement({name: of_form[index](1) for name, of_form in runs.items()})

    def calling(of_form: Sequence[Attention]) -> Call:
        return lambda index: of_form[index % len(of_form)](REPEATS)

    calls = {name: calling(of_form) for name, of_form in runs.items()} | dict(others or {})
    return interleave(calls, pace.rounds, pace.steps, pace.period)


def random_body(rng: np.random.Generator, nodes: int) -> Mask:
    """The mask (n, n) of a tree: every node but the first is joined to one before it."""
    mask = np.eye(nodes, dtype=np.bool_)
    for node in range(1, nodes):
        other = rng.integers(node)
        mask[node, other] = mask[other, node] = True
    return mask


def random_mask(rng: np.random.Generator, nodes: int, sparsity: float) -> Mask:
    """A mask (n, n) that excludes this share of all pairs, as nearly as it can without the diagonal."""
    mask = np.eye(nodes, dtype=np.bool_)
    admitted = max(round((1 - sparsity) * mask.size) - nodes, 0)
    mask.flat[rng.choice(np.flatnonzero(~mask), admitted, replace=False)] = True
    return mask


def random_head(rng: np.random.Generator, mask: Mask, channels: int = CHANNELS) -> Head:
    """A head of random numbers with this mask."""
    q, k, v = rng.standard_normal((3, len(mask), channels)).astype(np.float32)
    return Head(q, k, v, mask)


def check_agreement(outputs: Mapping[str, Floats]) -> None:
    """Raise StudyError unless all forms compute the same."""
    reference = f"{DENSE}, NumPy"
    for name, output in outputs.items():
        if not (difference := np.abs(output - outputs[reference]).max()) <= AGREEMENT:
            raise StudyError(f"{name} differs from {reference} by {difference:.1e}: its time would mean nothing")


def break_even(values: Sequence[float], ratios: Sequence[float]) -> float | None:
    """From which value on ratios stay above 1, by interpolation of their logarithms; the first value where none is
    below 1, None where the last one is.
    """
    gains = np.log(ratios)
    below = np.flatnonzero(gains < 0)
    if not len(below):
        return values[0]
    around = slice(below[-1], below[-1] + 2)
    return None if below[-1] == len(gains) - 1 else float(np.interp(0, gains[around], values[around]))


def excluded_share(config: BodyTransformerConfig) -> float:
    """Share of the multiplications and additions of a masked layer that are of pairs which its mask excludes."""
    nodes, d = len(config.graph.nodes), config.hidden
    linear, attention = 2 * nodes * d * (4 * d + 2 * config.ffn_width), 4 * nodes**2 * d
    return float(attention * (1 - config.attended.mean()) / (linear + attention))


def _ratios(timing: Timing, runtime: str) -> tuple[float, float, float]:
    return timing.ratio(f"{SKIPPING}, {runtime}", f"{DENSE}, {runtime}")


def _ratio(timing: Timing, runtime: str) -> float:
    return _ratios(timing, runtime)[1]


def _cells(timing: Timing) -> tuple[str, ...]:
    cells: list[str] = []
    for runtime in RUNTIMES:
        names = f"{DENSE}, {runtime}", f"{SKIPPING}, {runtime}"
        cells += [f"{1e6 * timing.quantile(name, 0.5) / REPEATS:.2f}" for name in names]
        cells.append(ratio_text(timing, names[1], names[0]))
    return tuple(cells)


def _break_even(
    timings: Mapping[int, Timing] | Mapping[float, Timing], text: Callable[[float], str]
) -> tuple[str, ...]:
    cells: list[str] = []
    for runtime in RUNTIMES:
        found = break_even(list(timings), [_ratio(timing, runtime) for timing in timings.values()])
        first = "at most " if found == next(iter(timings)) else ""
        cells += ["", "", "none" if found is None else first + text(found)]
    return tuple(cells)
