"""Compiled products of matrices and vectors of any size are NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from fcnet_core.policies.compiled_layers import linear, stored


@pytest.mark.parametrize("half", [False, True], ids=["float32", "fp16"])
@pytest.mark.parametrize(("outputs", "inputs"), [(1, 1), (12, 128), (16, 3), (127, 70), (128, 5), (300, 64)])
def test_a_linear_layer_is_that_of_numpy_and_writes_nothing_else(outputs: int, inputs: int, half: bool) -> None:
    random = np.random.default_rng(outputs)
    weight, bias, x = (
        random.standard_normal(shape).astype(np.float32) for shape in ((2, outputs, inputs), outputs, inputs)
    )
    space = np.full(outputs + 16, np.nan, dtype=np.float32)
    matrices = stored(weight, half)
    for layer in range(2):
        linear(x, matrices[layer], bias, space[:outputs])
        rounded = weight[layer].astype(np.float16 if half else np.float32).astype(float)
        np.testing.assert_allclose(space[:outputs], rounded @ x + bias, atol=1e-4, rtol=1e-5)
        assert np.isnan(space[outputs:]).all()
