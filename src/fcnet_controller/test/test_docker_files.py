"""What docker/ copies and mounts exists in the workspace; what it runs: test_documented_commands.py."""

import fnmatch
import re
import runpy
from pathlib import Path

import pytest
import yaml

WORKSPACE = Path(__file__).resolve().parents[3]
DOCKER = WORKSPACE / "docker"

IN_ROS_CORE = {"ros2launch"}
STARTED_BY_A_LAUNCH = runpy.run_path(str(WORKSPACE / "tools" / "check_packages.py"))["STARTED"]["fcnet_controller"]


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
    assert (WORKSPACE / source).exists()
    patterns = [line for line in (WORKSPACE / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    assert not any(fnmatch.fnmatch(source, pattern) for pattern in patterns)


def test_the_development_image_holds_the_files_that_make_test_reads():
    tool = (WORKSPACE / "tools" / "check_packages.py").read_text()
    read = set(re.findall(r'ROOT / "([^"/]+)"', tool)) - {"src"}
    assert "colcon.meta" in read
    assert read <= set(copied())


def test_compose_builds_stages_of_the_dockerfile_and_mounts_folders_that_exist():
    services = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"].values()
    assert {service["build"]["target"] for service in services} == {"robot", "development"} <= set(stages())
    assert all((DOCKER / path.split(":")[0]).is_dir() for service in services for path in service.get("volumes", ()))


@pytest.mark.parametrize("stage", ["robot", "development"])
def test_an_image_holds_the_programs_of_a_distribution_that_a_launch_starts(stage):
    started = STARTED_BY_A_LAUNCH - IN_ROS_CORE - {path.parent.name for path in WORKSPACE.glob("src/*/package.xml")}
    assert started
    for package in started:
        assert f'"ros-${{ROS_DISTRO}}-{package.replace("_", "-")}"' in stages()[stage]
