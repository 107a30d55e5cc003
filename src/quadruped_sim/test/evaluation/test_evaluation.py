"""Closed-loop measurements: what counts as a fall, how errors are averaged, and that nothing but the seed decides."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec import structs

from fcnet_core.robot import SETPOINT_FIELDS
from quadruped_sim.evaluation.gait_quality import no_sums
from quadruped_sim.evaluation.scenarios import Limits, scenarios
from quadruped_sim.evaluation.score import join, score_of, shortfalls, wilson_upper
from quadruped_sim.evaluation.trial import BATCH, EpisodeRecorder, Trial, trials
from quadruped_sim.physics.simulation import BodyState
from quadruped_sim.physics.terrain import Flat, Slope
from quadruped_sim.tasks.setpoints import SetpointSource
from quadruped_sim.tasks.view import View


@pytest.fixture(scope="module")
def known(aliengo):
    return {name: replace(scenario, seconds=3.0) for name, scenario in scenarios(aliengo).items()}


NO_GAIT = no_sums(2)
STOOD = np.zeros(2, dtype=bool)


def _view(robot, terrain, position=(0, 0, 0.36), velocity=(0, 0, 0), yaw=0.0, yaw_rate=0.0, setpoint=None):
    """A control period of two robots that do the same."""
    turned, none = [0.0, 0.0, np.sin(yaw / 2), np.cos(yaw / 2)], np.zeros(12)
    places = (position, turned, velocity, [0.0, 0.0, yaw_rate], none, none, np.ones(4, dtype=bool))
    state = BodyState(*(np.tile(values, (2, 1)).astype(float) for values in places))
    asked = np.zeros((2, 9)) if setpoint is None else setpoint
    return View(SimpleNamespace(robot=robot, terrain=terrain), state, asked, *[None] * 6)


def test_the_table_of_tests_is_complete(robot):
    found = scenarios(robot)
    for scenario in found.values():
        scenario.build_terrain(0)
        for name, values in scenario.commands.always.items():
            limits = robot.commands[name]
            assert limits.lowest <= min(values) and max(values) <= limits.highest, (scenario.name, name)
    assert found["flat"].limits == Limits(0.0, (0.04, 0.03, 0.04))
    assert found["run_2.0"].limits.touchdowns == 1.15 and found["run_2.0"].limits.saturation == 0.1
    rare = {"aliengo": 3, "a1": 6}[robot.name]
    allowed = {"flat": 0, "course": 0, "delay_20ms": 3, "pushes_2.0": 30, "kick_1.5": 3}
    allowed |= {"stairs_10cm_up": rare, "friction_0.35": rare}
    assert {name: round(found[name].limits.falls * 300) for name in allowed} == allowed
    assert found["rough_4cm"].build_terrain(0) != found["rough_4cm"].build_terrain(1)


def test_episodes_are_cut_into_batches(known):
    sizes = [trial.size for trial in trials("aliengo", known["flat"], 2 * BATCH + 7, seed=0)]
    assert sizes == [BATCH, BATCH, 7]
    assert [trial.size for trial in trials("aliengo", known["endurance"], 30, seed=0)] == [10]
    minutes = replace(known["flat"], seconds=300.0, share=1 / 15)
    assert [trial.size for trial in trials("aliengo", minutes, 300, seed=0)] == [10, 10]


def test_the_expert_does_not_fall_and_gets_most_of_the_reward(known):
    score = score_of(known["flat"], Trial("aliengo", known["flat"], 0, 0, 6).run())
    assert score.falls == 0 and score.episodes == 6
    assert max(score.velocity) < 0.2
    assert 0.8 * 1.5 * 3.0 < score.mean_return < 1.5 * 3.0


def test_a_trial_repeats_itself_and_another_seed_or_batch_does_not(known):
    def outcome(seed: int, number: int) -> np.ndarray:
        return Trial("aliengo", replace(known["rough_4cm"], seconds=1.5), seed, number, 2).run().absolute

    assert np.array_equal(outcome(0, 0), outcome(0, 0))
    assert not np.array_equal(outcome(0, 0), outcome(1, 0))
    assert not np.array_equal(outcome(0, 0), outcome(0, 1))


def test_a_policy_that_lets_the_robot_down_falls_and_stays_out(known, aliengo, standing_policy):
    scales = standing_policy.scales | {"action_mean": aliengo.lie_pose.astype(np.float32)}
    folded = replace(standing_policy, scales=scales)
    episodes = Trial("aliengo", known["flat"], 0, 0, 3, folded).run()
    assert episodes.fell.all()
    assert (episodes.returned < 0.8 * 1.5 * 3.0).all()
    assert (episodes.strides < 3.0 / 0.02 / 2).all()


def test_velocity_is_taken_in_the_heading_frame_and_averaged_over_a_stride(aliengo):
    recorder, upright = EpisodeRecorder(aliengo, 2, 0.02), np.ones(2, dtype=bool)
    for step in range(150):
        sway = 0.3 * np.sin(2 * np.pi * aliengo.gait.frequency * step * 0.02)
        moves = {"velocity": (sway, 0.5, 0.0), "yaw": np.pi / 2, "yaw_rate": 0.2}  # heading along +y
        asked = np.array([[0.4, 0.0, 0.2, *[0.0] * 6]] * 2)
        recorder.record(_view(aliengo, Flat(), **moves, setpoint=asked), np.zeros(2), upright)
    score = score_of(scenarios(aliengo)["flat"], recorder.episodes(np.zeros(2, dtype=bool), STOOD, NO_GAIT))
    np.testing.assert_allclose(score.velocity, (0.1, 0.0, 0.0), atol=1e-9)
    np.testing.assert_allclose(score.bias, (0.1, 0.0, 0.0), atol=1e-9)
    assert score.height == pytest.approx(0.0, abs=1e-9)


def test_height_is_over_the_ground_below_and_errors_end_with_a_fall(aliengo):
    recorder, upright = EpisodeRecorder(aliengo, 2, 0.02), np.ones(2, dtype=bool)
    above = 0.36 + 0.02 + 2.5 * np.tan(np.deg2rad(10))
    for step in range(200):
        upright[1] = step < 120  # in place: what was recorded must not change
        view = _view(aliengo, Slope(10), position=(4.0, 0.0, above))
        view.state.position[1, 2] -= 0.0 if upright[1] else 5 * step
        recorder.record(view, np.full(2, 1.5 * 0.02), upright)
    episodes = recorder.episodes(np.array([False, True]), STOOD, NO_GAIT)
    window = 20
    assert episodes.strides.tolist() == [200 - 50 - window + 1, 120 - 50 - window + 1]
    np.testing.assert_allclose(episodes.absolute[:, 3] / episodes.strides, 0.02, atol=1e-9)
    assert episodes.returned == pytest.approx(1.5 * 0.02 * np.array([200, 120]))


def test_confidence_bounds_are_wilsons():
    assert [wilson_upper(count, 300) for count in (0, 3, 300)] == pytest.approx([0.01264, 0.0290, 1.0], abs=1e-4)


def test_half_of_the_robots_begin_lying_on_every_ground_and_walk_from_there(robot, known):
    for name in ("flat", "stand", "rough_4cm", "stairs_6cm_up"):
        episodes = Trial(robot.name, replace(known[name], seconds=2.5), 0, 0, 4).run()
        assert episodes.lying.tolist() == [True, False, True, False]
        assert not episodes.fell.any() and (episodes.strides > 0).all(), name


def test_a_robot_that_cannot_get_up_has_fallen_and_the_others_walk(known):
    weak = structs.replace(known["flat"].randomization, strength=(0.05, 0.05))
    helpless = Trial("aliengo", replace(known["flat"], randomization=weak, lying_share=1.0), 0, 0, 2).run()
    assert helpless.fell.all() and not helpless.strides.any() and not helpless.returned.any()
    score = score_of(known["flat"], helpless)
    assert (score.lying_episodes, score.lying_falls, score.falls) == (2, 2, 2)
    assert np.isnan(score.height) and np.isnan(score.gait.slip)


def test_speeds_are_drawn_from_a_grid_and_scored_one_by_one(known):
    held = replace(known["speeds_10ms"], seconds=5.0, lying_share=0.0)
    score = score_of(held, Trial("aliengo", held, 0, 0, 6).run())
    assert 2 <= len(score.speeds) <= 6
    for asked, reached in score.speeds:
        assert asked == pytest.approx(round(asked / 0.2) * 0.2) and reached == pytest.approx(asked, rel=0.3)
    slow = structs.replace(score, speeds=((0.2, 0.195), (1.0, 0.94)))
    assert [entry.split()[:2] for entry in shortfalls(slow, held.limits, expert=False)] == [["speed", "1"]]


def test_corners_are_the_ends_of_all_ranges(robot):
    commands = scenarios(robot)["corners"].commands
    drawn = SetpointSource(commands, 200, 0.02, np.random.default_rng(0)).step()
    flat = (drawn[:, 3:] == 0).all(axis=1)
    assert 0.4 < flat.mean() < 0.6  # corners of velocity alone
    for index, name in enumerate(SETPOINT_FIELDS):
        values = drawn[:, index] if index < 3 else drawn[~flat, index]
        assert set(values) == {robot.commands[name].lowest, robot.commands[name].highest}


def test_every_shortfall_is_named(known, standing_policy):
    episodes = Trial("aliengo", known["flat"], 0, 0, 2).run()
    both = score_of(known["tilt"], join([episodes, episodes]))
    score = structs.replace(both, falls=1, height=0.03, attitude=(0.06, 0.01))
    assert score.episodes == 4
    limits = Limits(0.01, (9.0, 9.0, 1e-6), height=0.02, attitude=0.05)
    found = shortfalls(score, limits, expert=False)
    assert [entry.split()[0] for entry in found] == ["falls", "yaw", "height", "roll"]
    assert shortfalls(score, limits, expert=True) == ["falls 1/4 > 1.0%"]
    unknown = shortfalls(structs.replace(score, velocity=(np.nan,) * 3), limits, expert=False)
    assert [entry.split(" nan")[0] for entry in unknown[1:4]] == ["vx", "vy", "yaw rate"]
