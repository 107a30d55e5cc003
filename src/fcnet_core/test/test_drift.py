"""The float64 Sliding DFT does not drift: 100,000 steps are half an hour at 50 Hz."""

from __future__ import annotations

import numpy as np

from fcnet_core.policies.fcnet.numba_step import NumbaStep

STEPS = 100_000


def test_the_sliding_dft_equals_the_filter_without_memory_after_half_an_hour(small) -> None:
    sliding, stateless = NumbaStep(small.model, "sdft"), NumbaStep(small.model, "fir")
    rng = np.random.default_rng(11)
    for _ in range(STEPS // 1000):
        for observation in rng.standard_normal((1000, 11)).astype(np.float32):
            difference = np.abs(sliding.step(observation) - stateless.step(observation)).max()
    assert difference < 1e-6
    shape = small.model.card.config
    oldest_first = np.roll(sliding.memory.inputs, -(STEPS % shape.window), axis=1).astype(np.float64)
    exact = np.fft.fft(oldest_first, axis=1)[:, : shape.modes]
    state = sliding.memory.spectrum[:, 0] + 1j * sliding.memory.spectrum[:, 1]
    assert np.abs(state - exact).max() < 1e-9
