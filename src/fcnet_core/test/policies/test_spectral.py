"""The three forms of the spectral convolution are one: published DFT tables, Sliding DFT, causal filter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from golden import read_arrays

from fcnet_core.policies import policy_type
from fcnet_core.policies.fcnet import spectral

DATA = Path(__file__).parents[1] / "data"
SIZES = [(64, 10), (20, 5), (7, 4), (8, 4), (1, 1), (2, 1)]


@pytest.mark.parametrize("name", ["small_a", "legged_a"])
def test_the_tables_are_the_published_ones(name) -> None:
    arrays = read_arrays(DATA / f"{name}.xz")
    table, row = arrays["const/dft_W"][0, :, 0], arrays["const/idft_exps"]
    modes, window = table.shape[0], table.shape[1] - 1
    ours = spectral.phase_table(window, modes)
    np.testing.assert_allclose(np.stack([ours.real, ours.imag], -1), table[:, :window], atol=5e-6)
    ours = spectral.inverse_dft_last(window, modes)
    np.testing.assert_allclose(np.stack([ours.real, ours.imag], -1), row, atol=1e-7)


@pytest.mark.parametrize(("window", "modes"), SIZES)
def test_filter_sliding_dft_and_the_papers_definition_agree(window, modes) -> None:
    rng = np.random.default_rng(window)
    weights, x = rng.standard_normal((modes, modes, 3, 2)), rng.standard_normal((3 * window + 2, 3))
    padded = np.concatenate([np.zeros((window, 3)), x])
    rotation = np.exp(2j * np.pi * np.arange(modes) / window)[:, None]
    folded = spectral.folded_weights(weights, window)
    spectrum, h = np.zeros((modes, 3), dtype=complex), spectral.kernel(folded, window)
    for step in range(len(x)):
        past = padded[step + 1 : step + 1 + window]
        spectrum = rotation * (spectrum + x[step] - padded[step])
        np.testing.assert_allclose(spectrum, np.fft.fft(past, axis=0)[:modes], atol=1e-10)
        mixed = np.einsum("kd,kld->ld", spectrum, weights[..., 0] + 1j * weights[..., 1])
        expected = (spectral.inverse_dft_last(window, modes) @ mixed).real
        np.testing.assert_allclose(np.einsum("kd,kd->d", folded, spectrum).real, expected, atol=1e-10)
        np.testing.assert_allclose(np.einsum("td,td->d", h, past[::-1]), expected, atol=1e-10)


def test_the_inverse_dft_gives_back_the_last_sample_of_a_signal_within_its_modes() -> None:
    window, modes = 20, 5
    time = np.arange(window)
    signal = 0.3 + sum(np.cos(2 * np.pi * k * time / window + k) for k in range(1, modes))
    last = (spectral.inverse_dft_last(window, modes) @ np.fft.fft(signal)[:modes]).real
    assert last == pytest.approx(signal[-1])


@pytest.mark.parametrize("sizes", [{"layers": 0}, {"hidden": -1}, {"window": 2.5}, {"modes": True}, {"modes": 33}])
def test_sizes_that_cannot_be_are_refused(sizes) -> None:
    with pytest.raises(ValueError, match=next(iter(sizes))):
        policy_type("fcnet").config_from(sizes)
