"""fcnet replay: what a person sees, what a machine reads, and the page: its words, its size, its use in a browser."""

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from browser import Browser, broken_rules, chromedriver, needs_browser
from page_reader import PageReader

from fcnet_core.cli import USAGE_ERROR, main
from fcnet_core.document import Page
from fcnet_core.model_file import save_model, shipped_model
from fcnet_core.robot import ROBOT_FOLDER, load_robot
from fcnet_replay.bags.bag import open_bag
from fcnet_replay.read_run import read_run
from fcnet_replay.report.motion import motion_sections
from fcnet_replay.report.page import add_sections
from fcnet_replay.report.signals import Signals

EXAMPLES = Path(__file__).parents[4] / "docs" / "examples"
WALK = EXAMPLES / "aliengo_walk"
SMALL = 2e6  # bytes
MOVED = "return report.playbacks[0].scene.snapshot.trunk[0]"
A4 = 595.3, 841.9  # [1/72 inch]


@pytest.fixture
def bag(write_bag):
    return str(write_bag(seconds=0.6, custom={"fcnet.robot": "aliengo", "fcnet.git_revision": "abc123"}))


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
    figures = json.loads(one.read_text())
    assert figures["policies"]["A"]["action_error_rad"]["steps"] == 29
    assert figures["recorded_with"]["git_revision"] == "abc123"
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "there is no bag"),
        (["BAG", "--robot", "horse"], "there is no robot file"),
        (["BAG", "ALIENGO", "--robot", "a1"], "not a1"),
        (["BAG", "--robot", "a1", "--json", "new.json"], "is of the robot aliengo, not a1"),
        (["BAG", "--topics", "none.yaml"], "topic map none.yaml"),
        (["NAMELESS"], "does not name its robot; name it, such as --robot aliengo"),
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


def test_the_shipped_policy_reproduces_the_example_and_its_figures_are_unchanged(tmp_path):
    """aliengo_walk_figures.json holds those of version 0.2; another machine's float32 arithmetic differs by up to 2e-6
    rad.
    """
    assert sum(file.stat().st_size for file in WALK.iterdir()) < SMALL
    assert "every one of the 304 recorded targets" in (EXAMPLES / "aliengo_walk.html").read_text(encoding="utf-8")
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


def report_of(bag, path, *arguments):
    assert main(["replay", str(bag), *map(str, arguments), "--report", str(path)]) == 0
    return path.read_text(encoding="utf-8")


def words_of(bag, path, *arguments):
    return " ".join(PageReader(report_of(bag, path, *arguments)).words)


@pytest.fixture(scope="module")
def driver():
    with chromedriver() as address:
        yield address


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "walk.html"
    report_of(WALK, path)
    return path


def until(browser, condition):
    """Wait for a condition of the page."""
    end = time.monotonic() + 30
    while not browser.run(f"return Boolean({condition})"):
        assert time.monotonic() < end, browser.warnings()
        time.sleep(0.05)


@pytest.fixture(params=["desktop"])
def browser(request, driver, walk, tmp_path):
    browser = Browser(driver, tmp_path, phone=request.param == "phone")
    browser.open(f"file://{walk}")
    until(browser, "window.report")
    yield browser
    browser.close()


@needs_browser
@pytest.mark.parametrize("browser", ["desktop", "phone"], indirect=True)
def test_the_walk_plays_back_from_a_file_without_a_network(browser):
    assert browser.run("return report.playbacks[0].slider.value") == "0"
    before = browser.run(MOVED)
    browser.run("report.playbacks[0].seek(7.5)")
    assert browser.run(MOVED) - before > 2.0  # [m]
    browser.run("report.playbacks[0].seek(4); document.querySelector('.bar button').click()")
    until(browser, "report.playbacks[0].time >= 4.2")
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out sideways"
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    assert browser.warnings() == []


@needs_browser
def test_a_zoom_into_one_plot_is_a_zoom_into_all_and_a_click_takes_the_robot_there(browser):
    roll = "find(({spec}) => spec.title === 'Roll').plot"
    of_time = "filter(({spec}) => spec.group && spec.scale !== 'path')"
    browser.run("report.plots.panels.forEach((panel) => panel.see(true))")
    assert browser.run(f"return report.plots.panels.{of_time}.length") > 20
    browser.run(f"report.plots.panels.{roll}.setScale('x', {{min: 4, max: 6}})")
    zoomed = "every(({plot}) => plot.scales.x.min === 4 && plot.scales.x.max === 6)"
    until(browser, f"report.plots.panels.{of_time}.{zoomed}")
    browser.run("report.plots.onPick('time', 5.5)")
    assert browser.run("return report.playbacks[0].time") == 5.5
    browser.run("report.plots.range('time', null)")
    until(browser, f"report.plots.panels.{roll}.scales.x.max > 7.5")


@needs_browser
@pytest.mark.parametrize(("browser", "scheme"), [("desktop", "dark"), ("phone", "light")], indirect=["browser"])
def test_no_rule_of_accessibility_is_broken(browser, scheme):
    browser.configure("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.run("report.plots.panels.forEach((panel) => panel.see(true))")
    assert broken_rules(browser) == []


@needs_browser
def test_it_prints_on_a4_with_every_plot_in_the_width_of_the_page(browser):
    browser.configure("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    browser.run(
        "addEventListener('beforeprint', () => { window.drawn = report.plots.panels.map(({plot}) => plot?.width); })"
    )
    content = browser.print()
    width, height = (float(side) for side in content.split(b"/MediaBox [0 0 ")[1].split(b"]")[0].split())
    assert (width, height) == pytest.approx(A4, abs=1.0)
    assert 5 <= content.count(b"/Type /Page\n") <= 12
    drawn = browser.run("return window.drawn")
    assert all(600 <= width <= 703 or 300 <= width <= 351 for width in drawn), drawn
    assert not browser.run("return document.documentElement.classList.contains('paper')")


def test_what_a_bag_of_a_robot_does_not_hold_is_said_in_a_sentence(write_bag, tmp_path) -> None:
    bag = write_bag(without=("odom", "controller/policy_step"), effort=float("nan"))
    words = words_of(bag, tmp_path / "report.html", "--robot", "aliengo")
    for sentence in (
        "The robot walks on the spot, because the run has no odom.",
        "The gait is not known: the run has no torques, by which contacts are estimated.",
        "The path is not known: the run has no odom.",
        "How well commands were followed is not known: the run has no odom.",
        "Power is not known: the run has no torques.",
        "Latency is not known: the bag has no policy_step.",
    ):
        assert sentence in words, sentence


def test_a_policy_that_differs_has_a_section_and_others_have_none(write_bag, model, tmp_path) -> None:
    bag = write_bag(custom={"fcnet.robot": "aliengo"})
    changed = {**model.scales, "action_mean": model.scales["action_mean"] + 0.01}
    save_model(type(model)(card=model.card, weights=model.weights, scales=changed), tmp_path / "other.safetensors")
    assert "Policy difference" not in words_of(bag, tmp_path / "report.html")
    assert "Policy difference" in words_of(bag, tmp_path / "report.html", tmp_path / "other.safetensors")


MOST = 5_000_000  # [bytes]
NOISE = {"position": 0.002, "velocity": 0.1, "effort": 0.2, "orientation": 0.003}  # [rad, rad/s, Nm]; of an encoder


@pytest.fixture(scope="module")
def ten_minutes():
    """The end of the example's walk again and again, each time with other noise."""
    run, rng, length = read_run(open_bag(WALK)), np.random.default_rng(0), 5.5
    count, parts = round(600 / length), {}
    for part in ("joints", "imu", "targets", "odometry", "steps"):
        record, parts[part] = vars(getattr(run, part)), {}
        stamp = record["target_stamp" if part == "steps" else "stamp"]
        walked = stamp >= run.joints.stamp[-1] - length
        for name, values in record.items():
            rows = np.concatenate([values[walked]] * count)
            if name.endswith("stamp") or name == "received":
                rows = rows + np.repeat(length * np.arange(count), int(walked.sum()))
            parts[part][name] = rows + NOISE[name] * rng.standard_normal(rows.shape) if name in NOISE else rows
    records = {part: replace(getattr(run, part), **changed) for part, changed in parts.items()}
    return Signals(replace(run, mode=type(run.mode)(np.empty(0), ()), **records), load_robot("aliengo"))


def test_a_page_of_ten_minutes_stays_below_5_megabytes(ten_minutes):
    page, sections = Page("Ten minutes"), motion_sections(ten_minutes)
    add_sections(page, sections, ten_minutes.plots)
    assert ten_minutes.seconds > 590
    assert "every 80 ms; no peak is lost" in sections[0][1][0]
    assert 1_000_000 < len(page.html().encode()) < MOST


def test_no_peak_is_lost_in_ten_minutes(ten_minutes):
    effort = ten_minutes.run.joints.effort
    effort[70_001, 4] = 99.0  # of one state
    shown = ten_minutes.over_time(ten_minutes.joint_time, effort)
    assert shown[:, 4].max() == 99.0
    assert np.allclose(np.nanmin(shown, axis=0), effort.min(axis=0))
    place = ten_minutes.grid.values[int(np.nanargmax(shown[:, 4]))]
    assert abs(place - ten_minutes.joint_time[70_001]) <= 2 * ten_minutes.grid.step
