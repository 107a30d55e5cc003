"""`fcnet render`: pictures of policies, and errors."""

import os
import subprocess
import sys

import mujoco
import numpy as np
import pytest
from PIL import Image

from fcnet_core.cli import USAGE_ERROR, main
from fcnet_core.model_file import load_model, shipped_model
from quadruped_sim.physics.mjcf import build_model
from quadruped_sim.physics.terrain import Flat, named_terrain
from quadruped_sim.render.renderer import display_model
from quadruped_sim.render.trajectory import parse_phase, trajectory_of_policy

SMALL = ["--size", "64x48", "--fps", "10"]


def test_a_policy_walks_as_commanded_until_the_phases_end(aliengo):
    phases = [parse_phase("1:vx=0.6"), parse_phase("1:vx=0.6,yaw_rate=0.5")]
    shown = trajectory_of_policy(aliengo, load_model(shipped_model("aliengo")), Flat(), phases)
    assert len(shown) == 100
    assert shown.commanded[-1] == pytest.approx([0.6, 0.0, 0.5], abs=0.05)
    assert shown.position[-1, 0] > 0.5


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


def test_what_is_seen_has_the_joints_and_shapes_of_the_physics(robot):
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
    np.testing.assert_array_equal(seen.geom_size, physics.geom_size)
    np.testing.assert_array_equal(seen.body_mass, physics.body_mass)
    np.testing.assert_array_equal(seen.hfield_data, physics.hfield_data)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("MODEL -o a.webm", "a.webm"),
        ("MODEL --camera below", "side"),
        ("MODEL --terrain moon", "moon"),
        ("MODEL --size big", "big"),
        ("MODEL --size 4x4 --commands 0.1:", "4 x 4"),
        ("MODEL --start upside", "on_back"),
        ("MODEL --commands 2:speed=1", "speed"),
        ("MODEL --commands 2:vx=nan", "nan"),
        ("MODEL --commands vx=1", "vx=1"),
        ("MODEL --commands 0.2: --from 5", "--from"),
    ],
)
def test_wrong_use_is_refused_by_its_name_and_writes_nothing(arguments, named, policy, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    try:
        code: object = main(["render", "-o", "a.gif", *arguments.replace("MODEL", str(policy)).split()])
    except SystemExit as ended:
        code = ended.code
    assert code == USAGE_ERROR
    assert named in capsys.readouterr().err
    assert not list(tmp_path.glob("a.*"))


@pytest.mark.parametrize("rate", ["7", "14"])
def test_no_rate_of_pictures_leads_beyond_the_end_and_a_policy_that_ships_is_shown_by_its_name(rate, tmp_path):
    few = ["--commands", "1:", "--size", "16x16", "--fps", rate]  # 50 periods, not a multiple of a picture's
    assert main(["render", "aliengo", "-o", str(tmp_path / "a.gif"), *few]) == 0
    assert (tmp_path / "a.gif").exists()


@pytest.mark.parametrize(
    ("backend", "named"), [(None, "apt install libegl1 libgl1"), ("osmesa", "libosmesa6"), ("glfw", "unset MUJOCO_GL")]
)
def test_without_a_way_to_opengl_the_packages_to_install_are_named(
    backend, named, policy, tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, f"mujoco.{backend or 'egl'}", None)
    monkeypatch.setenv("MUJOCO_GL", backend or "")
    output = tmp_path / "walk.gif"
    assert main(["render", str(policy), "-o", str(output), "--commands", "0.1:", *SMALL]) == USAGE_ERROR
    assert named in capsys.readouterr().err
    assert not output.exists()


def test_a_way_to_opengl_that_mujoco_does_not_know_is_refused_by_the_program(policy, tmp_path):
    command = ["fcnet", "render", str(policy), "-o", str(tmp_path / "walk.png"), "--commands", "0.1:", *SMALL]
    result = subprocess.run(command, env=os.environ | {"MUJOCO_GL": "nonsense"}, capture_output=True, text=True)
    assert result.returncode == USAGE_ERROR
    assert "'nonsense'" in result.stderr and "egl" in result.stderr and "Traceback" not in result.stderr
