"""ONNX graphs of one policy step: a builder for architectures, and the session that runs them on one thread.

A graph is made of standard operators (opset 20) without torch, for any number of robots. It takes raw observations,
returns actions, and leaves its memory to its caller; its documentation string says how. The model's card is in the
metadata entry `fcnet`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from fcnet_core.arrays import Floats
from fcnet_core.model_file import METADATA_ENTRY, PolicyModel, card_to_json

OPSET = 20
IR_VERSION = 9  # the oldest that knows opset 20, so that older runtimes read the file
SINGLE, DOUBLE = TensorProto.FLOAT, TensorProto.DOUBLE

ValueInfo = tuple[str, int, list[Any]]  # name, element type, shape with "batch" where the robots are


class GraphBuilder:
    """Collects nodes and constants; every method returns the name of the value that it adds."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, array: np.ndarray[Any, Any]) -> str:
        """A constant of the array's own type."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def add(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """One operator."""
        name = output or f"value_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def split(self, value: str, parts: int) -> list[str]:
        """The value's slices along its first axis, which stays, of size 1."""
        names = [f"{value}_{part}" for part in range(parts)]
        self.nodes.append(helper.make_node("Split", [value], names, axis=0, num_outputs=parts))
        return names

    def linear(self, x: str, weight: Floats, bias: Floats) -> str:
        """X (B, inputs) times weight (outputs, inputs), plus bias."""
        return self.add("Gemm", x, self.constant(weight), self.constant(bias), transB=1)

    def layer_norm(self, x: str, weight: Floats, bias: Floats) -> str:
        """LayerNormalization over the last axis."""
        return self.add("LayerNormalization", x, self.constant(weight), self.constant(bias), axis=-1, epsilon=1e-5)

    def normalised(self, model: PolicyModel, name: str = "observation") -> str:
        """The network's input, see normalisation.py."""
        scales, clip = model.normalisation.scales, np.float32(model.card.observation_clip)
        centred = self.add("Sub", name, self.constant(scales[f"{name}_mean"]))
        scaled = self.add("Div", centred, self.constant(scales[f"{name}_std"]))
        return self.add("Clip", scaled, self.constant(np.array(-clip)), self.constant(np.array(clip)))

    def action(self, model: PolicyModel, output: str) -> None:
        """The graph's output `action` from the network's output, see normalisation.py."""
        scales = model.normalisation.scales
        scaled = self.add("Mul", output, self.constant(scales["action_scale"]))
        self.add("Add", scaled, self.constant(scales["action_mean"]), output="action")

    def model(
        self, model: PolicyModel, inputs: Sequence[ValueInfo], outputs: Sequence[ValueInfo], memory: str
    ) -> onnx.ModelProto:
        """The whole graph, checked by ONNX; memory: what the caller does with inputs and outputs, for the file."""
        graph = helper.make_graph(
            self.nodes,
            f"{model.card.policy_type}_step",
            [helper.make_tensor_value_info(*info) for info in inputs],
            [helper.make_tensor_value_info(*info) for info in outputs],
            self.constants,
            doc_string=memory,
        )
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        proto.producer_name = "fcnet"
        helper.set_model_props(proto, {METADATA_ENTRY: card_to_json(model.card), "fingerprint": model.fingerprint})
        onnx.checker.check_model(proto, full_check=True)
        return proto


def session(proto: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """A session on one thread of the processor."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
