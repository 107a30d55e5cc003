"""fcnet replay: what a person sees, what a machine reads, one page that stands alone, and the example bag."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from page_reader import PageReader

from fcnet_core.cli import USAGE_ERROR, main
from fcnet_core.model_file import shipped_model
from fcnet_core.robot import ROBOT_FOLDER


@pytest.fixture
def bag(write_bag):
    return str(write_bag(seconds=0.6, custom={"fcnet.robot": "aliengo"}))


def test_a_bag_is_evaluated_before_a_compiler_or_a_simulator_would_have_been_loaded(bag) -> None:
    """Each of these takes longer to import than a minute's bag takes to be evaluated."""
    program = f"""
import sys
from fcnet_core.cli import main
assert main(["replay", {bag!r}]) == 0
slow = {{"numba", "mujoco", "torch", "rosbags.typesys.stores.ros2_jazzy"}} & set(sys.modules)
assert not slow, slow
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert finished.returncode == 0, finished.stderr


def test_the_verdict_is_printed_and_the_same_bag_gives_the_same_json_every_time(bag, tmp_path, capsys) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    for path in (one, two):
        assert main(["replay", bag, "--json", str(path)]) == 0
    assert one.read_bytes() == two.read_bytes()
    assert json.loads(one.read_text())["policies"]["A"]["action_error_rad"]["steps"] == 29
    printed = capsys.readouterr().out
    assert "ok      Policy A reproduces every one of the 29 recorded targets" in printed
    assert "joint_states" in printed and "walking 0.6 s" in printed


@pytest.mark.parametrize(
    ("threshold", "status"),
    [
        ("action_error_rad.max=1e-5", 0),
        ("policies.A.action_error_rad.max=1e-9", 1),
        ("motion.tilt_rad.max=0.05", 1),
        ("timing.topics.joint_states.gaps=0", 0),
        ("tilt=1", USAGE_ERROR),
        ("motion.tilt_rad.max", USAGE_ERROR),
        ("motion.tilt_rad.max=much", USAGE_ERROR),
    ],
)
def test_thresholds_decide_the_exit_status(bag, capsys, threshold, status) -> None:
    assert main(["replay", bag, "--fail-above", threshold]) == status
    assert threshold.partition("=")[0] in capsys.readouterr().err or status == 0


def test_a_figure_that_is_not_known_breaks_its_threshold(write_bag, capsys) -> None:
    bag = str(write_bag(seconds=0.6, without=("odom", "controller/policy_step", "joint_trajectory")))
    assert main(["replay", bag, "--robot", "aliengo", "--fail-above", "action_error_rad.max=1"]) == 1
    assert "not known" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "there is no bag"),
        (["BAG", "--robot", "horse"], "there is no robot file"),
        (["BAG", "none.safetensors"], "there is no model file"),
        (["BAG", "ALIENGO", "--robot", "a1"], "not a1"),
        (["BAG", "--robot", "a1", "--json", "new.json"], "is of the robot aliengo, not a1"),
        (["BAG", "--topics", "none.yaml"], "topic map none.yaml"),
        (["NAMELESS"], "does not name its robot"),
        (["nowhere", "--json", "."], ". cannot be written"),
        (["nowhere", "--report", "."], ". cannot be written"),
        (["BAG", "--robot", "aliengo"], ""),
        (["BAG", "--robot", str(ROBOT_FOLDER / "aliengo.yaml")], ""),
        (["NAMELESS", "--robot", "aliengo"], ""),
        (["NAMELESS", "ALIENGO"], ""),
    ],
)
def test_what_cannot_be_used_is_an_error(bag, write_bag, tmp_path, monkeypatch, capsys, arguments, words) -> None:
    monkeypatch.chdir(tmp_path)
    places = {"BAG": bag, "NAMELESS": str(write_bag(seconds=0.6)), "ALIENGO": str(shipped_model("aliengo"))}
    assert main(["replay", *(places.get(one, one) for one in arguments)]) == (USAGE_ERROR if words else 0)
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_what_a_bag_says_cannot_become_part_of_the_page(write_bag, tmp_path) -> None:
    evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
    bag = write_bag(seconds=0.6, custom={"fcnet.robot": "aliengo", "fcnet.git_revision": evil, "fcnet.model": evil})
    assert main(["replay", str(bag), "--report", str(tmp_path / "report.html")]) == 0
    page = PageReader((tmp_path / "report.html").read_text())
    assert any("<img src=x" in text for text in page.words)
    assert not any("alert(1)" in script for script in page.scripts)


EXAMPLES = Path(__file__).parents[4] / "docs" / "examples"
WALK = EXAMPLES / "aliengo_walk"
SMALL = 2e6  # bytes


def test_the_shipped_policy_reproduces_the_example_and_its_figures_are_unchanged(tmp_path):
    """aliengo_walk_figures.json holds those of version 1 of the report, by float32 arithmetic of another machine, whose
    rounding was up to 2e-6 rad.
    """
    report = tmp_path / "report.json"
    assert main(["replay", str(WALK), "--json", str(report), "--fail-above", "action_error_rad.max=1e-5"]) == 0
    found = dict(leaves(json.loads(report.read_text())))
    for name, value in leaves(json.loads(Path(__file__).with_name("aliengo_walk_figures.json").read_text())):
        rounding = 2e-6 if "action_error_rad" in name else 1e-9
        assert found[name] == (pytest.approx(value, rel=1e-5, abs=rounding) if type(value) is float else value), name


def leaves(figures, path=""):
    """Every figure with its path."""
    for name, value in figures.items():
        yield from leaves(value, f"{path}/{name}") if isinstance(value, dict) else [(f"{path}/{name}", value)]


def test_the_example_is_small_and_its_page_is_of_it():
    assert sum(file.stat().st_size for file in WALK.iterdir()) < SMALL
    page = (EXAMPLES / "aliengo_walk.html").read_text(encoding="utf-8")
    assert "Policy A reproduces every one of the 307 recorded targets" in page
