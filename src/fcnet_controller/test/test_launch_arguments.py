"""Launch arguments: which are there, and that those that do not fit together start nothing."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from launch import LaunchContext
from launch.actions import DeclareLaunchArgument, Shutdown
from ros_harness import own_domain

from fcnet_controller.descriptions.arguments import Argument, end_after
from fcnet_controller.descriptions.playback import describe_playback, describe_replay
from fcnet_controller.descriptions.robot import describe_robot
from fcnet_core.errors import LaunchArgumentError
from fcnet_core.model_file import shipped_model

ALIENGO, PLAYBACK, REPLAY = describe_robot("aliengo.launch.py"), describe_playback(), describe_replay()
# A robot's computer has no simulator. Importing it fails there, and so must every use of it.
REAL_ROBOT = """
import sys

sys.modules["quadruped_sim"] = sys.modules["mujoco"] = None

from launch import LaunchContext
from fcnet_controller.descriptions.robot import describe_robot
from fcnet_core.errors import LaunchArgumentError

for backend in ("unitree", "mujoco"):
    context = LaunchContext()
    context.launch_configurations.update(backend=backend)
    try:
        parts = [entity.visit(context) for entity in describe_robot("a1.launch.py").entities]
        print(len(parts[-1]))
    except LaunchArgumentError:
        print("refused")
"""


@pytest.fixture(autouse=True)
def no_display(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)


def test_a_home_folder_in_an_argument_is_expanded(monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    bag = Argument("bag", "", "a folder")
    assert [bag.value(text) for text in ("~/walk", "$HOME/walk", "", "a~")] == [*["/home/somebody/walk"] * 2, "", "a~"]
    with pytest.raises(LaunchArgumentError, match="~nobody_called_so"):
        bag.value("~nobody_called_so/walk")


def refused_argument(description, arguments):
    """The argument for which a launch file's description refuses to start anything."""
    context = LaunchContext()
    context.launch_configurations.update(argument.split(":=") for argument in arguments)
    with pytest.raises(LaunchArgumentError) as refusal:
        for entity in description.entities:
            entity.visit(context)
    return refusal.value.argument


def launch(*arguments, file="aliengo.launch.py"):
    return subprocess.run(
        ["ros2", "launch", "fcnet_controller", file, *arguments], capture_output=True, text=True, timeout=60.0
    )


@pytest.mark.parametrize(
    ("refused", "arguments"),
    [
        ("backend", ("backend:=unitree", "demo:=true")),
        ("backend", ("backend:=unitree", "command:=demo", "network.target:=192.168.123.10")),
        ("demo", ("backend:=unitree", "demo:=hard", "network.target:=127.0.0.1")),
        ("demo", ("demo:=harder",)),
        ("backend", ("backend:=gazebo",)),
        ("viewer", ("backend:=unitree", "viewer:=true")),
        ("terrain", ("backend:=unitree", "terrain:=rough")),
        ("real_time_factor", ("backend:=unitree", "real_time_factor:=2.0")),
        ("real_time_factor", ("backend:=desk", "real_time_factor:=0.5")),
        ("network.target", ("backend:=desk", "network.target:=10.0.0.1")),
        ("loss", ("backend:=desk", "loss:=2")),
        ("loss", ("backend:=unitree", "loss:=0.1")),
        ("network.port", ("network.port:=8007",)),
        ("network.port", ("backend:=desk", "network.port:=eight")),
        ("transport", ("backend:=unitree", "transport:=usb")),
        ("bag", ("bag:=walk",)),
        ("bag_compression", ("bag_compression:=zstd_fast",)),
        ("bag_compression", ("record:=true", "bag_compression:=gzip")),
        ("record", ("record:=yes",)),
        ("monitor_port", ("monitor_port:=8089",)),
        ("monitor_port", ("monitor:=true", "monitor_port:=web")),
        ("params_file", ("params_file:=/missing.yaml",)),
        ("params_file", (f"params_file:={Path(__file__).parent}",)),
        ("params_file", (f"params_file:={__file__}",)),
        *(("bag", ("record:=true", f"bag:={path}")) for path in (__file__, Path(__file__).parent)),  # not overwritten
        ("bag", ("record:=true", "bag:=/proc/bag")),
        ("real_time_factor", ("real_time_factor:=inf",)),
        ("control_rate", ("control_rate:=1000",)),
        ("terrain", ("terrain:=moon",)),
        ("start", ("start:=sitting",)),
        ("start_x", ("start_x:=100",)),
        ("start_heading", ("start_heading:=north",)),
        ("start_x", ("backend:=unitree", "start_x:=2.0")),
        ("start", ("backend:=desk", "start:=standing")),
        ("namespace", ("namespace:=a-b",)),
        ("viewer", ("viewer:=true",)),
        ("lockstep", ("backend:=unitree", "lockstep:=always")),
        ("clock", ("backend:=unitree", "clock:=true")),
        ("lockstep", ("backend:=desk", "lockstep:=auto")),
        ("lockstep", ("lockstep:=sometimes",)),
        ("description", ("description:=true",)),
        ("policy", ("policy:=/missing.safetensors",)),
        ("policy", (f"policy:={shipped_model('a1')}",)),
        ("policy", ("record:=true", "policy:=/missing.safetensors")),
    ],
)
def test_a_robots_launch_refuses_an_argument_that_does_not_fit(refused, arguments):
    assert refused_argument(ALIENGO, arguments) == refused


@pytest.mark.parametrize(
    ("description", "refused", "arguments"),
    [
        (PLAYBACK, "recording", ("recording:=/missing.npz",)),
        (PLAYBACK, "recording", ("recording:=/missing.npz", "live:=127.0.0.1:0")),
        (PLAYBACK, "recording", ()),
        (PLAYBACK, "robot", ("live:=127.0.0.1:0", "robot:=spot")),
        (PLAYBACK, "summary", ("live:=127.0.0.1:0", "summary:=/proc/summary.json")),
        (PLAYBACK, "mapping", (f"recording:={__file__}", "mapping:=/missing.yaml")),
        (PLAYBACK, "policy", ("live:=127.0.0.1:0", f"policy:={shipped_model('a1')}")),
        (REPLAY, "bag", ("bag:=/missing",)),
        (REPLAY, "policy", ("bag:=/", "policy:=/missing.safetensors")),
        (REPLAY, "summary", ("bag:=/", "summary:=/proc/summary.json")),
    ],
)
def test_a_playback_or_replay_of_what_is_not_there_is_refused(description, refused, arguments):
    assert refused_argument(description, arguments) == refused


def test_without_a_simulator_being_installed_a_real_robot_is_launched_and_a_simulated_one_refused():
    built = subprocess.run([sys.executable, "-c", REAL_ROBOT], capture_output=True, text=True, timeout=60.0, check=True)
    assert built.stdout.split() == ["3", "refused"]  # bridge, joystick, controller


@pytest.mark.parametrize(("argument", "named"), [("terrain:=moon", "moon"), ("monitr:=true", "monitr")])
def test_a_refusal_ends_the_launch_before_anything_starts(argument, named):
    ended = launch(argument)
    output = ended.stdout + ended.stderr
    assert ended.returncode == 1
    assert named in output
    assert "Traceback" not in output
    assert "process started" not in output


def test_a_program_that_refuses_to_start_ends_the_others_without_force(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))  # the controller compiles
    recording = tmp_path / "walk.npz"
    recording.write_bytes(b"no recording")
    with own_domain() as domain:
        monkeypatch.setenv("ROS_DOMAIN_ID", str(domain))
        ended = launch(f"recording:={recording}", file="isaac_playback.launch.py")
    assert ended.returncode == 1
    assert "ended with exit code 2" in ended.stderr
    assert "escalating" not in ended.stderr


@pytest.mark.parametrize(
    ("program", "code", "passes"), [("demo_course-1", 0, True), ("demo_course-1", 1, False), ("controller-2", 0, False)]
)
def test_a_launch_succeeds_only_with_the_program_that_ends_it(program, code, passes):
    end, event = end_after("demo_course", "passed"), SimpleNamespace(process_name=program, returncode=code)
    if passes:
        assert isinstance(end(event, LaunchContext()), Shutdown)
    else:
        with pytest.raises(RuntimeError):
            end(event, LaunchContext())


@pytest.mark.parametrize("description", [ALIENGO, PLAYBACK, REPLAY])
def test_every_argument_is_described(description):
    declared = [entity for entity in description.entities if isinstance(entity, DeclareLaunchArgument)]
    assert all(argument.description for argument in declared)
