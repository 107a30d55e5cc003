"""README, docs/, the model cards and docker/: every command, option, launch argument, link and file that they name,
copy or mount exists.
"""

import fnmatch
import re
import runpy
import shlex
from collections.abc import Iterator
from contextlib import redirect_stderr
from functools import cache
from importlib.metadata import entry_points
from io import StringIO
from pathlib import Path

import pytest
import yaml
from launch.actions import DeclareLaunchArgument

from fcnet_controller.descriptions.playback import describe_playback, describe_replay
from fcnet_controller.descriptions.robot import describe_robot
from fcnet_controller.parameters import ControllerParameters
from fcnet_core.cli import program
from fcnet_core.control.controller import FOLLOWING_PATIENCE
from fcnet_core.robot import Safety, load_robot
from fcnet_ros.parameters import default_parameters, policy_rate
from unitree_bridge.hardware import BridgeParameters
from unitree_lowlevel.codec import PERIOD
from unitree_lowlevel.io_link import SILENCE
from unitree_lowlevel.io_process import END_DAMPING, ORPHAN_DAMPING
from unitree_lowlevel.safety.monitor import IDENTITY

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += [path for folder in ("docs", "models", "papers", "papers/*") for path in sorted(ROOT.glob(f"{folder}/*.md"))]
PAGES += [ROOT / "docker" / name for name in ("compose.yaml", "fcnet-robot.service")]
LAUNCH_FILES = {"isaac_playback": describe_playback, "replay": describe_replay}
EXTERNAL = {"robot_state_publisher", "joy", "foxglove_bridge"}  # packages of a ROS distribution
MADE_UP = "mule"  # the robot that docs/adding_a_robot.md makes
FOLDERS = "config|docker|src|docs|models|benchmarks|launch|papers|tools|requirements"
WORKER_OPTIONS = "src/quadruped_sim/quadruped_sim/worker_pool.py"
PACKAGES = [path.parent.name for path in ROOT.glob("src/*/package.xml")]
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT).with_suffix("")))


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each simple command in the blocks and in the inline code of a page."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    if page.parent.name == "docker":
        text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text).replace("${FCNET_ROBOT}", "aliengo")
        text = re.sub(r"(?m)^.* (ros2 .*)$", r"    \1", text)
    prose = re.sub(r"(?m)^ {4,}.*$", "", text)
    inline = [" ".join(code.split()) for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", prose)]
    for line in [*re.findall(r"(?m)^ {4,}(.*)$", text), *inline]:
        for part in re.split(r"\s(?:&&|\|\||[|;])\s", line):
            try:
                words = shlex.split(part, comments=True)
            except ValueError:  # prose, or code in another language
                continue
            if words and words[0] in ("fcnet", "ros2", "make", "python", "sh", "torchrun") and len(words) > 1:
                yield words


def named(page: Path, first: str) -> list[list[str]]:
    return [words[1:] for words in commands(page) if words[0] == first]


@cache
def verbs():
    return program()


@every_page
def test_fcnet_takes_what_is_shown(page):
    for words in named(page, "fcnet"):
        given = [word for word in words if word != "..."]
        if any(word in ("VERB", "--version") or "|" in word for word in given) or not re.fullmatch(r"[a-z]+", given[0]):
            continue
        said = StringIO()
        try:
            with redirect_stderr(said):
                verbs().parse_args(given)
        except SystemExit as ended:
            # Prose names a verb, or an option, without what it needs.
            part = len(given) <= 3 and re.search("required|expected one argument", said.getvalue())
            assert ended.code in (0, None) or part, f"fcnet {' '.join(words)}: {said.getvalue().splitlines()[-1]}"


@every_page
def test_launch_files_have_the_arguments_that_are_shown(page):
    for words in named(page, "ros2"):
        if words[:2] != ["launch", "fcnet_controller"]:
            assert words[0] != "launch", words
            continue
        name, *arguments = words[2:]
        stem = name.removesuffix(".launch.py")
        assert (ROOT / "launch" / name).is_file() or stem == MADE_UP, name
        known = launch_arguments(stem if stem in LAUNCH_FILES else "aliengo")
        given = {argument.split(":=")[0] for argument in arguments if ":=" in argument}
        assert given <= known, f"{name} has no {', '.join(sorted(given - known))}"


@cache
def launch_arguments(stem):
    description = LAUNCH_FILES[stem]() if stem in LAUNCH_FILES else describe_robot(stem)
    declared = [entity for entity in description.entities if isinstance(entity, DeclareLaunchArgument)]
    assert all(argument.description for argument in declared)
    return {argument.name for argument in declared}


@every_page
def test_programs_that_are_run_are_installed_by_a_package(page):
    for words in named(page, "ros2"):
        if words[0] == "run" and words[1] not in EXTERNAL:
            setup = (ROOT / "src" / words[1] / "setup.cfg").read_text()
            assert f"\n    {words[2]} = {words[1]}:" in setup, words


@every_page
def test_targets_of_make_exist(page):
    targets = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text()))
    for words in named(page, "make"):
        if re.fullmatch(r"[a-z-]+", words[0]):
            assert words[0] in targets, words


@every_page
def test_scripts_have_the_options_that_are_shown(page):
    for words in [*named(page, "python"), *named(page, "sh"), *named(page, "torchrun")]:
        for place, word in enumerate(words):
            files = re.findall(rf"^(?:{FOLDERS})/[\w/]+\.(?:py|sh)$", word)
            if word.startswith("papers."):  # python -m papers.PAPER.SCRIPT
                files = [word.replace(".", "/") + ".py", "papers/shared.py", WORKER_OPTIONS]
            text = "".join((ROOT / path).read_text() for path in files)
            for option in (given for given in words[place:] if files and given.startswith("--")):
                assert f'"{option.split("=")[0]}"' in text, f"{word} has no {option}"


@every_page
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for link in [*re.findall(r"\]\(([^)\s]+)\)", text), *re.findall(r'src="([^"]+)"', text)]:
        if re.match(r"https?:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), f"{page.name}: {link}"
        if anchor:
            headings = re.findall(r"(?m)^#+ (.*)$", target.read_text(encoding="utf-8"))
            assert anchor in {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}, link


@every_page
def test_files_that_are_named_exist(page):
    text = page.read_text(encoding="utf-8")
    kinds = "py|md|yaml|sh|safetensors|txt|json|xml|rviz"
    for path in re.findall(rf"(?<![\w/.<>$-])((?:{FOLDERS})/[a-z\d_./-]+\.(?:{kinds}))\b", text):
        assert (ROOT / path).exists() or MADE_UP in path, f"{page.name}: {path}"
    for package, path in re.findall(rf"(?<![\w/])({'|'.join(PACKAGES)})/([a-z\d_/]+\.(?:py|md))", text):
        folder = ROOT / "src" / package
        assert (folder / package / path).exists() or (folder / path).exists(), f"{page.name}: {package}/{path}"


def test_every_verb_is_described_somewhere():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert {entry.name for entry in entry_points(group="fcnet.verbs")} <= set(re.findall(r"fcnet ([a-z]+)", text))


DOCKER = ROOT / "docker"
IN_ROS_CORE = {"ros2launch"}
STARTED_BY_A_LAUNCH = runpy.run_path(str(ROOT / "tools" / "check_packages.py"))["STARTED"]["fcnet_controller"]


def copied() -> list[str]:
    """The sources of every COPY from the workspace."""
    lines = re.findall(r"(?m)^COPY (?!.*--from=)(.*)$", (DOCKER / "Dockerfile").read_text())
    return [word for line in lines for word in line.split()[:-1] if word[:2] != "--"]


def stages() -> dict[str, str]:
    """The text of every stage of the Dockerfile by its name."""
    parts = re.split(r"(?m)^FROM .* AS (\w+)$", (DOCKER / "Dockerfile").read_text())
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("source", copied())
def test_what_is_copied_into_an_image_exists_and_is_not_kept_from_the_builder(source):
    assert (ROOT / source).exists()
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    assert not any(fnmatch.fnmatch(source, pattern) for pattern in patterns)


def test_the_development_image_holds_the_files_that_make_test_reads():
    tool = (ROOT / "tools" / "check_packages.py").read_text()
    read = set(re.findall(r'ROOT / "([^"/]+)"', tool)) - {"src"}
    assert "colcon.meta" in read
    assert read <= set(copied())


def test_compose_builds_stages_of_the_dockerfile_and_mounts_folders_that_exist():
    services = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"].values()
    assert {service["build"]["target"] for service in services} == {"robot", "development"} <= set(stages())
    assert all((DOCKER / path.split(":")[0]).is_dir() for service in services for path in service.get("volumes", ()))


@pytest.mark.parametrize("stage", ["robot", "development"])
def test_an_image_holds_the_programs_of_a_distribution_that_a_launch_starts(stage):
    started = STARTED_BY_A_LAUNCH - IN_ROS_CORE - {path.parent.name for path in ROOT.glob("src/*/package.xml")}
    assert started
    for package in started:
        assert f'"ros-${{ROS_DISTRO}}-{package.replace("_", "-")}"' in stages()[stage]


# What docs/deployment.md and docs/inside.md say of trips, settings and times is what the code has.

GUIDE = (ROOT / "docs" / "deployment.md").read_text()
INSIDE = (ROOT / "docs" / "inside.md").read_text()
LOW_LEVEL = ROOT / "src" / "unitree_lowlevel" / "unitree_lowlevel"


def rows(after: str) -> list[list[str]]:
    """The cells of the table that follows a line with `after`."""
    lines = GUIDE.split(after, 1)[1].split("\n\n")[2].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_trip_is_explained_and_none_is_invented():
    only_warnings = {"foreign_packets", "rejected_packets", "unsent_commands"}
    only_warnings |= {"board_restarted", "old_states", "tick_jump"}
    explained = {name for row in rows("## Trips") for name in re.findall(r"`(\w+)`", row[0])}
    code = "\n".join(path.read_text() for path in (LOW_LEVEL / "driver.py", *(LOW_LEVEL / "safety").glob("*.py")))
    assert explained | only_warnings == {IDENTITY, *re.findall(r'(?:Finding|": )\(\s*"([a-z_]+)"', code)}
    assert all(f"`{name}`" in GUIDE for name in only_warnings)


def test_the_thresholds_of_the_trips_are_those_of_a_robot_file():
    for row in rows("## Trips"):
        assert set(re.findall(r"\b\w+_\w+\b", row[1])) <= {*Safety.__struct_fields__, "joint_trajectory"}


def test_the_page_of_the_fault_matrix_has_a_row_for_each_case():
    page = (ROOT / "docs" / "fault_matrix.md").read_text()
    table = page.partition("| fault |")[2].partition("\n\n")[0].splitlines()[2:]
    cases = runpy.run_path(str(ROOT / "benchmarks" / "bridge" / "fault_cases.py"))["CASES"]
    assert [line.split("|")[1].strip() for line in table] == [case.name for case in cases]


def test_the_recommended_parameters_exist():
    settings = yaml.safe_load((ROOT / "config" / "bridges" / "real_time.yaml").read_text())
    kinds = {"aliengo_bridge": BridgeParameters, "a1_bridge": BridgeParameters, "controller": ControllerParameters}
    assert set(settings) == {f"/**/{node}" for node in kinds}, "in every namespace"
    for node, kind in kinds.items():
        assert set(settings[f"/**/{node}"]["ros__parameters"]) <= set(default_parameters(kind))


@pytest.mark.parametrize("name", ["aliengo", "a1"])
def test_an_inner_layer_damps_before_an_outer_one_takes_its_place_at_the_times_of_the_page(name):
    safety, controller = load_robot(name).safety, ControllerParameters()
    assert PERIOD < safety.max_cycle_gap < SILENCE < safety.command_timeout < safety.state_timeout
    assert safety.state_timeout < controller.state_timeout
    assert safety.command_timeout > 3.0 / policy_rate(name, "")  # three lost targets are no reason to damp
    table = INSIDE.partition("## Who damps, and when")[2]
    assert f"`command_timeout` ({safety.command_timeout:g} s)" in table
    assert f"`max_cycle_gap` ({safety.max_cycle_gap:g} s)" in table
    assert f"no cycle of the I/O process for {SILENCE:g} s" in table
    assert f"one cycle ({1e3 * PERIOD:g} ms)" in table
    assert f"{END_DAMPING:g} s of damping commands" in table
    assert f"{ORPHAN_DAMPING:g} s of damping commands" in table
    assert f"`state_timeout` ({controller.state_timeout:g} s)" in table
    assert f"age ({safety.state_timeout:g} s)" in table
    assert f"in fault within {FOLLOWING_PATIENCE:g} s" in table


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ("driving.md", r"older than `cmd_vel_timeout` \(([\d.]+) s"),
        ("remote_control.md", r"in the last ([\d.]+) s \(the controller's `cmd_vel_timeout`"),
    ],
)
def test_a_velocity_command_counts_for_as_long_as_the_pages_say(page, sentence):
    (seconds,) = re.findall(sentence, (ROOT / "docs" / page).read_text())
    assert ControllerParameters().cmd_vel_timeout == float(seconds)
