"""The exported graph is described by its names alone: a caller who keeps its memory gets the policy."""

from __future__ import annotations

import json

import numpy as np
import onnxruntime
import pytest

from fcnet_core.model_file import METADATA_ENTRY
from fcnet_core.policies.onnx_graph import OPSET, onnx_graph
from fcnet_core.policy import load_policy

INPUTS = ("observation", "oldest", "spectrum_real", "spectrum_imaginary")
OUTPUTS = ("action", "newest", "next_spectrum_real", "next_spectrum_imaginary")


@pytest.mark.parametrize("batch", [1, 4])
def test_a_foreign_caller_runs_any_number_of_robots(small, batch) -> None:
    session = onnxruntime.InferenceSession(onnx_graph(small.model)[0].SerializeToString())
    shape = small.model.card.config
    reference = load_policy(small.model, batch=batch)
    rows = [np.zeros((shape.layers, batch, shape.hidden), dtype=np.float32)] * shape.window
    spectra = [np.zeros((shape.layers, batch, shape.modes, shape.hidden))] * 2
    for observation in np.random.default_rng(5).standard_normal((50, batch, shape.observation)).astype(np.float32):
        inputs = dict(zip(INPUTS, [observation, rows.pop(0), *spectra], strict=True))
        action, newest, *spectra = session.run(OUTPUTS, inputs)
        rows.append(newest)
        np.testing.assert_allclose(action, reference.step(observation), atol=2e-6, rtol=0)


def test_the_file_carries_the_card_and_standard_operators_alone(small) -> None:
    proto, _ = onnx_graph(small.model)
    metadata = {entry.key: entry.value for entry in proto.metadata_props}
    assert json.loads(metadata[METADATA_ENTRY])["joint_names"] == list(small.model.card.joint_names)
    assert metadata["fingerprint"] == small.model.fingerprint
    assert [(opset.domain, opset.version) for opset in proto.opset_import] == [("", OPSET)]
