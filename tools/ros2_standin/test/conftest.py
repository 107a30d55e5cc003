"""Runs the stand-in's `ros2` as a user does: as a process of its own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent.parent / "src"
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment in which the stand-in is found and which no other test's nodes share."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(SOURCES), os.environ.get("PYTHONPATH", "")]),
        "PYTHONUNBUFFERED": "1",
        "ROS_DOMAIN_ID": str(215 + os.getpid() % 18),  # ros_harness.own_domain takes 1 to 100
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        "TMPDIR": str(tmp_path),
    }


@pytest.fixture
def python(environment: dict[str, str]) -> Iterator[Start]:
    """Start Python with arguments; what still runs at the end of the test is killed."""
    with ExitStack() as stack:

        def start_python(*arguments: str, **variables: str) -> subprocess.Popen[str]:
            streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
            process = subprocess.Popen([sys.executable, *arguments], env=environment | variables, text=True, **streams)
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield start_python


@pytest.fixture
def start(python: Start) -> Start:
    """Start `ros2 ...`."""
    program = "import sys, ros2_standin.program; sys.exit(ros2_standin.program.main())"
    return lambda *arguments, **variables: python("-c", program, *arguments, **variables)


@pytest.fixture
def until_printed() -> Callable[..., str]:
    """Wait until a process has printed all of these texts; return the last of their lines."""

    def wait(process: subprocess.Popen[str], *texts: str) -> str:
        waiting = set(texts)
        for line in process.stdout:
            waiting = {text for text in waiting if text not in line}
            if not waiting:
                return line
        raise AssertionError(f"the program has ended without printing {waiting}")

    return wait


@pytest.fixture
def finish(start: Start) -> Callable[..., tuple[int, str]]:
    """Run `ros2 ...` to its end and return its exit code and all that it printed."""

    def run(*arguments: str, **variables: str) -> tuple[int, str]:
        process = start(*arguments, **variables)
        output, _ = process.communicate(timeout=60)
        return process.returncode, output

    return run


@pytest.fixture
def here(environment, monkeypatch, capsys) -> Callable[..., tuple[int, str]]:
    """Run `ros2 ...` in this process, which costs a tenth of another one; return its exit code and output."""
    from ros2_standin.program import main

    for name in ("ROS_DOMAIN_ID", "ROS_AUTOMATIC_DISCOVERY_RANGE"):
        monkeypatch.setenv(name, environment[name])

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["ros2", *arguments])
        try:
            code = main()
        except SystemExit as ended:  # by argparse
            code = int(str(ended.code))
        return code, "".join(capsys.readouterr())

    return run


@pytest.fixture
def launch_file(tmp_path: Path) -> Callable[[str], str]:
    """Write a launch file whose description holds the given entities and return its path."""

    def write(entities: str) -> str:
        path = tmp_path / "some.launch.py"
        path.write_text(LAUNCH_FILE.format(entities=entities))
        return str(path)

    return write


LAUNCH_FILE = """
import sys

from launch import LaunchDescription
from launch.actions import *
from launch.substitutions import *
from launch_ros.actions import Node


def python(code, **more):
    return ExecuteProcess(cmd=[sys.executable, "-c", code], output="screen", **more)


def failing(event, context):
    if event.returncode != 0:
        raise RuntimeError("the process that matters has failed")
    return Shutdown(reason="done")


def generate_launch_description():
    return LaunchDescription([
        {entities}
    ])
"""
