"""Task files load or mistakes are one sentence, and the task of docs/adding_a_task.md is learnt. Setpoints stay in
their ranges, hold, and change.
"""

import json
import re
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fcnet_core.cli import main
from fcnet_core.errors import FcnetError
from fcnet_core.model_file import load_model
from fcnet_core.robot import SETPOINT_FIELDS, load_robot
from quadruped_sim.environments import EPISODE
from quadruped_sim.tasks.robots import RenewedRobots, TaskRobots
from quadruped_sim.tasks.setpoints import SetpointRanges, SetpointSource
from quadruped_sim.tasks.task import load_task

PAGE = Path(__file__).parents[4] / "docs" / "adding_a_task.md"
SETTINGS = {"hidden": [8], "imitation_steps": 6, "imitation_epochs": 1, "robots": 4, "groups": 2, "n_steps": 4,
            "batch_size": 16, "n_epochs": 1, "critic_rounds": 1}  # fmt: skip


@pytest.fixture
def stand_and_turn(tmp_path: Path) -> Path:
    """The task of the page, in a folder."""
    settings, code = (re.search(f"```{kind}\n(.*?)```", PAGE.read_text(), re.DOTALL) for kind in ("yaml", "python"))
    assert settings and code
    (tmp_path / "turning.py").write_text(code[1])
    path = tmp_path / "stand_and_turn.yaml"
    path.write_text(settings[1])
    return path


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"rewards": {"x": {"function": "tracing", "weight": 1}}}, "no function tracing in the suite; choose one of"),
        ({"rewards": {"x": {"function": "_velocity_difference", "weight": 1}}}, "no function _velocity_difference"),
        ({"rewards": {"x": {"function": "turning:spin", "weight": 1}}}, "no function spin in .*turning.py.* drift"),
        ({"rewards": {"x": {"function": "absent:spin", "weight": 1}}}, "absent.py.* cannot be imported"),
        ({"rewards": {"x": {"function": "foot_slip", "weight": 1}}}, "rewards.x, function foot_slip.*most"),
        ({"rewards": {"x": {"function": "alive", "weight": 1, "params": {"most": 2}}}}, "alive.*most"),
        ({"rewards": {"x": {"function": "foot_slip", "weight": 1, "params": {"most": "high"}}}}, "most is 'high'"),
        ({"rewards": {"x": {"function": "alive"}}}, "weight"),
        ({"terminations": {"x": {"function": "alive"}}}, "no function alive.* fallen"),
        ({"terrains": [{"kind": "mud"}]}, "mud"),
    ],
)
def test_a_mistake_in_a_task_file_is_one_sentence(stand_and_turn, changes, sentence) -> None:
    stand_and_turn.write_text(yaml.safe_dump(yaml.safe_load(stand_and_turn.read_text()) | changes))
    with pytest.raises(FcnetError, match=sentence) as refused:
        load_task(stand_and_turn)
    assert "\n" not in str(refused.value)


def test_a_task_of_ones_own_is_learnt_and_its_teacher_evaluated(stand_and_turn, monkeypatch, capsys) -> None:
    monkeypatch.chdir(stand_and_turn.parent)
    (stand_and_turn.parent / "settings.yaml").write_text(json.dumps(SETTINGS))
    extra = {"teach": ["--settings", "settings.yaml", "--minutes", "0.001", "--processes", "1"]}
    extra["evaluate"] = ["--episodes", "1", "--processes", "1", "--no-fail"]
    commands = re.findall(r"^    fcnet (.*)$", PAGE.read_text(), re.MULTILINE)
    for command in commands:
        words = command.replace("--minutes 60", "").split()
        assert main(words + extra[words[0]]) == 0, capsys.readouterr().err
    assert len(commands) == 2
    teacher = load_model(stand_and_turn.parent / "runs" / "turning" / "teacher.safetensors")
    assert teacher.card.config.observation == 74
    terms = json.loads((stand_and_turn.parent / "runs" / "turning" / "log.jsonl").read_text().splitlines()[0])["terms"]
    assert set(terms) == {"yaw_rate", "attitude", "drift", "torque", "smoothness"}


def test_robots_that_start_lying_are_paid_for_standing_up() -> None:
    robots = TaskRobots(load_task("getting_up"), 2, 0)
    lying, standing, earned = robots.robot.rest_pose, robots.robot.stand_pose, []
    for ramp in np.clip(np.linspace(0.0, 1.5, 150), 0.0, 1.0):
        earned.append(robots.step(np.tile((1 - ramp) * lying + ramp * standing, (2, 1)))[0])
        robots.observe()
    assert (earned[-1] > earned[0] + 0.02).all() and robots.simulation.state().contact.all()
    robots.restart(np.array([True, False]))
    height = robots.simulation.state().position[:, 2]
    assert height[0] < 0.5 * robots.robot.nominal_height < height[1]


def test_gymnasium_takes_a_task_of_ones_own(stand_and_turn) -> None:
    env = gymnasium.make("quadruped_sim.environments:fcnet/Task-v0", task=str(stand_and_turn))
    seen, _ = env.reset(seed=0)
    assert seen.shape == (70,)
    earned = [env.step(load_robot("aliengo").stand_pose.astype(np.float32))[1] for _ in range(20)]
    assert 0.0 < np.mean(earned) < 0.05 * 1.5


PERIOD = 0.02
VALUES = st.floats(-2, 2, allow_nan=False)
RANGES = st.dictionaries(
    st.sampled_from(SETPOINT_FIELDS), st.tuples(VALUES, VALUES).map(lambda pair: (min(pair), max(pair)))
)


def _steps(ranges: SetpointRanges, count: int = 60, batch: int = 8, seed: int = 0) -> np.ndarray:
    source = SetpointSource(ranges, batch, PERIOD, np.random.default_rng(seed))
    return np.stack([source.step().copy() for _ in range(count)])


@given(RANGES, RANGES, st.integers(0, 1000))
def test_fields_stay_in_their_ranges_and_the_others_at_zero(always, sometimes, seed):
    drawn = _steps(SetpointRanges(always, sometimes, hold=(0.1, 0.4)), seed=seed)
    for index, name in enumerate(SETPOINT_FIELDS):
        allowed = [r for r in (always.get(name, (0.0, 0.0)), sometimes.get(name)) if r]
        inside = [(low <= drawn[..., index]) & (drawn[..., index] <= high) for low, high in allowed]
        assert np.any(inside, axis=0).all(), name


@given(st.floats(0.05, 0.5), st.integers(0, 1000))
def test_a_setpoint_holds_as_long_as_it_should(hold, seed):
    drawn = _steps(SetpointRanges({"vx": (-1, 1)}, hold=(hold, hold)), seed=seed)[..., 0]
    changes = [np.flatnonzero(np.diff(robot)) + 1 for robot in drawn.T]
    expected = np.arange(round(hold / PERIOD), len(drawn), round(hold / PERIOD))
    for times in changes:
        np.testing.assert_array_equal(times, expected)


def test_shares_of_the_setpoints_stand_still_and_have_the_fields_of_sometimes():
    always = {"vx": (0.5, 1), "height": (-0.1, -0.05)}
    drawn = _steps(SetpointRanges(always, {"roll": (0.1, 0.2)}, sometimes_share=0.4, standing_share=0.3), 1, 2000)[0]
    still = (drawn[:, :3] == 0).all(axis=1)
    assert 0.25 < still.mean() < 0.35
    assert (drawn[:, SETPOINT_FIELDS.index("height")] < 0).all()  # a robot that stands may crouch
    assert 0.35 < (drawn[:, SETPOINT_FIELDS.index("roll")] > 0).mean() < 0.45


def test_a_share_of_the_setpoints_is_at_corners():
    ranges = SetpointRanges({"vx": (0.5, 1), "vy": (-0.2, 0.2)}, {"roll": (0.1, 0.2)}, 0.4, corner_share=0.3)
    drawn = _steps(ranges, 1, 4000)[0]
    corner = np.isin(drawn[:, 0], (0.5, 1)) & np.isin(drawn[:, 1], (-0.2, 0.2))
    assert 0.25 < corner.mean() < 0.35
    assert len(np.unique(drawn[corner][:, [0, 1, 4]], axis=0)) == 4 * 3  # roll is zero, or at an end
    assert not np.isin(drawn[~corner][:, :2], (0.5, 1, -0.2, 0.2)).any()


# The A1-Walk task

TASK = load_task("a1_walk")
INTERFACE = TASK.policy_interface(TASK.driven())
POSE = INTERFACE.pose


def suite_order(values: np.ndarray) -> np.ndarray:
    """Joints of the task as the robot orders them."""
    return np.array([values[INTERFACE.joints.index(name)] for name in TASK.driven().joint_names])


@pytest.fixture
def walk() -> TaskRobots:
    return TaskRobots(TASK, 1, 0)


def test_an_observation_is_the_authors_with_their_scales(walk) -> None:
    action, offset, rate = 0.25 * np.arange(12), np.arange(12) / 10, np.arange(12) - 5.0
    walk.step(action[None])
    data = walk.simulation.bodies[0].data
    data.qpos[3:7] = 1.0, 0.0, 0.0, 0.0
    data.qpos[7:], data.qvel[6:] = suite_order(POSE + offset), suite_order(rate)
    data.qvel[:3], data.qvel[3:6] = (3.0, 2.0, 1.0), (0.4, -0.8, 1.2)
    walk.observe()
    seen = np.stack([walk.observe(new_command=False)[0] for _ in range(200)])
    assert seen.shape == (200, 48) and seen.dtype == np.float32
    expected = [np.zeros(3), [0.1, -0.2, 0.3], [0, 0, -1], [1.0, 0, 0], offset, 0.05 * rate, action]
    noise = np.repeat([0.0, 0.05, 0.05, 0.0, 0.01, 0.075, 0.0], [3, 3, 3, 3, 12, 12, 12])
    error = np.abs(seen - np.concatenate(expected))
    assert (error <= noise + 1e-6).all()
    assert (error.max(axis=0) >= 0.9 * noise).all()


def test_actions_are_position_targets_about_the_default_pose_within_what_25_nm_can_ask_for(walk) -> None:
    assert (walk.robot.kp == 50.0).all() and (walk.robot.kd == 1.0).all()
    data = walk.simulation.bodies[0].data
    for speed, action, offset in (
        (0.0, 0.1 * np.arange(12), np.minimum(0.05 * np.arange(12), 0.5)),
        (2.0, np.full(12, -100.0), -0.5 + 0.04),
    ):
        data.qpos[7:], data.qvel[6:] = suite_order(POSE), speed
        walk.observe()
        np.testing.assert_allclose(walk.rollout.runner.decode(action[None])[0], suite_order(POSE + offset))


def test_the_trunk_on_the_ground_ends_an_episode_and_feet_do_not(walk) -> None:
    for _ in range(10):
        _, fell = walk.step(np.zeros((1, 12)))
        walk.observe()
    assert not fell.any() and walk.simulation.state().contact.all()
    contact = TASK.functions("terminations", 1)["contact"]
    data = walk.simulation.bodies[0].data
    data.qpos[2] = 1.0
    data.qpos[3:7], data.qvel[:] = (0.0, 1.0, 0.0, 0.0), 0.0  # falls on its back
    for _ in range(100):
        walk.step(np.zeros((1, 12)))
        if contact(walk)[0]:
            return
    pytest.fail("its back never touched the ground")


def test_robots_are_replaced_when_they_fall_or_grow_old_and_their_last_observation_is_returned() -> None:
    robots, ends = RenewedRobots(TaskRobots(TASK, 4, 1), TASK.episode, 1), []
    robots._age[:] = EPISODE - 3, EPISODE - 3, 0, 0
    drawn = robots.robots.simulation.drawn["payload"].copy()
    for period in range(1, 60):
        action = np.zeros((4, 12)) if period < 10 else np.full((4, 12), 100.0 * (-1.0) ** (period // 4))
        observation, reward, fell, old, last = robots.step(action)
        assert np.isfinite(observation).all() and (reward >= 0).all() and not (fell & old).any()
        for robot in np.flatnonzero(fell | old):
            assert not np.array_equal(last[robot], observation[robot])
            assert not observation[robot, -12:].any()  # the last action
        ends += [("old", period)] * int(old.sum()) + [("fell", 0)] * int(fell.sum())
        if ("fell", 0) in ends:
            break
    assert ends.count(("old", 3)) == 2 and ("fell", 0) in ends
    assert (robots.robots.simulation.drawn["payload"] != drawn)[:2].all()
