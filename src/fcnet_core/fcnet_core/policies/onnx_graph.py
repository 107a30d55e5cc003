"""ONNX graphs of one policy step: a builder for architectures, and the runtime that runs them on one thread.

A graph is made of standard operators (opset 20) without torch, for any number of robots. It takes raw observations,
returns actions, and leaves its memory to its caller; its documentation string says how. The model's card is in the
metadata entry `fcnet`.
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

from fcnet_core.arrays import Floats, Mask, Observation, Single
from fcnet_core.model_file import METADATA_ENTRY, PolicyModel, card_to_json
from fcnet_core.policies import policy_type

OPSET = 20
IR_VERSION = 9  # the oldest that knows opset 20, so that older runtimes read the file
Shape = list[int | str]  # with "batch" where the robots are


@dataclass(frozen=True)
class Memory:
    """An array that the caller keeps: it gives `name` what was returned as `result` `delay` steps before."""

    name: str
    result: str
    shape: Shape
    dtype: np.dtype[Any]
    delay: int

    def zeros(self) -> npt.NDArray[Any]:
        """What one robot begins with."""
        return np.zeros([1 if isinstance(size, str) else size for size in self.shape], self.dtype)


class GraphBuilder:
    """Collects nodes, constants and memory; most methods return the name of the value that they add."""

    SINGLE, DOUBLE = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE  # types to cast to

    def __init__(self, model: PolicyModel) -> None:
        self.memories: list[Memory] = []
        self._model = model
        self._inputs: list[onnx.ValueInfoProto] = []
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def constant(self, array: npt.NDArray[Any]) -> str:
        """A constant of the array's own type."""
        name = f"constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def add(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """One operator."""
        name = output or f"value_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def split(self, value: str, parts: int) -> list[str]:
        """The value's slices along its first axis, which stays, of size 1."""
        names = [f"{value}_{part}" for part in range(parts)]
        self._nodes.append(helper.make_node("Split", [value], names, axis=0, num_outputs=parts))
        return names

    def linear(self, x: str, weight: Floats, bias: Floats) -> str:
        """X (B, inputs) times weight (outputs, inputs), plus bias."""
        return self.add("Gemm", x, self.constant(weight), self.constant(bias), transB=1)

    def layer_norm(self, x: str, weight: Floats, bias: Floats) -> str:
        """LayerNormalization over the last axis."""
        return self.add("LayerNormalization", x, self.constant(weight), self.constant(bias), axis=-1, epsilon=1e-5)

    def observation(self, name: str = "observation") -> str:
        """The array `name` of the observation as the network sees it, see normalisation.py."""
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
        """An input that the caller fills with what the step `delay` steps before returned as `result`, by default
        next_NAME; zeros at first. Give that by `keep`.
        """
        self.memories.append(Memory(name, result or f"next_{name}", shape, np.dtype(dtype), delay))
        return name

    def keep(self, name: str, value: str) -> str:
        """Return `value` to the caller for the memory `name`."""
        result = next(memory.result for memory in self.memories if memory.name == name)
        return self.add("Identity", value, output=result)

    def finish(self, output: str) -> onnx.ModelProto:
        """The whole graph, checked by ONNX, with the action of the network's output."""
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
        """What a caller does with inputs and outputs."""
        lines = ["Takes the raw observation and its memory, returns `action` and the memory of later steps."]
        lines += [
            f"input {m.name}: what was returned as {m.result} {m.delay} {'step' if m.delay == 1 else 'steps'} before, "
            "zeros in the first"
            for m in self.memories
        ]
        lines += ["A card with window policy reset_every_n asks the caller to set all memory to zero before every n-th"]
        return "\n".join([*lines, "step after the last reset."])


def _value(name: str, shape: Shape, dtype: np.dtype[Any]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape)


def onnx_graph(model: PolicyModel) -> tuple[onnx.ModelProto, list[Memory]]:
    """One step of the model as a graph, and the memory that its caller keeps."""
    kind, builder = policy_type(model.card.policy_type), GraphBuilder(model)
    return builder.finish(kind.part(kind.onnx)(builder, model)), builder.memories


class OnnxStep:
    """A Runtime of one robot on one CPU thread of ONNX Runtime."""

    def __init__(self, model: PolicyModel) -> None:
        proto, self._memories = onnx_graph(model)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        content = proto.SerializeToString()
        self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        self._outputs = ["action", *(memory.result for memory in self._memories)]
        self.reset()

    def reset(self, mask: Mask | None = None) -> None:
        """See Runtime."""
        self._count = 0
        self._kept = [[memory.zeros()] * memory.delay for memory in self._memories]

    def step(self, observation: Observation) -> Single:
        """See Runtime."""
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
