"""Launch files give their nodes parameters that these accept: known names, of their type, range and choices."""

from __future__ import annotations

from pathlib import Path

import pytest
import rclpy
from launch import LaunchContext
from launch_ros.actions import Node
from rclpy.parameter import Parameter

from fcnet_controller.descriptions import arguments, playback, robot
from fcnet_ros.parameters import declare_fixed_parameters, executable_parameters, parameter_fields
from fcnet_teleop.parameters import DemoParameters, JoyParameters

BAG = f"bag:={Path(__file__).resolve().parents[3] / 'docs' / 'examples' / 'aliengo_walk'}"
HERE, LIVE, MONITOR = "network.target:=127.0.0.1", "live:=127.0.0.1:0", "monitor:=true"
DEMO, HARD = "demo:=true", "demo:=hard"
EVERY = "every"  # argument of the backend that has a default or is a parameter with one, written out
WITHOUT_ARGUMENTS = {"teleop_joy": JoyParameters, "demo_course": DemoParameters}
DESCRIPTIONS = {
    "aliengo": (robot.describe_robot("aliengo.launch.py"), robot.ARGUMENTS),
    "a1": (robot.describe_robot("a1.launch.py"), robot.ARGUMENTS),
    "replay": (playback.describe_replay(), playback.REPLAY_ARGUMENTS),
    "isaac_playback": (playback.describe_playback(), playback.PLAYBACK_ARGUMENTS),
}
BACKENDS = {
    "mujoco": (
        (),
        (DEMO,),
        (HARD, MONITOR),
        ("record:=true",),
        ("clock:=true", MONITOR),
        ("lockstep:=always",),
        (EVERY,),
    ),
    "desk": ((), (DEMO,), (HARD, MONITOR), ("record:=true", MONITOR), (EVERY,)),
    "unitree": ((), (HERE, DEMO), ("record:=true", MONITOR), (EVERY,)),
}
LAUNCHES = [
    *((name, (f"backend:={one}", *given)) for name in ("aliengo", "a1") for one in BACKENDS for given in BACKENDS[one]),
    *(("replay", (BAG, *given)) for given in ((), (MONITOR,), (EVERY,))),
    *(
        ("isaac_playback", (LIVE, *given))
        for given in ((), (MONITOR,), ("robot:=a1", "publish_commands:=true"), (EVERY,))
    ),
]


def written_out(name: str, backend: str) -> dict[str, str]:
    texts = {}
    for one in DESCRIPTIONS[name][1]:
        if not one.backends or backend in one.backends:
            fields = parameter_fields(executable_parameters(one.executables[0])) if one.executables else {}
            texts[one.name] = one.default or str(fields[one.parameter].default if fields else "")
    return texts


@pytest.fixture(scope="module")
def context(domain):
    context = rclpy.Context()
    rclpy.init(context=context, domain_id=domain)
    yield context
    rclpy.shutdown(context=context)


@pytest.mark.parametrize(
    ("name", "given"), LAUNCHES, ids=lambda part: part if isinstance(part, str) else " ".join(part)
)
def test_every_node_of_a_launch_accepts_the_parameters_that_it_gets(name, given, context, monkeypatch):
    nodes = []

    class Noted(Node):
        def __init__(self, **options):
            nodes.append(options)
            super().__init__(**options)

    monkeypatch.setattr(arguments, "Node", Noted)
    texts = dict(text.split(":=", 1) for text in given if text != EVERY)
    if EVERY in given:
        texts = {**written_out(name, texts.get("backend", "")), **texts, "monitor": "true"}
    launch = LaunchContext()
    launch.launch_configurations.update({key: text for key, text in texts.items() if text})
    for entity in DESCRIPTIONS[name][0].entities:
        entity.visit(launch)
    assert {"controller", "replay"} & {node["executable"] for node in nodes}
    for node in nodes:
        (values,) = node["parameters"]
        overrides = [Parameter(key, value=value) for key, value in values.items()]
        made = rclpy.create_node(node["executable"], context=context, parameter_overrides=overrides)
        kind = executable_parameters(node["executable"]) or WITHOUT_ARGUMENTS[node["executable"]]
        declare_fixed_parameters(made, kind)  # refuses what it does not know or accept
        made.destroy_node()
