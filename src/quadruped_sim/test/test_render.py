"""`fcnet render`: pictures of policies, bags and collected data, and what is said where there can be none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest
from PIL import Image

from fcnet_core.cli import USAGE_ERROR, main
from fcnet_core.errors import SimulationError
from fcnet_core.learning.dataset import DatasetWriter, Manifest
from fcnet_core.model_file import load_model, save_model, shipped_model
from fcnet_core.observation import assemble_observation
from quadruped_sim.physics.mjcf import build_model
from quadruped_sim.physics.terrain import Flat, named_terrain
from quadruped_sim.render.appearance import display_model
from quadruped_sim.render.recorded import walk_of_bag, walk_of_data
from quadruped_sim.render.renderer import offscreen_context
from quadruped_sim.render.walk import Walk, parse_phase, walk_of_policy

BAG = Path(__file__).resolve().parents[3] / "docs" / "examples" / "aliengo_walk"
SMALL = ["--size", "64x48", "--fps", "10"]


@pytest.fixture(scope="module")
def opengl():
    try:
        offscreen_context(mujoco.MjModel.from_xml_string("<mujoco/>"), 16, 16)[0].free()
    except SimulationError as error:
        pytest.skip(str(error))


@pytest.fixture
def policy(standing_policy, tmp_path):
    save_model(standing_policy, tmp_path / "policy.safetensors")
    return tmp_path / "policy.safetensors"


@pytest.fixture(scope="module")
def walk(aliengo):
    model = load_model(shipped_model("aliengo"))
    return walk_of_policy(aliengo, model, Flat(), [parse_phase("1:vx=0.6"), parse_phase("1:vx=0.6,yaw_rate=0.5")])


@pytest.fixture
def data(walk: Walk, tmp_path) -> Path:
    """The walk as one sequence of collected data, after another one."""
    velocity = np.gradient(walk.joints, walk.period, axis=0)
    command = np.zeros((len(walk), 16))
    command[:, :3] = walk.commanded
    seen = assemble_observation(
        walk.orientation,
        np.c_[np.zeros((len(walk), 2)), walk.measured[:, 2]],
        walk.joints,
        velocity,
        walk.joints,
        command,
    )
    first = np.arange(len(walk)) == 0
    writer = DatasetWriter(tmp_path / "data", Manifest("aliengo", 50.0))
    arrays = {"observation": seen, "action": walk.joints, "first": first}
    writer.add({}, **{name: np.stack([array[:30], array[:30]]) for name, array in arrays.items()})
    writer.add({}, **{name: array[None] for name, array in arrays.items()})
    return tmp_path / "data"


@pytest.mark.usefixtures("opengl")
def test_a_policy_becomes_a_gif_a_film_or_a_picture(policy, tmp_path, capsys):
    av = pytest.importorskip("av")
    commands = ["--commands", "0.2:", "0.1:vx=0.5", "--terrain", "stairs_up", "--camera", "side"]
    for suffix in ("gif", "mp4", "png"):
        assert main(["render", str(policy), "-o", str(tmp_path / f"walk.{suffix}"), *commands, *SMALL]) == 0
    assert "3 pictures" in capsys.readouterr().out
    with Image.open(tmp_path / "walk.gif") as gif:
        assert (gif.n_frames, gif.size, gif.info["duration"], gif.info["loop"]) == (3, (64, 48), 100, 0)
    with av.open(str(tmp_path / "walk.mp4")) as film:
        assert sum(1 for _ in film.decode(video=0)) == 3
    with Image.open(tmp_path / "walk.png") as picture:
        seen = np.asarray(picture.convert("L"), dtype=float)
    assert np.ptp(seen[16:32, 16:48]) > 100  # a light robot with dark joints


@pytest.mark.usefixtures("opengl")
@pytest.mark.parametrize("kind", ["bag", "data"])
def test_a_recording_becomes_a_gif(kind, data, tmp_path):
    source, output = BAG if kind == "bag" else data, tmp_path / "new" / "recorded.gif"
    arguments = ["--from", "0.2", "--seconds", "0.2", "--camera", "top"]
    assert main(["render", str(source), "-o", str(output), *arguments, *SMALL]) == 0
    with Image.open(output) as gif:
        assert gif.n_frames == 2


def test_a_bag_is_shown_where_its_odometry_says():
    walk = walk_of_bag(BAG, None, None, 3.0, 4.0)
    assert len(walk) == 200
    assert np.linalg.norm(np.diff(walk.position[:, :2], axis=0), axis=1).sum() > 0.5
    assert 0.4 < walk.contact.mean() < 1.0
    assert np.abs(walk.commanded).max() > 0.1


def test_data_are_shown_as_the_robot_walked(walk, data):
    shown = walk_of_data(data, None, 2, 0.0, 20.0)
    assert len(shown) == len(walk)
    np.testing.assert_allclose(shown.joints, walk.joints, atol=1e-6)
    np.testing.assert_allclose(shown.commanded, walk.commanded, atol=1e-6)
    assert np.abs(shown.position[:, 2] - walk.position[:, 2]).max() < 0.02
    way = walk.position[-1] - walk.position[0]
    assert np.linalg.norm((shown.position[-1] - shown.position[0] - way)[:2]) < 0.2 * np.linalg.norm(way)


def test_what_is_seen_has_the_joints_of_the_physics_and_touches_nothing(robot):
    terrain = named_terrain("rough")
    seen, physics = display_model(robot, terrain, 64, 48), build_model(robot, terrain, 0.004)
    assert (seen.nq, seen.nv) == (physics.nq, physics.nv)
    pose = np.concatenate([[0.3, 0.1, 0.4, 1.0, 0.0, 0.0, 0.0], robot.stand_pose + 0.2])
    feet = []
    for model in (seen, physics):
        data = mujoco.MjData(model)
        data.qpos[:] = pose
        mujoco.mj_kinematics(model, data)
        feet.append(data.site_xpos.copy())
    np.testing.assert_allclose(*feet, atol=1e-12)
    of_robot = seen.geom_bodyid > 0
    assert not seen.geom_contype[of_robot].any() and not seen.geom_conaffinity[of_robot].any()
    np.testing.assert_array_equal(seen.body_mass, physics.body_mass)
    np.testing.assert_array_equal(seen.hfield_data, physics.hfield_data)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere", "-o", "a.gif"], "there is no nowhere"),
        ([".", "-o", "a.gif"], "metadata.yaml"),
        (["MODEL", "-o", "a.webm"], "ends in .gif, .mp4, .png"),
        (["MODEL", "-o", "a.gif", "--camera", "below"], "choose one of corner, side, front, chase, top"),
        (["MODEL", "-o", "a.gif", "--terrain", "moon"], "choose one of flat, "),
        (["MODEL", "-o", "a.gif", "--size", "big"], "640x360"),
        (["MODEL", "-o", "a.gif", "--size", "4x4", "--commands", "0.1:"], "choose 16 to 1920"),
        (["MODEL", "-o", "a.gif", "--start", "upside"], "choose one of lying, standing, on_back"),
        (["MODEL", "-o", "a.gif", "--commands", "2:speed=1"], "there is no field 'speed'"),
        (["MODEL", "-o", "a.gif", "--commands", "2:vx=nan"], "no finite number"),
        (["MODEL", "-o", "a.gif", "--commands", "vx=1"], "SECONDS:FIELD=VALUE"),
        (["MODEL", "-o", "a.gif", "--commands", "0.2:", "--from", "5"], "choose an earlier --from"),
        (["MODEL", "-o", "a.gif", "--sequence", "1"], "--sequence is for collected data"),
        (["BAG", "-o", "a.gif", "--commands", "1:vx=1"], "--commands is for a policy"),
        (["BAG", "-o", "a.gif", "--from", "500"], "choose an earlier --from"),
        (["DATA", "-o", "a.gif", "--sequence", "3"], "sequences 0 to 2"),
        (["DATA", "-o", "a.gif", "--from", "9"], "choose an earlier --from"),
    ],
)
def test_what_cannot_be_shown_is_said_in_a_sentence(arguments, words, policy, data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    places = {"MODEL": str(policy), "BAG": str(BAG), "DATA": str(data)}
    assert main(["render", *(places.get(argument, argument) for argument in arguments)]) == USAGE_ERROR
    assert words in capsys.readouterr().err
    assert not list(tmp_path.glob("a.*"))


@pytest.mark.parametrize("rate", ["7", "14"])
def test_no_rate_of_pictures_leads_beyond_the_end(rate, opengl, policy, tmp_path):
    few = ["--commands", "8:", "--size", "16x16", "--fps", rate]  # 400 periods, not a multiple of a picture's
    assert main(["render", str(policy), "-o", str(tmp_path / "a.gif"), *few]) == 0


def test_a_policy_that_ships_is_shown_by_its_name(opengl, tmp_path):
    assert main(["render", "aliengo", "-o", str(tmp_path / "walk.png"), "--commands", "0.1:", *SMALL]) == 0
    assert (tmp_path / "walk.png").exists()


@pytest.mark.parametrize(("backend", "words"), [("osmesa", "libosmesa6"), ("nonsense", "choose one of egl, ")])
def test_a_way_to_opengl_that_is_not_there_is_said_in_a_sentence(backend, words, tmp_path):
    command = ["fcnet", "render", "aliengo", "-o", str(tmp_path / "walk.png"), "--commands", "0.1:", *SMALL]
    result = subprocess.run(command, env=os.environ | {"MUJOCO_GL": backend}, capture_output=True, text=True)
    if backend == "osmesa" and result.returncode == 0:
        pytest.skip("this computer has OSMesa")
    assert result.returncode == USAGE_ERROR
    assert words in result.stderr and "Traceback" not in result.stderr


def test_without_opengl_the_packages_to_install_are_named(policy, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "mujoco.egl", None)
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    output = tmp_path / "walk.gif"
    assert main(["render", str(policy), "-o", str(output), "--commands", "0.1:", *SMALL]) == USAGE_ERROR
    assert "apt install libegl1 libgl1" in capsys.readouterr().err
    assert not output.exists()
