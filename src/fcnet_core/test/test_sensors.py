"""Errors of sensors: their figures, the same ones from the same seed, for one robot or a batch."""

import numpy as np
import pytest
from msgspec.structs import replace

from fcnet_core.arrays import ArraySpec
from fcnet_core.errors import FcnetError
from fcnet_core.observation import PARTS, SensorErrors
from fcnet_core.observation.sensors import BatchGenerator, sensors_of

SPEC = ArraySpec((70,), parts=PARTS)
PLACES = SPEC.slices()
BOARD = sensors_of("board")


def errors(model="board", batch=None, scale=1.0, seed=0):
    return SensorErrors(sensors_of(model), SPEC, np.random.default_rng(seed), batch, scale)


def measured(steps, period, batch, part):
    """Errors (T, B, size of the part) of true readings of zero."""
    return errors(batch=batch).measure(np.zeros((steps, batch, 70)), period)[..., PLACES[part]]


@pytest.mark.parametrize("part", ["projected_gravity", "angular_velocity"])
@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_a_slow_error_has_its_deviation_its_time_constant_and_its_bound(part, scale):
    sensor = replace(BOARD[part], white=0.0)
    slow = SensorErrors({part: sensor}, SPEC, np.random.default_rng(0), 3000, scale)
    found = slow.measure(np.zeros((12, 3000, 70)), sensor.time_constant / 10)[..., PLACES[part]][..., :2]
    assert np.abs(found).max() <= scale * sensor.bound * (1 + 1e-6)
    assert 0.8 * scale * sensor.drift < found.std() < scale * sensor.drift  # the bound makes it a little smaller
    after = [(found[0] * found[lag]).mean() / found[0].var() for lag in (1, 10)]
    np.testing.assert_allclose(after, np.exp([-0.1, -1.0]), atol=0.09)  # the bound makes it a little faster
    assert abs(found[0].mean()) < 0.05 * scale * sensor.drift  # there from the first reading, in both directions


def test_a_bias_of_the_gyroscope_hardly_changes_in_an_episode():
    found = measured(101, 0.1, 200, "angular_velocity")
    bias = found[:50].mean(axis=0), found[-50:].mean(axis=0)
    assert np.corrcoef(bias[0].ravel(), bias[1].ravel())[0, 1] > 0.4
    assert bias[0].std() > 0.7 * BOARD["angular_velocity"].drift


def test_joint_velocities_are_whole_counts_of_the_encoder_and_as_wrong_as_a_difference_of_two():
    true = np.random.default_rng(1).uniform(-10, 10, (20, 100, 70))
    place, step = PLACES["joint_velocity"], BOARD["joint_velocity"].step
    found = errors(batch=100).measure(true, 0.02)[..., place]
    counts = found / np.float32(step)
    np.testing.assert_allclose(counts, np.rint(counts), atol=1e-3)
    np.testing.assert_allclose((found - true[..., place]).std(), step / np.sqrt(6), rtol=0.05)
    step = 2 * np.pi / 2**14 / 9.1  # of the encoder and its gear
    assert BOARD["joint_position"].step == pytest.approx(step, rel=2e-3)
    assert BOARD["joint_velocity"].step == pytest.approx(step / 0.001, rel=2e-3)
    assert BOARD["joint_velocity"].white == pytest.approx(BOARD["joint_velocity"].step / np.sqrt(12), rel=1e-2)


def test_a_seed_gives_the_same_errors_to_one_robot_to_a_batch_of_one_and_period_by_period():
    true = np.random.default_rng(2).normal(size=(40, 70)).astype(np.float32)
    at_once = errors().measure(true, 0.02)
    alone, batch = errors(), errors(batch=1)
    np.testing.assert_array_equal(at_once, np.concatenate([alone.measure(row[None], 0.02) for row in true]))
    np.testing.assert_array_equal(at_once, batch.measure(true[:, None], 0.02)[:, 0])
    assert at_once.dtype == np.float32 and not np.array_equal(at_once, errors(seed=1).measure(true, 0.02))


def test_all_frames_of_a_history_have_the_same_slow_error():
    parts = dict.fromkeys(("projected_gravity", "last_action", "projected_gravity.2", "last_action.2"), 3)
    spec = ArraySpec((12,), parts=parts)
    figures = {"projected_gravity": replace(BOARD["projected_gravity"], white=0.0)}
    found = SensorErrors(figures, spec, np.random.default_rng(0), 5).measure(np.zeros((3, 5, 12)), 1.0)
    np.testing.assert_array_equal(found[..., :3], found[..., 6:9])
    assert (np.abs(found[..., :2]) > 1e-6).all() and not found[..., [3, 4, 5, 9, 10, 11]].any()


def test_only_the_robots_that_start_again_get_another_bias():
    sensors, zeros, mask = errors(batch=3), np.zeros((1, 3, 70)), np.array([False, True, False])
    before = sensors.measure(zeros, 0.0)[0, :, :2]
    sensors.reset(mask)
    changed = np.abs(sensors.measure(zeros, 0.0)[0, :, :2] - before).max(axis=1) > 10 * BOARD["projected_gravity"].white
    assert changed.tolist() == mask.tolist()


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_the_white_model_is_white_noise_alone(scale):
    clean = np.zeros((20000, 70), dtype=np.float32)
    seen = errors("white", scale=scale).measure(clean, 0.02)
    for part, place in PLACES.items():
        sensor = sensors_of("white").get(part)
        np.testing.assert_allclose(seen.std(axis=0)[place], scale * sensor.white if sensor else 0.0, rtol=0.05)
    assert abs(np.corrcoef(seen[1:, 0], seen[:-1, 0])[0, 1]) < 0.05 and seen.dtype == np.float32


@pytest.mark.parametrize("model", ["board", "white"])
def test_robots_with_scales_of_their_own_have_the_errors_of_one_robot_with_that_scale(model):
    count, share = 150, slice(70, 140)  # over two groups of the generator
    scale = np.broadcast_to(np.linspace(0.5, 2.0, count)[:, None], (count, 70))
    true = np.random.default_rng(5).uniform(-1, 1, (200, count, 70)).astype(np.float32)

    def found(robots):
        rng, seen = BatchGenerator([3, 4], count, robots), true[:, robots]
        return SensorErrors(sensors_of(model), SPEC, rng, len(seen[0]), scale[robots]).measure(seen, 0.5) - seen

    whole, alone = found(slice(0, count)), errors(model, count).measure(true, 0.5) - true
    np.testing.assert_array_equal(whole[:, share], found(share))  # whatever the share
    for part in PLACES.keys() & sensors_of(model):
        one, other = whole[..., PLACES[part]] / scale[..., PLACES[part]], alone[..., PLACES[part]]
        np.testing.assert_allclose(one.std(), other.std(), rtol=0.1)
        np.testing.assert_allclose(np.diff(one, axis=0).std(), np.diff(other, axis=0).std(), rtol=0.1)
    gravity = np.corrcoef(whole[..., 0].T)  # of robots: each has its own errors
    assert np.abs(gravity - np.eye(count)).mean() < 0.3


@pytest.mark.parametrize("model", ["board", "white"])
def test_readings_without_errors_are_the_true_ones(model):
    clean = np.ones((1, 70), dtype=np.float32)
    assert errors(model, scale=0.0).measure(clean, 0.02) is clean


def test_the_vertical_part_of_gravity_does_not_drift_and_what_the_controller_computes_itself_has_no_errors():
    found = errors(batch=50).measure(np.full((50, 50, 70), 0.125), 1.0)
    assert np.abs(found[..., 2] - 0.125).max() < 6 * BOARD["projected_gravity"].white
    for part in ("last_action", "command"):
        assert (found[..., PLACES[part]] == 0.125).all()


def test_a_damaged_file_of_figures_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("fcnet_core.observation.sensors.CONFIG", tmp_path)
    (tmp_path / "sensors.yaml").write_text("board: {joint_velocity: {wite: 1}}")
    sensors_of.cache_clear()
    with pytest.raises(FcnetError, match=r"sensors.yaml.*wite"):
        sensors_of("board")
