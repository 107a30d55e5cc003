"""Launch arguments: those that do not fit together start nothing, and nodes accept the parameters that follow from the
others: known names, of their type, range and choices.
"""

import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import rclpy
from launch import LaunchContext
from launch.actions import Shutdown
from rclpy.parameter import Parameter
from ros_harness import own_domain

from fcnet_controller.descriptions import arguments, playback, robot
from fcnet_controller.descriptions.arguments import Argument, end_after
from fcnet_controller.descriptions.playback import describe_playback, describe_replay
from fcnet_controller.descriptions.robot import describe_robot
from fcnet_core.errors import LaunchArgumentError
from fcnet_core.model_file import shipped_model
from fcnet_ros.parameters import declare_fixed_parameters, executable_parameters, parameter_fields
from fcnet_teleop.parameters import DemoParameters, JoyParameters

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


def launch(*arguments, file="aliengo.launch.py"):
    return subprocess.run(
        ["ros2", "launch", "fcnet_controller", file, *arguments], capture_output=True, text=True, timeout=60.0
    )


FOLDER = Path(__file__).parent
LIVE = "live:=127.0.0.1:0"
REFUSED = [  # launch file, arguments that fit, and others each of which is refused beside them
    (ALIENGO, "", "demo:=harder backend:=gazebo network.port:=8007 bag:=walk bag_compression:=zstd_fast record:=yes"),
    (ALIENGO, "", f"monitor_port:=8089 params_file:=/missing.yaml params_file:={FOLDER} params_file:={__file__}"),
    (ALIENGO, "", "real_time_factor:=inf control_rate:=1000 terrain:=moon start:=sitting start_x:=100"),
    (ALIENGO, "", "start_heading:=north namespace:=a-b viewer:=true lockstep:=sometimes description:=true"),
    (ALIENGO, "", f"policy:=/missing.safetensors policy:={shipped_model('a1')}"),
    (ALIENGO, "monitor:=true", "monitor_port:=web"),
    (ALIENGO, "record:=true", "bag_compression:=gzip bag:=/proc/bag policy:=/missing.safetensors"),
    (ALIENGO, "record:=true", f"bag:={__file__} bag:={FOLDER}"),  # nothing is overwritten
    (ALIENGO, "backend:=desk", "real_time_factor:=0.5 network.target:=10.0.0.1 loss:=2 network.port:=eight"),
    (ALIENGO, "backend:=desk", "start:=standing lockstep:=auto"),
    (ALIENGO, "backend:=unitree", "viewer:=true terrain:=rough real_time_factor:=2.0 loss:=0.1 transport:=usb"),
    (ALIENGO, "backend:=unitree", "start_x:=2.0 lockstep:=always clock:=true"),
    (ALIENGO, "backend:=unitree network.target:=127.0.0.1", "demo:=hard"),
    (ALIENGO, "demo:=true", "backend:=unitree"),
    (ALIENGO, "command:=demo network.target:=192.168.123.10", "backend:=unitree"),
    (PLAYBACK, "", "recording:= recording:=/missing.npz"),
    (PLAYBACK, LIVE, f"recording:={__file__} robot:=spot summary:=/proc/summary.json policy:={shipped_model('a1')}"),
    (PLAYBACK, f"recording:={__file__}", "mapping:=/missing.yaml"),
    (REPLAY, "", "bag:=/missing"),
    (REPLAY, "bag:=/", "policy:=/missing.safetensors summary:=/proc/summary.json"),
]


@pytest.mark.parametrize(
    ("description", "fitting", "argument"),
    [(description, fitting, one) for description, fitting, others in REFUSED for one in others.split()],
)
def test_an_argument_that_does_not_fit_is_refused_by_name(description, fitting, argument):
    context = LaunchContext()
    context.launch_configurations.update(one.split(":=") for one in (*fitting.split(), argument))
    with pytest.raises(LaunchArgumentError) as refusal:
        for entity in description.entities:
            entity.visit(context)
    assert refusal.value.argument == argument.split(":=")[0]


BAG = Path(__file__).resolve().parents[3] / "docs" / "examples" / "aliengo_walk"
WITHOUT_ARGUMENTS = {"teleop_joy": JoyParameters, "demo_course": DemoParameters}
EVERY = "every:=argument"  # with its default, or that of its parameter, written out
DEMOS = ("", "demo:=true", "demo:=hard monitor:=true", "record:=true monitor:=true", EVERY)
ROBOT = [f"backend:={backend} {given}" for backend in ("mujoco", "desk") for given in DEMOS]
ROBOT += ["backend:=mujoco clock:=true monitor:=true", "backend:=mujoco lockstep:=always"]
ROBOT += [f"backend:=unitree {given}" for given in ("", "network.target:=127.0.0.1 demo:=true", "record:=true", EVERY)]
LAUNCHES = {
    "aliengo": (ALIENGO, robot.ARGUMENTS, ROBOT),
    "a1": (describe_robot("a1.launch.py"), robot.ARGUMENTS, ROBOT),
    "replay": (REPLAY, playback.REPLAY_ARGUMENTS, [f"bag:={BAG} {given}" for given in ("", "monitor:=true", EVERY)]),
    "isaac_playback": (
        PLAYBACK,
        playback.PLAYBACK_ARGUMENTS,
        [f"live:=127.0.0.1:0 {given}" for given in ("", "monitor:=true", "robot:=a1 publish_commands:=true", EVERY)],
    ),
}


def written_out(name: str, backend: str) -> dict[str, str]:
    texts = {}
    for one in LAUNCHES[name][1]:
        if not one.backends or backend in one.backends:
            fields = parameter_fields(executable_parameters(one.executables[0])) if one.executables else {}
            texts[one.name] = one.default or str(fields[one.parameter].default if fields else "")
    return texts | {"monitor": "true"}


@pytest.mark.parametrize(("name", "given"), [(name, given) for name in LAUNCHES for given in LAUNCHES[name][2]])
def test_every_node_of_a_launch_accepts_the_parameters_that_it_gets(name, given, context, monkeypatch):
    nodes = []
    monkeypatch.setattr(arguments, "Node", lambda **options: nodes.append(options))
    texts = dict(text.split(":=", 1) for text in given.split())
    if texts.pop("every", ""):
        texts = written_out(name, texts.get("backend", "")) | texts
    launched = LaunchContext()
    launched.launch_configurations.update({key: text for key, text in texts.items() if text})
    for entity in LAUNCHES[name][0].entities:
        entity.visit(launched)
    assert {"controller", "replay"} & {node["executable"] for node in nodes}
    for node in nodes:
        (values,) = node["parameters"]
        overrides = [Parameter(key, value=value) for key, value in values.items()]
        made = rclpy.create_node(node["executable"], context=context, parameter_overrides=overrides)
        kind = executable_parameters(node["executable"]) or WITHOUT_ARGUMENTS[node["executable"]]
        declare_fixed_parameters(made, kind)  # refuses what it does not know or accept
        made.destroy_node()


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
    with nullcontext() if passes else pytest.raises(RuntimeError):
        assert isinstance(end(event, LaunchContext()), Shutdown)
