"""The wheels of the Python libraries are enough, without a checkout and without ROS: for policies, models, robots,
environments and the fcnet program.
"""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from email import message_from_string
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import fcnet_core

ROOT = Path(__file__).parents[3]
LIBRARIES = ("fcnet_core", "fcnet_replay", "quadruped_sim")
CORE_ALONE = """
import sys
import fcnet_core.cli, fcnet_core.learning.dataset
import fcnet_core.verbs.info, fcnet_core.verbs.export, fcnet_core.verbs.train
from fcnet_core import load_policy
for runtime in ("auto", "onnx"):
    assert load_policy("aliengo", runtime).step([0.0] * 70).shape == (12,)
assert load_policy("aliengo", batch=2).step([[0.0] * 70] * 2).shape == (2, 12)
unwanted = {"torch", "onnx", "rclpy", "mujoco", "gymnasium", "fcnet_replay", "quadruped_sim"} & set(sys.modules)
assert not unwanted, unwanted
"""
WALK = """
import gymnasium
import quadruped_sim.environments
from fcnet_core import load_policy
policy, env = load_policy("aliengo"), gymnasium.make("fcnet/Aliengo-v0", terrain="rough")
observation, _ = env.reset(seed=0)
for _ in range(20):
    observation, reward, fell, *_ = env.step(policy.step(observation))
    assert reward > 0 and not fell
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the wheels, built from copies in which config and models are links as in the repository."""
    folder = tmp_path_factory.mktemp("repository")
    skipped = shutil.ignore_patterns("build", "*.egg-info", "__pycache__", "test")
    for name in LIBRARIES:
        shutil.copytree(ROOT / "src" / name, folder / "src" / name, symlinks=True, ignore=skipped)
    for name in ("config", "models"):
        (folder / name).symlink_to(ROOT / name)
    sources = [folder / "src" / name for name in LIBRARIES]
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-index", "--no-build-isolation", "-w"]
    subprocess.run([*command, folder / "dist", *sources], check=True)
    return folder / "dist"


def wheel_of(wheels: Path, library: str) -> zipfile.ZipFile:
    return zipfile.ZipFile(wheels / f"{library}-{fcnet_core.__version__}-py3-none-any.whl")


@pytest.fixture(scope="module")
def python(wheels: Path) -> Callable[..., str]:
    """Runs Python with these arguments where the wheels are installed, and nothing else of the suite can be imported;
    returns what it printed.
    """
    folder = wheels.parent / "site"
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-compile", "--target"]
    subprocess.run([*command, folder, *wheels.iterdir()], check=True)
    environment = {**os.environ, "PYTHONPATH": str(folder)}

    def run(*arguments: str | Path) -> str:
        return subprocess.check_output([sys.executable, *arguments], env=environment, cwd=folder.parent, text=True)

    return run


def test_the_wheel_holds_robots_settings_models_and_every_policy(wheels: Path) -> None:
    package = ROOT / "src" / "fcnet_core"
    files = [path for kind in ("*.py", "*.css") for path in (package / "fcnet_core").rglob(kind)]
    for kind in ("models/*.safetensors", "config/robots/*", "config/train/*", "config/collect/*"):
        files += (package / "fcnet_core").glob(kind)
    names = {str(path.relative_to(package)) for path in files}
    assert names <= set(wheel_of(wheels, "fcnet_core").namelist())


def pins() -> Iterator[Requirement]:
    for name in ("libraries", "train", "sharing"):
        lines = (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
        yield from (Requirement(line) for line in lines if re.match(r"\w", line))


def test_what_the_wheels_require_is_what_the_suite_is_tested_with(wheels: Path) -> None:
    tested = {pin.name: next(iter(pin.specifier)).version for pin in pins() if not pin.marker or pin.marker.evaluate()}
    tested |= dict.fromkeys(LIBRARIES, fcnet_core.__version__)
    for library in LIBRARIES:
        folder = f"{library}-{fcnet_core.__version__}.dist-info"
        metadata = message_from_string(wheel_of(wheels, library).read(f"{folder}/METADATA").decode())
        for requirement in map(Requirement, metadata.get_all("Requires-Dist", [])):
            extra = next(iter(re.findall(r'extra == "(\w+)"', str(requirement.marker))), "")
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                assert requirement.specifier.contains(tested[requirement.name]), requirement


def test_a_policy_steps_without_simulator_torch_and_ros_and_walks_in_an_environment(python: Callable[..., str]) -> None:
    python("-c", CORE_ALONE)
    python("-c", WALK)


def test_the_program_comes_with_its_verbs_and_names(python: Callable[..., str], wheels: Path) -> None:
    program = wheels.parent / "site" / "bin" / "fcnet"
    assert python(program, "--version") == f"fcnet {fcnet_core.__version__}\n"
    listed = python(program, "list")
    assert all(f"  {name} " in listed for name in ("aliengo-mlp", "a1", "stairs_up", "transformer"))
