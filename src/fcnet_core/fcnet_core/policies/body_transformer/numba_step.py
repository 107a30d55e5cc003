"""One robot's Body Transformer compiled with numba, the default on a robot.

The features of all nodes are (channels, N), a column a node, N the nodes up to whole vectors: 16 columns for 13 nodes.
A weight is read once for all nodes, and softmax and LayerNorm are sums over rows, so that nothing is summed within a
vector. Masked attention is dense with a bias: of 13 nodes, the pairs that a mask excludes are a few per cent of the
work. The columns beyond the nodes hold finite numbers that no node attends to.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from fcnet_core.arrays import Floats, Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.body_transformer.step import fold, score_bias
from fcnet_core.policies.compiled_layers import (
    COMPILE,
    ONE,
    ZERO,
    StepData,
    denormalise,
    exponential,
    normalise,
)
from fcnet_core.policies.layers import EPSILON
from fcnet_core.policies.simd import LANES, load, packed, spread, store, whole

ROWS = 8  # of a product that are computed together, as sums in registers
NOTHING = np.zeros(ROWS, np.float32)  # in place of a bias


class Weights(NamedTuple):
    """A policy's weights, for L layers with d channels, H heads, n nodes and E entries of the window that a node sees.

    The matrices of the layers are as `by_rows` gives them, float32 also of a model in half precision: read once for
    all nodes, they take little of a step's time. Their biases are padded to ROWS.
    """

    token_weight: Single  # (E, d)
    token_bias: Single  # (n, d), with the positions
    entries: npt.NDArray[np.intp]  # (E,) of the window
    entry_nodes: npt.NDArray[np.intp]  # (E,)
    score_bias: Single  # (L, n, N): what is added to the scores of keys (rows) and queries
    qkv_weight: Single
    qkv_bias: Single
    project_weight: Single
    project_bias: Single
    expand_weight: Single
    expand_bias: Single
    contract_weight: Single
    contract_bias: Single
    norm: Single  # (L, 4, d): weight and bias of norm1, weight and bias of norm2
    head_weight: Single  # (action, d)
    head_bias: Single  # (action,)
    action_nodes: npt.NDArray[np.intp]  # (action,)


class Memory(NamedTuple):
    """The last normalised observations (window, observation), oldest first, and the work space of a step."""

    window: Single
    scaled: Single  # (observation,)
    tokens: Single  # (n, d)
    shares: Single  # (H, n in whole ROWS, N)
    hidden: Single  # (d and ROWS, N), as those below: a product of ROWS rows may write beyond its last
    qkv: Single  # (3 d and ROWS, N)
    mixed: Single
    inner: Single  # (f and ROWS, N)
    added: Single
    columns: Single  # (2, N): sums over rows


@njit(cache=True, **COMPILE)
def step(observation: Single, action: Single, count: int, data: StepData) -> bool:
    """Write the action for one observation; return False, with the memory unchanged, if that is not finite."""
    units, w, memory = data.units, data.weights, data.memory
    if not normalise(observation, units, memory.scaled):
        return False
    window, d, inner_size = memory.window, w.norm.shape[2], memory.inner.shape[0] - ROWS
    for row in range(window.shape[0] - 1):
        window[row] = window[row + 1]
    window[-1] = memory.scaled
    hidden, mixed, inner = memory.hidden[:d], memory.mixed[:d], memory.inner[:inner_size]
    tokenize(window.ravel(), w, memory.tokens, hidden)
    for layer in range(w.norm.shape[0]):
        norm = w.norm[layer]
        project(w.qkv_weight[layer], w.qkv_bias[layer], hidden, memory.qkv)
        attend(memory.qkv, w.score_bias[layer], memory.shares, memory.mixed, memory.columns, d)
        project(w.project_weight[layer], w.project_bias[layer], mixed, memory.added)
        add_and_norm(memory.added, norm[0], norm[1], memory.columns, hidden)
        project(w.expand_weight[layer], w.expand_bias[layer], hidden, memory.inner)
        for row in range(inner_size):
            for node in range(inner.shape[1]):
                inner[row, node] = max(inner[row, node], ZERO)
        project(w.contract_weight[layer], w.contract_bias[layer], inner, memory.added)
        add_and_norm(memory.added, norm[2], norm[3], memory.columns, hidden)
    for joint in range(action.size):
        node, total = w.action_nodes[joint], w.head_bias[joint]
        for c in range(d):
            total += w.head_weight[joint, c] * hidden[c, node]
        action[joint] = total
    denormalise(action, units)
    return True


@njit(**COMPILE)
def tokenize(window: Single, w: Weights, tokens: Single, hidden: Single) -> None:
    """Set the first columns of hidden (d, N) to the tokens of the nodes."""
    nodes, d = tokens.shape
    tokens[...] = w.token_bias
    for place in range(w.entries.size):
        x, token, weight = window[w.entries[place]], tokens[w.entry_nodes[place]], w.token_weight[place]
        for c in range(d):
            token[c] += x * weight[c]
    for c in range(d):
        for node in range(nodes):
            hidden[c, node] = tokens[node, c]


@njit(**COMPILE)
def tile(
    weight: Single, at: int, row: int, column: int, count: int, x: Single, first: int, bias: Single, y: Single, to: int
) -> None:
    """Set LANES columns of ROWS rows of y to the bias of the row, plus the sum of `count` rows of x times weights.

    The weight of row r of y and row i of x is the entry at + r row + i column. first and to: entries of x and of y at
    which the first of their rows has these columns.
    """
    width_x, width_y = x.shape[1], y.shape[1]
    y0, y1, y2, y3 = spread(bias[0]), spread(bias[1]), spread(bias[2]), spread(bias[3])
    y4, y5, y6, y7 = spread(bias[4]), spread(bias[5]), spread(bias[6]), spread(bias[7])
    flat = weight.ravel()
    for i in range(count):
        value, place = load(x, first + i * width_x), at + i * column
        y0 += value * spread(flat[place])
        y1 += value * spread(flat[place + row])
        y2 += value * spread(flat[place + 2 * row])
        y3 += value * spread(flat[place + 3 * row])
        y4 += value * spread(flat[place + 4 * row])
        y5 += value * spread(flat[place + 5 * row])
        y6 += value * spread(flat[place + 6 * row])
        y7 += value * spread(flat[place + 7 * row])
    store(y0, y, to)
    store(y1, y, to + width_y)
    store(y2, y, to + 2 * width_y)
    store(y3, y, to + 3 * width_y)
    store(y4, y, to + 4 * width_y)
    store(y5, y, to + 5 * width_y)
    store(y6, y, to + 6 * width_y)
    store(y7, y, to + 7 * width_y)


@njit(**COMPILE)
def project(weight: Single, bias: Single, x: Single, y: Single) -> None:
    """Set the first rows of y to weight x + bias; weight as `by_rows`, x (inputs, N), bias in whole ROWS."""
    inputs, width = x.shape
    for lane in range(0, width, LANES):
        for row in range(0, bias.size, ROWS):
            tile(weight, row * inputs, 1, ROWS, inputs, x, lane, bias[row : row + ROWS], y, row * width + lane)


@njit(**COMPILE)
def attend(qkv: Single, bias: Single, shares: Single, mixed: Single, columns: Single, d: int) -> None:
    """Set the first d rows of mixed to what the queries of all nodes find, where qkv has queries, keys and values."""
    heads, _, width = shares.shape
    nodes, channels = bias.shape[0], d // heads
    scale = ONE / np.sqrt(np.float32(channels))
    highest, total = columns[0], columns[1]
    for head in range(heads):
        share, first = shares[head], head * channels
        for lane in range(0, width, LANES):
            for key in range(0, nodes, ROWS):
                keys = (d + first) * width + key
                tile(qkv, keys, 1, width, channels, qkv, first * width + lane, NOTHING, share, key * width + lane)
        for query in range(width):
            highest[query] = scale * share[0, query] + bias[0, query]
            total[query] = ZERO
        for key in range(nodes):
            for query in range(width):
                share[key, query] = scale * share[key, query] + bias[key, query]
                highest[query] = max(highest[query], share[key, query])
        for key in range(nodes):
            for query in range(width):
                share[key, query] = exponential(share[key, query] - highest[query])
                total[query] += share[key, query]
        for key in range(nodes):
            for query in range(width):
                share[key, query] /= total[query]
        for lane in range(0, width, LANES):
            for c in range(first, first + channels, ROWS):
                tile(qkv, (2 * d + c) * width, width, 1, nodes, share, lane, NOTHING, mixed, c * width + lane)


@njit(**COMPILE)
def add_and_norm(added: Single, weight: Single, bias: Single, columns: Single, x: Single) -> None:
    """Add the first rows of `added` to x (d, N), and normalise every column; then scale and shift it by row."""
    d, width = x.shape
    mean, scale = columns[0], columns[1]
    mean[:], scale[:] = ZERO, ZERO
    for c in range(d):
        for node in range(width):
            x[c, node] += added[c, node]
            mean[node] += x[c, node]
    for node in range(width):
        mean[node] /= np.float32(d)
    for c in range(d):
        for node in range(width):
            x[c, node] -= mean[node]
            scale[node] += x[c, node] * x[c, node]
    for node in range(width):
        scale[node] = ONE / np.sqrt(scale[node] / np.float32(d) + EPSILON)
    for c in range(d):
        for node in range(width):
            x[c, node] = x[c, node] * scale[node] * weight[c] + bias[c]


def by_rows(weight: Floats) -> Single:
    """Matrices (L, outputs, inputs) as `project` reads them, each in one piece: ROWS rows by ROWS rows, by column."""
    layers, _, inputs = weight.shape
    rows = _padded(weight, 1)
    return np.ascontiguousarray(rows.reshape(layers, -1, ROWS, inputs).swapaxes(2, 3)).reshape(layers, -1)


def _padded(array: Floats, axis: int) -> Single:
    """The array with zeros behind, until that axis has whole ROWS."""
    missing = [(0, -size % ROWS if place == axis else 0) for place, size in enumerate(array.shape)]
    return np.pad(array, missing).astype(np.float32)


def numba_step(model: PolicyModel) -> tuple[Any, Weights, Memory]:
    """Return the compiled step, the weights and the cleared memory of a model, for CompiledRuntime."""
    config, w = model.card.config, fold(model)
    nodes, d = len(config.graph.nodes), config.hidden
    width, keys = whole(nodes), math.ceil(nodes / ROWS) * ROWS
    entries, entry_nodes = config.graph.observation_entries
    steps = np.arange(config.window)[:, None] * config.observation
    bias = np.zeros((config.layers, nodes, width), np.float32)
    bias[:, :, :nodes] = score_bias(model).swapaxes(1, 2)
    matrices = {
        f"{name}_{kind}": make(getattr(w, f"{name}_{kind}"))
        for name in ("qkv", "project", "expand", "contract")
        for kind, make in (("weight", by_rows), ("bias", lambda bias: _padded(bias, 1)))
    }
    weights = Weights(
        token_weight=np.ascontiguousarray(model.weights["tokenizer.weight"].T.astype(np.float32)),
        token_bias=w.token_bias.reshape(nodes, d),
        entries=(steps + entries).ravel(),
        entry_nodes=np.tile(entry_nodes, config.window),
        score_bias=bias,
        norm=w.norm,
        head_weight=model.weights["detokenizer.weight"].astype(np.float32),
        head_bias=w.head_bias,
        action_nodes=config.graph.action_nodes,
        **matrices,
    )

    def space(rows: int) -> Single:
        return np.zeros((rows + ROWS, width), np.float32)

    memory = Memory(
        window=np.zeros((config.window, config.observation), np.float32),
        scaled=np.zeros(config.observation, np.float32),
        tokens=np.zeros((nodes, d), np.float32),
        shares=np.zeros((config.heads, keys, width), np.float32),
        hidden=space(d),
        qkv=space(3 * d),
        mixed=space(d),
        inner=space(config.ffn_width),
        added=space(d),
        columns=np.zeros((2, width), np.float32),
    )
    return step, Weights(*packed(list(weights))), Memory(*packed(list(memory)))
