"""A step of the network as an ONNX graph, and the runtime that keeps its memory."""

from __future__ import annotations

import numpy as np
import onnx

from fcnet_core.arrays import Array, Mask, Single
from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.fcnet.config import phase_table
from fcnet_core.policies.fcnet.numpy_step import FoldedNetwork, fold
from fcnet_core.policies.onnx_graph import DOUBLE, SINGLE, GraphBuilder, session

INPUTS = ("observation", "oldest", "spectrum_real", "spectrum_imaginary")
OUTPUTS = ("action", "newest", "next_spectrum_real", "next_spectrum_imaginary")
MEMORY = """
With B robots, L layers, m modes, d channels and window n:
input  observation         (B, observation)  float32, raw
       oldest              (L, B, d)         float32, the `newest` returned n steps before; zeros at first
       spectrum_real       (L, B, m, d)      float64, what it returned in the step before; zeros at first
       spectrum_imaginary  (L, B, m, d)      float64
output action              (B, action)       float32
       newest              (L, B, d)         float32
       next_spectrum_real, next_spectrum_imaginary
A card with window policy reset_every_n asks the caller to set all memory to zero before every n-th step after the last
reset.
"""


def onnx_graph(model: PolicyModel) -> onnx.ModelProto:
    """The graph that MEMORY describes."""
    builder = GraphBuilder()
    _add_network(builder, model, fold(model))
    config = model.card.config
    row, spectrum = [config.layers, "batch", config.hidden], [config.layers, "batch", config.modes, config.hidden]
    memory = [(SINGLE, row), (DOUBLE, spectrum), (DOUBLE, spectrum)]
    kinds = [(SINGLE, ["batch", config.observation]), *memory]
    results = [(SINGLE, ["batch", config.action]), *memory]
    return builder.model(
        model,
        [(name, *kind) for name, kind in zip(INPUTS, kinds, strict=True)],
        [(name, *kind) for name, kind in zip(OUTPUTS, results, strict=True)],
        MEMORY,
    )


def _add_network(g: GraphBuilder, model: PolicyModel, network: FoldedNetwork) -> None:
    layers = network.config.layers
    memory = zip(*(g.split(name, layers) for name in INPUTS[1:]), strict=True)
    hidden = g.linear(g.normalised(model), network.encoder_weight, network.encoder_bias)
    kept: list[tuple[str, str, str]] = []
    for layer, (oldest, real, imaginary) in enumerate(memory):
        norm, weight, bias = network.norm[layer], network.ffn_weight[layer], network.ffn_bias[layer]
        x = g.layer_norm(hidden, norm[0], norm[1])
        mixed, real, imaginary = _slide(g, network, layer, x, oldest, real, imaginary)
        kept.append((g.add("Unsqueeze", x, g.constant(np.array([0]))), real, imaginary))
        hidden = g.add("Add", hidden, g.add("Gelu", mixed))
        inner = g.add("Gelu", g.linear(g.layer_norm(hidden, norm[2], norm[3]), weight[0], bias[0]))
        hidden = g.add("Add", hidden, g.linear(inner, weight[1], bias[1]))
    for name, parts in zip(OUTPUTS[1:], zip(*kept, strict=True), strict=True):
        g.add("Concat", *parts, output=name, axis=0)
    decoded = g.add("Gelu", g.linear(hidden, network.decoder_weight, network.decoder_bias))
    g.action(model, g.linear(decoded, network.output_weight, network.output_bias))


def _slide(
    g: GraphBuilder, network: FoldedNetwork, layer: int, x: str, oldest: str, real: str, imaginary: str
) -> tuple[str, str, str]:
    """One step of the Sliding DFT: its output (B, d) and the new real and imaginary spectra (1, B, m, d)."""
    rotation = phase_table(network.config.window, network.config.modes)[:, :1]
    cosine, sine = g.constant(rotation.real), g.constant(rotation.imag)
    change = g.add("Sub", g.add("Cast", x, to=DOUBLE), g.add("Cast", oldest, to=DOUBLE))
    real = g.add("Add", real, g.add("Unsqueeze", change, g.constant(np.array([2]))))
    next_real = g.add("Sub", g.add("Mul", cosine, real), g.add("Mul", sine, imaginary))
    next_imaginary = g.add("Add", g.add("Mul", sine, real), g.add("Mul", cosine, imaginary))
    weight = network.spectral_weight[layer]
    terms = g.add(
        "Sub",
        g.add("Mul", g.constant(weight.real), next_real),
        g.add("Mul", g.constant(weight.imag), next_imaginary),
    )
    mixed = g.add("ReduceSum", terms, g.constant(np.array([0, 2])), keepdims=0)
    return g.add("Cast", mixed, to=SINGLE), next_real, next_imaginary


class OnnxStep:
    """A Runtime of one robot on one CPU thread of ONNX Runtime."""

    def __init__(self, model: PolicyModel) -> None:
        self._config = config = model.card.config
        self._session = session(onnx_graph(model))
        self._inputs = np.zeros((config.window, config.layers, 1, config.hidden), dtype=np.float32)
        self._spectrum: list[Array] = []
        self._slot = 0
        self.reset()

    def reset(self, mask: Mask | None = None) -> None:
        """See Runtime."""
        self._inputs[:] = 0
        self._spectrum = [np.zeros((self._config.layers, 1, self._config.modes, self._config.hidden))] * 2
        self._slot = 0

    def step(self, observation: Single) -> Single:
        """See Runtime."""
        feed = dict(zip(INPUTS, [observation[None], self._inputs[self._slot], *self._spectrum], strict=True))
        action, self._inputs[self._slot], *self._spectrum = self._session.run(OUTPUTS, feed)
        self._slot = (self._slot + 1) % self._config.window
        result: Single = action[0]
        return result
