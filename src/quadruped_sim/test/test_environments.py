"""The walking environments: accepted by Gymnasium and stable-baselines3, and what a robot sees, earns and is told. The
notebooks run.
"""

import json
import os
import pickle
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as stable_baselines3_check
from stable_baselines3.common.env_util import make_vec_env

import quadruped_sim.environments  # registers them
from fcnet_core.errors import FcnetError, SimulationError
from fcnet_core.observation import LAYOUT
from fcnet_core.robot import load_robot

EXACT = {"noise": 0.0, "delay": 0.0, "jitter": 0.0, "dropout": 0.0, "joint_zero": 0.0}
STAND = load_robot("aliengo").stand_pose.astype(np.float32)


@pytest.mark.parametrize("name", [name for name in gymnasium.registry if name.startswith("fcnet/")])
def test_gymnasium_and_stable_baselines3_accept_it(name) -> None:
    env = gymnasium.make(name, terrain="rough", render_mode="rgb_array")
    assert pickle.loads(pickle.dumps(env.spec)) == env.spec
    assert env.spec.max_episode_steps == quadruped_sim.environments.EPISODE
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.unwrapped.step(np.zeros(12))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*symmetric and normalized.*")  # actions are those on the robot
        check_env(env.unwrapped)
        stable_baselines3_check(env)
    first = env.reset(seed=3)[0]
    assert not np.array_equal(env.reset()[0], first)
    np.testing.assert_array_equal(env.reset(seed=3)[0], first)
    env.close()
    env.close()


def test_a_walk_is_shown_in_pictures_at_the_rate_of_the_control_and_goes_on_as_without_them() -> None:
    env = gymnasium.make("fcnet/Aliengo-v0", render_mode="rgb_array_list", rate=25.0, randomization=EXACT)
    other = gymnasium.make("fcnet/A1-v0", render_mode="rgb_array", terrain="rough")
    unseen = gymnasium.make("fcnet/Aliengo-v0", rate=25.0, randomization=EXACT)
    assert (env.metadata["render_fps"], other.metadata["render_fps"]) == (25, 50)
    for one in (env, other, unseen):
        one.reset(seed=1)
    assert other.unwrapped.render().std() > 10.0
    for _ in range(3):
        np.testing.assert_array_equal(env.step(STAND)[0], unseen.step(STAND)[0])
    pictures = env.render()
    assert [(picture.shape, picture.dtype) for picture in pictures] == 4 * [((480, 640, 3), np.uint8)]
    assert 0 < (pictures[0] != pictures[-1]).mean() < 0.5 and pictures[0].std() > 10.0
    before = other.render()
    other.reset(seed=2)  # another ground
    assert (other.render() != before).mean() > 0.3
    with pytest.warns(UserWarning, match="rgb_array"):
        assert unseen.unwrapped.render() is None
    for one in (env, other):
        one.close()


def test_a_process_forked_after_pictures_refuses_to_draw_instead_of_waiting_for_ever() -> None:
    env = gymnasium.make("fcnet/Aliengo-v0", render_mode="rgb_array")
    env.reset(seed=0)
    env.render()
    if not (child := os.fork()):
        another = quadruped_sim.environments.OneRobot(robot="aliengo", render_mode="rgb_array")
        another.reset(seed=0)
        try:
            another.render()
        except SimulationError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    env.close()


@pytest.mark.filterwarnings("ignore::UserWarning")  # make_vec_env tries whether it renders; RescaleAction rounds limits
def test_stable_baselines3_takes_several_with_normalised_actions() -> None:
    several = make_vec_env(
        "quadruped_sim.environments:fcnet/Aliengo-v0",
        n_envs=2,
        wrapper_class=gymnasium.wrappers.RescaleAction,
        wrapper_kwargs={"min_action": -1.0, "max_action": 1.0},
    )
    several.reset()
    assert several.step(np.zeros((2, 12)))[0].shape == (2, 70)


def test_it_shows_a_policy_what_the_robot_shows_it() -> None:
    env = gymnasium.make("fcnet/Aliengo-v0", commands={"vx": 0.5}, randomization=EXACT)
    first, _ = env.reset(seed=1)
    np.testing.assert_allclose(first[LAYOUT["projected_gravity"]], [0.0, 0.0, -1.0], atol=1e-6)
    angles = np.arctan2(first[LAYOUT["sin_joint_position"]], first[LAYOUT["cos_joint_position"]])
    np.testing.assert_allclose(angles, STAND, atol=0.15)
    second = env.step(np.full(12, 9.0, dtype=np.float32))[0]
    fastest = first[LAYOUT["last_action"]] + load_robot("aliengo").safety.max_target_rate * 0.02
    np.testing.assert_allclose(second[LAYOUT["last_action"]], np.minimum(fastest, env.action_space.high), rtol=1e-6)
    for _ in range(60):
        second = env.step(STAND)[0]
    assert second[LAYOUT["command"]][0] == pytest.approx(0.5)


def test_a_robot_of_many_begins_anew_in_the_step_after_its_last_while_the_others_go_on() -> None:
    settings = {"commands": {"vx": 0.0}, "render_mode": "rgb_array"}
    envs = gymnasium.make_vec("fcnet/Aliengo-v0", num_envs=3, max_episode_steps=40, **settings)
    seen, _ = envs.reset(seed=0)
    assert (envs.render()[0] != envs.render()[1]).any()
    assert seen.shape == (3, 70) and seen in envs.observation_space
    actions = np.tile(STAND, (3, 1))
    actions[1] = envs.single_action_space.high  # it throws itself down
    ends: dict[int, list[tuple[str, int]]] = {0: [], 1: [], 2: []}
    over = np.zeros(3, dtype=bool)
    for step in range(1, 45):
        actions[1] = STAND if ends[1] else actions[1]
        seen, reward, fell, old, _ = envs.step(np.where(over[:, None], np.nan, actions))
        scores = reward[[0, 2]][~over[[0, 2]]]
        assert not reward[over].any() and ((scores > 0.02) & (scores <= 0.03)).all()
        np.testing.assert_allclose(seen[over][:, LAYOUT["command"]][:, :8], 0.0)
        assert (seen[over][:, 2] < -0.9).all()  # gravity: it stands upright
        over = fell | old
        for robot in np.flatnonzero(over):
            ends[robot].append(("fell" if fell[robot] else "old", step))
    assert ends[0] == ends[2] == [("old", 40)]
    assert len(ends[1]) == 1 and ends[1][0][0] == "fell"
    envs.close()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"terrain": "mud"}, "there is no terrain 'mud'; choose one of flat"),
        ({"terrain": {"kind": "slope"}}, "terrain slope"),
        ({"commands": {"vz": 1.0}}, "unknown setpoint fields"),
        ({"randomization": {"friction": -1.0}}, "friction must not be negative"),
        ({"render_mode": "ansi"}, "render_mode 'ansi'"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*possible render_modes:UserWarning")
def test_a_setting_that_cannot_be_is_one_sentence(settings, sentence) -> None:
    for make in (gymnasium.make, gymnasium.make_vec):
        with pytest.raises(FcnetError, match=sentence):
            make("fcnet/Aliengo-v0", **settings)
        with pytest.raises(TypeError, match="unexpected keyword argument 'speed'"):
            make("fcnet/Aliengo-v0", speed=1.0)


def test_what_cannot_be_done_is_one_sentence() -> None:
    with pytest.raises(SimulationError, match="num_envs is 0"):
        gymnasium.make_vec("fcnet/Aliengo-v0", num_envs=0)
    for make in (gymnasium.make, gymnasium.make_vec):
        with pytest.raises(SimulationError, match="no options, but got speed"):
            make("fcnet/Aliengo-v0").reset(options={"speed": 1.0})
    env = gymnasium.make("fcnet/Aliengo-v0", disable_env_checker=True)
    env.reset(seed=0)
    for action in (np.full(12, np.nan), np.zeros(3)):
        with pytest.raises(SimulationError, match="actions must be finite"):
            env.step(action)


NOTEBOOKS = sorted((Path(__file__).parents[3] / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_nobody_falls(path: Path) -> None:
    # Its cells are Python and nothing else, so that no kernel is needed to run them.
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    names: dict[str, object] = {}
    for cell in cells:
        exec("".join(cell["source"]), names)
    assert names["fell"] is False
