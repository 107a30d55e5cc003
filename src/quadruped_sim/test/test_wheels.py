"""The package alone is enough: its wheel holds settings and models, and a policy steps without ROS or simulator."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1]
NOTEBOOK = """
import sys
sys.path.insert(0, sys.argv[1])
import fcnet_core
assert fcnet_core.__file__.startswith(sys.argv[1]), fcnet_core.__file__
policy = fcnet_core.load_policy(f"{fcnet_core.__path__[0]}/models/aliengo.safetensors")
assert policy.step([0.0] * 70).shape == (12,)
heavy = {"torch", "onnx", "onnxruntime", "rclpy", "mujoco"} & set(sys.modules)
assert not heavy, heavy
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, in which config and models are links as in the repository."""
    folder = tmp_path_factory.mktemp("repository")
    skipped = shutil.ignore_patterns("build", "*.egg-info", "__pycache__", "test")
    shutil.copytree(PACKAGE, folder / "src" / "fcnet_core", symlinks=True, ignore=skipped)
    for name in ("config", "models"):
        (folder / name).symlink_to(PACKAGE.parents[1] / name)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-index", "--no-build-isolation", "-w"]
    subprocess.run([*command, folder, folder / "src" / "fcnet_core"], check=True)
    return next(folder.glob("fcnet_core-*.whl"))


def test_the_wheel_holds_robots_settings_models_and_every_policy(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for kind in ("robots", "train", "collect"):
        for path in (PACKAGE / "fcnet_core" / "config" / kind).glob("*.yaml"):
            assert f"fcnet_core/config/{kind}/{path.name}" in names
    for path in (PACKAGE / "fcnet_core" / "models").glob("*.safetensors"):
        assert f"fcnet_core/models/{path.name}" in names
    for path in (PACKAGE / "fcnet_core").rglob("*.py"):
        assert f"fcnet_core/{path.relative_to(PACKAGE / 'fcnet_core')}" in names


def test_its_program_and_verbs_are_entry_points(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        points = file.read("fcnet_core-0.1.0.dist-info/entry_points.txt").decode()
        metadata = file.read("fcnet_core-0.1.0.dist-info/METADATA").decode()
    assert "fcnet = fcnet_core.cli:main" in points and "train = fcnet_core.verbs.train" in points
    assert "Provides-Extra: train" in metadata and "Requires-Dist: msgspec" in metadata


def test_a_policy_steps_from_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    subprocess.run([sys.executable, "-c", NOTEBOOK, str(tmp_path)], check=True)
