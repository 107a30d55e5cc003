"""Compares what ROS tools and pip read of the packages with the code: package.xml, setup.cfg, colcon.meta, and what
colcon makes of them.

python tools/check_packages.py              # prints errors; exit code 1 if there is one
python tools/check_packages.py --write      # writes dependencies and the version into the packages instead
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = sorted(path.parent.name for path in ROOT.glob("src/*/package.xml"))
# Modules outside the packages that tests import: pytest's `pythonpath` in pyproject.toml.
FOLDERS_OUTSIDE = [ROOT / "tools/isaac_gym_writer", *ROOT.glob("src/*/test/shared")]
OUTSIDE = {"benchmarks", *(path.stem for folder in FOLDERS_OUTSIDE for path in folder.glob("*.py"))}
# Import name: rosdep key. The keys of ROS packages are their import names.
KEYS = {
    **{name: f"python3-{name}" for name in (
        "aiohttp", "hypothesis", "matplotlib", "numba", "numpy", "packaging", "pytest", "scipy", "torch", "tqdm",
        "yaml",
    )},
    **{name: f"python3-{name}-pip" for name in ("mujoco", "onnxruntime", "rosbags")},
    "PIL": "python3-pil",
}  # fmt: skip
# rosdep has no key for these; requirements/distribution.txt, train, ray, sharing and kernels install them.
# llvmlite is a part of numba.
WITHOUT_KEY = {
    "av", "backports", "gymnasium", "huggingface_hub", "llvmlite", "lz4", "mcap", "msgspec", "onnx", "pyarrow",
    "ray", "safetensors", "stable_baselines3", "tensorboard", "triton", "youplot", "zstandard",
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


# Patterns of the suite's version in the files of a package.
VERSIONS = {
    "package.xml": r"(?<=<version>)[^<]*",
    "setup.cfg": r"(?:(?<=\nversion = )|(?<=fcnet_core==)|(?<=fcnet_replay==)|(?<=quadruped_sim==)).*",
}
DEPENDENCIES = r"( *<(?:exec|test)_depend>.*\n)+"  # in package.xml only


def corrected(path: Path, version: str) -> str:
    """Return the text of a package.xml or setup.cfg with the suite's version and the dependencies of the code."""
    text = re.sub(VERSIONS[path.name], version, path.read_text(encoding="utf-8"))
    needed = dependencies(path.parent.name).items()
    lines = [f"  <{kind}>{key}</{kind}>\n" for kind, keys in needed for key in sorted(keys)]
    return re.sub(DEPENDENCIES, "".join(lines), text, count=1)


def main() -> int:
    """Print all errors; return 1 if there is one."""
    wrong = []
    core = (ROOT / "src" / "fcnet_core" / "fcnet_core" / "__init__.py").read_text(encoding="utf-8")
    (version,) = re.findall(r'(?m)^__version__ = "(.*)"$', core)
    for path in [ROOT / "src" / package / name for package in PACKAGES for name in VERSIONS]:
        old, new = path.read_text(encoding="utf-8"), corrected(path, version)
        if "--write" in sys.argv:
            path.write_text(new, encoding="utf-8")
        elif old != new:
            lines = ", ".join(sorted(line.strip() for line in set(old.splitlines()) ^ set(new.splitlines())))
            wrong.append(f"{path.relative_to(ROOT)} has one of these lines too many or too few ({lines}): use --write")
    if f"\n## [{version}]" not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
        wrong.append(f"CHANGELOG.md has no section for version {version}")
    settings = set(yaml.safe_load((ROOT / "colcon.meta").read_text(encoding="utf-8"))["names"])
    odd = sorted(settings ^ set(PACKAGES))
    wrong += [f"colcon.meta must name every package, and only them: see {package}" for package in odd]
    # colcon would silently build a package with an invalid package.xml as plain Python, which ROS does not find.
    command = ["colcon", "--log-level", "error", "list", "--base-paths", "src"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()
    found = {line.split()[0] for line in listed if line.endswith("(ros.ament_python)")}
    unseen = sorted(set(PACKAGES) - found)
    wrong += [f"colcon does not see {package} as ros.ament_python: check its package.xml" for package in unseen]
    for sentence in wrong:
        print(f"fcnet: {sentence}", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
