"""A policy's step as an ONNX file for other programs; needs onnx, not torch."""

from __future__ import annotations

import onnx
from onnx import helper, numpy_helper

from fcnet_core.model_file import PolicyModel
from fcnet_core.policies.exported_step import NEXT, bound_arrays, unpacked


def standalone_graph(model: PolicyModel, metadata: dict[str, str]) -> bytes:
    """Return the step of a model as an ONNX file for other programs: with its weights, documentation and metadata."""
    proto = onnx.load_model_from_string(unpacked(model.step)[0])
    arrays = bound_arrays(model)
    for tensor in proto.graph.initializer:
        if tensor.name in arrays:
            tensor.CopyFrom(numpy_helper.from_array(arrays[tensor.name], tensor.name))
    observed = model.card.config.observation_spec
    lines = ["Takes the raw observation and the memory; returns `action` and what is written to the memory."]
    for value in proto.graph.input:
        if value.name in observed:
            continue
        rows = value.type.tensor_type.shape.dim[0].dim_value
        lines.append(
            f"input {value.name}: the {rows} last outputs {NEXT}{value.name}, oldest first; zeros after a reset"
            if rows
            else f"input {value.name}: the output {NEXT}{value.name} of the step before; zeros after a reset"
        )
    lines.append("With the window policy reset_every_n, set all memory to zero after every n steps.")
    proto.graph.doc_string = "\n".join(lines)
    proto.producer_name = "fcnet"
    helper.set_model_props(proto, metadata)
    onnx.checker.check_model(proto, full_check=True)
    content: bytes = proto.SerializeToString()
    return content
