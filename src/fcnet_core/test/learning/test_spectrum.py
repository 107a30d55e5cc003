"""The energy of recorded signals lies in the modes of their frequencies."""

from pathlib import Path

import numpy as np
import pytest

from fcnet_core.arrays import ArraySpec
from fcnet_core.errors import FcnetError
from fcnet_core.learning.dataset import Dataset, DatasetWriter, Manifest
from fcnet_core.learning.spectrum import energy_over_modes, window_starts

PARTS = ArraySpec((3,), "float32", {"sine": 1, "noise": 1, "constant": 1})


@pytest.fixture
def data(tmp_path: Path) -> Dataset:
    """Two sequences: a sine of three periods in 16 steps, noise, and a constant."""
    steps, rng = np.arange(64), np.random.default_rng(0)
    seen = np.zeros((2, 64, 3), dtype=np.float32)
    seen[..., 0] = 5 + np.sin(2 * np.pi * 3 * steps / 16)
    seen[..., 1] = 1e-3 * rng.standard_normal((2, 64))
    seen[..., 2] = 7
    manifest = Manifest("task", 50.0, {}, (), {"seen": PARTS, "action": ArraySpec((1,), "float32")})
    first = np.zeros((2, 64), dtype=bool)
    DatasetWriter(tmp_path / "data", manifest).add({}, seen=seen, action=seen[..., :1], first=first)
    return Dataset(tmp_path / "data")


def test_a_sine_has_its_energy_in_its_own_mode_and_a_constant_is_left_out(data) -> None:
    energy = energy_over_modes(data, 16)
    assert set(energy) == {"sine", "noise", "action"}
    for group in ("sine", "action"):
        density = energy[group].sum(0) / energy[group].sum()
        np.testing.assert_allclose(density, np.eye(9)[3], atol=1e-6)


@pytest.mark.parametrize("window", [15, 16])
def test_all_modes_together_have_the_energy_of_the_window(data, window) -> None:
    energy = energy_over_modes(data, window)["noise"]
    noise = data.shards[0].arrays["seen"][..., 1].astype(np.float64)
    seen = ((noise - noise.mean()) / noise.std())[:, : 64 // window * window].reshape(-1, window)
    np.testing.assert_allclose(energy.sum(1) / window, np.square(seen).sum(1), rtol=1e-6)


def test_windows_lie_within_episodes() -> None:
    first = np.zeros((2, 10), dtype=bool)
    first[0, 3] = first[1, 0] = True
    assert list(window_starts(first, 3)) == [(0, 0), (0, 3), (0, 6), (1, 0), (1, 3), (1, 6)]
    assert list(window_starts(first, 8)) == [(1, 0)]


def test_an_episode_shorter_than_a_window_is_an_error(data) -> None:
    with pytest.raises(FcnetError, match="65"):
        energy_over_modes(data, 65)
