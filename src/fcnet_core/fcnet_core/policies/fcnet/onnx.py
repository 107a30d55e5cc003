"""A policy's step as an ONNX graph of standard operators (opset 20), and its runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from fcnet_core.model_file import METADATA_ENTRY, PolicyModel, card_to_json
from fcnet_core.observation import finite_observation
from fcnet_core.policies.fcnet import config as spectral
from fcnet_core.policies.fcnet.numpy_step import FoldedNetwork, WindowCounter, fold

# A policy's step as an ONNX graph of standard operators (opset 20), built without torch.
#
# The graph keeps no memory; its caller does. With B robots, L layers, m modes, d channels and window n:
#
# input  observation         (B, observation)  float32, as observation.py assembles it
#        oldest              (L, B, d)         float32, the `newest` returned n steps before; zeros at first
#        spectrum_real       (L, B, m, d)      float64, what it returned in the step before; zeros at first
#        spectrum_imaginary  (L, B, m, d)      float64
# output action              (B, action)       float32, joint position targets [rad]
#        newest              (L, B, d)         float32
#        next_spectrum_real, next_spectrum_imaginary
#
# The model's card is in the metadata entry `fcnet`. A card with window policy reset_every_n asks the caller to set
# all memory to zero before every n-th step after the last reset.

OPSET = 20
IR_VERSION = 9  # the oldest that knows opset 20, so that older runtimes read the file
INPUTS = ("observation", "oldest", "spectrum_real", "spectrum_imaginary")
OUTPUTS = ("action", "newest", "next_spectrum_real", "next_spectrum_imaginary")


def onnx_model(model: PolicyModel) -> onnx.ModelProto:
    """The graph described above, checked by ONNX."""
    builder = _GraphBuilder()
    _add_network(builder, model, fold(model))
    shape = model.card.shape
    row, spectrum = [shape.layers, "batch", shape.hidden], [shape.layers, "batch", shape.modes, shape.hidden]
    single, double = TensorProto.FLOAT, TensorProto.DOUBLE
    kinds = [(single, ["batch", shape.observation]), (single, row), (double, spectrum), (double, spectrum)]
    results = [(single, ["batch", shape.action]), *kinds[1:]]
    graph = helper.make_graph(
        builder.nodes,
        "fcnet_step",
        [helper.make_tensor_value_info(name, *kind) for name, kind in zip(INPUTS, kinds, strict=True)],
        [helper.make_tensor_value_info(name, *kind) for name, kind in zip(OUTPUTS, results, strict=True)],
        builder.constants,
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    proto.producer_name = "fcnet"
    helper.set_model_props(proto, {METADATA_ENTRY: card_to_json(model.card), "fingerprint": model.fingerprint})
    onnx.checker.check_model(proto, full_check=True)
    return proto


class _GraphBuilder:
    """Collects nodes and constants; every method returns the name of the value that it adds."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, array: np.ndarray[Any, Any]) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def add(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        name = output or f"value_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def split(self, value: str, parts: int) -> list[str]:
        """The value's slices along its first axis, which stays, of size 1."""
        names = [f"{value}_{part}" for part in range(parts)]
        self.nodes.append(helper.make_node("Split", [value], names, axis=0, num_outputs=parts))
        return names

    def linear(self, x: str, weight: np.ndarray[Any, Any], bias: np.ndarray[Any, Any]) -> str:
        return self.add("Gemm", x, self.constant(weight), self.constant(bias), transB=1)

    def layer_norm(self, x: str, weight: np.ndarray[Any, Any], bias: np.ndarray[Any, Any]) -> str:
        return self.add("LayerNormalization", x, self.constant(weight), self.constant(bias), axis=-1, epsilon=1e-5)


def _add_network(g: _GraphBuilder, model: PolicyModel, network: FoldedNetwork) -> None:
    layers = network.shape.layers
    memory = zip(*(g.split(name, layers) for name in INPUTS[1:]), strict=True)
    hidden = g.linear(_normalised(g, model), network.encoder_weight, network.encoder_bias)
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
    output = g.linear(decoded, network.output_weight, network.output_bias)
    g.add("Add", g.add("Mul", output, g.constant(model.action_scale)), g.constant(model.action_mean), output="action")


def _normalised(g: _GraphBuilder, model: PolicyModel) -> str:
    centred = g.add("Sub", "observation", g.constant(model.observation_mean))
    scaled = g.add("Div", centred, g.constant(model.observation_std))
    clip = np.float32(model.card.observation_clip)
    return g.add("Clip", scaled, g.constant(np.array(-clip)), g.constant(np.array(clip)))


def _slide(
    g: _GraphBuilder, network: FoldedNetwork, layer: int, x: str, oldest: str, real: str, imaginary: str
) -> tuple[str, str, str]:
    """One step of the Sliding DFT: its output (B, d) and the new real and imaginary spectra (1, B, m, d)."""
    rotation = spectral.phase_table(network.shape.window, network.shape.modes)[:, :1]
    cosine, sine = g.constant(rotation.real), g.constant(rotation.imag)
    change = g.add("Sub", g.add("Cast", x, to=TensorProto.DOUBLE), g.add("Cast", oldest, to=TensorProto.DOUBLE))
    real = g.add("Add", real, g.add("Unsqueeze", change, g.constant(np.array([2]))))
    turned_real = g.add("Sub", g.add("Mul", cosine, real), g.add("Mul", sine, imaginary))
    turned_imaginary = g.add("Add", g.add("Mul", sine, real), g.add("Mul", cosine, imaginary))
    weight = network.spectral_weight[layer]
    terms = g.add(
        "Sub",
        g.add("Mul", g.constant(weight.real), turned_real),
        g.add("Mul", g.constant(weight.imag), turned_imaginary),
    )
    mixed = g.add("ReduceSum", terms, g.constant(np.array([0, 2])), keepdims=0)
    return g.add("Cast", mixed, to=TensorProto.FLOAT), turned_real, turned_imaginary


# One robot's policy in ONNX Runtime: the same graph that `fcnet export` writes, with its memory kept here.

class OnnxPolicy:
    """A Policy (see policy.py) on one CPU thread of ONNX Runtime."""

    def __init__(self, model: PolicyModel) -> None:
        self.model = model
        self._shape = shape = model.card.shape
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            onnx_model(model).SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self._inputs = np.zeros((shape.window, shape.layers, 1, shape.hidden), dtype=np.float32)
        self._spectrum: list[npt.NDArray[np.float64]] = []
        self._window = WindowCounter(model.card)
        self._slot = 0
        self.reset()

    def reset(self) -> None:
        """Forget every past observation."""
        self._inputs[:] = 0
        self._spectrum = [np.zeros((self._shape.layers, 1, self._shape.modes, self._shape.hidden))] * 2
        self._slot = 0
        self._window.restart()

    def step(self, observation: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """See Policy."""
        checked = finite_observation(observation, (self._shape.observation,))
        if self._window.is_full():
            self.reset()
        self._window.count()
        feed = dict(zip(INPUTS, [checked[None], self._inputs[self._slot], *self._spectrum], strict=True))
        action, self._inputs[self._slot], *self._spectrum = self._session.run(OUTPUTS, feed)
        self._slot = (self._slot + 1) % self._shape.window
        return action[0]
