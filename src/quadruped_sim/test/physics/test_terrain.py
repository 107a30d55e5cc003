"""The height of a terrain is where MuJoCo's rays hit it."""

import mujoco
import numpy as np
import pytest

from fcnet_core.errors import FcnetError
from quadruped_sim.physics.mjcf import build_model
from quadruped_sim.physics.terrain import Course, Flat, Obstacles, Rough, SideSlope, Slope, Stairs, named_terrain

EXACT = [
    *(Flat(), Slope(10), Slope(-15), SideSlope(10), SideSlope(15), Stairs(0.1), Stairs(-0.06)),
    *(Obstacles(0.06), Obstacles(0.06, seed=5), Course(), Course(20.0, 0.1), Course(12.0, 0.07, 4)),
]
SPOTS = np.random.default_rng(0).uniform((-2.9, -2.9), (7.9, 2.9), (300, 2))


def _ray_heights(robot, terrain, spots):
    model = build_model(robot, terrain, 0.004)
    data = mujoco.MjData(model)
    data.qpos[2] = 60.0  # the robot, out of the way
    mujoco.mj_forward(model, data)
    hit = np.zeros(1, dtype=np.int32)
    down = np.array([0.0, 0.0, -1.0])
    distances = [mujoco.mj_ray(model, data, np.array([x, y, 20.0]), down, None, 1, -1, hit) for x, y in spots]
    return 20.0 - np.array(distances)


@pytest.mark.parametrize("terrain", EXACT, ids=repr)
def test_height_is_where_a_ray_hits(aliengo, terrain):
    np.testing.assert_allclose(terrain.height(*SPOTS.T), _ray_heights(aliengo, terrain, SPOTS), atol=2e-4)


def test_a_rough_field_is_exact_at_its_samples_and_near_between_them(aliengo):
    terrain = Rough(0.05, seed=3)
    cells = len(terrain.height_field) - 1
    nodes = np.random.default_rng(1).integers(20, cells - 20, (200, 2)) / cells * 30.0 - 15.0
    np.testing.assert_allclose(terrain.height(*nodes.T), _ray_heights(aliengo, terrain, nodes + 1e-9), atol=1e-6)
    between = _ray_heights(aliengo, terrain, SPOTS)
    assert np.abs(terrain.height(*SPOTS.T) - between).max() < 0.01  # MuJoCo cuts each cell into two triangles
    assert between.min() >= -0.05 - 1e-6 and between.max() <= 0.05 + 1e-6


def test_random_terrains_are_the_same_for_the_same_seed_only():
    x, y = SPOTS.T
    for kind in (lambda seed: Rough(0.04, seed), lambda seed: Obstacles(0.06, seed)):
        assert np.array_equal(kind(1).height(x, y), kind(1).height(x, y))
        assert not np.array_equal(kind(1).height(x, y), kind(2).height(x, y))


def test_a_yaml_file_is_a_terrain(tmp_path):
    path = tmp_path / "ground.yaml"
    for text, terrain in (
        ("kind: stairs\nrise: 0.1\nrun: 0.35\n", Stairs(0.1, 0.35)),
        ("{kind: rough, amplitude: 0.05}", Rough(0.05, 4)),
        ("{kind: rough, amplitude: 0.05, seed: 7}", Rough(0.05, 7)),
    ):
        path.write_text(text)
        assert named_terrain(str(path), seed=4) == terrain


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("rise: 0.1", "None.*flat"),
        ("kind: lava", "lava.*flat"),
        ("{kind: stairs, rise: high}", "rise.*'high'"),
        ("{kind: stairs}", "rise"),
        ("{kind: stairs, rise: 0.1, depth: 1}", "depth"),
        ("{kind: rough, amplitude: 0.05, seed: x}", "seed.*'x'"),
        ("{kind: stairs, rise: 0.1, 3: 1}", ""),
    ],
)
def test_a_file_that_is_no_terrain_is_refused_with_its_name(tmp_path, text, named):
    path = tmp_path / "ground.yaml"
    path.write_text(text)
    with pytest.raises(FcnetError, match=f"(?s){path}.*{named}"):
        named_terrain(str(path))


@pytest.mark.parametrize(("name", "named"), [("lava", "lava.*flat"), ("none.yaml", "none.yaml")])
def test_a_terrain_that_is_not_there_is_refused_by_its_name(name, named):
    with pytest.raises(FcnetError, match=named):
        named_terrain(name)
