"""ONNX graphs of one policy step: a builder for architectures, and a single-threaded runtime.

A graph has standard operators (opset 20), for any number of robots; building it needs no torch. It takes raw
observations and returns actions. Its caller keeps the memory, as the graph's documentation string describes. The
metadata entry `fcnet` has the model's card.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from fcnet_core import counted
from fcnet_core.arrays import Floats, Mask, Observation, Single
from fcnet_core.model_file import METADATA_ENTRY, PolicyModel, card_to_json
from fcnet_core.policies import policy_type

OPSET = 20
IR_VERSION = 9  # the oldest with opset 20, so that older runtimes read the file
Shape = list[int | str]  # "batch": the axis of robots


@dataclass(frozen=True)
class Memory:
    """An array that the caller keeps: input `name` is the output `result` of `delay` steps before."""

    name: str
    result: str
    shape: Shape
    dtype: np.dtype[Any]
    delay: int

    def zeros(self) -> npt.NDArray[Any]:
        """Return the memory of one robot after a reset."""
        return np.zeros([1 if isinstance(size, str) else size for size in self.shape], self.dtype)


class GraphBuilder:
    """Collects nodes, constants and memory. Methods return the name of the value that they add, unless noted."""

    SINGLE, DOUBLE = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE  # types to cast to

    def __init__(self, model: PolicyModel) -> None:
        self.memories: list[Memory] = []
        self._model = model
        self._inputs: list[onnx.ValueInfoProto] = []
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def constant(self, array: npt.NDArray[Any]) -> str:
        """Add a constant of the array's type."""
        name = f"constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def add(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add an operator."""
        name = output or f"value_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def split(self, value: str, parts: int) -> list[str]:
        """Split a value along its first axis into `parts`, each with a first axis of size 1."""
        names = [f"{value}_{part}" for part in range(parts)]
        self._nodes.append(helper.make_node("Split", [value], names, axis=0, num_outputs=parts))
        return names

    def linear(self, x: str, weight: Floats, bias: Floats) -> str:
        """Multiply x (B, inputs) by weight (outputs, inputs) and add bias."""
        return self.add("Gemm", x, self.constant(weight), self.constant(bias), transB=1)

    def layer_norm(self, x: str, weight: Floats, bias: Floats) -> str:
        """Add a LayerNormalization over the last axis."""
        return self.add("LayerNormalization", x, self.constant(weight), self.constant(bias), axis=-1, epsilon=1e-5)

    def observation(self, name: str = "observation") -> str:
        """Add the array `name` of the observation, normalised (normalisation.py)."""
        spec, scales = self._model.card.config.observation_spec[name], self._model.scales
        self._inputs.append(_value(name, ["batch", *spec.shape], np.dtype(spec.dtype)))
        if f"{name}_mean" not in scales:
            return name
        clip = np.float32(self._model.card.observation_clip)
        centred = self.add("Sub", name, self.constant(scales[f"{name}_mean"]))
        scaled = self.add("Div", centred, self.constant(scales[f"{name}_std"]))
        return self.add("Clip", scaled, self.constant(np.array(-clip)), self.constant(np.array(clip)))

    def memory(
        self, name: str, shape: Shape, dtype: npt.DTypeLike = np.float32, delay: int = 1, result: str = ""
    ) -> str:
        """Add an input that the caller sets to the output `result` (default: next_NAME) of `delay` steps before.

        It is zero after a reset; `keep` sets the output.
        """
        self.memories.append(Memory(name, result or f"next_{name}", shape, np.dtype(dtype), delay))
        return name

    def keep(self, name: str, value: str) -> str:
        """Make `value` the output for the memory `name`."""
        result = next(memory.result for memory in self.memories if memory.name == name)
        return self.add("Identity", value, output=result)

    def finish(self, output: str) -> onnx.ModelProto:
        """Return the whole graph, checked by ONNX. output: the network's output."""
        model, scales = self._model, self._model.scales
        scaled = self.add("Mul", output, self.constant(scales["action_scale"]))
        self.add("Add", scaled, self.constant(scales["action_mean"]), output="action")
        action = _value("action", ["batch", model.card.config.action], np.dtype(np.float32))
        graph = helper.make_graph(
            self._nodes,
            f"{model.card.policy_type}_step",
            self._inputs + [_value(memory.name, memory.shape, memory.dtype) for memory in self.memories],
            [action] + [_value(memory.result, memory.shape, memory.dtype) for memory in self.memories],
            self._constants,
            doc_string=self._description(),
        )
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        proto.producer_name = "fcnet"
        helper.set_model_props(proto, {METADATA_ENTRY: card_to_json(model.card), "fingerprint": model.fingerprint})
        onnx.checker.check_model(proto, full_check=True)
        return proto

    def _description(self) -> str:
        """Describe inputs and outputs for callers."""
        lines = ["Takes the raw observation and the memory; returns `action` and the memory for later steps."]
        lines += [
            f"input {m.name}: the output {m.result} of {counted(m.delay, 'step')} before; zeros after a reset"
            for m in self.memories
        ]
        lines += ["With the window policy reset_every_n, set all memory to zero after every n steps."]
        return "\n".join(lines)


def _value(name: str, shape: Shape, dtype: np.dtype[Any]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape)


def onnx_graph(model: PolicyModel) -> tuple[onnx.ModelProto, list[Memory]]:
    """Return one step of the model as a graph, and the memory that its caller keeps."""
    kind, builder = policy_type(model.card.policy_type), GraphBuilder(model)
    return builder.finish(kind.part(kind.onnx)(builder, model)), builder.memories


class OnnxStep:
    """Runtime of one robot on one CPU thread of ONNX Runtime."""

    def __init__(self, model: PolicyModel) -> None:
        proto, self._memories = onnx_graph(model)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        content = proto.SerializeToString()
        self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        self._outputs = ["action", *(memory.result for memory in self._memories)]
        self.reset()

    def reset(self, mask: Mask | None = None) -> None:
        self._count = 0
        self._kept = [[memory.zeros()] * memory.delay for memory in self._memories]

    def step(self, observation: Observation) -> Single:
        arrays = observation if isinstance(observation, Mapping) else {"observation": observation}
        feed = {name: array[None] for name, array in arrays.items()}
        places = [self._count % memory.delay for memory in self._memories]
        for memory, kept, place in zip(self._memories, self._kept, places, strict=True):
            feed[memory.name] = kept[place]
        action, *results = self._session.run(self._outputs, feed)
        for kept, place, result in zip(self._kept, places, results, strict=True):
            kept[place] = result
        self._count += 1
        only_robot: Single = action[0]
        return only_robot
