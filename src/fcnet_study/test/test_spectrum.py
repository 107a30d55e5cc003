"""The energy of signals is found in the modes where it is, of data and of bags."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fcnet_core.arrays import ArraySpec
from fcnet_core.cli import main
from fcnet_core.errors import StudyError
from fcnet_core.learning.dataset import Dataset, DatasetWriter, Manifest
from fcnet_study.spectrum import spectrum_of, spectrum_of_data, window_starts

BAG = Path(__file__).resolve().parents[3] / "docs" / "examples" / "aliengo_walk"
PARTS = ArraySpec((3,), "float32", {"sine": 1, "noise": 1, "constant": 1})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two sequences: a sine of three periods in 16 steps, noise, and a constant."""
    steps, rng = np.arange(64), np.random.default_rng(0)
    seen = np.zeros((2, 64, 3), dtype=np.float32)
    seen[..., 0] = 5 + np.sin(2 * np.pi * 3 * steps / 16)
    seen[..., 1] = 1e-3 * rng.standard_normal((2, 64))
    seen[..., 2] = 7
    manifest = Manifest("task", 50.0, {}, (), {"seen": PARTS, "action": ArraySpec((1,), "float32")})
    first = np.zeros((2, 64), dtype=bool)
    DatasetWriter(tmp_path / "data", manifest).add({}, seen=seen, action=seen[..., :1], first=first)
    return tmp_path / "data"


def test_a_sine_has_its_energy_in_its_own_mode(data) -> None:
    spectrum = spectrum_of_data(Dataset(data), 16)
    expected = np.zeros(9)
    expected[3] = 1.0
    np.testing.assert_allclose(spectrum.density("sine"), expected, atol=1e-6)
    np.testing.assert_allclose(spectrum.density("action"), expected, atol=1e-6)
    assert spectrum.report(data, 3).rows["sine"][1] == "0.0"
    assert spectrum.report(data, 4).rows["sine"][1] == "100.0"


@pytest.mark.parametrize("window", [15, 16])
def test_all_modes_together_have_the_energy_of_the_window(data, window) -> None:
    energy = spectrum_of_data(Dataset(data), window).energy["noise"]
    noise = Dataset(data).shards[0].arrays["seen"][..., 1].astype(np.float64)
    seen = ((noise - noise.mean()) / noise.std())[:, : 64 // window * window].reshape(-1, window)
    np.testing.assert_allclose(energy.sum(1) / window, np.square(seen).sum(1), rtol=1e-6)


def test_what_does_not_vary_has_no_row(data) -> None:
    assert set(spectrum_of_data(Dataset(data), 16).energy) == {"sine", "noise", "action"}


def test_windows_lie_within_episodes() -> None:
    first = np.zeros((2, 10), dtype=bool)
    first[0, 3] = first[1, 0] = True
    assert list(window_starts(first, 3)) == [(0, 0), (0, 3), (0, 6), (1, 0), (1, 3), (1, 6)]
    assert list(window_starts(first, 8)) == [(1, 0)]


def test_a_bag_has_the_spectrum_of_its_walking_sections(tmp_path, capsys) -> None:
    main(["dataset", "from-bag", str(BAG), "-o", str(tmp_path / "data")])
    expected = spectrum_of(tmp_path / "data", 64).density("joint_velocity")
    figure, table = tmp_path / "spectrum.png", tmp_path / "spectrum.json"
    assert main(["spectrum", str(BAG), "--json", str(table), "--figure", str(figure)]) == 0
    np.testing.assert_array_equal(spectrum_of(BAG, 64).density("joint_velocity"), expected)
    assert json.loads(table.read_text())["rows"]["joint velocity"][1] == f"{100 * expected[:10].sum():.1f}"
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert "joint velocity" in capsys.readouterr().out


def test_an_episode_shorter_than_a_window_is_refused(data) -> None:
    with pytest.raises(StudyError, match="no recorded episode is as long as a window of 65 steps"):
        spectrum_of(data, 65)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["missing"], "there is no data folder and no bag missing"),
        ([str(BAG.parent)], "holds no bag"),
        ([str(BAG), "--window", "8", "--modes", "5"], "a window of 8 steps has at most 4 modes"),
    ],
)
def test_what_has_no_spectrum_is_refused_in_a_sentence(arguments, sentence, capsys) -> None:
    assert main(["spectrum", *arguments]) == 2
    assert sentence in capsys.readouterr().err
