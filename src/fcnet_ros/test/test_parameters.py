"""Parameters of one dataclass: described to ROS, checked, and refused by name."""

from dataclasses import dataclass

import pytest
from rclpy.parameter import Parameter

from fcnet_core.errors import ParameterError
from fcnet_ros.parameters import declare_fixed_parameters, declare_parameters, parameter, read_parameters


@dataclass(frozen=True)
class Settings:
    robot: str = parameter("aliengo", "robot to move")
    rate: float = parameter(50.0, "cycles per second [Hz]", (10.0, 500.0))
    port: int = parameter(8007, "port of the robot", (1, 65535), name="network.port")
    transport: str = parameter("wire", "what carries packets", choices=("wire", "sdk"))
    speed: float = parameter(0.5, "speed of a push [m/s]", (0.0, 3.0), changeable=True)

    def __post_init__(self) -> None:
        if self.transport == "sdk" and self.rate > 400.0:
            raise ParameterError("parameter rate must be at most 400 with transport sdk")


@pytest.fixture
def settings_node(make_node):
    def make(**given):
        overrides = [Parameter(name.replace("__", "."), value=value) for name, value in given.items()]
        return make_node("settings", parameter_overrides=overrides)

    return make


def test_values_that_are_given_replace_the_defaults_and_only_changeable_ones_can_be_set_later(settings_node):
    node = settings_node(rate=100.0, network__port=9000, use_sim_time=False)
    assert declare_fixed_parameters(node, Settings) == Settings(rate=100.0, port=9000)
    results = node.set_parameters([Parameter("rate", value=20.0), Parameter("speed", value=1.0)])
    assert [result.successful for result in results] == [False, True]
    assert read_parameters(node, Settings) == Settings(rate=100.0, port=9000, speed=1.0)


def test_a_configured_node_accepts_changeable_parameters_only_and_no_other_clock(settings_node):
    node = settings_node()
    declare_parameters(node, Settings, is_configured=lambda: node.has_parameter("speed"))  # the last one
    for name, value in {"use_sim_time": True, "rate": 20.0}.items():
        (result,) = node.set_parameters([Parameter(name, value=value)])
        assert not result.successful
        assert f"{name} is read when the node is configured" in result.reason
    assert node.set_parameters([Parameter("speed", value=1.0)])[0].successful


def test_ros_knows_description_range_and_choices(settings_node):
    node = settings_node()
    declare_parameters(node, Settings)
    rate, port, transport = node.describe_parameters(["rate", "network.port", "transport"])
    assert rate.description == "cycles per second [Hz]"
    assert (rate.floating_point_range[0].from_value, rate.floating_point_range[0].to_value) == (10.0, 500.0)
    assert (port.integer_range[0].from_value, port.integer_range[0].to_value) == (1, 65535)
    assert transport.description == "what carries packets: wire, sdk"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"rate": 5.0}, "rate"),
        ({"rate": "fast"}, "rate"),
        ({"rate": 50}, "rate"),
        ({"network__port": 0}, "network.port"),
        ({"transport": "pigeon"}, "transport"),
        ({"transport": "sdk", "rate": 500.0}, "rate"),
        ({"network__prot": 1}, "network.prot"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(settings_node, given, named):
    with pytest.raises(ParameterError, match=rf"parameter {named} "):
        declare_fixed_parameters(settings_node(**given), Settings)


def test_a_value_set_later_is_read_and_a_word_that_is_no_choice_is_refused(settings_node):
    node = settings_node()
    declare_parameters(node, Settings)
    accepted, refused = node.set_parameters([Parameter("rate", value=20.0), Parameter("transport", value="pigeon")])
    assert accepted.successful
    assert not refused.successful
    assert "choose wire or sdk" in refused.reason
    assert read_parameters(node, Settings) == Settings(rate=20.0)


def test_a_home_folder_in_a_text_is_expanded(settings_node, monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    node = settings_node(robot="~/walk")
    assert declare_fixed_parameters(node, Settings) == Settings(robot="/home/somebody/walk")
