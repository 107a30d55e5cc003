"""Launch files give their nodes parameters that these accept: known names, of their type, range and choices."""

from pathlib import Path

import pytest
import rclpy
from launch import LaunchContext
from rclpy.parameter import Parameter

from fcnet_controller.descriptions import arguments, playback, robot
from fcnet_ros.parameters import declare_fixed_parameters, executable_parameters, parameter_fields
from fcnet_teleop.parameters import DemoParameters, JoyParameters

BAG = Path(__file__).resolve().parents[3] / "docs" / "examples" / "aliengo_walk"
WITHOUT_ARGUMENTS = {"teleop_joy": JoyParameters, "demo_course": DemoParameters}
EVERY = "every:=argument"  # with its default, or that of its parameter, written out
DEMOS = ("", "demo:=true", "demo:=hard monitor:=true", "record:=true monitor:=true", EVERY)
ROBOT = [f"backend:={backend} {given}" for backend in ("mujoco", "desk") for given in DEMOS]
ROBOT += ["backend:=mujoco clock:=true monitor:=true", "backend:=mujoco lockstep:=always"]
ROBOT += [f"backend:=unitree {given}" for given in ("", "network.target:=127.0.0.1 demo:=true", "record:=true", EVERY)]
LAUNCHES = {
    "aliengo": (robot.describe_robot("aliengo.launch.py"), robot.ARGUMENTS, ROBOT),
    "a1": (robot.describe_robot("a1.launch.py"), robot.ARGUMENTS, ROBOT),
    "replay": (
        playback.describe_replay(),
        playback.REPLAY_ARGUMENTS,
        [f"bag:={BAG} {given}" for given in ("", "monitor:=true", EVERY)],
    ),
    "isaac_playback": (
        playback.describe_playback(),
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
    launch = LaunchContext()
    launch.launch_configurations.update({key: text for key, text in texts.items() if text})
    for entity in LAUNCHES[name][0].entities:
        entity.visit(launch)
    assert {"controller", "replay"} & {node["executable"] for node in nodes}
    for node in nodes:
        (values,) = node["parameters"]
        overrides = [Parameter(key, value=value) for key, value in values.items()]
        made = rclpy.create_node(node["executable"], context=context, parameter_overrides=overrides)
        kind = executable_parameters(node["executable"]) or WITHOUT_ARGUMENTS[node["executable"]]
        declare_fixed_parameters(made, kind)  # refuses what it does not know or accept
        made.destroy_node()
