"""What docker/ says fits the workspace: there is no Docker engine here that could build it."""

from __future__ import annotations

import configparser
import fnmatch
import re
import shlex
from pathlib import Path

import pytest
import yaml

from fcnet_controller.descriptions import robot as launch_arguments

WORKSPACE = Path(__file__).resolve().parents[3]
DOCKER = WORKSPACE / "docker"
INSTRUCTIONS = {"ARG", "FROM", "RUN", "WORKDIR", "COPY", "USER", "ENTRYPOINT", "CMD"}


def instructions() -> list[tuple[str, str]]:
    """Every instruction of the Dockerfile and what follows it, continued lines joined."""
    text = re.sub(r"(?m)^#.*\n", "", (DOCKER / "Dockerfile").read_text()).replace("\\\n", " ")
    return [
        (line.split(maxsplit=1)[0], line.split(maxsplit=1)[1].strip()) for line in text.splitlines() if line.strip()
    ]


def copied() -> list[str]:
    """The sources of every COPY from the workspace."""
    found = []
    for name, rest in instructions():
        words = shlex.split(rest)
        if name == "COPY" and not any(word.startswith("--from=") for word in words):
            found += [word for word in words if not word.startswith("--")][:-1]
    return found


def stages() -> set[str]:
    return {rest.split()[-1] for name, rest in instructions() if name == "FROM"}


def ignored(path: str) -> bool:
    patterns = [line for line in (WORKSPACE / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    return any(fnmatch.fnmatch(path, pattern) for pattern in patterns)


def compose() -> dict:
    return yaml.safe_load((DOCKER / "compose.yaml").read_text())


def unit() -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=False, comment_prefixes="#")
    parser.optionxform = str
    parser.read_string((DOCKER / "fcnet-robot.service").read_text().replace("\\\n", " "))
    return parser


def commands() -> dict[str, list[str]]:
    """What the services and the systemd unit run inside the image, by the name of the service, defaults filled in."""
    texts = {name: service["command"] for name, service in compose()["services"].items()}
    texts["fcnet-robot.service"] = "ros2 " + unit()["Service"]["ExecStart"].split(" ros2 ", 1)[1]
    return {name: shlex.split(filled(text)) for name, text in texts.items()}


def filled(text: str) -> str:
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)
    return text.replace("${FCNET_ROBOT}", "aliengo")


def test_the_dockerfile_uses_known_instructions_only():
    assert {name for name, _ in instructions()} == INSTRUCTIONS


@pytest.mark.parametrize("source", copied())
def test_what_is_copied_into_an_image_exists_and_is_not_kept_from_the_builder(source):
    assert (WORKSPACE / source).exists()
    assert not ignored(source)


def test_an_image_holds_everything_that_setting_up_reads():
    needed = {"env.sh", "requirements", "tools", "src", "launch", "config", "models"}
    assert needed <= set(copied())
    links = [path for path in (WORKSPACE / "src").glob("*/*") if path.is_symlink()]
    links += [path for path in (WORKSPACE / "src").glob("*/*/*") if path.is_symlink()]
    targets = {path.resolve().relative_to(WORKSPACE).parts[0] for path in links}
    assert targets <= set(copied()), "a link inside src leads to a folder that the image lacks"


def test_what_setup_and_builds_made_stays_out_of_the_images():
    for made in (".venv", "build", "install", "log", "src/fcnet_core/__pycache__"):
        assert ignored(made)


def test_compose_builds_stages_that_the_dockerfile_has():
    for name, service in compose()["services"].items():
        build = service["build"]
        assert build["target"] in stages(), name
        assert (DOCKER / build["context"]).resolve() == WORKSPACE
        assert (WORKSPACE / build["dockerfile"]).is_file()


def test_compose_mounts_folders_that_exist_where_the_image_has_them():
    for service in compose()["services"].values():
        for volume in service.get("volumes", ()):
            source, target = volume.split(":")
            assert (DOCKER / source).is_dir()
            assert target == f"/opt/fcnet/{Path(source).name}"


@pytest.mark.parametrize("name", commands())
def test_what_an_image_runs_exists(name):
    program, *arguments = commands()[name]
    if program == "bash":
        return
    assert program == "ros2"
    verb, package, what = arguments[:3]
    if verb == "launch":
        assert package == "fcnet_controller"
        assert (WORKSPACE / "launch" / what).is_file()
    else:
        assert verb == "run"
        assert f'"{what} = {package}.' in (WORKSPACE / "src" / package / "setup.py").read_text()


@pytest.mark.parametrize("name", commands())
def test_launch_arguments_are_known(name):
    given = [word.split(":=")[0] for word in commands()[name] if ":=" in word]
    if "launch" in commands()[name]:
        assert set(given) <= set(launch_arguments.ARGUMENTS)


def test_the_desk_never_reaches_a_real_robot():
    services = compose()["services"]
    assert compose()["networks"]["desk"]["internal"] is True
    for service in services.values():
        assert service.get("network_mode", "service:board") == "service:board"
        assert not service.get("privileged")
    assert "network.target:=127.0.0.1" in commands()["robot"]


def test_after_a_crash_the_robot_computer_starts_what_only_damps():
    """Restarted is the launch of a real robot, which waits for a person's stand_up; an orderly stop is not undone."""
    service = unit()["Service"]
    assert service["Restart"] == "on-failure"
    launch = commands()["fcnet-robot.service"]
    assert launch[:5] == ["ros2", "launch", "fcnet_controller", "aliengo.launch.py", "backend:=unitree"]
    assert launch[5:] == ["params_file:=config/bridges/real_time.yaml"]
    assert (WORKSPACE / "config/bridges/real_time.yaml").is_file()
    assert int(unit()["Unit"]["StartLimitBurst"]) <= 3


def test_the_unit_gives_the_bridge_time_to_damp():
    grace = int(re.search(r"--time (\d+)", unit()["Service"]["ExecStop"]).group(1))
    assert grace >= 10
    assert int(unit()["Service"]["TimeoutStopSec"]) > grace
