"""The network in NumPy, step by step or on whole recorded sequences, and as a step of an ONNX graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from fcnet_core.arrays import Array, Floats, Mask, Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.layers import gelu, linear
from fcnet_core.policies.retnet.retention import (
    EPSILON,
    ChunkedState,
    RecurrentState,
    Retained,
    angles,
    decays,
    query_scale,
    rotate,
)

if TYPE_CHECKING:
    from fcnet_core.policies.onnx_graph import GraphBuilder

CHUNK = 64  # steps of a sequence that are computed at a time


class Weights(NamedTuple):
    """A policy's weights as every runtime uses them, stacked by layer; linear weights are (outputs, inputs).

    Rows of queries and keys are permuted within each head: the first entries of the pairs that are rotated together,
    then the second ones. Products of queries and keys do not change by that.
    """

    encoder_weight: Floats  # (d, observation)
    encoder_bias: Floats  # (d,)
    norm: Floats  # (L, 2, d): before the retention, before the feed-forward
    projection: Floats  # (L, 2 d + 2 D, d): queries, keys, values, gates
    output: Floats  # (L, d, D)
    ffn_in: Floats  # (L, 2 F, d): what GELU takes, what that is multiplied by
    ffn_out: Floats  # (L, d, F)
    final_norm: Floats  # (d,)
    decoder_weight: Floats  # (action, d)
    decoder_bias: Floats  # (action,)
    decay: Array  # (H,)
    angle: Array  # (d_k / 2,)


def fold(model: PolicyModel, dtype: npt.DTypeLike = np.float32) -> Weights:
    """Stack the weights of a model."""
    config = model.card.config
    weights = {name: weight.astype(dtype, copy=False) for name, weight in model.weights.items()}
    heads, key_width, _ = config.state_shape
    halves = np.arange(2 * config.hidden).reshape(2 * heads, key_width // 2, 2).transpose(0, 2, 1).ravel()

    def stacked(*names: str) -> Floats:
        layers = [f"decoder.layers.{layer}." for layer in range(config.layers)]
        return np.stack([np.concatenate([weights[f"{layer}{name}.weight"] for name in names]) for layer in layers])

    projection = stacked(*(f"retention.{name}_proj" for name in "qkvg"))
    projection[:, : len(halves)] = projection[:, halves]
    return Weights(
        encoder_weight=weights["embed_state.weight"],
        encoder_bias=weights["embed_state.bias"],
        norm=stacked("retention_layer_norm", "final_layer_norm").reshape(config.layers, 2, config.hidden),
        projection=projection,
        output=stacked("retention.out_proj"),
        ffn_in=stacked("ffn.fc1", "ffn.gate"),
        ffn_out=stacked("ffn.fc2"),
        final_norm=weights["decoder.layer_norm.weight"],
        decoder_weight=weights["predict_tgt.weight"],
        decoder_bias=weights["predict_tgt.bias"],
        decay=decays(heads),
        angle=angles(key_width),
    )


def rms_norm(x: Floats) -> Floats:
    """Divide the last axis by its root mean square."""
    square = np.einsum("...d,...d->...", x, x)[..., None] / x.shape[-1]
    normed: Floats = x / np.sqrt(square + EPSILON)
    return normed


def silu(x: Floats) -> Floats:
    """SiLU, x / (1 + exp(-x)), of an array of any shape."""
    decayed = np.exp(-np.abs(x))
    result: Floats = x * np.where(x < 0, decayed, 1) / (1 + decayed)
    return result


def forward(weights: Weights, memory: Retained, x: Floats) -> Floats:
    """Return network outputs (rows, action) for normalised observations (rows, observation); advances the memory."""
    w, rows, dtype = weights, len(x), weights.final_norm.dtype
    heads, key_width, d, values = len(w.decay), 2 * len(w.angle), w.final_norm.size, w.output.shape[-1]
    steps = memory.count(rows)
    turned = np.outer(steps, w.angle)
    cosine, sine = np.cos(turned).astype(dtype), np.sin(turned).astype(dtype)
    scale = query_scale(steps, w.decay, key_width).astype(dtype)[..., None]
    hidden = linear(x, w.encoder_weight, w.encoder_bias)
    for layer, norm in enumerate(w.norm):
        projected = (rms_norm(hidden) * norm[0]) @ w.projection[layer].T
        qk, v, gates = np.split(projected, [2 * d, 2 * d + values], axis=-1)
        qk = rotate(qk.reshape(rows, 2 * heads, key_width), cosine, sine)
        retained = memory.retain(layer, qk[:, :heads] * scale, qk[:, heads:], v.reshape(rows, heads, -1))
        hidden += (silu(gates) * rms_norm(retained).reshape(rows, values)) @ w.output[layer].T
        inner, gates = np.split((rms_norm(hidden) * norm[1]) @ w.ffn_in[layer].T, 2, axis=-1)
        hidden += (gelu(inner) * gates) @ w.ffn_out[layer].T
    return linear(rms_norm(hidden) * w.final_norm, w.decoder_weight, w.decoder_bias)


class Step:
    """A NetworkStep in the recurrent form."""

    def __init__(self, model: PolicyModel, batch: int, dtype: npt.DTypeLike) -> None:
        config = model.card.config
        self._weights = fold(model, dtype)
        self.memory = RecurrentState(config.layers, batch, config.state_shape, dtype)

    def reset(self, chosen: Mask | slice) -> None:
        self.memory.reset(chosen)

    def step(self, x: Floats) -> Floats:
        return forward(self._weights, self.memory, x)


class Sequence:
    """The policy over whole recorded sequences, in the chunked form."""

    def __init__(self, model: PolicyModel) -> None:
        config = model.card.config
        self._weights = fold(model)
        self._memory = ChunkedState(config.layers, CHUNK, config.state_shape)

    def run(self, x: Single) -> Floats:
        """Return outputs (T, action) for normalised observations (T, observation) after a reset."""
        self._memory.reset()
        chunks = [x[start : start + CHUNK] for start in range(0, len(x), CHUNK)]
        return np.concatenate([forward(self._weights, self._memory, chunk) for chunk in chunks])


def add_to_graph(g: GraphBuilder, model: PolicyModel) -> str:
    """Add a step in the recurrent form to a graph whose caller keeps the states and the number of steps since the
    reset; return the name of its output.
    """
    config, w = model.card.config, fold(model)
    constants = _step_constants(g, w)
    state = g.memory("state", [config.layers, "batch", *config.state_shape])
    hidden = g.linear(g.observation(), w.encoder_weight, w.encoder_bias)
    states = []
    for layer, before in enumerate(g.split(state, config.layers)):
        x = _rms_norm(g, hidden, w.norm[layer, 0])
        gated, after = _retain(g, w, layer, (x, before, *constants))
        states.append(after)
        hidden = g.add("Add", hidden, _multiply(g, gated, w.output[layer]))
        x = _rms_norm(g, hidden, w.norm[layer, 1])
        inner, gates = (_multiply(g, x, weight) for weight in np.split(w.ffn_in[layer], 2))
        inner = g.add("Mul", g.add("Gelu", inner), gates)
        hidden = g.add("Add", hidden, _multiply(g, inner, w.ffn_out[layer]))
    g.keep(state, g.add("Concat", *states, axis=0))
    return g.linear(_rms_norm(g, hidden, w.final_norm), w.decoder_weight, w.decoder_bias)


def _step_constants(g: GraphBuilder, w: Weights) -> tuple[str, str, str]:
    """Cosines and sines (B, 1, d_k / 2), and scales of the queries (B, H, 1), worked out in float64."""
    one, steps = g.constant(np.array(1.0)), g.memory("steps", ["batch", 1], np.float64)
    following = g.keep(steps, g.add("Add", steps, one))
    turned = _with_axis(g, g.add("Mul", steps, g.constant(w.angle)), 1)
    cosine, sine = (g.add("Cast", g.add(name, turned), to=g.SINGLE) for name in ("Cos", "Sin"))
    left = g.add("Pow", g.constant(w.decay), following)
    number = g.add("Div", g.add("Sub", one, left), g.constant((1 - w.decay) / (2 * len(w.angle))))  # d_k n_t
    scale = g.add("Cast", g.add("Reciprocal", g.add("Sqrt", number)), to=g.SINGLE)
    return cosine, sine, _with_axis(g, scale, 2)


def _retain(g: GraphBuilder, w: Weights, layer: int, inputs: tuple[str, str, str, str, str]) -> tuple[str, str]:
    """Gated retention (B, D) of x (B, d) and the state (1, B, H, d_k, d_v), and the new state."""
    x, state, cosine, sine, scale = inputs
    heads, half, d, values = len(w.decay), len(w.angle), w.final_norm.size, w.output.shape[-1]

    def turned(x: str) -> str:
        x = g.add("Reshape", x, g.constant(np.array([-1, heads, 2 * half])))
        first, second = (
            g.add("Slice", x, *(g.constant(np.array([place])) for place in (start, start + half, 2)))
            for start in (0, half)
        )
        one = g.add("Sub", g.add("Mul", first, cosine), g.add("Mul", second, sine))
        other = g.add("Add", g.add("Mul", second, cosine), g.add("Mul", first, sine))
        return g.add("Concat", one, other, axis=-1)

    parts = np.split(w.projection[layer], [d, 2 * d, 2 * d + values])
    q, k, v, gates = (_multiply(g, x, weight) for weight in parts)
    v = g.add("Reshape", v, g.constant(np.array([-1, heads, values // heads])))
    added = g.add("Mul", _with_axis(g, turned(k), 3), _with_axis(g, v, 2))
    state = g.add("Add", g.add("Mul", state, g.constant(w.decay.astype(np.float32)[:, None, None])), added)
    retained = g.add("MatMul", _with_axis(g, g.add("Mul", turned(q), scale), 2), state)  # (1, B, H, 1, d_v)
    retained = g.add("Reshape", _rms_norm(g, retained), g.constant(np.array([-1, values])))
    return g.add("Mul", retained, g.add("Mul", gates, g.add("Sigmoid", gates))), state


def _with_axis(g: GraphBuilder, x: str, axis: int) -> str:
    """X with an axis of size 1 more."""
    return g.add("Unsqueeze", x, g.constant(np.array([axis])))


def _multiply(g: GraphBuilder, x: str, weight: Floats) -> str:
    """X (B, inputs) times weight (outputs, inputs)."""
    return g.add("Gemm", x, g.constant(weight), transB=1)


def _rms_norm(g: GraphBuilder, x: str, weight: Floats | None = None) -> str:
    """X over its root mean square, times a weight, if there is one."""
    square = g.add("ReduceMean", g.add("Mul", x, x), g.constant(np.array([-1])))
    root = g.add("Sqrt", g.add("Add", square, g.constant(np.array(EPSILON, dtype=np.float32))))
    normed = g.add("Div", x, root)
    return normed if weight is None else g.add("Mul", normed, g.constant(weight))
