"""Launch arguments that do not fit together: nothing starts, and one sentence says why."""

from __future__ import annotations

import subprocess

import pytest


def launch(*arguments):
    return subprocess.run(
        ["ros2", "launch", "fcnet_controller", "aliengo.launch.py", *arguments],
        capture_output=True,
        text=True,
        timeout=60.0,
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("backend:=unitree", "demo:=true"), "choose backend:=desk, or a network.target on this computer"),
        (("backend:=unitree", "command:=demo", "network.target:=192.168.123.10"), "choose backend:=desk"),
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
        (("monitr:=true",), "monitr"),
        (("params_file:=/missing.yaml",), "params_file:=/missing.yaml is not a file"),
        (("record:=true", "bag:=/"), "bag:=/ exists already"),
        (("real_time_factor:=inf",), "must be a positive number"),
        (("record:=true", "policy:=/missing.safetensors"), "/missing.safetensors"),
    ],
)
def test_what_does_not_fit_together_is_refused_with_a_sentence(arguments, sentence):
    ended = launch(*arguments)
    output = ended.stdout + ended.stderr
    assert ended.returncode != 0
    assert sentence in output
    assert "Traceback" not in output


def test_every_argument_is_described():
    output = launch("--show-args").stdout
    for name in ("backend", "network.target", "network.port", "network.local_port", "transport", "loss", "jitter"):
        assert f"'{name}':" in output
