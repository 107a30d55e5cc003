"""Crops are drawn as promised and read from disk without loading it whole."""

from pathlib import Path

import numpy as np
import pytest

from fcnet_core.errors import FcnetError
from fcnet_core.learning.dataset import Dataset, DatasetWriter, velocity_manifest
from fcnet_core.learning.sampler import CropSampler
from fcnet_core.robot import load_robot


def numbered_data(folder: Path, sequences: int = 10, steps: int = 60, episode: int = 20, origin: int = 0) -> Path:
    """Every observation holds (sequence, step, is first), so that a crop shows where it comes from."""
    first = np.zeros((sequences, steps), dtype=bool)
    first[:, ::episode] = True
    observation = np.zeros((sequences, steps, 70))
    observation[..., 0] = origin + np.arange(sequences)[:, None]
    observation[..., 1] = np.arange(steps)
    observation[..., 2] = first
    writer = DatasetWriter(folder, velocity_manifest(load_robot("aliengo"), 50.0))
    writer.write_shard(0, {}, observation=observation, action=np.zeros((sequences, steps, 12)), first=first)
    return folder


def sampler(data: Dataset, **settings: object) -> CropSampler:
    defaults = {"weights": [1.0] * len(data.folders), "length": 15, "held_out_share": 0.2, "episode_start_share": 0.0}
    return CropSampler(data, ("observation", "action"), **{**defaults, "seed": 0, **settings})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return Dataset(numbered_data(tmp_path_factory.mktemp("data")))


def test_steps_after_an_episode_reset_inside_a_crop_do_not_count(data: Dataset) -> None:
    batch = sampler(data).draw(np.random.default_rng(0), 200)
    step, first = batch.arrays["observation"][..., 1], batch.arrays["observation"][..., 2] == 1
    assert (np.diff(step, axis=1) == 1).all()
    for row in range(200):
        resets = [index for index in np.flatnonzero(first[row]) if index > 0]
        end = resets[0] if resets else 15
        np.testing.assert_array_equal(batch.valid[row], np.arange(15) < end)
    assert 0 < batch.valid.mean() < 1


def held_out_numbers(crops: CropSampler) -> set[float]:
    return {number for batch in crops.held_out(300, 10, seed=0) for number in batch.arrays["observation"][:, 0, 0]}


def test_every_step_is_reached_but_held_out_sequences_are_never_trained_on(data: Dataset) -> None:
    crops = sampler(data)
    seen = crops.draw(np.random.default_rng(0), 3000).arrays["observation"]
    trained, held_out = set(seen[:, 0, 0]), held_out_numbers(crops)
    assert len(trained) == 8 and len(held_out) == 2 and not trained & held_out
    assert (crops.training_steps, crops.held_out_steps) == (480, 120)
    assert set(seen[..., 1].ravel()) == set(range(60))
    once, again = ([b.arrays["observation"] for b in crops.held_out(20, 10, seed=3)] for _ in range(2))
    np.testing.assert_array_equal(once, again)  # validation sees the same crops every time


def test_without_held_out_or_long_sequences_there_is_nothing_to_validate_or_train_on(data: Dataset) -> None:
    assert list(sampler(data, held_out_share=0.0).held_out(10, 5, seed=0)) == []
    with pytest.raises(FcnetError, match="61"):
        sampler(data, length=61)


def test_further_folders_leave_held_out_what_was_held_out(tmp_path: Path) -> None:
    first, second = numbered_data(tmp_path / "a"), numbered_data(tmp_path / "b", sequences=15, origin=100)
    alone, together = (held_out_numbers(sampler(Dataset(folders))) for folders in ([first], [first, second]))
    assert {number for number in together if number < 100} == alone and len(alone) == 2 and len(together) == 5


def test_of_folders_with_one_sequence_each_a_share_is_held_out(tmp_path: Path) -> None:
    folders = [numbered_data(tmp_path / str(number), sequences=1, origin=number) for number in range(10)]
    crops = sampler(Dataset(folders))
    assert len(held_out_numbers(crops)) == 2 and crops.training_steps == 480


def test_the_wanted_share_of_crops_begins_where_an_episode_begins(tmp_path: Path) -> None:
    crops = sampler(Dataset(numbered_data(tmp_path, steps=200, episode=200)), episode_start_share=0.3)
    starts = crops.draw(np.random.default_rng(0), 4000).arrays["observation"][:, 0, 2]
    assert 0.28 < starts.mean() < 0.33


def test_a_folder_of_weight_three_is_drawn_three_times_as_often(tmp_path: Path) -> None:
    data = Dataset([numbered_data(tmp_path / "a"), numbered_data(tmp_path / "b", origin=100)])
    batch = sampler(data, weights=[1.0, 3.0], held_out_share=0.0).draw(np.random.default_rng(0), 4000)
    assert 0.72 < (batch.arrays["observation"][:, 0, 0] >= 100).mean() < 0.78
