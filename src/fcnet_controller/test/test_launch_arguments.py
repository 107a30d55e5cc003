"""Launch arguments that do not fit together: nothing starts, and one sentence says why."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from launch import LaunchContext

from fcnet_controller.descriptions.playback import describe_playback, describe_replay
from fcnet_controller.descriptions.robot import describe_robot
from fcnet_core.model_file import shipped_model
from fcnet_ros.testing import own_domain

ALIENGO, PLAYBACK, REPLAY = describe_robot("aliengo"), describe_playback(), describe_replay()


@pytest.fixture(autouse=True)
def no_display(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)


def assert_refused(description, arguments, sentence):
    """A launch file's description raises before it has an action that starts something."""
    context = LaunchContext()
    context.launch_configurations.update(argument.split(":=") for argument in arguments)
    with pytest.raises(ValueError, match=re.escape(sentence)):
        for entity in description.entities:
            entity.visit(context)


def launch(*arguments, file="aliengo.launch.py"):
    return subprocess.run(
        ["ros2", "launch", "fcnet_controller", file, *arguments],
        capture_output=True,
        text=True,
        timeout=60.0,
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("backend:=unitree", "demo:=true"), "choose backend:=desk, or a network.target on this computer"),
        (("backend:=unitree", "command:=demo", "network.target:=192.168.123.10"), "choose backend:=desk"),
        (("backend:=unitree", "demo:=hard", "network.target:=127.0.0.1"), "choose backend:=mujoco or backend:=desk"),
        (("demo:=harder",), "demo:=harder is not known; choose true or false or hard"),
        (("backend:=unitree", "viewer:=true"), "viewer:=true means nothing to backend:=unitree"),
        (("backend:=unitree", "terrain:=rough"), "terrain:=rough means nothing to backend:=unitree"),
        (("backend:=unitree", "real_time_factor:=2.0"), "choose backend:=mujoco"),
        (("backend:=desk", "real_time_factor:=0.5"), "choose backend:=mujoco"),
        (("backend:=desk", "network.target:=10.0.0.1"), "choose backend:=unitree"),
        (("backend:=desk", "loss:=2"), "loss:=2 must be a number from 0 to 1"),
        (("backend:=unitree", "loss:=0.1"), "choose backend:=desk"),
        (("network.port:=8007",), "choose backend:=unitree or desk"),
        (("backend:=desk", "network.port:=eight"), "port:=eight is no port"),
        (("backend:=unitree", "transport:=usb"), "choose wire or sdk"),
        (("bag:=walk",), "add record:=true"),
        (("bag_compression:=zstd_fast",), "add record:=true"),
        (("record:=true", "bag_compression:=gzip"), "choose none or zstd_fast or zstd_small"),
        (("record:=yes",), "choose true or false"),
        (("monitor_port:=8089",), "add monitor:=true"),
        (("monitor:=true", "monitor_port:=web"), "monitor_port:=web is no port"),
        (("params_file:=/missing.yaml",), "params_file:=/missing.yaml: it cannot be read"),
        ((f"params_file:={Path(__file__).parent}",), "it cannot be read"),
        ((f"params_file:={__file__}",), "it is no YAML"),
        (("record:=true", "bag:=/"), "bag:=/: it exists already"),
        (("record:=true", "bag:=/proc/bag"), "/proc/bag cannot be written"),
        (("real_time_factor:=inf",), "must be a number from 0.05 to 20"),
        (("control_rate:=1000",), "must be a number from 10 to 500"),
        (("terrain:=moon",), "choose one of flat, rough"),
        (("start:=sitting",), "choose lying or standing"),
        (("start_x:=100",), "start_x:=100 must be a number from -7 to 12"),
        (("start_heading:=north",), "must be a number from -3.1416 to 3.1416"),
        (("backend:=unitree", "start_x:=2.0"), "start_x:=2.0 means nothing to backend:=unitree"),
        (("backend:=desk", "start:=standing"), "choose backend:=mujoco"),
        (("namespace:=a-b",), "namespace must not contain"),
        (("viewer:=true",), "needs a display"),
        (("backend:=unitree", "lockstep:=always"), "lockstep:=always means nothing to backend:=unitree"),
        (("backend:=unitree", "clock:=true"), "clock:=true means nothing to backend:=unitree"),
        (("backend:=desk", "lockstep:=auto"), "choose backend:=mujoco"),
        (("lockstep:=sometimes",), "choose never or auto or always"),
        (("description:=true",), "apt install ros-jazzy-robot-state-publisher"),
        (("policy:=/missing.safetensors",), "/missing.safetensors"),
        ((f"policy:={shipped_model('a1')}",), "the robot a1, not aliengo"),
        (("record:=true", "policy:=/missing.safetensors"), "/missing.safetensors"),
    ],
)
def test_what_does_not_fit_together_is_refused_with_a_sentence(arguments, sentence):
    assert_refused(ALIENGO, arguments, sentence)


@pytest.mark.parametrize(
    ("description", "arguments", "sentence"),
    [
        (PLAYBACK, ("recording:=/missing.npz",), "recording:=/missing.npz: it cannot be read"),
        (PLAYBACK, ("recording:=/missing.npz", "live:=127.0.0.1:0"), "/missing.npz"),
        (PLAYBACK, (), "give either a recording"),
        (PLAYBACK, ("live:=127.0.0.1:0", "robot:=spot"), "known robots"),
        (PLAYBACK, ("live:=127.0.0.1:0", "summary:=/proc/summary.json"), "cannot be written"),
        (PLAYBACK, (f"recording:={__file__}", "mapping:=/missing.yaml"), "mapping:=/missing.yaml: it cannot be read"),
        (PLAYBACK, ("live:=127.0.0.1:0", f"policy:={shipped_model('a1')}"), "the robot a1, not aliengo"),
        (REPLAY, ("bag:=/missing",), "names no recording"),
        (REPLAY, ("bag:=/", "policy:=/missing.safetensors"), "/missing.safetensors"),
        (REPLAY, ("bag:=/", "summary:=/proc/summary.json"), "cannot be written"),
    ],
)
def test_a_playback_or_replay_of_what_is_not_there_is_refused(description, arguments, sentence):
    assert_refused(description, arguments, sentence)


@pytest.mark.parametrize(
    ("argument", "sentence"), [("terrain:=moon", "choose one of flat, rough"), ("monitr:=true", "monitr")]
)
def test_a_refusal_ends_the_launch_before_anything_starts(argument, sentence):
    ended = launch(argument)
    output = ended.stdout + ended.stderr
    assert ended.returncode == 1
    assert sentence in output
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


def test_every_argument_is_described():
    output = launch("--show-args").stdout
    for name in ("backend", "network.target", "network.port", "network.local_port", "transport", "loss", "jitter"):
        assert f"'{name}':" in output
