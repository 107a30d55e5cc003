"""Compares what ROS tools and pip read of the packages with the code: package.xml, setup.cfg, colcon.meta, and what
colcon makes of them.

python tools/check_packages.py              # prints errors; exit code 1 if there is one
python tools/check_packages.py --write      # first writes dependencies and the version into the packages
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import yaml

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = sorted(path.parent.name for path in ROOT.glob("src/*/package.xml"))
# Modules outside the packages that tests import: pytest's `pythonpath` in pyproject.toml.
FOLDERS_OUTSIDE = (
    "tools/isaac_gym_writer",
    "src/fcnet_core/test/shared",
    "src/fcnet_replay/test/shared",
    "src/fcnet_ros/test/shared",
    "src/unitree_lowlevel/test/shared",
)
OUTSIDE = {path.stem for folder in FOLDERS_OUTSIDE for path in (ROOT / folder).glob("*.py")}
# Import name: rosdep key. The keys of ROS packages are their import names.
KEYS = {
    "PIL": "python3-pil",
    "aiohttp": "python3-aiohttp",
    "hypothesis": "python3-hypothesis",
    "matplotlib": "python3-matplotlib",
    "mujoco": "python3-mujoco-pip",
    "numba": "python3-numba",
    "numpy": "python3-numpy",
    "onnxruntime": "python3-onnxruntime-pip",
    "packaging": "python3-packaging",
    "pytest": "python3-pytest",
    "rosbags": "python3-rosbags-pip",
    "scipy": "python3-scipy",
    "torch": "python3-torch",
    "tqdm": "python3-tqdm",
    "yaml": "python3-yaml",
}
# rosdep has no key for these; requirements/distribution.txt, train.txt, ray.txt and sharing.txt install them.
# llvmlite is a part of numba.
WITHOUT_KEY = {
    "av", "backports", "gymnasium", "huggingface_hub", "llvmlite", "lz4", "mcap", "msgspec", "onnx", "pyarrow",
    "ray", "safetensors", "stable_baselines3", "tensorboard", "youplot", "zstandard",
}  # fmt: skip
# Imported on demand: tests need it, a robot does not.
ONLY_FOR_TESTS = {"python3-matplotlib", "python3-scipy", "python3-torch"}
# Started by launch files, not imported.
STARTED = {
    "fcnet_controller": {
        "a1_bridge", "aliengo_bridge", "fcnet_teleop", "robot_state_publisher", "ros2bag", "ros2launch",
        "rosbag2_storage_mcap", "sim_bridge",
    },
    "a1_bridge": {"unitree_bridge", "unitree_lowlevel"},
    "aliengo_bridge": {"unitree_bridge", "unitree_lowlevel"},
}  # fmt: skip


def imported(folder: Path, package: str) -> set[str]:
    """Return the rosdep keys of the imports of the Python files in `folder`, without `package` itself."""
    names: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                names.add(node.module.split(".")[0])
    own = {path.stem for path in folder.rglob("*.py")} - set(PACKAGES) | {package} | OUTSIDE
    return {KEYS.get(name, name) for name in names - sys.stdlib_module_names - own - WITHOUT_KEY}


def dependencies(package: str) -> dict[str, set[str]]:
    """Return the dependencies that package.xml has to list."""
    folder = ROOT / "src" / package
    code = imported(folder / package, package)
    running = (code - ONLY_FOR_TESTS) | STARTED.get(package, set())
    testing = (imported(folder / "test", package) | (code & ONLY_FOR_TESTS)) - running
    return {"exec_depend": running, "test_depend": testing}


def wrong_dependencies(package: str) -> list[str]:
    """Return one sentence for each missing or unneeded dependency in package.xml."""
    tree = ElementTree.parse(ROOT / "src" / package / "package.xml")
    wrong = []
    for kind, needed in dependencies(package).items():
        listed = {str(entry.text) for entry in tree.findall(kind)}
        wrong += [f"{package}/package.xml lacks <{kind}>{key}</{kind}>" for key in sorted(needed - listed)]
        wrong += [f"{package}/package.xml has <{kind}>{key}</{kind}> without need" for key in sorted(listed - needed)]
    return wrong


def write_dependencies(package: str) -> None:
    """Replace the dependencies in package.xml."""
    path = ROOT / "src" / package / "package.xml"
    lines = [f"  <{kind}>{key}</{kind}>\n" for kind, keys in dependencies(package).items() for key in sorted(keys)]
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"( *<(?:exec|test)_depend>.*\n)+", "@\n", text, count=1)
    text = re.sub(r" *<(?:exec|test)_depend>.*\n", "", text)
    path.write_text(text.replace("@\n", "".join(lines), 1), encoding="utf-8")


# Patterns of the suite's version in the files of a package.
VERSIONS = {
    "package.xml": r"(?<=<version>)[^<]*",
    "setup.cfg": r"(?:(?<=\nversion = )|(?<=fcnet_core==)|(?<=fcnet_replay==)|(?<=quadruped_sim==)).*",
}


def suite_version() -> str:
    """Return the version of every package, from the one place where it is written by hand."""
    text = (ROOT / "src" / "fcnet_core" / "fcnet_core" / "__init__.py").read_text(encoding="utf-8")
    return re.findall(r'(?m)^__version__ = "(.*)"$', text)[0]


def wrong_versions() -> Iterator[str]:
    """Yield a sentence for each file with another version than fcnet_core.__version__."""
    version = suite_version()
    for path, pattern in versioned_files():
        if set(re.findall(pattern, path.read_text(encoding="utf-8"))) != {version}:
            yield f"{path.relative_to(ROOT)} is not version {version}: --write corrects it"
    if f"\n## [{version}]" not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
        yield f"CHANGELOG.md has no section for version {version}"


def write_version() -> None:
    """Write fcnet_core.__version__ into every package.xml and setup.cfg."""
    for path, pattern in versioned_files():
        path.write_text(re.sub(pattern, suite_version(), path.read_text(encoding="utf-8")), encoding="utf-8")


def versioned_files() -> Iterator[tuple[Path, str]]:
    """Yield every file with the version, and the pattern that finds it."""
    for package in PACKAGES:
        for name, pattern in VERSIONS.items():
            yield ROOT / "src" / package / name, pattern


def main() -> int:
    """Print all errors; return 1 if there is one."""
    if "--write" in sys.argv:
        write_version()
        for package in PACKAGES:
            write_dependencies(package)
    wrong = [*wrong_versions(), *(sentence for package in PACKAGES for sentence in wrong_dependencies(package))]
    settings = set(yaml.safe_load((ROOT / "colcon.meta").read_text(encoding="utf-8"))["names"])
    wrong += [f"colcon.meta does not name {package}" for package in sorted(set(PACKAGES) - settings)]
    wrong += [f"colcon.meta names {package}, which does not exist" for package in sorted(settings - set(PACKAGES))]
    # colcon would silently build a package with an invalid package.xml as plain Python, which ROS does not find.
    command = ["colcon", "--log-level", "error", "list", "--base-paths", "src"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()
    found = {line.split()[0] for line in listed if line.endswith("(ros.ament_python)")}
    wrong += [f"colcon does not see {package} as ros.ament_python: check its package.xml" for package in PACKAGES
              if package not in found]  # fmt: skip
    for sentence in wrong:
        print(f"fcnet: {sentence}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
