"""An exported step is checked where it is made, and its ONNX file is described by its names alone."""

import json
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
from policy_forms import noise, untrained

from fcnet_core.cli import main
from fcnet_core.errors import FcnetError
from fcnet_core.model_file import METADATA_ENTRY, load_model, save_model
from fcnet_core.policies import export
from fcnet_core.policies.exported_step import NEXT, packed, unpacked
from fcnet_core.policies.fcnet import FCNetConfig
from fcnet_core.policies.mlp import MLPConfig
from fcnet_core.policy import load_policy

SIZES = MLPConfig(observation=5, action=2, window=3, hidden=(8,))
RECURRENT = FCNetConfig(observation=5, action=2, layers=2, modes=3, hidden=8, decoder_hidden=4, window=6)


@pytest.mark.parametrize("config", [SIZES, RECURRENT], ids=["mlp", "fcnet"])
def test_a_foreign_caller_of_the_onnx_file_gets_the_policy(config, tmp_path, capsys) -> None:
    """Any number of robots, of which one is reset by zeroing its memory."""
    model, file = untrained(config, export=False), tmp_path / "new" / "step.onnx"
    save_model(model, tmp_path / "old.safetensors")
    assert main(["export", str(tmp_path / "old.safetensors"), "--onnx", str(file), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["fingerprint"] == model.fingerprint
    proto = onnx.load(file)
    onnx.checker.check_model(proto, full_check=True)
    metadata = {entry.key: entry.value for entry in proto.metadata_props}
    assert json.loads(metadata[METADATA_ENTRY])["interface"]["joints"] == list(model.card.interface.joints)
    assert metadata["fingerprint"] == model.fingerprint
    assert {opset.domain for opset in proto.opset_import} == {""}
    session = onnxruntime.InferenceSession(str(file))
    inputs = {entry.name: entry for entry in session.get_inputs()}
    assert all(name in proto.graph.doc_string for name in inputs)
    memory = {}
    for name, entry in inputs.items():
        if name != "observation":
            dtype = np.float64 if "double" in entry.type else np.float32
            memory[name] = np.zeros([3 if isinstance(size, str) else size for size in entry.shape], dtype)
    reference = load_policy(replace(model, step=export.exported_step(config)), "onnx", batch=3)
    for step, seen in enumerate(noise(model, 30, 3)):
        if step % 17 == 8:
            reference.reset(np.array([False, True, False]))
            for array in memory.values():
                array[(slice(None),) * (array.shape[0] != 3) + (1,)] = 0
        action, *written = session.run(["action", *(NEXT + name for name in memory)], {"observation": seen, **memory})
        for name, array in zip(memory, written, strict=True):
            ring = array.ndim < memory[name].ndim
            memory[name] = np.concatenate([memory[name][1:], array[None]]) if ring else array.copy()
        np.testing.assert_allclose(action, reference.step(seen), atol=2e-6, rtol=0)


def test_a_file_of_format_1_is_converted_with_its_fingerprint(tmp_path) -> None:
    old, new = tmp_path / "old.safetensors", tmp_path / "new.safetensors"
    model = untrained(SIZES, export=False)
    save_model(model, old)
    assert main(["export", str(old), "--format", "2", "-o", str(new)]) == 0
    converted = load_model(new)
    assert (converted.card.format_version, converted.fingerprint) == (2, model.fingerprint)
    assert load_policy(new).step(np.zeros(5)).shape == (2,)


def test_a_graph_that_computes_other_actions_than_the_network_is_refused(monkeypatch) -> None:
    def wrong(*arguments) -> bytes:
        proto = onnx.load_model_from_string(right(*arguments))
        next(node for node in proto.graph.node if node.op_type == "Add").op_type = "Sub"
        return proto.SerializeToString()

    right = export._graph
    monkeypatch.setattr(export, "_graph", wrong)
    with pytest.raises(FcnetError, match="differs from its network"):
        export._exported(SIZES)


@pytest.mark.parametrize("damage", [b"", b"nothing", None])
def test_a_damaged_step_is_an_error(damage) -> None:
    model = untrained(SIZES)
    step = model.step[: len(model.step) // 2] if damage is None else damage
    with pytest.raises(FcnetError, match="export"):
        load_policy(replace(model, step=step), "onnx")


@pytest.mark.parametrize(
    "change",
    [
        lambda graph: setattr(graph.output[0], "name", "actions"),
        lambda graph: setattr(graph.input[1].type.tensor_type.shape.dim[0], "dim_value", 2**40),
        lambda graph: setattr(graph.input[1].type.tensor_type.shape.dim[2], "dim_param", "any"),
        lambda graph: setattr(graph.input[1].type.tensor_type, "elem_type", onnx.TensorProto.FLOAT16),
        lambda graph: setattr(graph.input[0].type.tensor_type.shape.dim[1], "dim_value", 6),
    ],
    ids=["unknown output", "memory too large", "memory without size", "unknown type", "another observation"],
)
def test_a_step_with_other_inputs_or_outputs_is_an_error(change) -> None:
    model = untrained(SIZES)
    proto = onnx.load_model_from_string(unpacked(model.step)[0])
    change(proto.graph)
    with pytest.raises(FcnetError, match="step"):
        load_policy(replace(model, step=packed(proto.SerializeToString())), "onnx")
