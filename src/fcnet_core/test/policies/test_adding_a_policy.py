"""The policy of docs/adding_a_policy.md, a package of its own, is trained, exported and run by the unchanged suite."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fcnet_core.learning.dataset import DatasetWriter, velocity_manifest
from fcnet_core.robot import load_robot

PAGE = Path(__file__).parents[4] / "docs" / "adding_a_policy.md"
CONTRACT = Path(__file__).with_name("test_policy_contract.py")
FILE = re.compile(r"^`(\S+)`, .*?:\n\n```\w+\n(.*?)```", re.MULTILINE | re.DOTALL)
USE = """
import numpy, sys
sys.modules["torch"] = None
from fcnet_core import load_policy
policy = load_policy("run")
actions = [policy(numpy.ones(70)) for _ in range(2)]
assert policy.model.card.policy_type == "gru" and (actions[0] != actions[1]).all()
"""
Python = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Python:
    """A function that runs Python, with the package of the page installed, in a folder of its own; its output."""
    folder = tmp_path_factory.mktemp("adding")
    for name, content in FILE.findall(PAGE.read_text()):
        (folder / "gru" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "gru" / name).write_text(content)
    install = ("-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", folder / "site")
    subprocess.run([sys.executable, *install, folder / "gru"], check=True)
    paths = f"{folder / 'site'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command, environment = [sys.executable, *arguments], os.environ | {"PYTHONPATH": paths}
        return subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True)

    return run


def test_the_policy_passes_the_contract_test_of_all_policies(python: Python) -> None:
    assert " passed" in python("-m", "pytest", "-q", "-p", "no:cacheprovider", CONTRACT, "-k", "gru").stdout


def test_it_is_trained_loaded_and_evaluated(python: Python, tmp_path: Path) -> None:
    rng, first = np.random.default_rng(0), np.zeros((4, 160), dtype=bool)
    first[:, 0] = True
    writer = DatasetWriter(tmp_path / "data", velocity_manifest(load_robot("aliengo"), 50.0, {"expert": "made up"}))
    writer.add({}, observation=rng.normal(size=(4, 160, 70)), action=rng.normal(size=(4, 160, 12)), first=first)
    (tmp_path / "gru.yaml").write_text("{base: imitation, policy_type: gru, epochs: 1}")
    assert "gru" in python("-m", "fcnet_core.cli", "list", "policies").stdout
    settings = ("--config", tmp_path / "gru.yaml", "--data", tmp_path / "data", "--out", "run")
    python("-m", "fcnet_core.cli", "train", *settings, "--steps", "50")
    python("-c", USE)
    evaluate = ("evaluate", "run", "--scenarios", "flat", "--episodes", "2", "--no-fail")
    assert "flat" in python("-m", "fcnet_core.cli", *evaluate).stdout
