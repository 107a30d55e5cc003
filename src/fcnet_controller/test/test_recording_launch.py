"""The command line of `ros2 bag record` in a launch, and the notes in the bag."""

import json

import pytest
import rclpy
import yaml

from fcnet_controller.descriptions.arguments import SuiteLaunch
from fcnet_controller.descriptions.recording import controller_section, recorded_topics, recording, recording_notes
from fcnet_controller.descriptions.robot import ARGUMENTS, END
from fcnet_core.model_file import load_model


@pytest.fixture
def launch(model_path):
    """A launch that records, with these arguments."""

    def launch(**texts):
        defaults = {argument.name: argument.default for argument in ARGUMENTS}
        return SuiteLaunch(ARGUMENTS, {**defaults, "policy": str(model_path), "record": "true", **texts}, END)

    return launch


def rate_of_a_node(namespace, file, context):
    """The control_rate that a controller's node in this namespace gets from a file; None for none."""
    given = {"context": context, "namespace": namespace, "cli_args": ["--ros-args", "--params-file", str(file)]}
    node = rclpy.create_node("controller", automatically_declare_parameters_from_overrides=True, **given)
    rate = node.get_parameter("control_rate").value if node.has_parameter("control_rate") else None
    node.destroy_node()
    return rate


def command(robot, launch):
    _, process = recording(robot, launch, {"policy": launch["policy"]})
    return [part if isinstance(part, str) else "".join(text.text for text in part) for part in process.cmd]


def test_every_source_of_commands_is_recorded_in_the_robots_namespace():
    topics = recorded_topics("/left/dog/")
    assert {f"/left/dog/{source}/cmd_vel" for source in ("joystick", "keyboard", "monitor")} <= set(topics)
    assert {"/left/dog/cmd_pose", "/left/dog/controller/policy_step", "/diagnostics"} <= set(topics)
    assert "/cmd_pose" in recorded_topics("")


def test_the_notes_name_the_policy_and_the_parameters_in_force(launch, model_path, tmp_path):
    file = tmp_path / "nodes.yaml"
    file.write_text("/**:\n  controller:\n    ros__parameters: {control_rate: 200.0}\n")
    launched = {"policy": str(model_path), "auto_start": True}
    notes = recording_notes("aliengo", launch(params_file=str(file)), launched)
    parameters = json.loads(notes["fcnet.parameters"])
    assert notes["fcnet.model_fingerprint"] == load_model(model_path).fingerprint
    assert (parameters["control_rate"], parameters["auto_start"], parameters["runtime"]) == (200.0, True, "auto")
    assert json.loads(notes["fcnet.launch"])["record"] == "true"


EVERYWHERE = ["/**", "/**/controller", "/**: controller"]
IN_ROOT, IN_DOG = ["controller", "/controller", "/*"], ["/dog/controller", "dog: controller", "/*/controller", "/dog/*"]


@pytest.mark.parametrize("keys", [*EVERYWHERE, *IN_ROOT, *IN_DOG, "/cat/controller"])
def test_the_noted_parameters_are_those_that_the_node_has(keys, tmp_path, context):
    content = {"ros__parameters": {"control_rate": 100.0}}
    for key in reversed(keys.split(": ")):
        content = {key: content}
    file = tmp_path / "nodes.yaml"
    file.write_text(yaml.safe_dump(content))
    for namespace, names in (("/", IN_ROOT), ("/dog", IN_DOG)):
        expected = 100.0 if keys in (*EVERYWHERE, *names) else None
        assert controller_section(content, namespace).get("control_rate") == expected
        assert rate_of_a_node(namespace, file, context) == expected


def test_compression_is_a_preset_of_the_storage(launch):
    assert "--storage-preset-profile" not in command("aliengo", launch())
    compressed = command("aliengo", launch(bag_compression="zstd_small"))
    assert compressed[compressed.index("--storage-preset-profile") + 1] == "zstd_small"


def test_what_an_older_distribution_does_not_know_is_left_out(launch, monkeypatch):
    monkeypatch.setenv("ROS_DISTRO", "jazzy")
    assert "--custom-data" in command("aliengo", launch())
    monkeypatch.setenv("ROS_DISTRO", "humble")
    left = command("aliengo", launch())
    assert "--custom-data" not in left
    assert "--disable-keyboard-controls" not in left
    assert left[3:6] == ["ros2", "bag", "record"]


def test_a_distribution_without_ros2_bag_is_named_in_a_sentence(launch, monkeypatch, tmp_path):
    (tmp_path / "ros2cli").mkdir()  # a distribution's, of whose packages none is installed
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("ROS_DISTRO", "jazzy")
    with pytest.raises(ValueError, match="apt install ros-jazzy-ros2bag ros-jazzy-rosbag2-storage-mcap"):
        command("aliengo", launch())
