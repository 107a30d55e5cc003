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
SETUP = ("sh", "tools/setup.sh")
STUBS = (".venv/bin/activate", ".venv/fcnet-kind", "install/local_setup.sh", "install/local_setup.bash")


@pytest.fixture
def workspace(tmp_path):
    """A copy of the two scripts, in a folder where nothing has been set up."""
    (tmp_path / "tools").mkdir()
    for name in ("tools/setup.sh", "env.sh"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def begin(tmp_path):
    """Begin a command in a folder, with a Python that runs `instead` where some words are in its command line: by
    default one that makes no virtual environment, so that a setup ends where it begins to work.
    """

    def begin(command, folder, words="-m venv", instead="echo working; exit 1"):
        python = tmp_path / "python"
        python.write_text(f'#!/bin/sh\ncase "$*" in *"{words}"*) {instead};; esac\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, cwd=folder, env=os.environ | {"PYTHON": str(python)}, **pipes)

    return begin


def test_a_setup_waits_for_another_to_end(workspace, begin):
    folder = os.open(workspace, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    setup = begin(SETUP, workspace)
    assert "waiting for another setup" in setup.stderr.readline()
    with pytest.raises(subprocess.TimeoutExpired):
        setup.wait(1.0)
    os.close(folder)
    assert "working" in setup.communicate(timeout=PATIENCE)[0]


def test_a_workspace_that_is_set_up_needs_no_venv_module_any_longer(begin):
    """The robot's image has a build of another stage, and no python3-venv."""
    setup = begin(SETUP, ROOT, words="venv", instead="exit 1")
    assert (setup.communicate()[1], setup.returncode) == ("", 0)


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
    command = '. ./env.sh && echo "$ROS_AUTOMATIC_DISCOVERY_RANGE $ROS_LOCALHOST_ONLY"'
    environment = {"PATH": os.environ["PATH"], **given}
    shown = subprocess.run(["sh", "-c", command], cwd=workspace, env=environment, stdout=subprocess.PIPE, text=True)
    assert shown.stdout == f"{given.get('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')} {localhost_only}\n"


@pytest.mark.parametrize("name", ["my robot (v2)", "a#b", "a'b", "a&b", "a$b", "a:b", "a\\b", "a]b", "a\nb", "x" * 110])
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_folder_whose_name_tools_cannot_write_into_scripts_is_refused(workspace, begin, name, shell):
    workspace = shutil.copytree(workspace, workspace / name)
    opened = begin([shell, "-c", ". ./env.sh"], workspace)
    printed, error = opened.communicate(timeout=PATIENCE)
    assert opened.returncode != 0
    assert "move the workspace" in error and printed == ""


@pytest.mark.parametrize("name", ["ok-1.2_+,@=~", "r\u00fccken"])
def test_a_folder_with_another_name_is_set_up(workspace, begin, name):
    printed, error = begin(SETUP, shutil.copytree(workspace, workspace / name)).communicate(timeout=PATIENCE)
    assert "working" in printed, error


@needs_mounts
def test_a_read_only_workspace_that_needs_a_setup_says_so(workspace, begin):
    ((workspace / ".venv").mkdir(), (workspace / ".venv" / "fcnet-kind").write_text("another place"))
    mounts = f"mount --bind {workspace} {workspace}; mount -o remount,bind,ro {workspace}"
    opened = begin(["unshare", "-m", "sh", "-c", f"{mounts}; cd {workspace}; . ./env.sh"], None)
    error = opened.communicate(timeout=PATIENCE)[1]
    assert opened.returncode != 0
    assert error.count("\n") == 1 and str(workspace) in error
