"""`tools/setup.sh` and `. env.sh`: one setup at a time, and ROS stays on this computer."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from machine import needs_mounts

ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 30.0  # [s]
STUBS = (".venv/bin/activate", ".venv/fcnet-kind", "install/local_setup.sh", "install/local_setup.bash")


@pytest.fixture
def workspace(tmp_path):
    """A copy of the two scripts, in a folder where nothing has been set up."""
    (tmp_path / "tools").mkdir()
    for name in ("tools/setup.sh", "env.sh"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def python(tmp_path):
    """A Python that makes no virtual environment, so that a setup ends where it begins to work."""
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\n[ "$2" != venv ] || {{ echo working; exit 1; }}\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    return program


def test_a_setup_waits_for_another_to_end(workspace, python):
    folder = os.open(workspace, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    setup = subprocess.Popen(
        ["sh", "tools/setup.sh"],
        cwd=workspace,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"PYTHON": str(python)},
        text=True,
    )
    assert "waiting for another setup" in setup.stdout.readline()
    with pytest.raises(subprocess.TimeoutExpired):
        setup.wait(1.0)
    os.close(folder)
    assert "working" in setup.communicate(timeout=PATIENCE)[0]


def test_a_workspace_that_is_set_up_needs_no_venv_module_any_longer(tmp_path):
    """The robot's image has a build of another stage, and no python3-venv."""
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\ncase "$*" in *venv*) exit 1; esac\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    setup = subprocess.run(
        ["sh", "tools/setup.sh"], cwd=ROOT, env=os.environ | {"PYTHON": str(program)}, capture_output=True, text=True
    )
    assert setup.returncode == 0, setup.stderr


@pytest.mark.parametrize(
    ("given", "localhost_only"),
    [
        ({"ROS_DISTRO": "humble"}, "1"),
        ({"ROS_DISTRO": "humble", "ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}, ""),
        ({"ROS_DISTRO": "humble", "ROS_LOCALHOST_ONLY": "0"}, "0"),
        ({"ROS_DISTRO": "jazzy"}, ""),
    ],
)
def test_ros_stays_on_this_computer_also_where_it_is_humble(workspace, given, localhost_only):
    (workspace / "tools" / "setup.sh").write_text("true\n")
    for name in STUBS:
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).touch()
    shown = subprocess.run(
        ["sh", "-c", '. ./env.sh && echo "$ROS_AUTOMATIC_DISCOVERY_RANGE $ROS_LOCALHOST_ONLY"'],
        cwd=workspace,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={"PATH": os.environ["PATH"], **given},
    )
    assert shown.stdout == f"{given.get('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')} {localhost_only}\n", shown.stderr


@pytest.mark.parametrize("name", ["my robot (v2)", "a#b", "a'b", "a&b", "a$b", "a:b", "a\\b", "a]b", "a\nb", "x" * 110])
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_folder_whose_name_tools_cannot_write_into_scripts_is_refused(workspace, python, name, shell):
    folder = workspace / name
    folder.mkdir()
    for part in ("tools", "env.sh"):
        (workspace / part).rename(folder / part)
    opened = subprocess.run(
        [shell, "-c", ". ./env.sh"],
        cwd=folder,
        env=os.environ | {"PYTHON": str(python)},
        capture_output=True,
        text=True,
    )
    assert opened.returncode != 0
    assert "move the workspace" in opened.stderr and opened.stdout == ""


@pytest.mark.parametrize("name", ["ok-1.2_+,@=~", "r\u00fccken"])
def test_a_folder_with_another_name_is_set_up(workspace, python, name):
    folder = workspace / name
    folder.mkdir()
    (workspace / "tools").rename(folder / "tools")
    setup = subprocess.run(
        ["sh", "tools/setup.sh"], cwd=folder, env=os.environ | {"PYTHON": str(python)}, capture_output=True, text=True
    )
    assert "working" in setup.stdout, setup.stderr


@needs_mounts
def test_a_read_only_workspace_that_needs_a_setup_says_so(workspace, python):
    ((workspace / ".venv").mkdir(), (workspace / ".venv" / "fcnet-kind").write_text("another place"))
    mounts = f"mount --bind {workspace} {workspace}; mount -o remount,bind,ro {workspace}"
    opened = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{mounts}; cd {workspace}; . ./env.sh"],
        env=os.environ | {"PYTHON": str(python)}, capture_output=True, text=True,
    )  # fmt: skip
    assert opened.returncode != 0
    assert opened.stderr.count("\n") == 1 and str(workspace) in opened.stderr
